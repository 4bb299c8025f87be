# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Signs on the wire, and the sign methods that replace a gradient's mean.

A set bit is plus. Value i of a chunk is bit i from the left of its words: 8192 to a SIGN chunk, 2048 to a VOTE chunk.
Zero, of either sign, is plus. Padding after the last value is sent as minus and never read.

* sign: the merged signs.
* vote: signSGD with majority vote (Bernstein et al., ICML 2018). The result is the majority's sign, a tie is plus.
* ef-sign: EF-signSGD (Karimireddy et al., ICML 2019). A worker sends (|g|_1 / d) sign(g) and keeps
  what that leaves out of g. The result is the mean of the workers' scales times their merged signs. If the scales
  are equal, its expectation is the mean of what the workers sent.
* ssdm: stochastic signs (Safaryan, Richtarik, ICML 2021). A sign is plus with probability 1/2 + g_i / (2 |g|_2), so its
  mean is g / |g|_2. The result is the merged signs. A zero gradient gives signs of mean zero.

Merged signs (the SIGN op) are one of the workers' signs, each with the same probability, drawn for every value.

A chunk with NaN or infinity is sent with the flag OVERFLOW, which the result keeps, and becomes NaN on all workers.
With ef-sign and ssdm, whose signs depend on a norm of the tensor, all of the tensor does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import MAX32, SIGN, VOTE
from torch import Tensor

from sumwire.codec.base import CodecInfo, CodecRound, GradientCodec
from sumwire.codec.errors import CodecError
from sumwire.codec.norms import magnitude_sums, total, wide_square_sums
from sumwire.codec.seeds import RoundingStream
from sumwire.codec.sign_bits import draw_signs, read_signs, write_signs
from sumwire.codec.values import check_kind, not_finite, result_dtype

# Values that stay in cache.
STEP_VALUES: Final = 1 << 18


def signs(x: Tensor) -> Tensor:
    """Return whether each value is plus: bool, x's shape. Zero and minus zero are plus."""
    return x >= 0


def pack_signs(plus: NDArray[np.bool_], words: int) -> NDArray[np.uint8]:
    """Return signs of shape (length,) as chunks of shape (chunks, words, 128). Raises CodecError for other input."""
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
    """Return +1 and -1 for signs, of the given dtype."""
    return plus.to(dtype).mul_(2).sub_(1)


class _SignRound(CodecRound):
    """A round whose payload is one bit a value. `_factor` is the magnitude of the result's values."""

    def __init__(
        self,
        codec: GradientCodec,
        x: Tensor,
        packed: NDArray[np.uint8],
        outside: NDArray[np.bool_] | None = None,
    ) -> None:
        self._packed = packed.reshape(-1, codec.info.words_up, p4.WORD_BYTES)
        super().__init__(codec, x, len(self._packed), 1)
        self._factor = 1.0
        self._outside = outside

    @property
    def outside(self) -> NDArray[np.bool_] | None:
        return self._outside

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """Zeros: these methods have no memory."""
        self._check_residual(included)
        return self._new_result().zero_()

    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        out[:] = self._packed[first:last]

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


def _plain_round(codec: GradientCodec, x: Tensor, kind: type[_SignRound] = _SignRound) -> _SignRound:
    """Return a round with the values' own signs."""
    x = check_kind(x)
    packed = _room(x, codec)
    outside: NDArray[np.bool_] | None = None
    for i, (part, octets) in enumerate(_parts(x, packed)):
        if not read_signs(part, octets):
            outside = np.zeros(codec.chunks(len(x)), np.bool_) if outside is None else outside
            values = i * STEP_VALUES + torch.isfinite(part).logical_not_().nonzero().cpu().numpy()
            outside[values // codec.info.chunk_values] = True
    return kind(codec, x, packed, outside)


def _signs_or_nan(x: Tensor) -> Tensor:
    """Return +1 or -1 for every value, float32; NaN for one that is not finite."""
    return plus_minus(signs(x), torch.float32).masked_fill_(~torch.isfinite(x), torch.nan)


class SignCodec(GradientCodec):
    """Merged signs: every value of the result is +1 or -1, the sign of one of the workers."""

    info: ClassVar[CodecInfo] = CodecInfo.of("sign", SIGN)

    def begin(self, x: Tensor, sequence: int, bucket: int) -> _SignRound:
        return _plain_round(self, x)

    def ordinary(self, x: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the expectation of the merged signs."""
        return mean(_signs_or_nan(x))


class VoteCodec(GradientCodec):
    """signSGD with majority vote."""

    info: ClassVar[CodecInfo] = CodecInfo.of("vote", VOTE)

    def begin(self, x: Tensor, sequence: int, bucket: int) -> _SignRound:
        return _plain_round(self, x, _VoteRound)

    def ordinary(self, x: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the majority's signs, counted by the ordinary all-reduce."""
        # A mean of a few +-1 is 0 in a tie: their sum is exact.
        return _signs_or_nan(mean(_signs_or_nan(x)))


class EfSignCodec(GradientCodec):
    """EF-signSGD for one worker of `workers`. Its scale travels in a MAX32 element of its own."""

    info: ClassVar[CodecInfo] = CodecInfo.of("ef-sign", SIGN, MAX32)

    def __init__(self, *, worker: int, workers: int) -> None:
        super().__init__()
        self.worker = worker
        self.workers = workers

    def begin(self, x: Tensor, sequence: int, bucket: int) -> _EfSignRound:
        """See GradientCodec. A mean magnitude beyond float32 counts as infinite."""
        return _EfSignRound(self, check_kind(x))


class _EfSignRound(_SignRound):
    def __init__(self, codec: EfSignCodec, x: Tensor) -> None:
        packed = _room(x, codec)
        sums: list[float] = []
        for part, octets in _parts(x, packed):
            read_signs(part, octets)
            sums += magnitude_sums(part).tolist()
        scale = _mean_magnitude(sums, len(x))
        finite = bool(np.isfinite(scale))
        super().__init__(codec, x if finite else torch.zeros_like(x), packed)
        self._worker = codec.worker
        self._workers = codec.workers
        # NaN is sent, with the bits of NOT_FINITE.
        self._scale = scale if finite else np.float32(np.nan)

    def preliminary(self) -> NDArray[np.uint32]:
        """All workers' scales as float32 bits, shape (workers,). The other workers' are 0 and come from the maximum.

        NOT_FINITE if this worker's values are not finite."""
        scales = np.zeros(self._workers, np.float32)
        scales[self._worker] = self._scale
        return scales.view(np.uint32)

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """x minus what this worker sent; x itself in chunks where it is not included."""
        self._check_residual(included)
        left = self._new_result()
        write_signs(self._packed, float(np.nan_to_num(self._scale)), left, self.length)
        torch.sub(self._x, left, out=left)
        if included is not None:
            for chunk in np.flatnonzero(~included):
                values = self._values(int(chunk), int(chunk) + 1)
                left[values] = self._x[values]
        return left

    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        """Write the signs. Raises CodecError unless `agreed` has every worker's scale."""
        if agreed.dtype != np.uint32 or agreed.shape != (self._workers,):
            raise CodecError(f"{agreed.dtype} scales of shape {agreed.shape}: needs uint32 ({self._workers},)")
        self._spoiled[first:last] = spoiled = bool(not_finite(agreed).any())
        scales = np.ascontiguousarray(agreed).view(np.float32).astype(np.float64)
        if not spoiled and not np.isfinite(scales).all():
            raise CodecError(f"scales {scales}: must be finite, or NaN without a sign")
        self._factor = 0.0 if spoiled else float(scales.mean())
        super()._encode_part(agreed, first, last, out)


class SsdmCodec(GradientCodec):
    """Stochastic signs of one worker of one job."""

    info: ClassVar[CodecInfo] = CodecInfo.of("ssdm", SIGN)

    def __init__(self, *, job: int, worker: int) -> None:
        super().__init__()
        self.job = job
        self.worker = worker

    def begin(self, x: Tensor, sequence: int, bucket: int) -> _SignRound:
        x = check_kind(x)
        inverse = _inverse_norm(x)
        outside = None
        if math.isnan(inverse):
            outside = np.ones(self.chunks(len(x)), np.bool_)
            x = torch.zeros_like(x)
        stream = RoundingStream.of(self.job, self.worker, sequence, bucket, x.device)
        packed = _room(x, self)
        for i, (part, octets) in enumerate(_parts(x, packed)):
            draw_signs(part, inverse, stream, i * STEP_VALUES, octets)
        return _SignRound(self, x, packed, outside)

    def ordinary(self, x: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the expectation of the stochastic signs."""
        return mean(_direction(x).to("cpu", torch.float32))


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


def _mean_magnitude(sums: Sequence[float], count: int) -> np.float32:
    """Return the mean magnitude, from sums of magnitudes by chunk; infinite beyond float32."""
    with np.errstate(over="ignore"):
        return np.float32(total(np.array(sums)) / max(count, 1))


def _room(x: Tensor, codec: GradientCodec) -> NDArray[np.uint8]:
    """Return zeros for the payload of x's chunks, uint8."""
    octets = codec.chunks(len(x)) * codec.info.words_up * p4.WORD_BYTES
    return codec.memory.empty(octets, torch.uint8).zero_().numpy()


def _parts(x: Tensor, packed: NDArray[np.uint8]) -> Iterator[tuple[Tensor, NDArray[np.uint8]]]:
    """Yield the tensor in pieces that stay in cache, each with the bytes from its first bit on."""
    return ((x[i : i + STEP_VALUES], packed[i // 8 :]) for i in range(0, len(x), STEP_VALUES))
