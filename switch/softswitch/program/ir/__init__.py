# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The intermediate form of a v1model program, from which every engine emits code.

It depends neither on the JSON that it was loaded from nor on the language that an engine emits. Names are those of
the program, widths are in bits, and every value is an integer. Semantics are bmv2's: expressions are evaluated with
unbounded precision and wrap when they are stored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from softswitch.program.ir.code import (
    UNKNOWN_SOURCE,
    Assign,
    AssignHeader,
    Binary,
    Block,
    Cast,
    Const,
    Count,
    CounterArray,
    Digest,
    ExecuteMeter,
    Exit,
    Expr,
    Field,
    FieldRef,
    Hash,
    Header,
    If,
    LogMessage,
    Lookahead,
    Loop,
    MarkToDrop,
    Meter,
    Mux,
    Param,
    Random,
    Register,
    RegisterRead,
    RegisterWrite,
    SetInvalid,
    SetValid,
    Source,
    Statement,
    Truncate,
    Unary,
    Valid,
    ValueSet,
    Varbit,
)  # fmt: skip
from softswitch.program.standard import DROP_PORT

__all__ = [
    "CLONE_REQUESTED", "UNKNOWN_SOURCE", "Action", "Advance", "Assign", "AssignHeader", "Binary", "Block",
    "Calculation", "Case", "Cast", "Checksum", "Choose", "Chunk", "Conditional", "Const", "ConstEntry", "Count",
    "CounterArray", "Digest", "ExecuteMeter", "Exit", "Expr", "Extract", "ExtractVarbit", "Field", "FieldRef", "Hash",
    "Header", "If", "Key", "LogMessage", "Lookahead", "Loop", "MarkToDrop", "MatchKind", "Meter", "Mux", "Node",
    "Param", "Parameter", "Parser", "ParserOp", "ParserState", "Passes", "Pattern", "Pipeline", "Program", "Random",
    "Register", "RegisterRead", "RegisterWrite", "SetInvalid", "SetValid", "Source", "Statement", "Table", "Truncate",
    "Unary", "Valid", "ValueSet", "Varbit", "Verify",
]  # fmt: skip


@dataclass(frozen=True)
class Extract:
    header: str


@dataclass(frozen=True)
class ExtractVarbit:
    """Extracts ``header``, then ``bits`` bits of a varbit field into ``value``, then the header ``rest`` behind it.

    ``length`` gets the number of bits. Errors are checked first: ParserInvalidArgument if ``bits`` is not a multiple of
    8, PacketTooShort, and HeaderTooShort if the total is more than ``most_bytes`` (0: no such check) or more bits than
    the field can have.
    """

    header: str
    value: FieldRef
    length: FieldRef
    bits: Expr
    most_bytes: int
    rest: str | None = None


@dataclass(frozen=True)
class Choose:
    """Runs the operations for element ``index``, counted from 0, which is the next element of a header stack.

    Beyond the last one the parser ends with StackOutOfBounds. All branches extract the same number of fixed bits.
    """

    index: FieldRef
    branches: tuple[tuple[ParserOp, ...], ...]


@dataclass(frozen=True)
class Advance:
    bits: Expr


@dataclass(frozen=True)
class Verify:
    condition: Expr
    error: Expr


ParserOp = Extract | ExtractVarbit | Choose | Advance | Verify | Statement


@dataclass(frozen=True)
class Case:
    """Matches if ``key & mask == value`` for every key expression. ``next_state`` None accepts.

    With ``value_set`` it matches if the key is a member of this set, and has no values and masks.
    """

    values: tuple[int, ...]
    masks: tuple[int, ...]
    next_state: str | None
    value_set: str | None = None


@dataclass(frozen=True)
class ParserState:
    """``ops`` run first, then the first matching case selects the next state.

    If no case matches, ``default`` is next; None accepts the packet, as bmv2 does for a missing default.
    """

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


@dataclass(frozen=True)
class Chunk:
    """``width`` bits of a calculation's input. Chunks of an invalid header are skipped.

    For a varbit field: ``length`` bits, at most ``width``, if header ``owner`` is valid.
    """

    value: FieldRef | Const
    width: int
    length: FieldRef | None = None
    owner: str | None = None


@dataclass(frozen=True)
class Calculation:
    """A hash or checksum: ``algorithm`` (csum16, xor16, crc16, crc32 or identity) over the joined chunks, padded on the
    right to a byte.

    ``payload``: the unparsed rest of the packet follows the chunks.
    """

    name: str
    algorithm: str
    chunks: tuple[Chunk, ...]
    source: Source = UNKNOWN_SOURCE
    payload: bool = False


@dataclass(frozen=True)
class Checksum:
    """A checksum in field ``target``, if ``condition`` holds.

    ``verify``: it is compared between parser and ingress. ``update``: it is written between egress and deparser.
    """

    name: str
    target: FieldRef
    calculation: str
    condition: Expr
    verify: bool
    update: bool


CLONE_REQUESTED = 1 << 15  # beside the number of the session, so that session 0 is a request too


@dataclass(frozen=True)
class Passes:
    """Hidden fields in which statements store a request until the end of the pipeline; 0 means no request.

    ``clone`` holds a session and CLONE_REQUESTED, and ``clone_list`` the number of a list of fields; ``resubmit`` and
    ``recirculate`` hold the number of the list itself. ``lists``: by number, the fields that the new packet takes
    along.
    """

    clone: FieldRef
    clone_list: FieldRef
    resubmit: FieldRef
    recirculate: FieldRef
    lists: dict[int, tuple[FieldRef, ...]] = field(default_factory=dict)

    @property
    def requests(self) -> tuple[FieldRef, ...]:
        return self.clone, self.clone_list, self.resubmit, self.recirculate


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
    source: Source = UNKNOWN_SOURCE


class MatchKind(Enum):
    EXACT = "exact"
    LPM = "lpm"
    TERNARY = "ternary"
    RANGE = "range"


@dataclass(frozen=True)
class Key:
    """One field of a table key. ``target`` is never negative; mostly it is a FieldRef or, for header validity,
    Valid."""

    name: str
    kind: MatchKind
    target: Expr
    width: int
    mask: int | None = None


@dataclass(frozen=True)
class Pattern:
    """One key field of a constant entry: value and mask. For a range they are the low and the high end."""

    value: int
    mask: int
    prefix_len: int | None = None


@dataclass(frozen=True)
class ConstEntry:
    """An entry that the program itself defines. The entry with the smallest ``rank`` wins."""

    patterns: tuple[Pattern, ...]
    action: int
    args: tuple[int, ...]
    rank: int


@dataclass(frozen=True)
class Table:
    """A node of a pipeline.

    ``entries``: those that the program defines. Unless they are ``entries_const``, the control plane may change them
    and add others; the JSON does not tell which.

    ``kind``: the strongest match kind of its keys. ``next``: the next node by action index; None ends the pipeline. If
    the program asks for hit or miss, ``by_hit`` is set, and ``on_hit`` and ``on_miss`` are the next nodes. A hit writes
    the colour of the table's direct meter to ``meter_target``. ``selector``: the calculation whose hash chooses among
    the actions of an entry that has several; None where entries have one. ``profile``: the name of its action profile,
    if it has one.
    """

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
    entries_const: bool = True
    source: Source = UNKNOWN_SOURCE
    meter_target: FieldRef | None = None
    selector: str | None = None
    profile: str | None = None


@dataclass(frozen=True)
class Conditional:
    """A node of a pipeline that branches on ``condition``."""

    name: str
    condition: Expr
    on_true: str | None
    on_false: str | None
    source: Source = UNKNOWN_SOURCE


Node = Table | Conditional


@dataclass(frozen=True)
class Pipeline:
    name: str
    start: str | None
    nodes: dict[str, Node]


@dataclass(frozen=True, eq=False)
class Program:
    """A program. It is immutable, so switches may share it.

    ``varbits``: by the header after which the bits of a varbit field are emitted. ``passes``: None for a program that
    never clones, resubmits or recirculates, and truncates in egress only. Statements store the number of one of the
    ``digests`` in ``digest_request``, which is sent at the end of ingress. ``drop_port``: mark_to_drop's egress_spec,
    which the switch chooses.
    """

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
    varbits: dict[str, Varbit] = field(default_factory=dict)
    passes: Passes | None = None
    value_sets: dict[str, ValueSet] = field(default_factory=dict)
    meters: dict[str, Meter] = field(default_factory=dict)
    digests: dict[int, Digest] = field(default_factory=dict)
    digest_request: FieldRef | None = None
    drop_port: int = DROP_PORT

    @property
    def tables(self) -> dict[str, Table]:
        nodes = [*self.ingress.nodes.values(), *self.egress.nodes.values()]
        return {node.name: node for node in nodes if isinstance(node, Table)}

    def direct_meter(self, table: str) -> Meter:
        """Return the direct meter of a table with a ``meter_target``."""
        return next(meter for meter in self.meters.values() if meter.table == table)
