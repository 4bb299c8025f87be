# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""THC's arithmetic in torch and numpy: used on CUDA, and the reference that the native kernels equal bit by bit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire.codec import planes
from sumwire.codec.fields import Fields
from sumwire.codec.layout import CHUNK_VALUES, BlockGroup
from sumwire.codec.rotation import Hadamard, tile_rows
from sumwire.codec.seeds import RoundingStream, SignStream
from sumwire.codec.tables import CellTables, ThcTable

# From here to 2**24 a float's last bit is 1: adding it to a number below 2**22 rounds that to a whole number, to even,
# and leaves it in the low bits.
_WHOLE: Final = 2.0**23


@dataclass(frozen=True, slots=True)
class Left:
    """Where what a part leaves out goes: `target` is the whole tensor's. `from_grid`, by chunk of the part: the value
    of a grid cell, 0 for a chunk that is not in the sum.
    """

    target: Tensor
    from_grid: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Tile:
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


def _tiles(groups: Iterable[BlockGroup]) -> Iterator[_Tile]:
    for group in groups:
        step = tile_rows(group.block_values)
        for first in range(0, group.blocks, step):
            blocks = min(step, group.blocks - first)
            first_value = group.first_value + first * group.block_values
            yield _Tile(group.first_block + first, blocks, group.block_values, first_value)


class TorchForm:
    """The arithmetic of one round's parts. A part is given by its blocks; its arrays start with its first chunk."""

    def __init__(self, table: ThcTable, signs: SignStream, rounding: RoundingStream) -> None:
        self._granularity = table.granularity
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
        """Write the index planes of a part to `out`, and what they leave out of x to its place in `left`.

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
            out[chunks] = planes.pack_index_planes(indices)
            if left is not None:
                levels = self._levels.index_select(0, z.to(torch.int32)).view(-1, CHUNK_VALUES)
                torch.mul(levels, self._column(left.from_grid[chunks]), out=rotated.view(-1, CHUNK_VALUES))
                here = left.target[tile.values]
                self._unrotate(hadamard, rotated.view(-1), tile, here)
                torch.sub(x[tile.values], here, out=here)

    def decode(
        self,
        part: tuple[BlockGroup, ...],
        words: NDArray[np.uint8],
        middle: NDArray[np.float32],
        from_grid: NDArray[np.float32],
        target: Tensor,
    ) -> None:
        """Write the values of a part's sum planes to its place in `target`.

        They are D H y, y = (sum - middle) * from_grid; `middle` and `from_grid` are by chunk.
        """
        hadamard, scratch, first = Hadamard(), self._scratch(part), part[0].first_chunk
        for tile in _tiles(part):
            chunks = tile.chunks(first)
            rotated = scratch[: tile.size]
            by_chunk = rotated.view(-1, CHUNK_VALUES)
            by_chunk.copy_(torch.from_numpy(planes.unpack_sum_planes(words[chunks])))
            by_chunk.sub_(self._column(middle[chunks])).mul_(self._column(from_grid[chunks]))
            self._unrotate(hadamard, rotated, tile, target[tile.values])

    def largest_sums(self, words: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the largest sum of every chunk, shape (chunks,)."""
        step = max(1, planes.REFLECT_CHUNKS)
        parts = [planes.unpack_sum_planes(words[i : i + step]).max(axis=1) for i in range(0, len(words), step)]
        return np.concatenate(parts)

    def _rotate(self, hadamard: Hadamard, x: Tensor, tile: _Tile, rotated: Tensor) -> None:
        """H D x, not normalised, of blocks padded with 0."""
        signs = self._signs.signs(tile.first_block, *tile.shape).view(-1)
        here = x[tile.values]
        flipped = rotated.view(-1)
        torch.mul(here, signs[: len(here)], out=flipped[: len(here)])
        flipped[len(here) :] = 0.0
        hadamard(rotated, rotated)

    def _unrotate(self, hadamard: Hadamard, y: Tensor, tile: _Tile, target: Tensor) -> None:
        """Write D H y, not normalised, to `target`, which ends where the tensor does. Overwrites y."""
        hadamard(y.view(tile.shape), y.view(tile.shape), upwards=True)
        signs = self._signs.signs(tile.first_block, *tile.shape).view(-1)
        torch.mul(y[: len(target)], signs[: len(target)], out=target)

    def _round(self, v: Tensor, to_grid: Tensor, tile: _Tile) -> Tensor:
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
    """TorchForm where grid points 0..granularity travel themselves, each a level."""

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

        y are the values times the cell of their block; `cells` are those of the tensor's blocks.
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
        """Return the fields of chunks less their middle, times their share; both are by chunk."""
        found = fields.unpack(words).astype(np.float32)
        found -= middle[:, None]
        found *= shares[:, None]
        return found.reshape(-1)
