# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The parser: states, each with operations and a select."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.program.ir.expressions import Expr, FieldRef
from softswitch.program.ir.statements import Statement


@dataclass(frozen=True)
class Extract:
    header: str


@dataclass(frozen=True)
class ExtractVarbit:
    """Extracts ``header``, then ``bits`` bits of a varbit field into ``value``, then the header ``rest`` behind it.

    ``length`` gets the number of bits. Errors come first: ParserInvalidArgument where ``bits`` is no multiple of 8,
    PacketTooShort, and HeaderTooShort where all of it is more than ``most_bytes`` (0: no such check) or more bits than
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
    """Runs the operations that ``index`` counts, from 0 on: those of the next element of a header stack.

    Behind the last one the parser ends with StackOutOfBounds. All branches extract equally many fixed bits.
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

    With ``value_set`` it matches if the key is a member of this set; there are no values and masks then.
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
