# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""THC for many workers: grid points in fields of SUM32 elements, where the sums of 8 planes are too narrow.

Norms, rotation, clipping and unbiased rounding are THC's (:mod:`sumwire.codec.thc`). A worker sends its grid points
0..g themselves, and there is no table: all g + 1 points are levels. Sums of n workers are at most n g, and fit a field:

* fields of 10 bits, three to an element, 10.7 bits a value each way, as long as n workers can have g >= 15, that is up
  to 68 workers. For 32 workers g is 31, so a value has 5 bits;
* fields of 15 bits, two to an element, 16 bits a value each way, for more. For 255 workers g is 128.

g is at most 255. The clipped share p is the power of 1/2 with the least error for g.

A packet has 768 or 512 values, and may lie across blocks. Parts are runs of packets with borders at borders of blocks.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import torch
from nativelib.declarations import Native
from numpy.typing import NDArray
from sumwire_protocol.ops import MAX32
from torch import Tensor

from sumwire.codec import tables
from sumwire.codec.base import CodecInfo, CodecRound, GradientCodec
from sumwire.codec.errors import CodecError
from sumwire.codec.kernels import address, float32, kernels, square_sums, threads
from sumwire.codec.layout import CHUNK_VALUES, BlockGroup, Layout, layout
from sumwire.codec.seeds import RoundingStream, SignStream
from sumwire.codec.sum32 import WORKERS_MAX, Fields
from sumwire.codec.tables import ThcTable
from sumwire.codec.tensors import check_kind, not_finite
from sumwire.codec.thc import BLOCK_VALUES, DTYPES, NORM_MIN, block_norms, refuse_norms, without_spoiled
from sumwire.codec.thc_forms import GridForm
from sumwire.numeric import is_whole


class NativeGridForm:
    """Encodes and decodes a round in C, for blocks of at most `sumwire.codec.rotation.PASS_VALUES` values."""

    def __init__(self, kernels: Native, grid: ThcTable, signs: SignStream, rounding: RoundingStream) -> None:
        self._kernels = kernels
        self._granularity = grid.granularity
        self._sign_key = signs.base
        self._rounding = rounding.key, rounding.flipped

    def points(self, x: Tensor, part: tuple[BlockGroup, ...], to_grid: NDArray[np.float32]) -> NDArray[np.uint8]:
        """See GridForm."""
        first, length = part[0].first_value, len(x)
        points = np.empty(sum(group.values for group in part), np.uint8)
        at_points, at_scales = address(points), address(to_grid)
        # The copy is held until the kernels are done.
        values = float32(x[first : first + len(points)])
        for group in part:
            place = group.first_value - first
            self._kernels.codec_grid_points(
                self._blocks(group, length), *self._rounding, group.first_value,
                values.data_ptr() + 4 * place, min(group.values, length - group.first_value),
                at_scales + 4 * group.first_block, self._granularity, at_points + place,
            )  # fmt: skip
        return points

    def write(
        self, values: NDArray[np.float32], part: tuple[BlockGroup, ...], cells: NDArray[np.float32], target: Tensor
    ) -> None:
        """See GridForm. Leaves the values as they are."""
        first, length = part[0].first_value, len(target)
        at_values, at_cells, at_target = address(values), address(cells), target.data_ptr()
        for group in part:
            self._kernels.codec_grid_return(
                self._blocks(group, length), at_values + 4 * (group.first_value - first),
                at_cells + 4 * group.first_block, at_target + 4 * group.first_value,
                min(group.values, length - group.first_value),
            )  # fmt: skip

    def pack(self, fields: Fields, points: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """See GridForm."""
        self._kernels.codec_fields_pack(
            address(points), len(points), fields.number, fields.bits, address(out), out.strides[0], len(out), threads()
        )

    def values(
        self, fields: Fields, words: NDArray[np.uint8], middle: NDArray[np.float32], shares: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """See GridForm."""
        found = np.empty(len(words) * fields.chunk_values, np.float32)
        self._kernels.codec_fields_values(
            address(words), words.strides[0], fields.number, fields.bits,
            address(middle), address(shares), address(found), len(words), threads(),
        )  # fmt: skip
        return found

    def _blocks(self, group: BlockGroup, tensor_values: int) -> Any:
        used = min(threads(), group.blocks)
        return self._kernels.codec_blocks(
            self._sign_key, group.first_block, group.blocks, group.block_values, used, tensor_values, False
        )


# Fewest grid cells that are worth a field of 10 bits: 16 levels, as THC has.
_CELLS_MIN: Final = 15
_CELLS_MAX: Final = 255
_SHARES: Final = tuple(2.0**-power for power in range(3, 16))


class WideThcCodec(GradientCodec):
    """One worker's part of a job of ``workers``. :func:`wide_codec` makes it, with as many fields as fit."""

    fields: ClassVar[Fields]
    staged: ClassVar[bool] = True

    def __init__(self, *, workers: int, job: int, worker: int) -> None:
        super().__init__()
        self.workers = workers
        self.grid = _grid(min(self.fields.most // workers, _CELLS_MAX))
        self.job = job
        self.worker = worker

    def layout(self, length: int) -> Layout:
        """Return the blocks (one norm each) of a tensor of `length` values."""
        return layout(length, BLOCK_VALUES)

    def chunks(self, length: int) -> int:
        return -(-self.layout(length).padded_length // self.info.chunk_values)

    def begin(self, x: Tensor, sequence: int, bucket: int) -> CodecRound:
        """Start a round. A block with NaN, infinity or a norm above 2**96 becomes NaN on all workers.

        Raises CodecError for another shape or dtype than a flat float32, float16 or bfloat16 tensor.
        """
        return _WideRound(self, check_kind(x, DTYPES), sequence, bucket)


class _ThreeToAnElement(WideThcCodec):
    fields: ClassVar[Fields] = Fields(10)
    info: ClassVar[CodecInfo] = fields.info("thc-wide", MAX32.code)


class _TwoToAnElement(WideThcCodec):
    fields: ClassVar[Fields] = Fields(15)
    info: ClassVar[CodecInfo] = fields.info("thc-wide", MAX32.code)


def wide_codec(*, workers: int, job: int, worker: int) -> WideThcCodec:
    """Return the codec of one of ``workers``. Raises CodecError for no workers, or more than a packet can count."""
    if not is_whole(workers, 1, WORKERS_MAX):
        raise CodecError(f"workers = {workers!r}: must be a whole number in 1..{WORKERS_MAX}, as many as packets count")
    narrow = _ThreeToAnElement.fields.most // workers >= _CELLS_MIN
    return (_ThreeToAnElement if narrow else _TwoToAnElement)(workers=workers, job=job, worker=worker)


@functools.cache
def _grid(cells: int) -> ThcTable:
    """The even grid of so many cells whose clipped share gives the least error."""
    grids = (tables.uniform(cells.bit_length(), p, cells) for p in _SHARES)
    return min(grids, key=lambda grid: grid.mse + grid.clip_mse)


@dataclass(frozen=True, slots=True)
class _Scales:
    """By block of the tensor: grid cells per unit of H D x, 0 for a norm that counts as zero or is not finite; and what
    a cell adds to a value of D H y, NaN for a norm that is not finite."""

    to_grid: NDArray[np.float32]
    cell: NDArray[np.float32]


class _WideRound(CodecRound):
    def __init__(self, codec: WideThcCodec, x: Tensor, sequence: int, bucket: int) -> None:
        self._cut = codec.layout(len(x))
        self._norms = block_norms(x, square_sums(x), self._cut)
        packet = codec.info.chunk_values
        largest = self._cut.grain * CHUNK_VALUES
        finite = without_spoiled(x, self._norms, self._cut)
        super().__init__(codec, finite, codec.chunks(len(x)), math.lcm(largest, packet) // packet)
        self._fields, self._grid = codec.fields, codec.grid
        signs = SignStream.of(codec.job, sequence, bucket, x.device)
        rounding = RoundingStream.correlated(codec.job, codec.worker, sequence, bucket, x.device)
        native = kernels(finite)
        self._form: GridForm | NativeGridForm = (
            GridForm(codec.grid, signs, rounding)
            if native is None
            else NativeGridForm(native, codec.grid, signs, rounding)
        )
        blocks = self._cut.blocks
        self._scales = _Scales(np.zeros(blocks, np.float32), np.zeros(blocks, np.float32))
        # The grid points that were sent, padding included.
        self._sent = np.zeros(self._cut.padded_length, np.uint8)

    def preliminary(self) -> NDArray[np.uint32]:
        """The blocks' L2 norms as float32 bits, shape (blocks,); NaN for a block that is not finite."""
        return self._norms.view(np.uint32).copy()

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """x minus what this worker's grid points stand for; those of packets that are not included stand for 0."""
        self._check_residual(included)
        left = self._new_result()
        if not self.chunks:
            return left
        values = self._sent - np.float32(self._grid.granularity / 2)
        if included is not None:
            values[~np.repeat(included, self._info.chunk_values)[: len(values)]] = 0.0
        self._form.write(values, self._cut.groups, np.nan_to_num(self._scales.cell, nan=0.0), left)
        return torch.sub(self._x, left, out=left)

    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        """Write grid points, by the agreed largest norms (float32 bits, shape (blocks,)).

        Raises CodecError for another shape or dtype, NormRangeError for a finite norm above 2**96 or one below 0.
        """
        groups, values = self._part(first, last)
        self._take_scales(agreed, slice(groups[0].first_block, groups[-1].first_block + groups[-1].blocks))
        points = self._form.points(self._x, groups, self._scales.to_grid)
        self._sent[values] = points
        self._form.pack(self._fields, points, out)

    def _decode_part(
        self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.int64], target: Tensor
    ) -> None:
        """Write the sums of grid points divided by their divisors; zeros for a packet without contributors."""
        groups, values = self._part(first, last)
        granularity = self._grid.granularity
        self._fields.check_counts(counts, granularity)
        divisors = self._divisors(counts)
        some = (counts > 0) & (divisors > 0)
        shares = np.divide(1.0, divisors, out=np.zeros(len(counts)), where=some).astype(np.float32)
        middle = (counts * (granularity / 2)).astype(np.float32)
        found = self._form.values(self._fields, words, middle, shares)
        self._form.write(found[: values.stop - values.start], groups, self._scales.cell, target)

    def _part(self, first: int, last: int) -> tuple[tuple[BlockGroup, ...], slice]:
        """The whole blocks of packets first..last-1, and their values."""
        per_packet, padded = self._info.chunk_values, self._cut.padded_length
        values = slice(first * per_packet, min(last * per_packet, padded))
        return self._cut.part(values.start // CHUNK_VALUES, values.stop // CHUNK_VALUES), values

    def _take_scales(self, agreed: NDArray[np.uint32], blocks: slice) -> None:
        if agreed.dtype != np.uint32 or agreed.shape != self._norms.shape:
            raise CodecError(f"{agreed.dtype} norms of shape {agreed.shape}: needs uint32 {self._norms.shape}")
        spoiled = not_finite(agreed[blocks])
        norms = np.where(spoiled, np.uint32(0), agreed[blocks]).view(np.float32).astype(np.float64)
        refuse_norms(norms, blocks.start)
        cells = np.where(norms < NORM_MIN, 0.0, norms * self._grid.increment)
        self._scales.to_grid[blocks] = np.divide(1.0, cells, out=np.zeros_like(cells), where=cells > 0)
        cell = cells / (self._cut.block_chunks[blocks] * CHUNK_VALUES)
        self._scales.cell[blocks] = np.where(spoiled, np.nan, cell)
