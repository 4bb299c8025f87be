# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""THC: tensor homomorphic compression (Li et al., NSDI'24, arXiv 2302.08545), non-uniform, with a norm per block.

One round of a worker:
1. x is cut into blocks. The worker sends each block's L2 norm (`norms`), and the largest of all workers comes back.
2. v = RHT(x); s = sqrt(d) / largest norm makes v about standard normal. s v is clamped to +-t_p, put on
   the grid 0..g and rounded at random to one of the two table values around it (`encode`). A value that is not clamped
   is unbiased to within 2**-17 of an index step.
3. The switch adds table values; RHT^-1((sum / k - g / 2) increment / s) is the mean of the k contributors (`decode`).
4. What clamping and rounding changed is x - RHT^-1(q / s) (`residual`), for error feedback.

The factors 1 / sqrt(d) of RHT and s are left out on both ways: s RHT(x) is H D x / norm, and RHT^-1(y / s) is D H y
norm / d.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import MAX32, THC
from sumwire_protocol.tables import SUM_MAX
from torch import Tensor

from sumwire.codec.base import CodecInfo, CodecRound, GradientCodec
from sumwire.codec.errors import CodecError, CountError, NormRangeError, SumRangeError
from sumwire.codec.kernels import add_halves, kernels, square_sums, wide_square_sums
from sumwire.codec.layout import CHUNK_VALUES, Layout, check_block, layout
from sumwire.codec.scales import NORM_PLANES, NormScales
from sumwire.codec.seeds import RoundingStream, SignStream
from sumwire.codec.tables import ThcTable
from sumwire.codec.tensors import check_kind, not_finite, residual_expected, runs
from sumwire.codec.thc_forms import Left, NativeForm, TorchForm, usual_norms

BLOCK_VALUES: Final = 4096
# Norms beyond these count as not finite, or as zero: within, nothing overflows or is lost to float32 subnormals.
NORM_MAX: Final = 2.0**96
NORM_MIN: Final = 2.0**-96
_NORM_MAX_BITS, _NORM_MIN_BITS = (int(np.float32(norm).view(np.uint32)) for norm in (NORM_MAX, NORM_MIN))
# Between these a float32 sum of squares is exact enough; outside it is computed again in float64.
_PLAIN_SUMS: Final = (2.0**-80, 2.0**120)
# By chunk, see `ThcRound._shares`.
_Shares: TypeAlias = tuple[NDArray[np.float32], NDArray[np.float32]]
DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16)


class ThcCodec(GradientCodec):
    """THC for one worker of one job.

    `table` must be the same on all workers and in the switch. `block` is the rotation's length, a power of two >= 1024,
    or None for the full tensor, and must be the same on all workers. With `correlated` the workers' random numbers for
    rounding are spread evenly over their range; otherwise they are independent, as published. A worker's indices have
    the same distribution either way.

    Raises CodecError for a table of more than 4 bits, one whose values do not fit a value's sum planes, or an
    impossible block.
    """

    info: ClassVar[CodecInfo] = CodecInfo.of("thc", THC, MAX32)
    staged: ClassVar[bool] = True
    # Whether values beyond the table's threshold are clipped to it.
    clips: ClassVar[bool] = True

    def __init__(
        self, table: ThcTable, *, job: int, worker: int, block: int | None = BLOCK_VALUES, correlated: bool = True
    ) -> None:
        check_block(block)
        if table.bits > p4.THC_INDEX_PLANES:
            raise CodecError(f"table of {table.bits} bits: an index has {p4.THC_INDEX_PLANES} planes")
        if table.max_workers < 1:
            raise CodecError(f"table of granularity {table.granularity}: a sum holds at most {SUM_MAX}")
        super().__init__()
        self.table = table
        self.job = job
        self.worker = worker
        self.block = block
        self.correlated = correlated
        self.scales = NormScales(table.values, NORM_MAX, clips=self.clips) if table.levels == 2**NORM_PLANES else None

    def layout(self, length: int) -> Layout:
        """Return the blocks (one norm each) and chunks (one packet each) of a tensor of `length` values."""
        return layout(length, self.block)

    def chunks(self, length: int) -> int:
        """Return the packets of a tensor of `length` values, including those that only pad a block."""
        return self.layout(length).chunks

    def begin(self, x: Tensor, sequence: int, bucket: int) -> ThcRound:
        """Start a round with a flat float32, float16 or bfloat16 tensor.

        A block with NaN, infinity or a norm above 2**96 becomes NaN on all workers. Raises CodecError (shape, dtype).
        """
        check_kind(x, DTYPES)
        # The tensor itself, which may be marked (values.expect_residual).
        return ThcRound(self, x.resolve_neg(), sequence, bucket)


class UnbiasedThcCodec(ThcCodec):
    """THC whose range covers all values, so that nothing is clipped. A sum is unbiased, whoever takes part.

    A block sends its largest rotated magnitude divided by the table's threshold, instead of its norm. So the range
    covers the values of all workers. The squared error is 1.4 times that of the usual clipped share with 2 workers, 1.9
    times with 8, and 2.6 times with 17. A tensor is rotated twice.
    """

    info: ClassVar[CodecInfo] = CodecInfo.of("thc-unbiased", THC, MAX32)
    clips: ClassVar[bool] = False


class ThcRound(CodecRound):
    """One bucket in one round: norms, encode, then decode and residual in any order."""

    def __init__(self, codec: ThcCodec, x: Tensor, sequence: int, bucket: int) -> None:
        self.layout = codec.layout(x.numel())
        leaves = residual_expected(x)
        chunk_sums = square_sums(x)
        x = x.detach()
        native = kernels(x)
        norms = None if native is None else usual_norms(native, chunk_sums, self.layout, _PLAIN_SUMS)
        if norms is None:
            norms = block_norms(x, chunk_sums, self.layout)
            x = without_spoiled(x, norms, self.layout)
        super().__init__(codec, x, self.layout.chunks, self.layout.grain)
        self._norms = norms
        self._table = codec.table
        signs = SignStream.of(codec.job, sequence, bucket, x.device)
        stream = RoundingStream.correlated if codec.correlated else RoundingStream.of
        rounding = stream(codec.job, codec.worker, sequence, bucket, x.device)
        self._form: TorchForm | NativeForm = (
            TorchForm(codec.table, signs, rounding)
            if native is None
            else NativeForm(native, codec.table, signs, rounding)
        )
        if not codec.clips and self.chunks:
            self._norms = self._ranges(norms)
        # Grid cells per unit of H D x, by block.
        self._to_grid = np.empty(self.layout.blocks, np.float32)
        # What a grid cell adds to a value of D H y, by chunk, and the same in float32.
        self._cell = np.empty(self.layout.chunks)
        self._from_grid = np.empty(self.layout.chunks, np.float32)
        self._chunk_blocks = self.layout.chunk_blocks
        # Made while encoding, where the block at hand is in a cache.
        self._left = self._new_result() if leaves else None

    def norms(self) -> NDArray[np.uint32]:
        """Return the blocks' L2 norms as float32 bits, shape (blocks,); NOT_FINITE for a block that is not finite. A
        codec that clips nothing returns its ranges instead.

        Bits of non-negative floats order like the floats, so an unsigned maximum gives the largest norm.
        """
        return self._norms.view(np.uint32).copy()

    def _ranges(self, norms: NDArray[np.float32]) -> NDArray[np.float32]:
        """What stands for the norms where nothing is clipped; 0 or NaN where the norm is."""
        ranges = self._form.ranges(self._x, self.layout) / np.float32(self._table.threshold)
        ranges[~(ranges <= NORM_MAX) | np.isnan(norms)] = np.nan
        ranges[norms == 0] = 0.0
        return ranges

    def magnitudes(self) -> NDArray[np.float32]:
        """Return an equal part of the block's norm for each of its chunks, since the rotation spreads the values
        evenly."""
        norms = np.where(np.isnan(self._norms), np.inf, self._norms)
        of_blocks: NDArray[np.float32] = (norms / np.sqrt(self.layout.block_chunks)).astype(np.float32)
        return of_blocks[self._chunk_blocks]

    def use_lanes(self) -> bool:
        """See CodecRound."""
        self._form.lanes = True
        self._words_up = self._info.words_down
        return True

    def preliminary(self) -> NDArray[np.uint32]:
        """See `norms`."""
        return self.norms()

    def without_tensor(self) -> Self:
        """Return the round without its tensor, see CodecRound."""
        other = super().without_tensor()
        other._left = None
        return other

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """Return x minus the values that this worker's indices stand for; all of x in chunks that are not included.

        Unless it was expected (`values.expect_residual`), it is computed now, by encoding again.
        """
        self._check_residual(included)
        left, self._left = self._left, None
        if left is not None and (included is None or included.all()):
            return left
        missing = np.zeros(self.chunks, np.bool_) if included is None else ~included
        unmade = np.ones(self.chunks, np.bool_) if left is None else self._of_whole_blocks(missing)
        left = self._new_result() if left is None else left
        cell = np.where(missing, np.float32(0), self._from_grid)
        for first, last in runs(unmade):
            words = np.empty((last - first, self._words_up, p4.WORD_BYTES), np.uint8)
            self._encode(first, last, words, Left(left, cell[first:last]))
        return left

    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        """Write indices, or lanes, by the agreed largest norms (float32 bits, shape (blocks,)) of the part's blocks.

        Raises CodecError for another shape or dtype, NormRangeError for a finite norm above 2**96 or one below 0.
        """
        self._take_scales(agreed, first, last)
        left = None if self._left is None else Left(self._left, self._from_grid[first:last])
        self._encode(first, last, out, left)

    def _encode(self, first: int, last: int, out: NDArray[np.uint8], left: Left | None) -> None:
        self._form.encode(self._x, self.layout.part(first, last), self._to_grid, out, left)

    def _of_whole_blocks(self, chunks: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return whether each chunk's block has one of these chunks."""
        blocks = np.zeros(self.layout.blocks, np.bool_)
        blocks[self._chunk_blocks[chunks]] = True
        return blocks[self._chunk_blocks]

    def _decode_part(
        self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.int64], target: Tensor
    ) -> None:
        """Write the sums, divided by their divisors.

        Raises CountError for a count above max_workers or the workers, SumRangeError for a sum above
        count x granularity.
        """
        part, form = self.layout.part(first, last), self._form
        divisor, cells = self._workers_divided_by, self._cells(first, last)
        if isinstance(form, NativeForm) and form.decode_usual(
            part, words, counts, target, divisor=divisor, cells=cells
        ):
            return
        middle, from_grid = self._shares(first, last, words, counts)
        form.decode(part, words, middle, from_grid, target)

    def _cells(self, first: int, last: int) -> NDArray[np.float64]:
        """What a grid cell adds to the result, by chunk."""
        cells = self._cell[first:last]
        return cells if self._times == 1 else cells * self._times

    def _multiply(self, part: Tensor) -> None:
        """Nothing: the factor is in the cells."""

    def _shares(self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.int64]) -> _Shares:
        """Return by chunk the middle of the sums, and what a grid cell adds to the result. Raises as `_decode_part`."""
        self._check_counts(first, counts)
        self._check_sums(first, words, counts)
        middle = (counts * (self._table.granularity / 2)).astype(np.float32)
        divisors = self._divisors(counts)
        from_grid = np.divide(self._cells(first, last), divisors, out=np.zeros(last - first), where=divisors > 0)
        return middle, from_grid.astype(np.float32)

    def _take_scales(self, agreed: NDArray[np.uint32], first: int, last: int) -> None:
        """Set the scales of a part's blocks; 0 for a block whose norm counts as zero, or is not finite."""
        if agreed.dtype != np.uint32 or agreed.shape != (self.layout.blocks,):
            raise CodecError(f"{agreed.dtype} norms of shape {agreed.shape}: needs uint32 ({self.layout.blocks},)")
        blocks = slice(int(self._chunk_blocks[first]), int(self._chunk_blocks[last - 1]) + 1)
        bits = agreed[blocks]
        form, block_chunks = self._form, self.layout.block_chunks[blocks]
        scales = self._to_grid[blocks], self._cell[first:last], self._from_grid[first:last]
        if isinstance(form, NativeForm) and form.take_scales(bits, (NORM_MIN, NORM_MAX), block_chunks, scales):
            self._spoiled[first:last] = False
        else:
            self._take_any_scales(bits, blocks, first, last)

    def _take_any_scales(self, bits: NDArray[np.uint32], blocks: slice, first: int, last: int) -> None:
        """`_take_scales` by numpy, for norms of every kind."""
        of_chunks = self._chunk_blocks[first:last] - blocks.start
        # The bits of floats order like the floats; those of negative ones are above all others.
        if bits.max() > _NORM_MAX_BITS:
            spoiled = not_finite(bits)
            bits = np.where(spoiled, np.uint32(0), bits)
            refuse_norms(bits.view(np.float32).astype(np.float64), blocks.start)
            self._spoiled[first:last] = spoiled[of_chunks]
        else:
            self._spoiled[first:last] = False
        # H D x / norm is about standard normal.
        cells = bits.view(np.float32).astype(np.float64) * self._table.increment
        cells[bits < _NORM_MIN_BITS] = 0.0
        self._to_grid[blocks] = np.divide(1.0, cells, out=np.zeros_like(cells), where=cells > 0)
        self._cell[first:last] = (cells / (self.layout.block_chunks[blocks] * CHUNK_VALUES))[of_chunks]
        self._from_grid[first:last] = self._cell[first:last]

    def _check_counts(self, first: int, counts: NDArray[np.int64]) -> None:
        most = self._table.max_workers
        if counts.max() > most:
            i = int(np.argmax(counts > most))
            raise CountError(f"count {counts[i]} of chunk {first + i}: must be 0..{most}")

    def _check_sums(self, first: int, words: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
        largest = self._form.largest_sums(words)
        bounds = counts * self._table.granularity
        if (largest <= bounds).all():
            return
        # A trimmed sum has 2 or 1 in place of its two low planes, whatever they were.
        outside = np.flatnonzero((largest > np.maximum(bounds, bounds // 4 * 4 + 2)) & (counts > 0))
        if len(outside):
            i = outside[0]
            raise SumRangeError(
                f"sum {largest[i]} in chunk {first + i}: {counts[i]} contributors reach at most {bounds[i]}"
            )


def refuse_norms(norms: NDArray[np.float64], first_block: int) -> None:
    """Raise NormRangeError for an agreed norm above NORM_MAX, or below 0."""
    outside = np.flatnonzero(~(norms <= NORM_MAX) | (norms < 0))
    if len(outside):
        worst, block = norms[outside[0]], first_block + outside[0]
        raise NormRangeError(f"agreed norm {worst!r} of block {block}: must be 0..{NORM_MAX}, or not finite")


def without_spoiled(x: Tensor, norms: NDArray[np.float32], cut: Layout) -> Tensor:
    """Return x with zeros for the blocks whose norm is NaN; x itself if there are none."""
    spoiled = np.isnan(norms)
    if not spoiled.any():
        return x
    cleared = x.clone()
    for first, last in runs(spoiled[cut.chunk_blocks]):
        cleared[first * CHUNK_VALUES : last * CHUNK_VALUES] = 0.0
    return cleared


def block_norms(x: Tensor, chunk_sums: NDArray[np.float32], cut: Layout) -> NDArray[np.float32]:
    """Return L2 norms by block, float32; those below NORM_MIN are 0, those above NORM_MAX or not finite are NaN.

    NaN and infinity show up in the norms, so finite tensors are read only once.
    """
    sums = _block_sums(chunk_sums, cut).astype(np.float64)
    suspects = np.flatnonzero(~((sums > _PLAIN_SUMS[0]) & (sums < _PLAIN_SUMS[1])))
    if len(suspects):
        sums[suspects] = _wide_block_sums(x, cut, suspects)
    norms = np.sqrt(sums)
    norms[~(norms <= NORM_MAX)] = np.nan
    return np.where(norms < NORM_MIN, 0.0, norms).astype(np.float32)


def _block_sums(chunk_sums: NDArray[Any], cut: Layout) -> NDArray[Any]:
    """Return sums by block. The sums of chunks that only pad are not in `chunk_sums`."""
    padded = np.zeros(cut.chunks, chunk_sums.dtype)
    padded[: len(chunk_sums)] = chunk_sums
    rows = [padded[g.first_chunk : g.last_chunk].reshape(g.blocks, g.block_chunks) for g in cut.groups]
    return np.concatenate([add_halves(row) for row in rows] or [padded])


def _wide_block_sums(x: Tensor, cut: Layout, blocks: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return sums of squares in float64 of the given blocks, whose numbers rise."""
    first, last = np.searchsorted(cut.chunk_blocks, [blocks[0], blocks[-1] + 1])
    sums = np.zeros(cut.chunks)
    wide = wide_square_sums(x[first * CHUNK_VALUES : last * CHUNK_VALUES])
    sums[first : first + len(wide)] = wide
    of_blocks: NDArray[np.float64] = _block_sums(sums, cut)[blocks]
    return of_blocks
