# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Expressions: integers of unbounded precision, which wrap when they are stored."""

from __future__ import annotations

from dataclasses import dataclass


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
