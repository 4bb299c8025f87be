# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Signs on the wire, and the sign methods that replace a gradient's mean.

A set bit is plus. Value i of a chunk is bit i from the left of its words: 8192 to a SIGN chunk, 2048 to a VOTE chunk.
Zero, of either sign, is plus. Padding after the last value is sent as minus and never read.

* vote: signSGD with majority vote (Bernstein et al., ICML 2018). The result is the majority's sign, a tie is plus.
* ef-sign: EF-signSGD (Karimireddy et al., ICML 2019). A worker stands for (|g|_1 / d) sign(g) and keeps
  what that leaves out of g. The result is the mean of the workers' scales times their merged signs: what
  the workers stand for, in expectation, where their scales are equal.
* ssdm: stochastic signs (Safaryan, Richtarik, ICML 2021). A sign is plus with probability 1/2 + g_i / (2 |g|_2), so its
  mean is g / |g|_2. The result is the merged signs. A zero gradient gives signs of mean zero.

Merged signs (the SIGN op) are one of the workers' signs, each with the same probability, drawn for every value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire import _p4 as p4
from sumwire.codec.base import CodecInfo, CodecRound, GradientCodec
from sumwire.codec.errors import CodecError, NormRangeError
from sumwire.codec.seeds import LANES, RoundingStream
from sumwire.codec.values import check_values, result_dtype


def signs(x: Tensor) -> Tensor:
    """Whether each value is plus: bool, x's shape. Zero and minus zero are plus."""
    return x >= 0


def pack_signs(plus: NDArray[np.bool_], words: int) -> NDArray[np.uint8]:
    """Signs of shape (length,) to chunks of shape (chunks, words, 128). Raises CodecError for other input."""
    if plus.dtype != np.bool_ or plus.ndim != 1:
        raise CodecError(f"{plus.dtype} signs of shape {plus.shape}: needs bool (length,)")
    chunk_bytes = words * p4.WORD_BYTES
    bits = np.packbits(plus)
    chunks = -(-len(bits) // chunk_bytes)
    packed = np.zeros(chunks * chunk_bytes, np.uint8)
    packed[: len(bits)] = bits
    return packed.reshape(chunks, words, p4.WORD_BYTES)


def unpack_signs(words: NDArray[np.uint8], length: int) -> NDArray[np.bool_]:
    """The first `length` signs of chunks, bool. Raises CodecError if there are not that many."""
    if words.dtype != np.uint8 or not 0 <= length <= words.size * 8:
        raise CodecError(f"{words.dtype} words of shape {words.shape}: need uint8 with at least {length} signs")
    return np.unpackbits(words.reshape(-1), count=length).view(np.bool_)


def plus_minus(plus: Tensor, dtype: torch.dtype) -> Tensor:
    """+1 and -1 for signs."""
    return plus.to(dtype).mul_(2).sub_(1)


class _SignRound(CodecRound):
    """A round whose payload is one bit a value; `_factor` is what a sign of the result stands for."""

    def __init__(self, info: CodecInfo, x: Tensor, plus: Tensor) -> None:
        super().__init__(info, len(x), -(-len(x) // info.chunk_values), 1)
        self._x = x
        self._plus = plus.cpu().numpy()
        self._factor = 1.0

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """Zeros: these methods have no memory."""
        self._check_residual(included)
        return torch.zeros(len(self._x), dtype=result_dtype(self._x), device=self._x.device)

    def _new_result(self) -> Tensor:
        return torch.empty(len(self._x), dtype=result_dtype(self._x), device=self._x.device)

    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        out[:] = pack_signs(self._plus[self._values(first, last)], self._info.words_up)

    def _decode_part(
        self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.int64], target: Tensor
    ) -> None:
        """+-factor for each sign of the result; zeros where a chunk has no contributors."""
        part = target[self._values(first, last)]
        plus = torch.from_numpy(unpack_signs(words, len(part))).to(part.device)
        part.copy_(plus).mul_(2).sub_(1).mul_(self._factor)
        for chunk in np.flatnonzero(counts == 0):
            target[self._values(first + int(chunk), first + int(chunk) + 1)] = 0.0

    def _values(self, first: int, last: int) -> slice:
        per_chunk = self._info.chunk_values
        return slice(first * per_chunk, min(last * per_chunk, self.length))


class VoteCodec(GradientCodec):
    """signSGD with majority vote."""

    info: ClassVar[CodecInfo] = CodecInfo(
        "vote", p4.OP_VOTE, p4.VOTE_WORDS_UP, p4.VOTE_WORDS_DOWN, p4.VOTE_WORDS_UP * p4.WORD_BITS
    )

    def begin(self, x: Tensor, sequence: int, bucket: int) -> _SignRound:
        x = check_values(x, f"bucket {bucket} of round {sequence}")
        return _SignRound(self.info, x, signs(x))

    def ordinary(self, x: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
        """The majority, counted by the ordinary all-reduce."""
        # A mean of a few +-1 is 0 in a tie: their sum is exact.
        return plus_minus(signs(mean(plus_minus(signs(x), torch.float32))), torch.float32)


class EfSignCodec(GradientCodec):
    """EF-signSGD for one worker of `workers`. Its scale travels in a MAX32 lane of its own."""

    info: ClassVar[CodecInfo] = CodecInfo(
        "ef-sign", p4.OP_SIGN, p4.SIGN_WORDS, p4.SIGN_WORDS, p4.SIGN_WORDS * p4.WORD_BITS, p4.OP_MAX32
    )

    def __init__(self, *, worker: int, workers: int) -> None:
        self.worker = worker
        self.workers = workers

    def begin(self, x: Tensor, sequence: int, bucket: int) -> _EfSignRound:
        """Raises NormRangeError if the mean magnitude is beyond float32, NonFiniteError and CodecError."""
        x = check_values(x, f"bucket {bucket} of round {sequence}")
        return _EfSignRound(self.info, x, self.worker, self.workers)


class _EfSignRound(_SignRound):
    def __init__(self, info: CodecInfo, x: Tensor, worker: int, workers: int) -> None:
        super().__init__(info, x, signs(x))
        self._worker = worker
        self._workers = workers
        magnitude = float(x.abs().mean(dtype=torch.float64)) if len(x) else 0.0
        with np.errstate(over="ignore"):
            self._scale = np.float32(magnitude)
        if not np.isfinite(self._scale):
            raise NormRangeError(f"mean magnitude {magnitude!r}: must be below 2**128")

    def preliminary(self) -> NDArray[np.uint32]:
        """All workers' scales as float32 bits; the other workers' are 0 here, and the maximum fills them in."""
        scales = np.zeros(self._workers, np.float32)
        scales[self._worker] = self._scale
        return scales.view(np.uint32)

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """x minus what this worker stands for; x itself in chunks where it is not included."""
        self._check_residual(included)
        dtype = result_dtype(self._x)
        own = plus_minus(torch.from_numpy(self._plus).to(self._x.device), dtype).mul_(float(self._scale))
        if included is not None:
            for chunk in np.flatnonzero(~included):
                own[self._values(int(chunk), int(chunk) + 1)] = 0.0
        return self._x.to(dtype) - own

    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        """The signs. Raises CodecError unless `agreed` has every worker's scale."""
        if agreed.dtype != np.uint32 or agreed.shape != (self._workers,):
            raise CodecError(f"{agreed.dtype} scales of shape {agreed.shape}: needs uint32 ({self._workers},)")
        scales = np.ascontiguousarray(agreed).view(np.float32).astype(np.float64)
        if not np.isfinite(scales).all():
            raise CodecError(f"scales {scales}: must be finite")
        self._factor = float(scales.mean())
        super()._encode_part(agreed, first, last, out)


class SsdmCodec(GradientCodec):
    """Stochastic signs of one worker of one job."""

    info: ClassVar[CodecInfo] = CodecInfo(
        "ssdm", p4.OP_SIGN, p4.SIGN_WORDS, p4.SIGN_WORDS, p4.SIGN_WORDS * p4.WORD_BITS
    )

    def __init__(self, *, job: int, worker: int) -> None:
        self.job = job
        self.worker = worker

    def begin(self, x: Tensor, sequence: int, bucket: int) -> _SignRound:
        x = check_values(x, f"bucket {bucket} of round {sequence}")
        padded = -(-len(x) // LANES) * LANES
        uniform = RoundingStream.of(self.job, self.worker, sequence, bucket, x.device).uniform(0, padded)[: len(x)]
        return _SignRound(self.info, x, uniform < 0.5 + 0.5 * _direction(x))

    def ordinary(self, x: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
        """What the stochastic signs are in the mean."""
        return mean(_direction(x).to("cpu", torch.float32))


def _direction(x: Tensor) -> Tensor:
    """g / |g|_2, zeros for a zero gradient."""
    norm = torch.linalg.vector_norm(x, dtype=torch.float64)
    return torch.where(norm > 0, x.to(torch.float64) / torch.where(norm > 0, norm, 1.0), 0.0).to(result_dtype(x))
