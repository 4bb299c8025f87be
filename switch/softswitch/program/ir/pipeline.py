# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Match-action: actions, tables and the graph of a control."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from softswitch.program.ir.expressions import Expr, FieldRef
from softswitch.program.ir.source import UNKNOWN_SOURCE, Source
from softswitch.program.ir.statements import Statement


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
    """One field of a table key. ``target`` is never negative: a FieldRef or, for header validity, Valid, mostly."""

    name: str
    kind: MatchKind
    target: Expr
    width: int
    mask: int | None = None


@dataclass(frozen=True)
class Pattern:
    """One key field of a constant entry: value and mask. Of a range they are the low and the high end."""

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

    ``entries``: of the program itself. Where they are not ``entries_const``, the control plane may change them, and add
    others; the JSON does not tell.

    ``kind``: the strongest match kind of its keys. ``next``: the next node by action index; None ends the pipeline. If
    the program asks for hit or miss, ``by_hit`` is set, and ``on_hit`` and ``on_miss`` are the next nodes. A hit writes
    the colour of the table's direct meter to ``meter_target``. ``selector``: the calculation whose hash chooses among
    the actions of an entry that has several; None where entries have one.
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
