# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a program keeps state in: headers and metadata, registers, counters."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.program.ir.expressions import Expr, FieldRef


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
    """A field of variable length: ``length`` bits of ``value`` leave behind the header that it belongs to.

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
    """Members are written by the control plane: a number for each of the ``widths`` of a select's key."""

    name: str
    widths: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Meter:
    """Of two rates; it counts bytes or packets. ``table`` names the table of a direct meter."""

    name: str
    size: int
    counts_bytes: bool
    table: str | None = None


@dataclass(frozen=True)
class Digest:
    """What the control plane learns of a packet."""

    name: str
    values: tuple[Expr, ...]


@dataclass(frozen=True)
class CounterArray:
    """``table`` names the table of a direct counter, None for an indirect one."""

    name: str
    size: int
    table: str | None = None
