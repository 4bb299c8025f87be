# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Tables of the native engine: rows are encoded here and stored by tables.c."""

from __future__ import annotations

import ctypes
import struct
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from softswitch.native.limbs import LIMB_BITS, LIMB_BYTES, argument_offsets, limbs, to_limbs
from softswitch.native.runtime_library import present, runtime
from softswitch.program import ir
from softswitch.runtime.engine import TIMESTAMP_MASK
from softswitch.runtime.entries import CounterValue, KeyMatch, Lpm, MeterRates, Range, Ternary
from softswitch.runtime.tables import prefix_mask

RANKED, HASHED, PREFIX = range(3)  # SS_RANKED, SS_EXACT, SS_PREFIX of runtime.h
SET = 0xFFFFFFFF  # SS_SET of engine.h
_Cell = ctypes.c_uint64 * 2


class NativeRow:
    """A row of a table, which owns a ``struct ss_row``."""

    __slots__ = ("__weakref__", "address", "choices", "counts")

    def __init__(self, address: int, counts: bool, choices: Sequence[NativeRow] = ()) -> None:
        self.address = address
        self.counts = counts
        self.choices = choices  # whose addresses are in C

    @property
    def cell(self) -> Any:
        """The counter: packets and bytes."""
        assert self.counts, "only rows of tables with a direct counter are written"
        return _Cell.from_address(runtime().ss_row_cell(self.address))

    def __del__(self, _at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        if not _at_exit():  # the packet loop may still use it
            runtime().ss_row_free(self.address)


class NativeTable:
    """A :class:`softswitch.runtime.tables.Backend` for table ``number`` of the ``struct ss_machine`` at ``machine``."""

    def __init__(
        self,
        machine: int,
        number: int,
        table: ir.Table,
        actions: Mapping[int, ir.Action],
        clock: Callable[[], int],
    ) -> None:
        self._clock = clock
        self._machine = machine
        self._number = number
        self._table = table
        self._kind = kind_of(table)
        widths = [[parameter.width for parameter in actions[index].parameters] for index in table.actions]
        self._arguments = [ActionDataPacking(each) for each in widths]
        self._key = KeyPacking(table)
        field = runtime().ss_field
        ranges = [field(limbs(key.width), key.kind is ir.MatchKind.RANGE) for key in table.keys]
        self._fields = (field * len(ranges))(*ranges)
        self._address = 0
        # What packets use. Rows of the other kinds of tables are kept by who changes them.
        self._ranked: Sequence[NativeRow] = ()
        self._default: NativeRow | None = None

    def row(
        self,
        key: tuple[KeyMatch, ...] | None,
        position: int,
        args: tuple[int, ...],
        counter: CounterValue | None,
    ) -> NativeRow:
        packed_key, key_limbs = b"", 0
        if key is not None:
            packed_key, key_limbs = self._key.pack(key), self._key.limbs
        packed_args = self._arguments[position].pack(args)
        address = runtime().ss_row_new(
            position,
            key is not None,
            packed_args,
            len(packed_args) // LIMB_BYTES,
            packed_key,
            key_limbs,
            self._kind != HASHED,
            counter is not None,
        )
        row = NativeRow(present(address), counter is not None)
        if counter is not None:
            self.write_counter(row, counter)
        return row

    def rows(
        self, keys: Sequence[tuple[KeyMatch, ...]], position: int, args: Sequence[tuple[int, ...]], *, counts: bool
    ) -> list[NativeRow]:
        packing = self._arguments[position]
        addresses = array("Q", bytes(LIMB_BYTES * len(keys)))
        made = runtime().ss_rows_new(
            position,
            packing.pack_all(args),
            packing.limbs,
            self._key.pack_all(keys),
            self._key.limbs,
            self._kind != HASHED,
            counts,
            len(keys),
            addresses.buffer_info()[0],
        )
        present(made)
        return [NativeRow(address, counts) for address in addresses]

    def row_of_set(
        self, key: tuple[KeyMatch, ...], calls: Sequence[tuple[int, tuple[int, ...]]], counter: CounterValue | None
    ) -> NativeRow:
        choices = [self._choice(*call) for call in calls]
        words = array("Q", [len(choices), *[choice.address for choice in choices]]).tobytes()
        address = runtime().ss_row_new(
            SET,
            True,
            words,
            len(words) // LIMB_BYTES,
            self._key.pack(key),
            self._key.limbs,
            self._kind != HASHED,
            counter is not None,
        )
        row = NativeRow(present(address), counter is not None, choices)
        if counter is not None:
            self.write_counter(row, counter)
        return row

    def _choice(self, position: int, args: tuple[int, ...]) -> NativeRow:
        packed = self._arguments[position].pack(args)
        address = runtime().ss_row_new(position, True, packed, len(packed) // LIMB_BYTES, b"", 0, False, False)
        return NativeRow(present(address), False)

    def publish(self, rows: Sequence[NativeRow], default: NativeRow) -> None:
        addresses = _addresses(rows)
        table = runtime().ss_table_new(
            self._fields, len(self._fields), self._kind, addresses.buffer_info()[0], len(rows), default.address
        )
        if not runtime().ss_machine_publish(self._machine, self._number, present(table)):
            raise AssertionError(f"there is no table {self._number} in C")
        self._address = table
        # Only now may the rows published before be freed.
        self._ranked = rows if self._kind == RANKED else ()
        self._default = default

    def change(self, removed: Sequence[NativeRow], put: Sequence[NativeRow], default: NativeRow) -> None:
        old, new = _addresses(removed), _addresses(put)
        present(
            runtime().ss_table_change(
                self._address, old.buffer_info()[0], len(old), new.buffer_info()[0], len(new), default.address
            )
        )
        self._default = default

    def set_meter(self, row: NativeRow, rates: MeterRates | None) -> None:
        numbers = meter_numbers(rates, self._clock() & TIMESTAMP_MASK)
        if not runtime().ss_row_set_meter(row.address, *numbers):
            present(None)

    def read_counter(self, row: NativeRow) -> CounterValue | None:
        return CounterValue(*row.cell[:2]) if row.counts else None

    def write_counter(self, row: NativeRow, value: CounterValue) -> None:
        cell = row.cell
        cell[0], cell[1] = value.packets, value.bytes


def meter_numbers(rates: MeterRates | None, now_us: int) -> tuple[float, int, float, int, int, bool]:
    """Return a meter's configuration for C: rates per microsecond, bursts, the time, and whether it is configured."""
    used = rates or MeterRates(0, 0, 0, 0)
    return used.committed / 1e6, used.committed_burst, used.peak / 1e6, used.peak_burst, now_us, rates is not None


def kind_of(table: ir.Table) -> int:
    match table.kind:
        case ir.MatchKind.EXACT:
            return HASHED
        case ir.MatchKind.LPM:
            return PREFIX
        case _:
            return RANKED


def _addresses(rows: Sequence[NativeRow]) -> array[int]:
    return array("Q", [row.address for row in rows])


class ActionDataPacking:
    """Packs numbers of these widths as action data, in the layout of engine.h."""

    def __init__(self, widths: Sequence[int]) -> None:
        self._widths = widths
        self._offsets, self.limbs = argument_offsets(widths)
        # Where each number takes a limb, which is usual, one call writes them all.
        self._whole = struct.Struct(f"={len(widths)}Q").pack if all(width <= LIMB_BITS for width in widths) else None

    def pack(self, numbers: Sequence[int]) -> bytes:
        if self._whole is not None:
            return self._whole(*numbers)
        packed = bytearray(self.limbs * LIMB_BYTES)
        for number, width, offset in zip(numbers, self._widths, self._offsets, strict=True):
            data = to_limbs(number, width)
            packed[offset * LIMB_BYTES : offset * LIMB_BYTES + len(data)] = data
        return bytes(packed)

    def pack_all(self, rows: Sequence[Sequence[int]]) -> bytes:
        """Pack several rows, one after the other."""
        if self._whole is not None:
            return array("Q", chain.from_iterable(rows)).tobytes()
        return b"".join(map(self.pack, rows))


class KeyPacking:
    """Packs keys of a table's rows: all values, then all masks (for a range: low ends, then high ends); in exact tables
    only values. ``limbs``: the limbs of the values."""

    def __init__(self, table: ir.Table) -> None:
        self._widths = [key.width for key in table.keys]
        self._exact = table.kind is ir.MatchKind.EXACT
        self.limbs = sum(limbs(key.width) for key in table.keys)
        count = len(table.keys) * (1 if self._exact else 2)
        one_each = all(key.width <= LIMB_BITS for key in table.keys)
        self._whole = struct.Struct(f"={count}Q").pack if one_each else None

    def pack(self, key: tuple[KeyMatch, ...]) -> bytes:
        if self._exact:
            numbers = [match[0] for match in key]
        else:
            numbers = [*[match[0] for match in key], *map(_second, key, self._widths)]
        if self._whole is not None:
            return self._whole(*numbers)
        widths = self._widths * (1 if self._exact else 2)
        return b"".join(map(to_limbs, numbers, widths))

    def pack_all(self, keys: Sequence[tuple[KeyMatch, ...]]) -> bytes:
        """Pack several keys one after the other: keys of exact and prefix matches only."""
        if self._whole is None:
            return b"".join(map(self.pack, keys))
        fields = list(zip(*keys, strict=True))
        columns = [[match[0] for match in field] for field in fields]
        if not self._exact:
            columns += [_masks(field, width) for field, width in zip(fields, self._widths, strict=True)]
        return array("Q", chain.from_iterable(zip(*columns, strict=True))).tobytes()


def _masks(matches: Sequence[KeyMatch], width: int) -> list[int]:
    """Of one field: there are few prefix lengths."""
    if not isinstance(matches[0], Lpm):
        return [prefix_mask(matches[0], width)] * len(matches)
    lengths = [match[-1] for match in matches]
    masks = {length: prefix_mask(Lpm(0, length), width) for length in set(lengths)}
    return [masks[length] for length in lengths]


def _second(match: KeyMatch, width: int) -> int:
    """The mask, or the high end."""
    return match[1] if isinstance(match, Ternary | Range) else prefix_mask(match, width)
