# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The run-time objects of generated Python: tables with rows in dicts, parser value sets, meters and hashes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from softswitch.program import ir
from softswitch.runtime.entries import CounterValue, Exact, KeyMatch, Lpm, MeterRates, Range, Ternary
from softswitch.runtime.tables import Pattern, prefix_mask


def checksum_of(total: int) -> int:
    """Return the internet checksum of 16-bit words whose plain sum is ``total``."""
    return 65535 - (total % 65535 or (65535 if total else 0))


def _padded(value: int, bits: int) -> bytes:
    size = -(-bits // 8)
    return (value << (8 * size - bits)).to_bytes(size)


def hash_csum16(value: int, bits: int) -> int:
    data = _padded(value, bits)
    data += bytes(len(data) % 2)
    return checksum_of(sum(int.from_bytes(data[i : i + 2]) for i in range(0, len(data), 2)))


def hash_xor16(value: int, bits: int) -> int:
    data = _padded(value, bits)
    data += bytes(len(data) % 2)
    result = 0
    for i in range(0, len(data), 2):
        result ^= int.from_bytes(data[i : i + 2])
    return result


def hash_crc16(value: int, bits: int) -> int:
    """Return CRC-16/ARC: polynomial 0x8005, reflected, as bmv2's crc16."""
    table = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
    remainder = 0
    for byte in _padded(value, bits).translate(table):
        remainder ^= byte << 8
        for _ in range(8):
            remainder = (remainder << 1 ^ (0x8005 if remainder & 0x8000 else 0)) & 0xFFFF
    return int(f"{remainder:016b}"[::-1], 2)


def hash_crc32(value: int, bits: int) -> int:
    return zlib.crc32(_padded(value, bits))


def hash_identity(value: int, bits: int) -> int:
    """Return the first eight bytes of the input."""
    return int.from_bytes(_padded(value, bits)[:8])


RUNTIME = {
    "checksum_of": checksum_of,
    "hash_csum16": hash_csum16,
    "hash_xor16": hash_xor16,
    "hash_crc16": hash_crc16,
    "hash_crc32": hash_crc32,
    "hash_identity": hash_identity,
}


_US = 1e6
RED, YELLOW, GREEN = 2, 1, 0


class _Bucket:
    def __init__(self, rate: float, burst: int, colour: int) -> None:
        self.rate, self.burst, self.colour = rate / _US, burst, colour
        self.tokens, self.last = burst, 0


class Meters:
    """One array of meters. Unconfigured meters are green."""

    def __init__(self, counts_bytes: bool) -> None:
        self._counts_bytes = counts_bytes
        self._buckets: dict[int, tuple[int, tuple[_Bucket, _Bucket]]] = {}

    def set(self, index: int, rates: MeterRates | None, now_us: int) -> None:
        if rates is None:
            self._buckets.pop(index, None)
            return
        peak = _Bucket(rates.peak, rates.peak_burst, RED)
        committed = _Bucket(rates.committed, rates.committed_burst, YELLOW)
        self._buckets[index] = now_us, (peak, committed)

    def execute(self, index: int, size: int, now_us: int) -> int:
        """Return the colour of a packet of ``size`` bytes."""
        found = self._buckets.get(index)
        if found is None:
            return GREEN
        since, buckets = found
        wanted = size if self._counts_bytes else 1
        for bucket in buckets:
            earned = int((now_us - since) * bucket.rate)
            bucket.tokens = min(bucket.tokens + earned - bucket.last, bucket.burst)
            bucket.last = earned
            if bucket.tokens < wanted:
                return bucket.colour
            bucket.tokens -= wanted
        return GREEN


class ValueSetLookup:
    """A value set. Generated code tests ``key in value_set``, with a number for each field."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        self._masks = tuple((1 << width) - 1 for width in widths)
        self._exact: set[tuple[int, ...]] = set()
        self._masked: list[Pattern] = []

    def replace(self, members: Sequence[Pattern]) -> None:
        self._exact.clear()
        self._masked.clear()
        for member in members:
            if tuple(mask for _, mask in member) == self._masks:
                self._exact.add(tuple(value for value, _ in member))
            else:
                self._masked.append(member)

    def __contains__(self, key: tuple[int, ...]) -> bool:
        return key in self._exact or any(
            all(part & mask == value for part, (value, mask) in zip(key, member, strict=True))
            for member in self._masked
        )


MEMO_SIZE = 4096

SET = -1  # in place of the position, where an entry has several actions: its data is a tuple of entries

Compiled = tuple[Any, ...]  # (position of the action, counter cell or None, *data): see emit_pipeline
Cell = list[Any]  # [packets, bytes], and where the table has a direct meter that, or None while it is not configured
Compiler = Callable[[int, tuple[int, ...], Cell | None], Compiled]


class PythonRow(NamedTuple):
    """A row of a table. ``key`` is empty for a default action."""

    key: tuple[KeyMatch, ...]
    compiled: Compiled


class PythonTable:
    """A :class:`softswitch.runtime.tables.Backend` that uses dicts.

    The generated code looks entries up in ``exact`` (exact tables) or in ``memo`` (the others). Both are the same
    objects for the life of the table.
    """

    def __init__(
        self,
        table: ir.Table,
        compiler: Compiler,
        publish_default: Callable[[Compiled], None],
        meter_of: Callable[[MeterRates | None], Any],
    ) -> None:
        self._meter_of = meter_of
        self._table = table
        self._compiler = compiler
        self._publish_default = publish_default
        self.exact: dict[Any, Compiled] = {}
        self.memo: dict[Any, Compiled] = {}
        # By prefix length, the longest first.
        self._prefixes: dict[int, tuple[tuple[int, ...], dict[tuple[int, ...], Compiled]]] = {}
        self._scan: list[tuple[tuple[KeyMatch, ...], Compiled]] = []
        self._default: Compiled = ()

    # -- control plane ---------------------------------------------------

    def row(
        self,
        key: tuple[KeyMatch, ...] | None,
        position: int,
        args: tuple[int, ...],
        counter: CounterValue | None,
    ) -> PythonRow:
        return PythonRow(key or (), self._compiler(position, args, None if key is None else self._cell(counter)))

    def rows(
        self, keys: Sequence[tuple[KeyMatch, ...]], position: int, args: Sequence[tuple[int, ...]], *, counts: bool
    ) -> list[PythonRow]:
        counter = CounterValue() if counts else None
        return [self.row(key, position, each, counter) for key, each in zip(keys, args, strict=True)]

    def row_of_set(
        self,
        key: tuple[KeyMatch, ...],
        calls: Sequence[tuple[int, tuple[int, ...]]],
        counter: CounterValue | None,
    ) -> PythonRow:
        cell = self._cell(counter)
        choices = tuple(self._compiler(position, args, cell) for position, args in calls)
        return PythonRow(key, (SET, cell, choices))

    def _cell(self, counter: CounterValue | None) -> Cell | None:
        counted = [0, 0] if counter is None else [counter.packets, counter.bytes]
        if self._table.meter_target is not None:
            return [*counted, None]
        return None if counter is None else counted

    def read_counter(self, row: PythonRow) -> CounterValue | None:
        cell: Cell | None = row.compiled[1]
        return None if cell is None or not self._table.has_counter else CounterValue(*cell[:2])

    def write_counter(self, row: PythonRow, value: CounterValue) -> None:
        cell: Cell = row.compiled[1]
        cell[:2] = value.packets, value.bytes

    def set_meter(self, row: PythonRow, rates: MeterRates | None) -> None:
        row.compiled[1][2] = self._meter_of(rates)

    def publish(self, rows: Sequence[PythonRow], default: PythonRow) -> None:
        self.exact.clear()
        self._prefixes.clear()
        if self._table.kind in (ir.MatchKind.EXACT, ir.MatchKind.LPM):
            self.change((), rows, default)
            return
        self._set_default(default)
        widths = [key.width for key in self._table.keys]
        self._scan = [
            (tuple(_without_prefix(match, width) for match, width in zip(row.key, widths, strict=True)), row.compiled)
            for row in rows
        ]

    def change(self, removed: Sequence[PythonRow], put: Sequence[PythonRow], default: PythonRow) -> None:
        self._set_default(default)
        if self._table.kind is ir.MatchKind.EXACT:
            for row in removed:
                del self.exact[_exact_key(row)]
            for row in put:
                self.exact[_exact_key(row)] = row.compiled
            return
        for row in removed:
            length = _length(row)
            found = self._prefixes[length][1]
            del found[_values(row)]
            if not found:
                del self._prefixes[length]
        for row in put:
            self._with_prefix(row)[_values(row)] = row.compiled

    def _set_default(self, default: PythonRow) -> None:
        self._default = default.compiled
        self._publish_default(self._default)
        self.memo.clear()

    def _with_prefix(self, row: PythonRow) -> dict[tuple[int, ...], Compiled]:
        """The rows of this row's prefix length, by the masked key."""
        length = _length(row)
        if length not in self._prefixes:
            masks = tuple(prefix_mask(match, key.width) for match, key in zip(row.key, self._table.keys, strict=True))
            self._prefixes[length] = (masks, {})
            self._prefixes = dict(sorted(self._prefixes.items(), reverse=True))
        return self._prefixes[length][1]

    # -- data plane ------------------------------------------------------

    def find(self, key: Any) -> Compiled:
        """Look up ``key`` in a table that is not exact, and cache the result in ``memo``."""
        values: tuple[int, ...] = key if isinstance(key, tuple) else (key,)
        found = self._find_prefix(values) if self._table.kind is ir.MatchKind.LPM else self._find_ranked(values)
        if len(self.memo) >= MEMO_SIZE:
            self.memo.clear()
        self.memo[key] = found
        return found

    def _find_prefix(self, values: tuple[int, ...]) -> Compiled:
        for masks, rows in self._prefixes.values():
            found = rows.get(tuple(value & mask for value, mask in zip(values, masks, strict=True)))
            if found is not None:
                return found
        return self._default

    def _find_ranked(self, values: tuple[int, ...]) -> Compiled:
        for key, compiled in self._scan:
            if all(_matches(match, value) for match, value in zip(key, values, strict=True)):
                return compiled
        return self._default


def _values(row: PythonRow) -> tuple[int, ...]:
    return tuple(match.value for match in row.key if isinstance(match, Exact | Lpm))


def _exact_key(row: PythonRow) -> Any:
    values = _values(row)
    return values if len(values) > 1 else values[0]


def _length(row: PythonRow) -> int:
    return next(match.prefix_len for match in row.key if isinstance(match, Lpm))


def _without_prefix(match: KeyMatch, width: int) -> KeyMatch:
    return Ternary(match.value, prefix_mask(match, width)) if isinstance(match, Lpm) else match


def _matches(match: KeyMatch, value: int) -> bool:
    if isinstance(match, Exact):
        return value == match.value
    if isinstance(match, Ternary):
        return value & match.mask == match.value
    if isinstance(match, Range):
        return match.low <= value <= match.high
    raise AssertionError("a prefix beside ternary or range keys is scanned as a mask")
