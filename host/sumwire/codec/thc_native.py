# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""THC's arithmetic in the native kernels, a block at a time, with the bits of :mod:`sumwire.codec.thc_torch`."""

from __future__ import annotations

import ctypes
import functools

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire.codec.kernels import LOOK_UP, Blocks, Table, address, float32, threads
from sumwire.codec.layout import BlockGroup, Layout
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
        self._table, self._columns, self._increment = _kernel_table(table)
        self._granularity = table.granularity
        self._most = table.max_workers

    def encode(
        self,
        x: Tensor,
        part: tuple[BlockGroup, ...],
        to_grid: NDArray[np.float32],
        out: NDArray[np.uint8],
        left: Left | None,
    ) -> None:
        """See TorchForm."""
        plain = x.dtype == torch.float32 and x.is_contiguous()
        length, shared, first = len(x), threads(), part[0].first_chunk
        at_x, at_scales, at_words, stride = x.data_ptr(), address(to_grid), address(out), out.strides[0]
        at_cells, at_left = (0, 0) if left is None else (address(left.from_grid), left.target.data_ptr())
        for group in part:
            place, chunk = group.first_value, group.first_chunk - first
            present = min(group.values, length - place)
            # The copy is held until the kernel is done.
            values = None if plain else float32(x[place : place + present])
            self._kernels.codec_thc_encode(
                self._blocks(group, length, shared), self._table, self._rounding_key, place,
                at_x + 4 * place if values is None else values.data_ptr(), present,
                at_scales + 4 * group.first_block, at_words + stride * chunk, stride,
                None if left is None else at_cells + 4 * chunk, None if left is None else at_left + 4 * place,
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
        length, shared, first = len(target), threads(), part[0].first_chunk
        at_words, stride, at_target = address(words), words.strides[0], target.data_ptr()
        at_middle, at_cells = address(middle), address(from_grid)
        for group in part:
            place, chunk = group.first_value, group.first_chunk - first
            self._kernels.codec_thc_decode(
                self._blocks(group, length, shared), at_words + stride * chunk, stride, at_middle + 4 * chunk,
                at_cells + 4 * chunk, at_target + 4 * place, min(group.values, length - place),
            )  # fmt: skip

    def take_scales(
        self,
        norms: NDArray[np.uint32],
        bounds: tuple[float, float],
        block_chunks: NDArray[np.intp],
        scales: tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float32]],
    ) -> bool:
        """Set the scales of blocks, unless some norm (float32 bits) is out of bounds. Returns whether it has.

        scales: grid cells per unit of H D x, by block; by chunk what a grid cell adds, and the same in float32.
        """
        return bool(
            self._kernels.codec_thc_scales(
                address(np.ascontiguousarray(norms)), address(block_chunks), len(norms), *bounds, self._increment,
                *(address(scale) for scale in scales),
            )
        )  # fmt: skip

    def decode_usual(
        self,
        part: tuple[BlockGroup, ...],
        words: NDArray[np.uint8],
        counts: NDArray[np.int64],
        target: Tensor,
        *,
        divisor: int | None,
        cells: NDArray[np.float64],
    ) -> bool:
        """`decode`, unless some count is 0 or too large, or some sum. Returns whether it has; if not, the part's place
        in `target` means nothing.

        divisor: what sums are divided by, None for their own counts. cells: what a grid cell adds, by chunk.
        """
        counts = np.ascontiguousarray(counts)
        length, shared, first = len(target), threads(), part[0].first_chunk
        at_words, stride, at_target = address(words), words.strides[0], target.data_ptr()
        at_counts, at_cells = address(counts), address(cells)
        for group in part:
            place, chunk = group.first_value, group.first_chunk - first
            if not self._kernels.codec_thc_decode_usual(
                self._blocks(group, length, shared), at_words + stride * chunk, stride, at_counts + 8 * chunk,
                self._most, self._granularity, divisor or 0, at_cells + 8 * chunk, at_target + 4 * place,
                min(group.values, length - place),
            ):  # fmt: skip
                return False
        return True

    def largest_sums(self, words: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the largest sum of every chunk, shape (chunks,)."""
        largest = np.empty(len(words), np.uint8)
        self._kernels.codec_largest_sums(words.ctypes.data, words.strides[0], len(words), largest.ctypes.data)
        return largest

    def _blocks(self, group: BlockGroup, tensor_values: int, shared: int) -> Blocks:
        used = min(shared, group.blocks)
        blocks = Blocks(self._sign_key, group.first_block, group.blocks, group.block_values, used, tensor_values)
        if group.block_values > PASS_VALUES:
            work = torch.empty(used * group.block_values, dtype=torch.float32, device="cpu")
            blocks.work = work.data_ptr()
            # The structure only has the address.
            blocks.kept = work
        return blocks


def usual_norms(
    kernels: ctypes.CDLL, chunk_sums: NDArray[np.float32], cut: Layout, bounds: tuple[float, float]
) -> NDArray[np.float32] | None:
    """Return the blocks' norms from their chunks' sums of squares; None if a block's sum is not within bounds."""
    norms = np.empty(cut.blocks, np.float32)
    usual = kernels.codec_thc_norms(
        address(chunk_sums), len(chunk_sums), address(cut.block_chunks), cut.blocks, *bounds, address(norms)
    )
    return norms if usual else None


@functools.lru_cache(maxsize=16)
def _kernel_table(table: ThcTable) -> tuple[Table, list[NDArray[np.float32]], float]:
    """The kernels' table, the arrays that it points into, and the table's increment."""
    cells = CellTables.of(table)
    columns = [
        np.pad(column, (0, max(LOOK_UP - len(column), 0))) for column in (cells.slope, cells.offset, cells.levels)
    ]
    kernels_own = Table(table.granularity, table.granularity / 2, *map(address, columns))
    return kernels_own, columns, table.increment
