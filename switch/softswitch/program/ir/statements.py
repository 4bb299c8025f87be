# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Statements of action bodies; some of them are also operations of the parser."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.program.ir.expressions import Expr, FieldRef


@dataclass(frozen=True)
class Assign:
    target: FieldRef
    value: Expr


@dataclass(frozen=True)
class AssignHeader:
    """Copies the validity and, if ``source`` is valid, the fields."""

    target: str
    source: str


@dataclass(frozen=True)
class SetValid:
    """Clears the fields of an invalid header and makes it valid. Does nothing to a valid one."""

    header: str


@dataclass(frozen=True)
class SetInvalid:
    """``counted``: packet_length shrinks with it. It does not where a stack or a union loses the header, as in bmv2."""

    header: str
    counted: bool = True


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
class ExecuteMeter:
    """Assigns the colour (0 green, 1 yellow, 2 red). An index past the end leaves the target as it was."""

    target: FieldRef
    meter: str
    index: Expr


@dataclass(frozen=True)
class MarkToDrop:
    """egress_spec = 511 and mcast_grp = 0."""


@dataclass(frozen=True)
class Truncate:
    """What leaves has at most ``length`` bytes. In ingress it reaches a packet for one port, and not its replicas."""

    length: Expr


@dataclass(frozen=True)
class Random:
    """Assigns a uniform integer of [low, high]. Does nothing if low > high."""

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


@dataclass(frozen=True)
class Block:
    """Statements, and the number of the block that follows; None ends."""

    statements: tuple[Statement, ...]
    condition: Expr | None
    then: int | None
    otherwise: int | None


@dataclass(frozen=True)
class Loop:
    """A body with loops, from block 0 on. A packet leaves it after LOOP_BLOCKS blocks, wherever it is."""

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
