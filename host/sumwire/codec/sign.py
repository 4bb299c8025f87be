# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sign methods: merged signs, signSGD with majority vote, SSDM and EF-signSGD.

A set bit is plus, and zero of either sign is plus. Value i of a chunk is bit i from the left of its words: 8192 to a
SIGN chunk, 2048 to a VOTE chunk. Padding after the last value is sent as minus and never read. The native kernels and
torch give equal bits.

* sign (:class:`SignCodec`): merged signs (the SIGN op) are one of the workers' signs, each with the same probability,
  drawn for every value.
* vote (:class:`VoteCodec`): signSGD with majority vote (Bernstein et al., ICML 2018). The result is the majority's
  sign, a tie is plus.
* ssdm (:class:`SsdmCodec`): stochastic sign descent with momentum (Safaryan, Richtarik, ICML 2021, arXiv 1905.12938).
  A worker keeps a momentum m = momentum x m + g. A sign is plus with probability 1/2 + m_i / (2 |m|_2), so its mean is
  m / |m|_2. The result is the mean of the workers' signs. A zero momentum gives signs of mean zero. Signs of plus are
  counted in fields of 5 bits (:class:`sumwire.codec.sum32.Fields`), so at most 31 workers take part.
* ef-sign (:class:`EfSignCodec`): EF-signSGD (Karimireddy et al., ICML 2019, arXiv 1901.09847), with every worker's own
  scale s = |g|_1 / d. Workers agree on the largest one, S, and a worker stands for q S / Q sign(g): q is s / S in whole
  Q-ths, at least 1. Q is as large as a field of 6 bits allows, 63 // 2n for n workers. The rest of g is the residual,
  which includes the rounding of the scale. A field is Q + q sign(g), and the result is the exact mean of what the
  workers stand for.
  Example: 4 workers, Q = 7. Of scales 16 and 1 the first worker sends +-7 sevenths of 16, the second +-1 seventh of it.

A chunk with NaN or infinity is sent with the flag OVERFLOW, which the result keeps, and becomes NaN on all workers;
with ssdm and ef-sign the whole tensor does. So does, with ef-sign, a mean magnitude beyond float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import MAX32, SIGN, VOTE
from torch import Tensor

from sumwire.codec.base import CodecInfo, CodecRound, GradientCodec
from sumwire.codec.errors import CodecError
from sumwire.codec.kernels import address, float32, kernels, magnitude_sums, total, wide_square_sums
from sumwire.codec.seeds import DRAWN_TOGETHER, RoundingStream
from sumwire.codec.sum32 import Fields
from sumwire.codec.tensors import check_kind, not_finite, result_dtype
from sumwire.numeric import is_number, is_whole


def read_signs(x: Tensor, octets: NDArray[np.uint8]) -> bool:
    """Write x's signs to the first bytes of octets; the rest of the last byte becomes 0.

    Returns whether all values are finite.
    """
    native = kernels(x)
    if native is None:
        _put(x >= 0, octets)
        return bool(torch.isfinite(x).all())
    values = float32(x)
    return bool(native.codec_pack_signs(values.data_ptr(), len(values), octets.ctypes.data))


def read_sign_chunks(x: Tensor, words: NDArray[np.uint8]) -> NDArray[np.bool_] | None:
    """Write x's signs to words of shape (chunks, words, 128), with any stride between chunks. Padding becomes 0.

    Returns which chunks have values that are not finite, bool (chunks,); None for none.
    """
    native = kernels(x)
    chunk_bytes = words.shape[1] * words.shape[2]
    if native is None:
        octets = np.zeros(len(words) * chunk_bytes, np.uint8)
        finite = read_signs(x, octets)
        words[:] = octets.reshape(words.shape)
        return None if finite else _not_finite(x, len(words), chunk_bytes * 8)
    values, outside = float32(x), np.empty(len(words), np.bool_)
    finite = native.codec_pack_sign_chunks(
        values.data_ptr(), len(values), chunk_bytes, address(words), words.strides[0], address(outside)
    )
    return None if finite else outside


def _not_finite(x: Tensor, chunks: int, chunk_values: int) -> NDArray[np.bool_]:
    outside = np.zeros(chunks, np.bool_)
    outside[torch.isfinite(x).logical_not_().nonzero().cpu().numpy() // chunk_values] = True
    return outside


def draw_signs(x: Tensor, inverse: float, stream: RoundingStream, first_value: int, octets: NDArray[np.uint8]) -> None:
    """Write random signs of x, plus with probability 1/2 + x inverse / 2, to the first bytes of octets.

    They are drawn by the stream's numbers from first_value on, a multiple of 32.
    """
    native = kernels(x)
    if native is None:
        uniform = stream.uniform(first_value, -(-len(x) // DRAWN_TOGETHER) * DRAWN_TOGETHER)[: len(x)]
        direction = x.to(torch.float64).mul_(inverse).to(result_dtype(x))
        _put(uniform < 0.5 + 0.5 * direction, octets)
        return
    values = float32(x)
    native.codec_draw_signs(values.data_ptr(), len(values), inverse, stream.key, first_value, octets.ctypes.data)


def write_signs(words: NDArray[np.uint8], factor: float, target: Tensor, tensor_values: int) -> None:
    """Fill target with +-factor, by the first signs of words, shape (chunks, words, 128). target is part of a tensor of
    ``tensor_values`` values."""
    native = kernels(target)
    if native is None:
        plus = np.unpackbits(words.reshape(-1), count=len(target))
        target.copy_(torch.from_numpy(plus)).mul_(2).sub_(1).mul_(factor)
        return
    chunk_bytes = words.shape[1] * words.shape[2]
    native.codec_unpack_signs(
        words.ctypes.data, words.strides[0], chunk_bytes, factor, target.data_ptr(), len(target), tensor_values
    )


def _put(plus: Tensor, octets: NDArray[np.uint8]) -> None:
    bits = np.packbits(plus.cpu().numpy())
    octets[: len(bits)] = bits


def signs(x: Tensor) -> Tensor:
    """Return whether each value is plus: bool, x's shape. Zero and minus zero are plus."""
    return x >= 0


def pack_signs(plus: NDArray[np.bool_], words: int) -> NDArray[np.uint8]:
    """Pack signs of shape (length,) into chunks of shape (chunks, words, 128). Raises CodecError for other input."""
    if plus.dtype != np.bool_ or plus.ndim != 1:
        raise CodecError(f"{plus.dtype} signs of shape {plus.shape}: needs bool (length,)")
    chunk_bytes = words * p4.WORD_BYTES
    bits = np.packbits(plus)
    chunks = -(-len(bits) // chunk_bytes)
    packed = np.zeros(chunks * chunk_bytes, np.uint8)
    packed[: len(bits)] = bits
    return packed.reshape(chunks, words, p4.WORD_BYTES)


def unpack_signs(words: NDArray[np.uint8], length: int) -> NDArray[np.bool_]:
    """Return the first `length` signs of chunks, bool. Raises CodecError if there are fewer."""
    if words.dtype != np.uint8 or not 0 <= length <= words.size * 8:
        raise CodecError(f"{words.dtype} words of shape {words.shape}: need uint8 with at least {length} signs")
    return np.unpackbits(words.reshape(-1), count=length).view(np.bool_)


def plus_minus(plus: Tensor, dtype: torch.dtype) -> Tensor:
    """Return +1 and -1 for signs, bool, in the given dtype."""
    # Of bool torch converts one by one.
    return plus.view(torch.int8).to(dtype).mul_(2).sub_(1)


class _SignRound(CodecRound):
    """A round whose payload is one bit a value. `_factor` is the magnitude of the result's values."""

    def __init__(self, codec: GradientCodec, x: Tensor) -> None:
        x = check_kind(x)
        super().__init__(codec, x, codec.chunks(len(x)), 1)
        self._factor = 1.0
        self._outside: NDArray[np.bool_] | None = None

    @property
    def outside(self) -> NDArray[np.bool_] | None:
        return self._outside

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """Zeros: these methods have no memory."""
        self._check_residual(included)
        return self._new_result().zero_()

    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        outside = read_sign_chunks(self._x[self._values(first, last)], out)
        if outside is None:
            return
        if self._outside is None:
            self._outside = np.zeros(self.chunks, np.bool_)
        self._outside[first:last] = outside

    def _decode_part(
        self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.int64], target: Tensor
    ) -> None:
        """Write +-factor for each sign of the result, and zeros for a chunk without contributors.

        If sums are divided by all workers, values of a chunk with missing ones shrink in proportion.
        """
        write_signs(words, self._factor, target[self._values(first, last)], self.length)
        present = counts / np.maximum(self._divisors(counts), 1)
        for chunk in np.flatnonzero(present != 1):
            here = target[self._values(first + int(chunk), first + int(chunk) + 1)]
            here.copy_(here * float(present[chunk]) if present[chunk] else torch.zeros_like(here))

    def _take_overflows(self, first: int, last: int, overflows: NDArray[np.bool_]) -> None:
        self._spoiled[first:last] = overflows

    def _values(self, first: int, last: int) -> slice:
        per_chunk = self._info.chunk_values
        return slice(first * per_chunk, min(last * per_chunk, self.length))


class _VoteRound(_SignRound):
    """A round whose result is a majority and not a sum."""

    def divide_by(self, workers: int) -> None:
        """Do nothing: a missing worker has no vote."""


def _signs_or_nan(x: Tensor) -> Tensor:
    """Return +1 or -1 for every value, float32; NaN for one that is not finite."""
    return plus_minus(signs(x), torch.float32).masked_fill_(~torch.isfinite(x), torch.nan)


class SignCodec(GradientCodec):
    """Merged signs: every value of the result is +1 or -1, the sign of one of the workers."""

    info: ClassVar[CodecInfo] = CodecInfo.of("sign", SIGN)

    def begin(self, x: Tensor, sequence: int, bucket: int) -> _SignRound:
        return _SignRound(self, x)

    def ordinary(self, x: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the expectation of the merged signs."""
        return mean(_signs_or_nan(x))


class VoteCodec(GradientCodec):
    """signSGD with majority vote."""

    info: ClassVar[CodecInfo] = CodecInfo.of("vote", VOTE)

    def begin(self, x: Tensor, sequence: int, bucket: int) -> _SignRound:
        return _VoteRound(self, x)

    def ordinary(self, x: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the majority's signs, counted by the ordinary all-reduce."""
        # A mean of a few +-1 is 0 in a tie: their sum is exact.
        return _signs_or_nan(mean(_signs_or_nan(x)))


_SSDM_FIELDS: Final = Fields(5)
MOMENTUM: Final = 0.9
CHUNK_VALUES: Final = _SSDM_FIELDS.chunk_values


def check_momentum(momentum: float) -> None:
    """Raises CodecError for a momentum that is not from 0 to below 1."""
    if not is_number(momentum) or not 0 <= momentum < 1:
        raise CodecError(f"momentum = {momentum!r}: must be from 0 to below 1")


class SsdmCodec(GradientCodec):
    """Stochastic signs (SSDM) for one worker of one job. ``momentum`` times a round's tensor is added to the next
    gradient.

    Raises CodecError unless 0 <= momentum < 1.
    """

    info: ClassVar[CodecInfo] = _SSDM_FIELDS.info("ssdm")

    def __init__(self, *, job: int, worker: int, momentum: float = MOMENTUM) -> None:
        super().__init__()
        check_momentum(momentum)
        self.job = job
        self.worker = worker
        self.momentum = momentum

    def begin(self, x: Tensor, sequence: int, bucket: int) -> CodecRound:
        return _SsdmRound(self, check_kind(x), sequence, bucket)

    def ordinary(self, x: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the expectation of the stochastic signs."""
        return mean(_direction(x).to("cpu", torch.float32))

    def left_by_ordinary(self, x: Tensor) -> Tensor:
        """Return the momentum to which the next gradient is added, as after a normal round."""
        return self.left_unsent(x)

    def left_unsent(self, x: Tensor) -> Tensor:
        return super().left_unsent(x).mul_(self.momentum)


class _SsdmRound(CodecRound):
    def __init__(self, codec: SsdmCodec, x: Tensor, sequence: int, bucket: int) -> None:
        self._inverse = _inverse_norm(x)
        self._finite = not math.isnan(self._inverse)
        super().__init__(codec, x if self._finite else torch.zeros_like(x), codec.chunks(len(x)), 1)
        self._momentum = codec.momentum
        self._stream = RoundingStream.of(codec.job, codec.worker, sequence, bucket, x.device)

    @property
    def outside(self) -> NDArray[np.bool_] | None:
        return None if self._finite else np.ones(self.chunks, np.bool_)

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """The momentum that the next gradient is added to, whoever was included."""
        self._check_residual(included)
        return torch.mul(self._x, self._momentum, out=self._new_result())

    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        values = self._x[first * CHUNK_VALUES : last * CHUNK_VALUES]
        octets = np.zeros((last - first) * CHUNK_VALUES // 8, np.uint8)
        if len(values):
            inverse = self._inverse if self._finite else 0.0
            draw_signs(values, inverse, self._stream, first * CHUNK_VALUES, octets)
        out[:] = _SSDM_FIELDS.pack(np.unpackbits(octets).astype(np.int32))

    def _decode_part(
        self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.int64], target: Tensor
    ) -> None:
        """Write the means of signs; zeros for a chunk without contributors."""
        _SSDM_FIELDS.check_counts(counts, 1)
        plus = _SSDM_FIELDS.unpack(words)
        divisors = np.maximum(self._divisors(counts), 1)[:, None]
        means = np.where(counts[:, None] > 0, (2 * plus - counts[:, None]) / divisors, 0.0)
        here = target[first * CHUNK_VALUES : last * CHUNK_VALUES]
        here.copy_(torch.from_numpy(means.reshape(-1)[: len(here)]))

    def _take_overflows(self, first: int, last: int, overflows: NDArray[np.bool_]) -> None:
        self._spoiled[first:last] = overflows


def _direction(x: Tensor) -> Tensor:
    """g / |g|_2, zeros for a zero gradient."""
    return x.to(torch.float64).mul_(_inverse_norm(x)).to(result_dtype(x))


def _inverse_norm(x: Tensor) -> float:
    """1 / |x|_2, 0 for a norm of 0 or one beyond float64; NaN if a value is NaN or infinite."""
    norm = math.sqrt(total(wide_square_sums(x)))
    # Of finite values, the sum of squares is only infinite for float64.
    if norm == math.inf and not bool(torch.isfinite(x).all()):
        return math.nan
    return 1.0 / norm if norm else 0.0


_LEVEL_FIELDS: Final = Fields(6)
WORKERS_MAX: Final = _LEVEL_FIELDS.most // 2


class EfSignCodec(GradientCodec):
    """EF-signSGD for one of ``workers``. Raises CodecError if there are more than a field can count."""

    info: ClassVar[CodecInfo] = _LEVEL_FIELDS.info("ef-sign", MAX32.code)

    def __init__(self, *, workers: int) -> None:
        super().__init__()
        if not is_whole(workers, 1, WORKERS_MAX):
            rule = f"must be a whole number in 1..{WORKERS_MAX}, as many as a field counts"
            raise CodecError(f"workers = {workers!r}: {rule}")
        self.levels = _LEVEL_FIELDS.most // (2 * workers)

    def begin(self, x: Tensor, sequence: int, bucket: int) -> CodecRound:
        """See GradientCodec. A mean magnitude beyond float32 counts as infinite."""
        return _EfSignRound(self, check_kind(x))


class _EfSignRound(CodecRound):
    def __init__(self, codec: EfSignCodec, x: Tensor) -> None:
        with np.errstate(over="ignore"):
            self._scale = np.float32(total(magnitude_sums(x)) / max(len(x), 1))
        if not np.isfinite(self._scale):
            x = torch.zeros_like(x)
            # NaN is sent, with the bits of NOT_FINITE.
            self._scale = np.float32(np.nan)
        super().__init__(codec, x, codec.chunks(len(x)), 1)
        self._levels = codec.levels
        # What the worker stands for, and the unit that sums are counted in.
        self._own = self._unit = 0.0

    def preliminary(self) -> NDArray[np.uint32]:
        """This worker's scale as float32 bits, shape (1,); NOT_FINITE if its values are not finite. Bits of floats from
        0 on order like the floats."""
        return np.array([self._scale], np.float32).view(np.uint32)

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """x minus what this worker stands for; x itself in chunks where it is not included."""
        self._check_residual(included)
        signs = torch.where(self._x >= 0, self._own, -self._own)
        left = torch.sub(self._x, signs, out=self._new_result())
        if included is not None:
            for chunk in np.flatnonzero(~included):
                values = slice(int(chunk) * _LEVEL_FIELDS.chunk_values, (int(chunk) + 1) * _LEVEL_FIELDS.chunk_values)
                left[values] = self._x[values]
        return left

    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        """Write the fields. Raises CodecError unless `agreed` is a scale."""
        if agreed.dtype != np.uint32 or agreed.shape != (1,):
            raise CodecError(f"{agreed.dtype} scales of shape {agreed.shape}: needs uint32 (1,)")
        self._spoiled[first:last] = spoiled = bool(not_finite(agreed)[0])
        largest = 0.0 if spoiled else float(np.ascontiguousarray(agreed).view(np.float32)[0])
        if not 0 <= largest < np.inf:
            raise CodecError(f"scale {largest}: must be finite and not negative, or NaN without a sign")
        steps = self._steps(largest)
        self._unit = largest / self._levels
        self._own = steps * self._unit
        here = self._x[first * _LEVEL_FIELDS.chunk_values : last * _LEVEL_FIELDS.chunk_values]
        fields = np.zeros((last - first) * _LEVEL_FIELDS.chunk_values, np.int32)
        fields[: len(here)] = torch.where(here >= 0, self._levels + steps, self._levels - steps).cpu().numpy()
        out[:] = _LEVEL_FIELDS.pack(fields)

    def _decode_part(
        self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.int64], target: Tensor
    ) -> None:
        """Write the means; zeros for a chunk without contributors."""
        _LEVEL_FIELDS.check_counts(counts, 2 * self._levels)
        sums = _LEVEL_FIELDS.unpack(words)
        units = self._unit / np.maximum(self._divisors(counts), 1)
        means = np.where(counts > 0, units, 0.0)[:, None] * (sums - self._levels * counts[:, None])
        here = target[first * _LEVEL_FIELDS.chunk_values : last * _LEVEL_FIELDS.chunk_values]
        here.copy_(torch.from_numpy(means.reshape(-1)[: len(here)]))

    def _steps(self, largest: float) -> int:
        """The worker's scale in steps; all of them where others agreed without this worker, on less."""
        if not largest or np.isnan(self._scale):
            return 0
        return min(max(round(float(self._scale) / largest * self._levels), 1), self._levels)
