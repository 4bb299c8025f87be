# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Tables of the native engine: rows are made here and laid out by tables.c."""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Mapping, Sequence

from softswitch.native.limbs import LIMB_BYTES, argument_offsets, limbs, to_limbs
from softswitch.native.runtime_library import Field, present, runtime
from softswitch.program import ir
from softswitch.runtime.entries import CounterValue, Exact, KeyMatch, Lpm, Range, Ternary
from softswitch.runtime.tables import prefix_mask


class NativeRow:
    """Owns a ``struct ss_row``."""

    def __init__(self, address: int, counts: bool) -> None:
        library = runtime()
        self.address = address
        self.cell = library.ss_row_cell(address) if counts else None
        # Not at exit: the packet loop may still use it.
        weakref.finalize(self, library.ss_row_free, address).atexit = False


class NativeTable:
    """A :class:`softswitch.runtime.tables.Backend`: table ``number`` of the ``struct ss_machine`` at ``machine``."""

    def __init__(self, machine: int, number: int, table: ir.Table, actions: Mapping[int, ir.Action]) -> None:
        self._machine = machine
        self._number = number
        self._table = table
        self._exact = table.kind is ir.MatchKind.EXACT
        self._widths = [[parameter.width for parameter in actions[index].parameters] for index in table.actions]
        self._limbs = sum(limbs(key.width) for key in table.keys)
        ranges = [Field(limbs(key.width), key.kind is ir.MatchKind.RANGE) for key in table.keys]
        self._fields = (Field * len(ranges))(*ranges)
        self._published: list[NativeRow] = []

    def row(
        self,
        key: tuple[KeyMatch, ...] | None,
        position: int,
        args: tuple[int, ...],
        counter: CounterValue | None,
    ) -> NativeRow:
        packed_key, key_limbs = b"", 0
        if key is not None:
            packed_key, key_limbs = pack_key(key, self._table), self._limbs
        packed_args = pack_arguments(args, self._widths[position])
        address = runtime().ss_row_new(
            position,
            key is not None,
            packed_args,
            len(packed_args) // LIMB_BYTES,
            packed_key,
            key_limbs,
            not self._exact,
            counter is not None,
        )
        row = NativeRow(present(address), counter is not None)
        if counter is not None:
            self.write_counter(row, counter)
        return row

    def publish(self, rows: Sequence[NativeRow], default: NativeRow) -> None:
        addresses = array("Q", [row.address for row in rows])
        table = runtime().ss_table_new(
            self._fields, len(self._fields), self._exact, addresses.buffer_info()[0], len(rows), default.address
        )
        if not runtime().ss_machine_publish(self._machine, self._number, present(table)):
            raise AssertionError(f"there is no table {self._number} in C")
        # Only now may the rows published before be freed.
        self._published = [*rows, default]

    def read_counter(self, row: NativeRow) -> CounterValue | None:
        return None if row.cell is None else CounterValue(row.cell[0], row.cell[1])

    def write_counter(self, row: NativeRow, value: CounterValue) -> None:
        assert row.cell is not None, "only rows of tables with a direct counter are written"
        row.cell[0], row.cell[1] = value.packets, value.bytes


def pack_key(key: tuple[KeyMatch, ...], table: ir.Table) -> bytes:
    """A row's key: all values, then all masks (of a range: low ends, then high ends). In exact tables only values."""
    bounds = [_bounds(match, field.width) for match, field in zip(key, table.keys, strict=True)]
    sides = range(1 if table.kind is ir.MatchKind.EXACT else 2)
    return b"".join(
        to_limbs(bound[side], field.width) for side in sides for bound, field in zip(bounds, table.keys, strict=True)
    )


def pack_arguments(args: Sequence[int], widths: Sequence[int]) -> bytes:
    """Action data in the layout of engine.h."""
    offsets, total = argument_offsets(widths)
    packed = bytearray(total * LIMB_BYTES)
    for value, width, offset in zip(args, widths, offsets, strict=True):
        data = to_limbs(value, width)
        packed[offset * LIMB_BYTES : offset * LIMB_BYTES + len(data)] = data
    return bytes(packed)


def _bounds(match: KeyMatch, width: int) -> tuple[int, int]:
    match match:
        case Exact(value) | Lpm(value):
            return value, prefix_mask(match, width)
        case Ternary(value, mask):
            return value, mask
        case Range(low, high):
            return low, high
