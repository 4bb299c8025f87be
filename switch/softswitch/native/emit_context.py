# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What all emitters of C know about the program."""

from __future__ import annotations

from dataclasses import dataclass, field

from softswitch.native.emit_code import Code
from softswitch.native.emit_storage import Storage
from softswitch.program import ir
from softswitch.program.analysis import Usage
from softswitch.program.emitted_text import identifier
from softswitch.program.limits import Budget
from softswitch.program.standard import PACKET_LENGTH, STANDARD
from softswitch.program.traverse import flatten


@dataclass(frozen=True)
class MessageValue:
    """A value of a log message. A message's values are laid out like action data of these widths."""

    width: int
    signed: bool


@dataclass(frozen=True)
class Message:
    """A call of P4's log_msg: each ``{}`` in ``format`` stands for the next value. Of a digest it is the name."""

    format: str
    values: tuple[MessageValue, ...]
    is_digest: bool = False


@dataclass(frozen=True)
class Context:
    """The program, where its fields are kept, names and numbers.

    ``track_length``: egress reads packet_length, so the code keeps it up to date. ``messages`` grows while
    emitting, and ``budget`` shrinks. ``points``: what is counted of the program, in words; None for nothing.
    """

    program: ir.Program
    usage: Usage
    storage: Storage
    track_length: bool
    actions: dict[int, ir.Action]
    action_names: dict[int, str]
    table_numbers: dict[str, int]
    register_numbers: dict[str, int]
    counter_numbers: dict[str, int]
    meter_numbers: dict[str, int]
    set_numbers: dict[str, int]
    messages: list[Message] = field(default_factory=list)
    budget: Budget = field(default_factory=Budget)
    points: list[str] | None = None

    @classmethod
    def of(cls, program: ir.Program, usage: Usage, storage: Storage, *, coverage: bool = False) -> Context:
        taken: set[str] = set()
        indirect = [name for name, array in program.counters.items() if array.table is None]
        return cls(
            program,
            usage,
            storage,
            (STANDARD, PACKET_LENGTH) in usage.egress_reads,
            {action.index: action for action in program.actions},
            {action.index: identifier(f"action_{action.name}", taken) for action in program.actions},
            {name: number for number, name in enumerate(program.tables)},
            {name: number for number, name in enumerate(program.registers)},
            {name: number for number, name in enumerate(indirect)},
            {name: number for number, name in enumerate(n for n, each in program.meters.items() if each.table is None)},
            {name: number for number, name in enumerate(program.value_sets)},
            points=[] if coverage else None,
        )

    def code(self) -> Code:
        """An empty body of a function."""
        return Code(self.budget)

    def reached(self, point: str) -> str:
        """A statement of C that counts a point of the program; empty where nobody asked for coverage."""
        if self.points is None:
            return ""
        self.points.append(point)
        return f"ss_reach({len(self.points) - 1});"

    def exits(self, table: ir.Table) -> bool:
        """Return True if an action of the table can end the pipeline with ``exit``."""
        return any(isinstance(s, ir.Exit) for index in table.actions for s in flatten(self.actions[index].body))

    def set_standard(self, code: Code, name: str, text: str) -> None:
        """Set a field of standard_metadata if the program keeps it."""
        member = self.storage.fields.get((STANDARD, name))
        if member is not None:
            code.write(member, text)
