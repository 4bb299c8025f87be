# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What every emitter of C needs to know about the program."""

from __future__ import annotations

from dataclasses import dataclass, field

from softswitch.native.emit_code import Code
from softswitch.native.emit_storage import Storage
from softswitch.program import ir
from softswitch.program.analysis import Usage
from softswitch.program.identifiers import identifier
from softswitch.program.standard import PACKET_LENGTH, STANDARD
from softswitch.program.traverse import flatten


@dataclass(frozen=True)
class MessageValue:
    """A value of a log message; a message's values lie in memory like action data of these widths."""

    width: int
    signed: bool


@dataclass(frozen=True)
class Message:
    """P4's log_msg: braces in ``format`` stand for the values in turn."""

    format: str
    values: tuple[MessageValue, ...]


@dataclass(frozen=True)
class Context:
    """``track_length``: somebody reads packet_length behind replication. ``messages`` grows while emitting."""

    program: ir.Program
    usage: Usage
    storage: Storage
    track_length: bool
    actions: dict[int, ir.Action]
    action_names: dict[int, str]
    table_numbers: dict[str, int]
    register_numbers: dict[str, int]
    counter_numbers: dict[str, int]
    messages: list[Message] = field(default_factory=list)

    @classmethod
    def of(cls, program: ir.Program, usage: Usage, storage: Storage) -> Context:
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
        )

    def exits(self, table: ir.Table) -> bool:
        """Whether one of the table's actions may end the pipeline."""
        return any(isinstance(s, ir.Exit) for index in table.actions for s in flatten(self.actions[index].body))

    def set_standard(self, code: Code, name: str, text: str) -> None:
        """Sets a field of standard_metadata, where somebody looks at it."""
        member = self.storage.fields.get((STANDARD, name))
        if member is not None:
            code.write(member, text)
