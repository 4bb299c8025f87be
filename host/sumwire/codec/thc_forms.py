# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""THC's arithmetic in two forms that give equal bits: :class:`TorchForm` in torch and numpy, used on CUDA, and
:class:`NativeForm` in the native kernels, a block at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from nativelib.declarations import Native
from numpy.typing import NDArray
from torch import Tensor

from sumwire.codec import layout
from sumwire.codec.kernels import LOOK_UP, address, float32, threads
from sumwire.codec.layout import CHUNK_VALUES, BlockGroup, Layout
from sumwire.codec.rotation import PASS_VALUES, Hadamard, tile_rows
from sumwire.codec.seeds import RoundingStream, SignStream
from sumwire.codec.sum32 import Fields
from sumwire.codec.tables import CellTables, ThcTable

# From here to 2**24 a float's last bit is 1: adding it to a number below 2**22 rounds that to a whole number, to even,
# and leaves it in the low bits.
_WHOLE: Final = 2.0**23


@dataclass(frozen=True, slots=True)
class Left:
    """Where the residual of a part goes: `target` is that of the whole tensor. `from_grid`, by chunk of the part: the
    value of a grid cell, 0 for a chunk that is not in the sum."""

    target: Tensor
    from_grid: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _BlockTile:
    """Whole blocks of one size that are processed together, few enough to stay in cache."""

    first_block: int
    blocks: int
    block_values: int
    first_value: int

    @property
    def size(self) -> int:
        return self.blocks * self.block_values

    @property
    def values(self) -> slice:
        return slice(self.first_value, self.first_value + self.size)

    @property
    def rows(self) -> slice:
        return slice(self.first_block, self.first_block + self.blocks)

    @property
    def shape(self) -> tuple[int, int]:
        return self.blocks, self.block_values

    def chunks(self, first: int) -> slice:
        """The tile's chunks, counted from chunk `first`."""
        return slice(self.values.start // CHUNK_VALUES - first, self.values.stop // CHUNK_VALUES - first)


def _tiles(groups: Iterable[BlockGroup]) -> Iterator[_BlockTile]:
    for group in groups:
        step = tile_rows(group.block_values)
        for first in range(0, group.blocks, step):
            blocks = min(step, group.blocks - first)
            first_value = group.first_value + first * group.block_values
            yield _BlockTile(group.first_block + first, blocks, group.block_values, first_value)


class TorchForm:
    """Encodes and decodes the parts of one round in PyTorch.

    A part is given by its blocks; its arrays start with its first chunk. `lanes`: chunks are a byte for each value,
    table values and their sums, not planes of indices and of sums.
    """

    lanes = False

    def __init__(self, table: ThcTable, signs: SignStream, rounding: RoundingStream) -> None:
        self._granularity = table.granularity
        self._values = np.array(table.values, np.uint8)
        self._signs = signs
        self._rounding = rounding
        cells = CellTables.of(table)
        self._slope, self._offset, self._levels = (
            torch.from_numpy(column).to(signs.device) for column in (cells.slope, cells.offset, cells.levels)
        )

    def encode(
        self,
        x: Tensor,
        part: tuple[BlockGroup, ...],
        to_grid: NDArray[np.float32],
        out: NDArray[np.uint8],
        left: Left | None,
    ) -> None:
        """Write the indices of a part, or their values, to `out`, and its residual to its place in `left`.

        to_grid: grid cells per unit of H D x, by block of the tensor.
        """
        hadamard, scratch, first = Hadamard(), self._scratch(part), part[0].first_chunk
        cells = torch.from_numpy(to_grid).to(x.device)[:, None]
        for tile in _tiles(part):
            rotated = scratch[: tile.size].view(tile.shape)
            self._rotate(hadamard, x, tile, rotated)
            z = self._round(rotated, cells[tile.rows], tile)
            indices = z.view(-1, CHUNK_VALUES).cpu().numpy()
            chunks = tile.chunks(first)
            if self.lanes:
                out[chunks] = self._values[indices].reshape(out[chunks].shape)
            else:
                out[chunks] = layout.pack_index_planes(indices)
            if left is not None:
                levels = self._levels.index_select(0, z.to(torch.int32)).view(-1, CHUNK_VALUES)
                torch.mul(levels, self._column(left.from_grid[chunks]), out=rotated.view(-1, CHUNK_VALUES))
                here = left.target[tile.values]
                self._unrotate(hadamard, rotated.view(-1), tile, here)
                torch.sub(x[tile.values], here, out=here)

    def ranges(self, x: Tensor, cut: Layout) -> NDArray[np.float32]:
        """Return the largest magnitude of H D x by block of a tensor, shape (blocks,)."""
        hadamard, scratch = Hadamard(), self._scratch(cut.groups)
        found = np.empty(cut.blocks, np.float32)
        for tile in _tiles(cut.groups):
            rotated = scratch[: tile.size].view(tile.shape)
            self._rotate(hadamard, x, tile, rotated)
            found[tile.rows] = rotated.abs_().amax(dim=1).cpu().numpy()
        return found

    def decode(
        self,
        part: tuple[BlockGroup, ...],
        words: NDArray[np.uint8],
        middle: NDArray[np.float32],
        from_grid: NDArray[np.float32],
        target: Tensor,
    ) -> None:
        """Write the values of a part's sums to its place in `target`.

        They are D H y, y = (sum - middle) * from_grid; `middle` and `from_grid` are by chunk.
        """
        hadamard, scratch, first = Hadamard(), self._scratch(part), part[0].first_chunk
        for tile in _tiles(part):
            chunks = tile.chunks(first)
            rotated = scratch[: tile.size]
            by_chunk = rotated.view(-1, CHUNK_VALUES)
            by_chunk.copy_(torch.from_numpy(self._sums(words[chunks])))
            by_chunk.sub_(self._column(middle[chunks])).mul_(self._column(from_grid[chunks]))
            self._unrotate(hadamard, rotated, tile, target[tile.values])

    def largest_sums(self, words: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the largest sum of every chunk, shape (chunks,)."""
        step = max(1, layout.REFLECT_CHUNKS)
        parts = [self._sums(words[i : i + step]).max(axis=1) for i in range(0, len(words), step)]
        return np.concatenate(parts)

    def _sums(self, words: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The sums in words, uint8 (chunks, 1024)."""
        return words.reshape(len(words), -1) if self.lanes else layout.unpack_sum_planes(words)

    def _rotate(self, hadamard: Hadamard, x: Tensor, tile: _BlockTile, rotated: Tensor) -> None:
        """H D x, not normalised, of blocks padded with 0."""
        signs = self._signs.signs(tile.first_block, *tile.shape).view(-1)
        here = x[tile.values]
        flipped = rotated.view(-1)
        torch.mul(here, signs[: len(here)], out=flipped[: len(here)])
        flipped[len(here) :] = 0.0
        hadamard(rotated, rotated)

    def _unrotate(self, hadamard: Hadamard, y: Tensor, tile: _BlockTile, target: Tensor) -> None:
        """Write D H y, not normalised, to `target`, which ends where the tensor does. Overwrites y."""
        hadamard(y.view(tile.shape), y.view(tile.shape), upwards=True)
        signs = self._signs.signs(tile.first_block, *tile.shape).view(-1)
        torch.mul(y[: len(target)], signs[: len(target)], out=target)

    def _round(self, v: Tensor, to_grid: Tensor, tile: _BlockTile) -> Tensor:
        """Indices of one tile, uint8, flat: each real index plus a random number, rounded down."""
        g = self._granularity
        w = v.mul_(to_grid).add_(g / 2).clamp_(0, g).view(-1)
        cell = w.to(torch.int32)
        position = w.mul_(self._slope.index_select(0, cell)).add_(self._offset.index_select(0, cell))
        drawn = self._rounding.numbers(tile.first_value, len(w)).add_(position.add_(_WHOLE).view(torch.int32))
        return drawn.bitwise_right_shift_(16).bitwise_and_(15).to(torch.uint8)

    def _column(self, by_chunk: NDArray[np.float32]) -> Tensor:
        return torch.from_numpy(by_chunk).to(self._signs.device)[:, None]

    def _scratch(self, part: tuple[BlockGroup, ...]) -> Tensor:
        """Room for the largest tile, small enough to stay in cache."""
        most = max(tile.size for tile in _tiles(part))
        return torch.empty(most, dtype=torch.float32, device=self._signs.device)


class GridForm(TorchForm):
    """A TorchForm that sends the grid points 0..granularity themselves; each is a level."""

    def points(self, x: Tensor, part: tuple[BlockGroup, ...], to_grid: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Return the grid points of a part's values, padding included.

        to_grid: grid cells per unit of H D x, by block of the tensor.
        """
        hadamard, scratch, g = Hadamard(), self._scratch(part), self._granularity
        cells = torch.from_numpy(to_grid).to(x.device)[:, None]
        points = []
        for tile in _tiles(part):
            rotated = scratch[: tile.size].view(tile.shape)
            self._rotate(hadamard, x, tile, rotated)
            w = rotated.mul_(cells[tile.rows]).add_(g / 2).clamp_(0, g).view(-1)
            # Up: by chance, so that a position is right on average. Adding may round 255.99.. up to 256.
            w.add_(self._rounding.uniform(tile.first_value, len(w))).floor_().clamp_(max=g)
            points.append(w.to("cpu", torch.uint8).numpy())
        return np.concatenate(points)

    def write(
        self, values: NDArray[np.float32], part: tuple[BlockGroup, ...], cells: NDArray[np.float32], target: Tensor
    ) -> None:
        """Write D H y of a part's values y, padding included, to its place in `target`. Overwrites the values.

        y are the values times the grid cell of their block; `cells` has the grid cells of all the tensor's blocks.
        """
        hadamard, first = Hadamard(), part[0].first_value
        whole = torch.from_numpy(values).to(self._signs.device)
        column = torch.from_numpy(cells).to(self._signs.device)[:, None]
        for tile in _tiles(part):
            y = whole[tile.values.start - first : tile.values.stop - first]
            y.view(tile.shape).mul_(column[tile.rows])
            self._unrotate(hadamard, y, tile, target[tile.values])

    def pack(self, fields: Fields, points: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Write the points of whole blocks to chunks, with zeros after them."""
        padded = np.zeros(len(out) * fields.chunk_values, np.int32)
        padded[: len(points)] = points
        out[:] = fields.pack(padded)

    def values(
        self, fields: Fields, words: NDArray[np.uint8], middle: NDArray[np.float32], shares: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Unpack the fields of chunks, subtract `middle` and multiply by `shares`, both by chunk."""
        found = fields.unpack(words).astype(np.float32)
        found -= middle[:, None]
        found *= shares[:, None]
        return found.reshape(-1)


class NativeForm:
    """Encodes and decodes the parts of one round in C. A part, and `lanes`, are given as for TorchForm."""

    lanes = False

    def __init__(self, kernels: Native, table: ThcTable, signs: SignStream, rounding: RoundingStream) -> None:
        self._kernels = kernels
        self._sign_key = signs.base
        self._rounding = rounding.key, rounding.flipped
        # The table points into the columns, so both are kept.
        self._table, self._columns, self._increment = _kernel_table(kernels, table)
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
                self._blocks(group, length, shared), self._table, *self._rounding, place,
                at_x + 4 * place if values is None else values.data_ptr(), present,
                at_scales + 4 * group.first_block, at_words + stride * chunk, stride,
                None if left is None else at_cells + 4 * chunk, None if left is None else at_left + 4 * place,
            )  # fmt: skip

    def ranges(self, x: Tensor, cut: Layout) -> NDArray[np.float32]:
        """See TorchForm."""
        values, shared = float32(x), threads()
        found = np.empty(cut.blocks, np.float32)
        for group in cut.groups:
            self._kernels.codec_thc_ranges(
                self._blocks(group, len(x), shared), values.data_ptr() + 4 * group.first_value,
                min(group.values, len(x) - group.first_value), address(found) + 4 * group.first_block,
            )  # fmt: skip
        return found

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
        """Compute the scales of blocks. Returns False, and computes nothing, if some norm (float32 bits) is out of
        bounds.

        scales: grid cells per unit of H D x, by block; then the value of a grid cell by chunk, and the same in float32.
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
        """Like `decode`, for the usual case. Returns False if some count is 0 or too large, or some sum is too large;
        the part's place in `target` is then undefined.

        divisor: what sums are divided by, None for their own counts. cells: the value of a grid cell, by chunk.
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
        self._kernels.codec_largest_sums(
            words.ctypes.data, words.strides[0], len(words), self.lanes, largest.ctypes.data
        )
        return largest

    def _blocks(self, group: BlockGroup, tensor_values: int, shared: int) -> Any:
        used = min(shared, group.blocks)
        blocks = self._kernels.codec_blocks(
            self._sign_key, group.first_block, group.blocks, group.block_values, used, tensor_values, self.lanes
        )
        if group.block_values > PASS_VALUES:
            work = torch.empty(used * group.block_values, dtype=torch.float32, device="cpu")
            blocks.work = work.data_ptr()
            # The structure only has the address.
            blocks.kept = work
        return blocks


def usual_norms(
    kernels: Native, chunk_sums: NDArray[np.float32], cut: Layout, bounds: tuple[float, float]
) -> NDArray[np.float32] | None:
    """Return the blocks' norms from their chunks' sums of squares; None if some block's sum is out of bounds."""
    norms = np.empty(cut.blocks, np.float32)
    usual = kernels.codec_thc_norms(
        address(chunk_sums), len(chunk_sums), address(cut.block_chunks), cut.blocks, *bounds, address(norms)
    )
    return norms if usual else None


@functools.lru_cache(maxsize=16)
def _kernel_table(kernels: Native, table: ThcTable) -> tuple[Any, list[NDArray[np.float32]], float]:
    """The kernels' table, the arrays that it points into, and the table's increment."""
    cells = CellTables.of(table)
    values = np.array(table.values, np.float32)
    columns = [
        np.pad(column, (0, max(LOOK_UP - len(column), 0)))
        for column in (cells.slope, cells.offset, cells.levels, values)
    ]
    kernels_own = kernels.codec_table(table.granularity, table.granularity / 2, *map(address, columns))
    return kernels_own, columns, table.increment
