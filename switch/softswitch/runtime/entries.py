# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the control plane writes, as plain numbers: table entries, action calls, counter values, replicas.

Matches, calls and entries are tuples: they are made and hashed in great numbers. In one field all matches are of one
kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Exact(NamedTuple):
    value: int


class Lpm(NamedTuple):
    value: int
    prefix_len: int


class Ternary(NamedTuple):
    value: int
    mask: int


class Range(NamedTuple):
    low: int
    high: int


KeyMatch = Exact | Lpm | Ternary | Range


class ActionCall(NamedTuple):
    """``args`` in the action's parameter order."""

    name: str
    args: tuple[int, ...] = ()


class ActionSet(NamedTuple):
    """For each packet the table's selector runs one of ``calls``: that of the number hash modulo their count. One
    that is there several times has that many shares."""

    calls: tuple[ActionCall, ...]


@dataclass(frozen=True, slots=True)
class CounterValue:
    packets: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class MeterRates:
    """Of a committed and a peak bucket: units (bytes or packets) per second, and the most units that it holds."""

    committed: float
    committed_burst: int
    peak: float
    peak_burst: int


class Entry(NamedTuple):
    """One row of a table. ``key`` has one match per key field, in the table's order (a "don't care" is
    Lpm(0, 0), Ternary(0, 0) or the full Range). ``priority`` is P4Runtime's: larger wins, 0 where the
    table has neither ternary nor range keys. ``counter`` is None without a direct counter."""

    key: tuple[KeyMatch, ...]
    action: ActionCall | ActionSet
    priority: int = 0
    is_const: bool = False
    counter: CounterValue | None = None


@dataclass(frozen=True, slots=True)
class Replica:
    port: int
    instance: int
