# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The intermediate form of a v1model program: what every engine emits code from.

Nothing here knows the JSON it came from or the language it becomes. Names are those of the program,
widths are bits, and every value is an integer. Semantics are bmv2's: expressions are evaluated with
unbounded precision and wrap when they are stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True)
class Source:
    """Where a construct stands in the P4 program; line 0 when the compiler did not say."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else (self.file or "no source line known")


# ---------------------------------------------------------------- storage


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
class Register:
    name: str
    size: int
    width: int
    signed: bool = False


@dataclass(frozen=True)
class CounterArray:
    """``table`` names the table of a direct counter, None for an indirect one."""

    name: str
    size: int
    table: str | None = None


# ---------------------------------------------------------------- expressions


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
    """``width`` bits, ``offset`` bits after the parser's position, without extracting them."""

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
class Ternary:
    condition: Expr
    then: Expr
    otherwise: Expr


Expr = Const | FieldRef | Valid | Param | Lookahead | Unary | Binary | Cast | Ternary


# ---------------------------------------------------------------- statements


@dataclass(frozen=True)
class Assign:
    target: FieldRef
    value: Expr


@dataclass(frozen=True)
class AssignHeader:
    """Copies validity, and the fields when the source is valid."""

    target: str
    source: str


@dataclass(frozen=True)
class SetValid:
    """On an invalid header: clears its fields and makes it valid. On a valid one: nothing."""

    header: str


@dataclass(frozen=True)
class SetInvalid:
    header: str


@dataclass(frozen=True)
class RegisterRead:
    """An index past the end leaves the target as it was."""

    target: FieldRef
    register: str
    index: Expr


@dataclass(frozen=True)
class RegisterWrite:
    """An index past the end writes nothing."""

    register: str
    index: Expr
    value: Expr


@dataclass(frozen=True)
class Count:
    """An index past the end counts nothing."""

    counter: str
    index: Expr


@dataclass(frozen=True)
class MarkToDrop:
    """egress_spec = 511 and mcast_grp = 0."""


@dataclass(frozen=True)
class Random:
    """A uniform integer of [low, high]; nothing when low > high."""

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
    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


Statement = (
    Assign
    | AssignHeader
    | SetValid
    | SetInvalid
    | RegisterRead
    | RegisterWrite
    | Count
    | MarkToDrop
    | Random
    | Hash
    | LogMessage
    | Exit
    | If
)


# ---------------------------------------------------------------- parser


@dataclass(frozen=True)
class Extract:
    header: str


@dataclass(frozen=True)
class Advance:
    bits: Expr


@dataclass(frozen=True)
class Verify:
    condition: Expr
    error: Expr


ParserOp = Extract | Advance | Verify | Statement


@dataclass(frozen=True)
class Case:
    """Matches when ``key & mask == value`` for every key expression. ``next_state`` None accepts."""

    values: tuple[int, ...]
    masks: tuple[int, ...]
    next_state: str | None


@dataclass(frozen=True)
class ParserState:
    """A key that no case matches goes to ``default``; None accepts. bmv2 knows no error for a missing default."""

    name: str
    ops: tuple[ParserOp, ...]
    key: tuple[Expr, ...]
    cases: tuple[Case, ...]
    default: str | None


@dataclass(frozen=True)
class Parser:
    name: str
    start: str
    states: dict[str, ParserState]


# ---------------------------------------------------------------- match-action


@dataclass(frozen=True)
class Parameter:
    name: str
    width: int


@dataclass(frozen=True)
class Action:
    """``index`` is unique in the program; ``name`` is not (each table has its own NoAction)."""

    index: int
    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    source: Source = Source()


class MatchKind(Enum):
    EXACT = "exact"
    LPM = "lpm"
    TERNARY = "ternary"
    RANGE = "range"


@dataclass(frozen=True)
class Key:
    """One field of a table key. ``target`` is a FieldRef or, for header validity, Valid."""

    name: str
    kind: MatchKind
    target: FieldRef | Valid
    width: int
    mask: int | None = None


@dataclass(frozen=True)
class Pattern:
    """One key field of a constant entry: value/mask, or low/high for a range (``mask`` is then ``high``)."""

    value: int
    mask: int
    prefix_len: int | None = None


@dataclass(frozen=True)
class ConstEntry:
    """``rank``: the smaller wins, as they stand in the program."""

    patterns: tuple[Pattern, ...]
    action: int
    args: tuple[int, ...]
    rank: int


@dataclass(frozen=True)
class Table:
    """A node of a pipeline. ``kind`` is the strongest match kind of its keys. ``next`` maps an action index to
    the next node (None ends the pipeline); ``on_hit``/``on_miss`` replace it where the program asks for hit or miss."""

    name: str
    kind: MatchKind
    keys: tuple[Key, ...]
    size: int
    actions: tuple[int, ...]
    default_action: int
    default_args: tuple[int, ...]
    default_const: bool
    entries: tuple[ConstEntry, ...] | None
    next: dict[int, str | None]
    by_hit: bool = False
    on_hit: str | None = None
    on_miss: str | None = None
    has_counter: bool = False
    source: Source = Source()


@dataclass(frozen=True)
class Conditional:
    """A node of a pipeline."""

    name: str
    condition: Expr
    on_true: str | None
    on_false: str | None
    source: Source = Source()


Node = Table | Conditional


@dataclass(frozen=True)
class Pipeline:
    name: str
    start: str | None
    nodes: dict[str, Node]


# ---------------------------------------------------------------- checksums


@dataclass(frozen=True)
class Chunk:
    """``width`` bits of a calculation's input. A part of an invalid header is skipped."""

    value: FieldRef | Const
    width: int


@dataclass(frozen=True)
class Calculation:
    """``algorithm``: csum16, xor16, crc16, crc32 or identity, over the joined chunks, padded on the right to a byte."""

    name: str
    algorithm: str
    chunks: tuple[Chunk, ...]
    source: Source = Source()


@dataclass(frozen=True)
class Checksum:
    """``verify`` runs between parser and ingress, ``update`` between egress and deparser."""

    name: str
    target: FieldRef
    calculation: str
    condition: Expr
    verify: bool
    update: bool


# ---------------------------------------------------------------- program


@dataclass(frozen=True)
class Program:
    headers: dict[str, Header]
    errors: dict[str, int]
    parser: Parser
    ingress: Pipeline
    egress: Pipeline
    deparser: tuple[str, ...]
    actions: tuple[Action, ...]
    registers: dict[str, Register] = field(default_factory=dict)
    counters: dict[str, CounterArray] = field(default_factory=dict)
    calculations: dict[str, Calculation] = field(default_factory=dict)
    checksums: tuple[Checksum, ...] = ()

    @property
    def tables(self) -> dict[str, Table]:
        nodes = [*self.ingress.nodes.values(), *self.egress.nodes.values()]
        return {node.name: node for node in nodes if isinstance(node, Table)}
