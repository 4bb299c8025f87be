# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Collects lines of C, and decides which fields the generated code keeps and under which names.

A value is computed once per block, although p4c repeats subexpressions. Fields are members of the packet's state
(``p``); their values are remembered within a block. A header that no statement changes is sent with the bytes that it
arrived with, so the state keeps only those of its fields that the program reads. For a header that may change it keeps
all fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from softswitch.native.limbs import Carrier, carrier
from softswitch.program import ir
from softswitch.program.analysis import Usage
from softswitch.program.emitted_text import comment_text, identifier
from softswitch.program.limits import CodeBudget
from softswitch.program.standard import PACKET_LENGTH, STANDARD
from softswitch.program.traverse import FieldKey, flatten

INDENT = "  "


def comment(text: str) -> str:
    """Return a comment of one line, whatever ``text`` holds."""
    return f"// {comment_text(text)}"


class Code:
    """The body of one function. ``budget``: the limit of the whole program's code."""

    def __init__(self, budget: CodeBudget) -> None:
        self.budget = budget
        self.lines: list[str] = []
        self._depth = 1
        self._count = 0
        self._known: dict[str, str] = {}
        self._members: dict[str, str] = {}

    def line(self, text: str) -> None:
        line = INDENT * self._depth + text
        self.budget.write(line)
        self.lines.append(line)

    def lines_of(self, *texts: str) -> None:
        """Write a line for each text that is not empty."""
        for text in texts:
            if text:
                self.line(text)

    def comment(self, text: str) -> None:
        self.line(comment(text))

    def name(self) -> str:
        """Return a fresh name."""
        self._count += 1
        return f"t{self._count}"

    def value(self, carrier: Carrier, text: str) -> str:
        """Return the name of a constant that holds ``text``, an expression of constants only."""
        return self._constant(carrier.name, text)

    def condition(self, text: str) -> str:
        return self._constant("bool", text)

    def _constant(self, type_name: str, text: str) -> str:
        key = f"{type_name} {text}"
        known = self._known.get(key)
        if known is None:
            known = self.name()
            self.line(f"const {type_name} {known} = {text};")
            self._known[key] = known
        return known

    # -- the packet's state ----------------------------------------------

    def read(self, member: str, carrier: Carrier) -> str:
        known = self._members.get(member)
        if known is None:
            known = self.name()
            self.line(f"const {carrier.name} {known} = p->{member};")
            self._members[member] = known
        return known

    def write(self, member: str, text: str) -> None:
        """Write a member. ``text`` is a constant or a literal."""
        if self._members.get(member) != text:
            self.line(f"p->{member} = {text};")
            self._members[member] = text

    def forget(self) -> None:
        """Read members again from here on."""
        self._members.clear()

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write a block of C. Values computed inside are not known after it."""
        self.line(f"{head} {{" if head else "{")
        self._depth += 1
        known, members = dict(self._known), dict(self._members)
        yield
        self._known = known
        self._members = {member: text for member, text in members.items() if self._members.get(member) == text}
        self._depth -= 1
        self.line("}")


INTRINSIC = ("egress_spec", "mcast_grp")  # fields of standard_metadata that the engine itself reads


@dataclass
class CStorage:
    """Names of members of ``struct packet``; ``fields`` has only those that are kept.

    A member of ``positions`` holds the offset of a header's unchanged bytes in the frame, -1 if it has changed.
    """

    fields: dict[FieldKey, str] = field(default_factory=dict)
    widths: dict[FieldKey, int] = field(default_factory=dict)
    valid: dict[str, str] = field(default_factory=dict)
    positions: dict[str, str] = field(default_factory=dict)

    def carrier(self, key: FieldKey) -> Carrier:
        return carrier(self.widths[key])

    def members_of(self, header: str) -> list[FieldKey]:
        return [key for key in self.fields if key[0] == header]


def plan_storage(program: ir.Program, usage: Usage) -> CStorage:
    storage = CStorage()
    copied = {name for pair in usage.copies for name in pair}
    taken: set[str] = set()
    for header in program.headers.values():
        rebuilt = header.name in usage.changed and header.name in program.deparser
        for member in header.fields:
            key = header.name, member.name
            intrinsic = header.name == STANDARD and member.name in INTRINSIC
            if key in usage.read or rebuilt or header.name in copied or intrinsic:
                storage.fields[key] = identifier(f"f_{header.name}_{member.name}", taken)
                storage.widths[key] = member.width
        if header.metadata:
            continue
        storage.valid[header.name] = identifier(f"v_{header.name}", taken)
        if header.name in usage.extracted and header.name in program.deparser:
            storage.positions[header.name] = identifier(f"o_{header.name}", taken)
    return storage


@dataclass(frozen=True)
class MessageValue:
    """A value of a log message. A message's values are laid out like action data of these widths."""

    width: int
    signed: bool


@dataclass(frozen=True)
class Message:
    """A call of P4's log_msg: each ``{}`` in ``format`` stands for the next value. For a digest, ``format`` is its
    name."""

    format: str
    values: tuple[MessageValue, ...]
    is_digest: bool = False


@dataclass(frozen=True)
class CContext:
    """The context of emission: the program, the storage of its fields, names and numbers.

    ``track_length``: egress reads packet_length, so the code keeps it up to date. ``messages`` grows while emitting,
    and ``budget`` shrinks. ``points``: the counted points of the program, in words; None without coverage.
    """

    program: ir.Program
    usage: Usage
    storage: CStorage
    track_length: bool
    actions: dict[int, ir.Action]
    action_names: dict[int, str]
    table_numbers: dict[str, int]
    register_numbers: dict[str, int]
    counter_numbers: dict[str, int]
    meter_numbers: dict[str, int]
    set_numbers: dict[str, int]
    messages: list[Message] = field(default_factory=list)
    budget: CodeBudget = field(default_factory=CodeBudget)
    points: list[str] | None = None

    @classmethod
    def of(cls, program: ir.Program, usage: Usage, storage: CStorage, *, coverage: bool = False) -> CContext:
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
        """Return an empty body of a function."""
        return Code(self.budget)

    def reached(self, point: str) -> str:
        """Return a C statement that counts a point of the program; "" without coverage."""
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
