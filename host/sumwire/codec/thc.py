# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""THC: tensor homomorphic compression (Li et al., NSDI'24, arXiv 2302.08545), non-uniform, with a norm per block.

One round of a worker:
1. x is cut into blocks; each block's L2 norm goes out (`norms`), and the largest of all workers comes back.
2. Meanwhile v = RHT(x) (`rotate`).
3. s = sqrt(d) / largest norm makes v about standard normal. s v, clamped to +-t_p and put on the grid 0..g, is
   rounded at random to one of the two table values around it (`encode`): unbiased, except where it was clamped.
4. The switch adds table values; (sum / k - g / 2) increment / s is the mean of the k contributors (`decode`).
5. What clamping and rounding changed is RHT^-1(v - q / s) (`residual`), for error feedback.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire import _p4 as p4
from sumwire.codec import planes
from sumwire.codec.base import CodecInfo, CodecRound, GradientCodec
from sumwire.codec.errors import CodecError, CountError, NonFiniteError, NormRangeError, StageError, SumRangeError
from sumwire.codec.layout import CHUNK_VALUES, BlockGroup, Layout, check_block, layout
from sumwire.codec.rotation import Hadamard, half_scale, rest_scale, tile_rows
from sumwire.codec.seeds import RoundingStream, SignStream
from sumwire.codec.tables import SUM_MAX, ThcTable

BLOCK_VALUES: Final = 4096
# Norms beyond these are refused, or count as zero: within, nothing overflows or is lost to float32 subnormals.
NORM_MAX: Final = 2.0**96
NORM_MIN: Final = 2.0**-96
# Between these a float32 sum of squares is exact enough; a norm outside is computed again in float64.
_PLAIN_NORMS: Final = (2.0**-40, 2.0**60)
_DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True)
class _Tile:
    """Whole blocks of one size that are worked on together, so that they stay in cache."""

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
    def chunks(self) -> slice:
        return slice(self.values.start // CHUNK_VALUES, self.values.stop // CHUNK_VALUES)

    @property
    def shape(self) -> tuple[int, int]:
        return self.blocks, self.block_values


def _tiles(cut: Layout) -> Iterator[_Tile]:
    for group in cut.groups:
        step = tile_rows(group.block_values)
        for first in range(0, group.blocks, step):
            blocks = min(step, group.blocks - first)
            first_value = group.first_value + first * group.block_values
            yield _Tile(group.first_block + first, blocks, group.block_values, first_value)


@dataclass(frozen=True, slots=True)
class _CellTables:
    """The table on one device. A grid position w in cell c lies at index slope[c] w + offset[c] (a real number);
    index z lies at levels[z], a grid position counted from the middle."""

    slope: Tensor
    offset: Tensor
    levels: Tensor

    @classmethod
    def of(cls, table: ThcTable, device: torch.device) -> _CellTables:
        cells = np.arange(table.granularity + 1)
        values = np.array(table.values)
        lower = np.searchsorted(values, cells, side="right") - 1
        gaps = np.append(np.diff(values), 1)[lower]
        # The position w = g is the last index itself, with nothing above it to round to.
        slope = np.where(cells < table.granularity, 1.0 / gaps, 0.0)
        offset = np.where(cells < table.granularity, lower - values[lower] / gaps, lower)
        centred = values - table.granularity / 2
        slope_t, offset_t, levels_t = (
            torch.tensor(column, dtype=torch.float32, device=device) for column in (slope, offset, centred)
        )
        return cls(slope_t, offset_t, levels_t)


class ThcCodec(GradientCodec):
    """Non-uniform THC for one worker of one job.

    `table` must be alike on all workers and in the switch. `block` is the rotation's length, a power of two >= 1024,
    or None for the full tensor; alike on all workers. Raises CodecError for a table of more than 4 bits, one whose
    values do not fit a value's sum planes, or an impossible block.
    """

    info: ClassVar[CodecInfo] = CodecInfo(
        name="thc",
        op=p4.OP_THC,
        words_up=p4.THC_INDEX_PLANES,
        words_down=p4.SLOT_WORDS,
        chunk_values=CHUNK_VALUES,
        preliminary_op=p4.OP_MAX32,
    )

    def __init__(self, table: ThcTable, *, job: int, worker: int, block: int | None = BLOCK_VALUES) -> None:
        check_block(block)
        if table.bits > p4.THC_INDEX_PLANES:
            raise CodecError(f"table of {table.bits} bits: an index has {p4.THC_INDEX_PLANES} planes")
        if table.max_workers < 1:
            raise CodecError(f"table of granularity {table.granularity}: a sum holds at most {SUM_MAX}")
        self.table = table
        self.job = job
        self.worker = worker
        self.block = block

    def layout(self, length: int) -> Layout:
        """Blocks (one norm each) and chunks (one packet each) of a tensor of `length` values."""
        return layout(length, self.block)

    def begin(self, x: Tensor, sequence: int, bucket: int) -> ThcRound:
        """Start a round with a flat float32, float16 or bfloat16 tensor, which must not change until `rotate` is done.

        Raises NonFiniteError (NaN, Inf), NormRangeError (a block's norm above 2**96), CodecError (shape, dtype).
        """
        if x.dim() != 1 or x.dtype not in _DTYPES:
            raise CodecError(f"{x.dtype} tensor of shape {tuple(x.shape)}: needs a flat one of {_DTYPES}")
        return ThcRound(self, x.detach(), sequence, bucket)


class ThcRound(CodecRound):
    """One bucket in one round: norms, rotate, encode, then decode and residual in any order."""

    def __init__(self, codec: ThcCodec, x: Tensor, sequence: int, bucket: int) -> None:
        self.layout = codec.layout(x.numel())
        self._table = codec.table
        self._device = x.device
        self._x: Tensor | None = x
        self._signs = SignStream.of(codec.job, sequence, bucket, x.device)
        self._rounding = RoundingStream.of(codec.job, codec.worker, sequence, bucket, x.device)
        self._norms = _block_norms(x, self.layout, f"bucket {bucket} of round {sequence}")
        # In rotated space, per block scaled by half_scale: first v, after `encode` what it left out.
        self._rotated: Tensor | None = None
        self._scales: NDArray[np.float64] | None = None
        self._words: NDArray[np.uint8] | None = None

    def norms(self) -> NDArray[np.uint32]:
        """The blocks' L2 norms as float32 bits, shape (blocks,). Non-negative floats order like their bits, so the
        largest over the workers is an unsigned maximum."""
        return self._norms.view(np.uint32).copy()

    def preliminary(self) -> NDArray[np.uint32]:
        """The norms."""
        return self.norms()

    def prepare(self) -> None:
        """The rotation."""
        self.rotate()

    def rotate(self) -> None:
        """Compute RHT(x), the bulk of the work that needs no norms. Raises StageError the second time."""
        if self._x is None:
            raise StageError("rotate: this round is already rotated")
        x = self._x
        rotated = torch.empty(self.layout.padded_length, dtype=torch.float32, device=self._device)
        hadamard, scratch = Hadamard(), self._scratch()
        for tile in _tiles(self.layout):
            signs = self._signs.signs(*self._sign_arguments(tile), half_scale(tile.block_values)).view(-1)
            here = x[tile.values]
            flipped = scratch[: len(signs)]
            torch.mul(here, signs[: len(here)], out=flipped[: len(here)])
            flipped[len(here) :] = 0.0
            hadamard(flipped.view(tile.shape), rotated[tile.values].view(tile.shape))
        self._rotated = rotated
        self._x = None

    def encode(self, agreed: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """Index planes, shape (chunks, 4, 128), for the agreed largest norms (float32 bits, shape (blocks,)).

        Rotates first if that was not done. Raises CodecError for another shape or dtype, NormRangeError for a norm
        that is not finite or above 2**96, StageError the second time.
        """
        if self._words is not None:
            raise StageError("encode: this round is already encoded")
        scales = self._grid_scales(agreed)
        if self._rotated is None:
            self.rotate()
        rotated = self._rotated
        assert rotated is not None
        tables = _CellTables.of(self._table, self._device)
        inverse = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0)
        to_grid, from_grid = (
            torch.tensor(column, dtype=torch.float32, device=self._device)[:, None] for column in (scales, inverse)
        )
        words = np.empty((self.layout.chunks, p4.THC_INDEX_PLANES, p4.WORD_BYTES), np.uint8)
        for tile in _tiles(self.layout):
            v = rotated[tile.values].view(tile.shape)
            z = self._round(v, to_grid[tile.rows], tables, tile)
            v.sub_(tables.levels.index_select(0, z).view(tile.shape).mul_(from_grid[tile.rows]))
            indices = z.to(torch.uint8).view(-1, CHUNK_VALUES).cpu().numpy()
            words[tile.chunks] = planes.pack_index_planes(indices)
        self._scales = scales
        self._words = words
        return words

    def decode(self, words: NDArray[np.uint8], counts: NDArray[np.integer]) -> Tensor:
        """The contributors' mean, float32, shape (length,), from sum planes (chunks, 8, 128) and counts (chunks,).

        Raises CountError for counts outside 0..max_workers, SumRangeError for a sum above count x granularity,
        CodecError for another shape or dtype, StageError before `encode`.
        """
        counts = self._checked_counts(counts)
        sums = planes.unpack_sum_planes(words)
        self._check_sums(sums, counts)
        centre, factor = self._chunk_factors(counts)
        sums_t = torch.from_numpy(sums).to(self._device)
        result = torch.empty(self.layout.length, dtype=torch.float32, device=self._device)
        hadamard, scratch = Hadamard(), self._scratch()
        for tile in _tiles(self.layout):
            mean = scratch[: tile.size]
            by_chunk = mean.view(-1, CHUNK_VALUES)
            by_chunk.copy_(sums_t[tile.chunks])
            by_chunk.sub_(centre[tile.chunks]).mul_(factor[tile.chunks])
            self._unrotate(hadamard, mean, tile, result[tile.values])
        return result

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """x minus what this worker's indices stand for, float32, shape (length,); with `included`, shape (chunks,),
        the chunks marked False are kept whole. Can be taken once. Raises StageError before `encode` or again."""
        if self._rotated is None or self._words is None:
            raise StageError("residual: comes after encode, once a round")
        left = self._rotated
        if included is not None:
            self._restore_chunks(left, included)
        self._rotated = None
        hadamard, whole = Hadamard(), left[: self.layout.length]
        for tile in _tiles(self.layout):
            self._unrotate(hadamard, left[tile.values], tile, whole[tile.values])
        return whole

    def _round(self, v: Tensor, to_grid: Tensor, tables: _CellTables, tile: _Tile) -> Tensor:
        """Indices of one tile, int32, flat: each real index plus a uniform number, rounded down."""
        g = self._table.granularity
        w = torch.mul(v, to_grid).add_(g / 2).clamp_(0, g).view(-1)
        cell = w.to(torch.int32)
        position = w.mul_(tables.slope.index_select(0, cell)).add_(tables.offset.index_select(0, cell))
        return position.add_(self._rounding.uniform(tile.first_value, len(w))).to(torch.int32)

    def _unrotate(self, hadamard: Hadamard, y: Tensor, tile: _Tile, target: Tensor) -> None:
        """Write the inverse of what `rotate` did to a tile to `target`, which ends where the tensor does.

        Uses y up, and may share memory with it. As `rotate` left out rest_scale, it is due twice here.
        """
        hadamard(y.view(tile.shape), y.view(tile.shape))
        scale = half_scale(tile.block_values) * rest_scale(tile.block_values) ** 2
        signs = self._signs.signs(*self._sign_arguments(tile), scale).view(-1)
        torch.mul(y[: len(target)], signs[: len(target)], out=target)

    def _scratch(self) -> Tensor:
        """Room for the largest tile, small enough to stay in cache."""
        most = max((tile.size for tile in _tiles(self.layout)), default=0)
        return torch.empty(most, dtype=torch.float32, device=self._device)

    def _sign_arguments(self, tile: _Tile) -> tuple[int, int, int]:
        return tile.first_block, tile.blocks, tile.block_values

    def _grid_scales(self, agreed: NDArray[np.uint32]) -> NDArray[np.float64]:
        """Grid cells per unit of `rotated`, by block; 0 for a block whose norm counts as zero."""
        if agreed.dtype != np.uint32 or agreed.shape != (self.layout.blocks,):
            raise CodecError(f"{agreed.dtype} norms of shape {agreed.shape}: needs uint32 ({self.layout.blocks},)")
        norms = np.ascontiguousarray(agreed).view(np.float32).astype(np.float64)
        _refuse_norms(norms, "agreed norm")
        numerators = np.concatenate(
            [np.full(g.blocks, _per_norm(g) / self._table.increment) for g in self.layout.groups] or [np.zeros(0)]
        )
        scales: NDArray[np.float64] = np.divide(numerators, norms, out=np.zeros_like(norms), where=norms >= NORM_MIN)
        return scales

    def _chunk_factors(self, counts: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """What to take off each sum and what to multiply with, float32 columns of shape (chunks, 1)."""
        if self._scales is None:
            raise StageError("decode: comes after encode")
        chunk_scales = self._scales[self.layout.chunk_blocks()] * counts
        factor = np.divide(1.0, chunk_scales, out=np.zeros_like(chunk_scales), where=chunk_scales > 0)
        centre = counts * (self._table.granularity / 2)
        return (
            torch.tensor(centre, dtype=torch.float32, device=self._device)[:, None],
            torch.tensor(factor, dtype=torch.float32, device=self._device)[:, None],
        )

    def _checked_counts(self, counts: NDArray[np.integer]) -> NDArray[np.int64]:
        counts = np.asarray(counts)
        if counts.shape != (self.layout.chunks,) or not np.issubdtype(counts.dtype, np.integer):
            raise CountError(f"{counts.dtype} counts of shape {counts.shape}: needs integers ({self.layout.chunks},)")
        most = self._table.max_workers
        outside = np.flatnonzero((counts < 0) | (counts > most))
        if len(outside):
            raise CountError(f"count {counts[outside[0]]} of chunk {outside[0]}: must be 0..{most}")
        return counts.astype(np.int64)

    def _check_sums(self, sums: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
        if len(sums) != len(counts):
            raise CodecError(f"{len(sums)} result chunks: this tensor has {len(counts)}")
        bounds = counts * self._table.granularity
        outside = np.flatnonzero((sums.max(axis=1, initial=0) > bounds) & (counts > 0))
        if len(outside):
            chunk = outside[0]
            raise SumRangeError(
                f"sum {sums[chunk].max()} in chunk {chunk}: {counts[chunk]} contributors reach at most {bounds[chunk]}"
            )

    def _restore_chunks(self, left: Tensor, included: NDArray[np.bool_]) -> None:
        """Put back the encoded part of the chunks that are not in the sum."""
        if included.dtype != np.bool_ or included.shape != (self.layout.chunks,):
            raise CodecError(f"{included.dtype} mask of shape {included.shape}: needs bool ({self.layout.chunks},)")
        assert self._words is not None and self._scales is not None
        chunks = np.flatnonzero(~included)
        scales = self._scales[self.layout.chunk_blocks()[chunks]]
        inverse = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0).astype(np.float32)
        levels = (np.array(self._table.values) - self._table.granularity / 2).astype(np.float32)
        encoded = levels[planes.unpack_index_planes(self._words[chunks])] * inverse[:, None]
        left.view(-1, CHUNK_VALUES)[torch.from_numpy(chunks).to(self._device)] += torch.from_numpy(encoded).to(
            self._device
        )


def _per_norm(group: BlockGroup) -> float:
    """s times the block's norm, for values that still lack the rotation's rest_scale."""
    return math.sqrt(group.block_values) * rest_scale(group.block_values)


def _refuse_norms(norms: NDArray[np.float64], what: str) -> None:
    outside = np.flatnonzero(~(norms <= NORM_MAX) | (norms < 0))
    if len(outside):
        raise NormRangeError(f"{what} {norms[outside[0]]!r} of block {outside[0]}: must be 0..{NORM_MAX}")


def _block_norms(x: Tensor, cut: Layout, where: str) -> NDArray[np.float32]:
    """L2 norms by block, float32; those below NORM_MIN are given as 0. NaN and Inf show up in the norms, so finite
    tensors are not read a second time. Raises NonFiniteError and NormRangeError."""
    norms = np.concatenate([_group_norms(x, group) for group in cut.groups] or [np.zeros(0)])
    suspects = np.flatnonzero(~((norms > _PLAIN_NORMS[0]) & (norms < _PLAIN_NORMS[1])))
    if len(suspects):
        if not bool(torch.isfinite(x).all()):
            raise _non_finite(x, where)
        starts = _block_starts(cut)
        for block in suspects:
            values = x[starts[block] : starts[block + 1]]
            norms[block] = float(torch.linalg.vector_norm(values, dtype=torch.float64))
    _refuse_norms(norms, f"{where}: norm")
    return np.where(norms < NORM_MIN, 0.0, norms).astype(np.float32)


def _block_starts(cut: Layout) -> list[int]:
    starts = [g.first_value + i * g.block_values for g in cut.groups for i in range(g.blocks)]
    return [*starts, cut.padded_length]


def _group_norms(x: Tensor, group: BlockGroup) -> NDArray[np.float64]:
    """Norms as float32 sums of squares; of a last block that x fills only in part, too."""
    values = x[group.first_value : group.first_value + group.values]
    whole = len(values) // group.block_values
    rows = values[: whole * group.block_values].view(whole, group.block_values)
    norms = [torch.linalg.vector_norm(rows, dim=1, dtype=torch.float32)]
    if whole < group.blocks:
        norms.append(torch.linalg.vector_norm(values[whole * group.block_values :], dtype=torch.float32)[None])
    return torch.cat(norms).cpu().numpy().astype(np.float64)


def _non_finite(x: Tensor, where: str) -> NonFiniteError:
    bad = ~torch.isfinite(x)
    nans = int(torch.isnan(x).sum())
    return NonFiniteError(nans, int(bad.sum()) - nans, int(bad.nonzero()[0, 0]), where)
