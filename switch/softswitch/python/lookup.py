# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Tables of the Python engine: rows in dicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from softswitch.program import ir
from softswitch.runtime.entries import CounterValue, Exact, KeyMatch, Lpm, MeterRates, Range, Ternary
from softswitch.runtime.tables import prefix_mask

MEMO_SIZE = 4096

SET = -1  # in place of the position, where an entry has several actions: its data is a tuple of entries

Compiled = tuple[Any, ...]  # (position of the action, counter cell or None, *data): see emit_pipeline
Cell = list[Any]  # [packets, bytes], and where the table has a direct meter that, or None while it is not configured
Compiler = Callable[[int, tuple[int, ...], Cell | None], Compiled]


class PythonRow(NamedTuple):
    """``key`` is empty for a default action."""

    key: tuple[KeyMatch, ...]
    compiled: Compiled


class PythonTable:
    """A :class:`softswitch.runtime.tables.Backend` in dicts.

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
        """Look up ``key`` in a table that is not exact; the answer is kept in ``memo``."""
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
