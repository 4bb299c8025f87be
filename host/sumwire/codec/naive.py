# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Naive quantization, the baseline for THC: no rotation, no clipping, no optimised table.

Groups of 256 values share a scale, the largest magnitude M that any worker has in the group, which comes back from a
MAX32 exchange. A value x becomes q = round(7 x / M), to the nearest, and travels as the index q + 7 of a THC packet
whose table is 0, 1 .. 15. So the switch adds it as it adds THC's, and the mean is (sum / k - 7) M / 7 for k workers.
The rounding error is the residual, for error feedback. Tables with fewer levels have a smaller number in place of 7.
Native kernels and numpy give equal bits.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire_protocol.ops import MAX32, THC
from torch import Tensor

from sumwire.codec.base import CodecInfo, CodecRound, GradientCodec
from sumwire.codec.errors import CodecError, CountError, SumRangeError
from sumwire.codec.kernels import address, float32, kernels, threads
from sumwire.codec.layout import CHUNK_VALUES, GROUP_VALUES, pack_index_planes, unpack_sum_planes
from sumwire.codec.tables import ThcTable
from sumwire.codec.tensors import NOT_FINITE, check_kind, not_finite
from sumwire.codec.thc import DTYPES

_GROUPS: Final = CHUNK_VALUES // GROUP_VALUES


class NaiveCodec(GradientCodec):
    """Naive quantization by a job's ``table``, whose values are 0, 1, 2 .. its granularity."""

    info: ClassVar[CodecInfo] = CodecInfo.of("naive4", THC, MAX32)

    def __init__(self, table: ThcTable) -> None:
        super().__init__()
        self.table = table

    def begin(self, x: Tensor, sequence: int, bucket: int) -> CodecRound:
        """Start a round with a flat float32, float16 or bfloat16 tensor. Raises CodecError for another."""
        return _NaiveRound(self, check_kind(x, DTYPES))


class _NaiveRound(CodecRound):
    def __init__(self, codec: NaiveCodec, x: Tensor) -> None:
        super().__init__(codec, x, codec.chunks(len(x)), 1)
        self._most, self._workers_max = codec.table.granularity // 2, codec.table.max_workers
        self._native = kernels(x)
        if self._native is not None:
            self._x = float32(x)
        self._own = self._largest()
        # By group: what an index step adds to a value.
        self._steps = np.zeros(len(self._own), np.float32)

    def preliminary(self) -> NDArray[np.uint32]:
        """The largest magnitudes as float32 bits, shape (groups,); NOT_FINITE for a group that is not finite."""
        return self._own

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """What rounding changed; all of a chunk that is not included."""
        self._check_residual(included)
        left = self._new_result()
        if self._native is not None:
            mask = None if included is None else np.ascontiguousarray(included)
            self._native.codec_naive_residual(
                self._x.data_ptr(), self.length, address(self._steps), self._most,
                None if mask is None else address(mask), left.data_ptr(), threads(),
            )  # fmt: skip
            return left
        values, steps = self._values(0, self.chunks), self._steps[:, None]
        sent = self._in_steps(values, steps) * steps
        if included is not None:
            sent[~np.repeat(included, _GROUPS)] = 0.0
        whole = np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)
        left.copy_(torch.from_numpy((whole - sent).reshape(-1)[: self.length]))
        return left

    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        """Raises CodecError for magnitudes of another shape or dtype."""
        if agreed.dtype != np.uint32 or agreed.shape != self._own.shape:
            raise CodecError(f"{agreed.dtype} magnitudes of shape {agreed.shape}: needs uint32 {self._own.shape}")
        groups = slice(first * _GROUPS, last * _GROUPS)
        spoiled = not_finite(agreed[groups])
        self._spoiled[first:last] = spoiled.reshape(-1, _GROUPS).any(axis=1)
        largest = np.where(spoiled, np.uint32(0), agreed[groups]).view(np.float32)
        steps = self._steps[groups] = largest / np.float32(self._most)
        if self._native is not None:
            x = self._x[first * CHUNK_VALUES : last * CHUNK_VALUES]
            self._native.codec_naive_encode(
                x.data_ptr(), len(x), address(steps), self._most, address(out), out.strides[0], threads()
            )
            return
        indices = self._in_steps(self._values(first, last), steps[:, None]) + self._most
        out[:] = pack_index_planes(indices.astype(np.uint8).reshape(-1, CHUNK_VALUES))

    def _decode_part(
        self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.int64], target: Tensor
    ) -> None:
        """Raises CountError for more workers than the table's sums hold, SumRangeError for a sum beyond them."""
        if counts.max(initial=0) > self._workers_max:
            raise CountError(f"count {counts.max()}: must be 0..{self._workers_max}")
        divisors = self._divisors(counts)
        shares = np.divide(1.0, divisors, out=np.zeros(len(counts)), where=divisors > 0).astype(np.float32)
        middle = np.float32(self._most) * counts.astype(np.float32)
        steps = self._steps[first * _GROUPS : last * _GROUPS]
        here = target[first * CHUNK_VALUES : last * CHUNK_VALUES]
        if self._native is not None:
            largest = np.empty(len(counts), np.uint8)
            self._native.codec_largest_sums(address(words), words.strides[0], len(counts), False, address(largest))
            self._check_sums(largest, counts)
            self._native.codec_naive_decode(
                address(words), words.strides[0], address(middle), address(shares), address(steps),
                here.data_ptr(), len(here), threads(),
            )  # fmt: skip
            return
        sums = unpack_sum_planes(words)
        self._check_sums(sums.max(axis=1, initial=0), counts)
        means = (sums - middle[:, None]) * shares[:, None]
        values = means.reshape(-1, GROUP_VALUES) * steps[:, None]
        here.copy_(torch.from_numpy(values.reshape(-1)[: len(here)]))

    def _check_sums(self, largest: NDArray[np.uint8], counts: NDArray[np.int64]) -> None:
        if ((largest > 2 * self._most * counts) & (counts > 0)).any():
            raise SumRangeError(f"sum {largest.max()}: a contributor adds at most {2 * self._most}")

    def _largest(self) -> NDArray[np.uint32]:
        if self._native is not None:
            bits = np.zeros(self.chunks * _GROUPS, np.uint32)
            self._native.codec_naive_largest(self._x.data_ptr(), self.length, address(bits))
            return bits
        largest = np.abs(self._values(0, self.chunks)).max(axis=1, initial=0.0)
        return np.where(np.isfinite(largest), largest.view(np.uint32), np.uint32(NOT_FINITE))

    def _in_steps(self, values: NDArray[np.float32], steps: NDArray[np.float32]) -> NDArray[np.int8]:
        """Values by group as whole numbers of steps, of at most ``most``; 0 for NaN.

        Others may have agreed on the steps without this worker.
        """
        q = np.divide(values, steps, out=np.zeros_like(values), where=steps > 0)
        np.clip(np.rint(q, out=q), -self._most, self._most, out=q)
        return np.nan_to_num(q, copy=False).astype(np.int8)

    def _values(self, first: int, last: int) -> NDArray[np.float32]:
        """x in chunks first..last-1 by group, filled up with 0."""
        values = np.zeros(((last - first) * _GROUPS, GROUP_VALUES), np.float32)
        here = self._x[first * CHUNK_VALUES : last * CHUNK_VALUES]
        values.reshape(-1)[: len(here)] = here.to("cpu", torch.float32).numpy()
        return values
