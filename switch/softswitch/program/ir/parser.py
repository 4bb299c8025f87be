# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The parser: states, each with operations and a select."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.program.ir.expressions import Expr
from softswitch.program.ir.statements import Statement


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
    """Matches if ``key & mask == value`` for every key expression. ``next_state`` None accepts."""

    values: tuple[int, ...]
    masks: tuple[int, ...]
    next_state: str | None


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
