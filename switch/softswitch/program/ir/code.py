# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The intermediate form of executable parts: expressions, statements, and the headers, registers and counters that they
use."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Source:
    """A file and a line; line 0 if the compiler did not record it, and then ``json`` is the place in bmv2's JSON.
    ``fragment``: the text there, if it is recorded."""

    file: str = ""
    line: int = 0
    json: str = ""
    fragment: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else (self.json or self.file or "no source line known")


UNKNOWN_SOURCE = Source()


@dataclass(frozen=True)
class Const:
    value: int


@dataclass(frozen=True)
class FieldRef:
    header: str
    field: str
    width: int
    signed: bool = False


@dataclass(frozen=True)
class Valid:
    """1 if the header is valid, else 0."""

    header: str


@dataclass(frozen=True)
class Param:
    """Action data number ``index`` of the enclosing action."""

    index: int
    width: int


@dataclass(frozen=True)
class Lookahead:
    """Reads ``width`` bits, ``offset`` bits after the parser's position, without extracting them."""

    offset: int
    width: int


@dataclass(frozen=True)
class Unary:
    """``op``: ``~``, ``-`` (data); ``not`` (boolean); ``d2b``, ``b2d`` (conversions)."""

    op: str
    operand: Expr


@dataclass(frozen=True)
class Binary:
    """``op``: ``+ - * / % << >> & | ^`` (data), ``== != < <= > >=`` (data to boolean), ``and or`` (boolean)."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True)
class Cast:
    """``op``: ``two_comp_mod`` (wrap to int<width>), ``usat_cast``, ``sat_cast`` (saturate to ``width`` bits)."""

    op: str
    operand: Expr
    width: int


@dataclass(frozen=True)
class Mux:
    condition: Expr
    then: Expr
    otherwise: Expr


Expr = Const | FieldRef | Valid | Param | Lookahead | Unary | Binary | Cast | Mux


@dataclass(frozen=True)
class Assign:
    target: FieldRef
    value: Expr


@dataclass(frozen=True)
class AssignHeader:
    """Copies a header's validity and, if ``source`` is valid, its fields."""

    target: str
    source: str


@dataclass(frozen=True)
class SetValid:
    """Clears the fields of an invalid header and makes it valid. Does nothing to a valid one."""

    header: str


@dataclass(frozen=True)
class SetInvalid:
    """Makes a header invalid. ``counted``: packet_length shrinks with it; as in bmv2, it does not if a stack or a union
    loses the header."""

    header: str
    counted: bool = True


@dataclass(frozen=True)
class RegisterRead:
    """Reads a register cell. An index past the end leaves the target as it was."""

    target: FieldRef
    register: str
    index: Expr


@dataclass(frozen=True)
class RegisterWrite:
    """Writes a register cell. An index past the end writes nothing."""

    register: str
    index: Expr
    value: Expr


@dataclass(frozen=True)
class Count:
    """Counts a packet in a cell. An index past the end counts nothing."""

    counter: str
    index: Expr


@dataclass(frozen=True)
class ExecuteMeter:
    """Assigns the colour (0 green, 1 yellow, 2 red). An index past the end leaves the target unchanged."""

    target: FieldRef
    meter: str
    index: Expr


@dataclass(frozen=True)
class MarkToDrop:
    """Marks the packet for dropping: egress_spec = 511 and mcast_grp = 0."""

    source: Source = field(default=UNKNOWN_SOURCE, compare=False, repr=False)


@dataclass(frozen=True)
class Truncate:
    """Limits the outgoing packet to ``length`` bytes. In ingress it affects a packet for one port, but not replicas."""

    length: Expr


@dataclass(frozen=True)
class Random:
    """Assigns a uniform integer in [low, high]. Does nothing if low > high."""

    target: FieldRef
    low: Expr
    high: Expr


@dataclass(frozen=True)
class Hash:
    """``target = base + hash(calculation) % max(1, modulus)``."""

    target: FieldRef
    base: Expr
    calculation: str
    modulus: Expr


@dataclass(frozen=True)
class LogMessage:
    format: str
    values: tuple[Expr, ...]


@dataclass(frozen=True)
class Exit:
    """Ends the pipeline after the enclosing action has run to its end."""


@dataclass(frozen=True)
class If:
    """``source`` is UNKNOWN_SOURCE for an if that is not in the P4 program, but comes from the loader."""

    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()
    source: Source = field(default=UNKNOWN_SOURCE, compare=False, repr=False)


@dataclass(frozen=True)
class Block:
    """Statements, and the number of the next block; None ends the program."""

    statements: tuple[Statement, ...]
    condition: Expr | None
    then: int | None
    otherwise: int | None


@dataclass(frozen=True)
class Loop:
    """A body with loops, starting at block 0. A packet leaves it after LOOP_BLOCKS blocks, wherever it is."""

    blocks: tuple[Block, ...]


Statement = (
    Assign
    | AssignHeader
    | SetValid
    | SetInvalid
    | RegisterRead
    | RegisterWrite
    | Count
    | ExecuteMeter
    | MarkToDrop
    | Truncate
    | Random
    | Hash
    | LogMessage
    | Exit
    | If
    | Loop
)


@dataclass(frozen=True)
class Field:
    name: str
    width: int
    signed: bool = False


@dataclass(frozen=True)
class Header:
    """One header or metadata instance. Metadata is always valid and starts at 0."""

    name: str
    fields: tuple[Field, ...]
    metadata: bool

    @property
    def width(self) -> int:
        return sum(member.width for member in self.fields)

    @property
    def size_bytes(self) -> int:
        return self.width // 8


@dataclass(frozen=True)
class Varbit:
    """A field of variable length: ``length`` bits of ``value`` are emitted after the header that it belongs to.

    Both are hidden metadata; ``value`` is as wide as the field can be, and holds the bits as a number.
    """

    value: FieldRef
    length: FieldRef


@dataclass(frozen=True)
class Register:
    name: str
    size: int
    width: int
    signed: bool = False


@dataclass(frozen=True)
class ValueSet:
    """A parser's value set. The control plane writes its members: a number for each of the ``widths`` of a select's
    key."""

    name: str
    widths: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Meter:
    """A meter with two rates, which counts bytes or packets. ``table`` names the table of a direct meter."""

    name: str
    size: int
    counts_bytes: bool
    table: str | None = None


@dataclass(frozen=True)
class Digest:
    """Sends the control plane values of a packet (a digest)."""

    name: str
    values: tuple[Expr, ...]


@dataclass(frozen=True)
class CounterArray:
    """An array of counters. ``table`` names the table of a direct counter; None for an indirect one."""

    name: str
    size: int
    table: str | None = None
