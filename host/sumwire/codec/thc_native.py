# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""THC's arithmetic in the native kernels, a block at a time, with the bits of :mod:`sumwire.codec.thc_torch`."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire.codec.kernels import LOOK_UP, Blocks, Table, float32, threads
from sumwire.codec.layout import BlockGroup
from sumwire.codec.rotation import PASS_VALUES
from sumwire.codec.seeds import RoundingStream, SignStream
from sumwire.codec.tables import CellTables, ThcTable
from sumwire.codec.thc_torch import Left


class NativeForm:
    """The arithmetic of one round's parts. A part is given by its blocks; its arrays start with its first chunk."""

    def __init__(self, kernels: ctypes.CDLL, table: ThcTable, signs: SignStream, rounding: RoundingStream) -> None:
        self._kernels = kernels
        self._sign_key = signs.base
        self._rounding_key = rounding.key
        # The table points into the columns, so both are kept.
        self._table, self._columns = _kernel_table(table)

    def encode(
        self,
        x: Tensor,
        part: tuple[BlockGroup, ...],
        to_grid: NDArray[np.float32],
        out: NDArray[np.uint8],
        left: Left | None,
    ) -> None:
        """See TorchForm."""
        for group, chunks in _with_chunks(part):
            place = slice(group.first_value, group.first_value + group.values)
            values = float32(x[place])
            self._kernels.codec_thc_encode(
                self._blocks(group, len(x)), self._table, self._rounding_key, group.first_value,
                values.data_ptr(), len(values), to_grid[group.first_block :].ctypes.data,
                out[chunks].ctypes.data, out.strides[0],
                None if left is None else left.from_grid[chunks].ctypes.data,
                None if left is None else left.target[place].data_ptr(),
            )  # fmt: skip

    def decode(
        self,
        part: tuple[BlockGroup, ...],
        words: NDArray[np.uint8],
        middle: NDArray[np.float32],
        from_grid: NDArray[np.float32],
        target: Tensor,
    ) -> None:
        """See TorchForm."""
        for group, chunks in _with_chunks(part):
            here = target[group.first_value : group.first_value + group.values]
            self._kernels.codec_thc_decode(
                self._blocks(group, len(target)), words[chunks].ctypes.data, words.strides[0],
                middle[chunks].ctypes.data, from_grid[chunks].ctypes.data, here.data_ptr(), len(here),
            )  # fmt: skip

    def largest_sums(self, words: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the largest sum of every chunk, shape (chunks,)."""
        largest = np.empty(len(words), np.uint8)
        self._kernels.codec_largest_sums(words.ctypes.data, words.strides[0], len(words), largest.ctypes.data)
        return largest

    def _blocks(self, group: BlockGroup, tensor_values: int) -> Blocks:
        used = min(threads(), group.blocks) if group.blocks > 1 else 1
        blocks = Blocks(self._sign_key, group.first_block, group.blocks, group.block_values, used, tensor_values)
        if group.block_values > PASS_VALUES:
            work = torch.empty(used * group.block_values, dtype=torch.float32)
            blocks.work = work.data_ptr()
            # The structure only has the address.
            blocks.kept = work
        return blocks


@functools.lru_cache(maxsize=16)
def _kernel_table(table: ThcTable) -> tuple[Table, list[NDArray[np.float32]]]:
    """The kernels' table, and the arrays that it points into."""
    cells = CellTables.of(table)
    columns = [
        np.pad(column, (0, max(LOOK_UP - len(column), 0))) for column in (cells.slope, cells.offset, cells.levels)
    ]
    return Table(table.granularity, table.granularity / 2, *(column.ctypes.data for column in columns)), columns


def _with_chunks(part: tuple[BlockGroup, ...]) -> Iterator[tuple[BlockGroup, slice]]:
    """Every group with its chunks, counted from the part's first."""
    first = part[0].first_chunk
    return ((group, slice(group.first_chunk - first, group.last_chunk - first)) for group in part)
