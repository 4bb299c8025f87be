# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What workers agree on before they encode: sums over chunks that norms are made of, and the scales themselves.

Sums have a fixed order of additions, so that kernels, torch and all devices give equal bits. A chunk's 1024 terms,
padded with zeros, are added by halves: term i of the second half is added to term i of the first, until one term is
left. The chunks of a block are added in that way too.

Scales that one operation hands on to the next, so that a small tensor needs one round trip instead of two.

A scale is what workers agree on for a block before they encode it: THC's norm, SUM32's exponent. The scales of the last
operation, with some room above them, are the *carried* ones. A tensor is encoded with them, and one more chunk of its
op, the *scales' chunk*, travels beside it: every worker puts its own scales in places of its own and zeros elsewhere.
So the sum shows the scales of all workers, and each finds out alike whether the carried ones fit. If they do, the
tensor's sums stand. If not, the scales are agreed on now, and the tensor is encoded once more.

Example: two workers, THC, one block each, carried norm 4.5. Worker 0 has the norm 4.0 and worker 1 the norm 3.5. The
scales' chunk shows (4.0, 3.5); the largest, 4.0, fits 4.5, and the next tensor is encoded with 1.125 x 4.0 = 4.5.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import SUM32
from torch import Tensor

from sumwire.codec.errors import CodecError
from sumwire.codec.kernels import address, float32, kernels, threads
from sumwire.codec.layout import CHUNK_VALUES

# Chunks whose terms stay in cache.
_STEP_CHUNKS: Final = 128
# A tensor's attribute: its version when its sums of squares were found, and the sums.
_KNOWN: Final = "_sumwire_square_sums"
_Float = TypeVar("_Float", np.float32, np.float64)


def square_sums(x: Tensor) -> NDArray[np.float32]:
    """Return sums of squares by chunk, in float32; infinite where they exceed its range."""
    version, known = getattr(x, _KNOWN, (None, None))
    if known is not None and version == x._version:
        sums: NDArray[np.float32] = known
        return sums
    x = x.detach()
    native = kernels(x)
    if native is None:
        return _in_torch(x, lambda values: values.to(torch.float32).square()).astype(np.float32)
    shared = threads()
    return _in_c(x, lambda *values: native.codec_square_sums(*values, shared), np.float32)


def add(x: Tensor, y: Tensor, total: Tensor) -> Tensor:
    """Write x + y to ``total``, flat and float32, and return it. On the way its `square_sums` are found: they are kept
    with it until an operation changes it.

    ``total`` must not be changed in other ways, such as through `Tensor.numpy`, before `square_sums` is called.
    """
    native = kernels(total)
    if native is None or not (_is_plain(x) and _is_plain(y)):
        return torch.add(x.detach(), y.detach(), out=total)
    length = x.numel()
    sums = np.empty(-(-length // CHUNK_VALUES), np.float32)
    native.codec_add_square_sums(x.data_ptr(), y.data_ptr(), length, total.data_ptr(), address(sums), threads())
    # A tensor of inference mode does not count its versions.
    if not total.is_inference():
        setattr(total, _KNOWN, (total._version, sums))
    return total


def _is_plain(x: Tensor) -> bool:
    return x.dtype == torch.float32 and x.is_contiguous()


def wide_square_sums(x: Tensor) -> NDArray[np.float64]:
    """Return sums of squares by chunk, in float64."""
    native = kernels(x)
    if native is None:
        return _in_torch(x, lambda values: values.to(torch.float64).square())
    return _in_c(x, native.codec_wide_square_sums, np.float64)


def magnitude_sums(x: Tensor) -> NDArray[np.float64]:
    """Return sums of magnitudes by chunk, in float64."""
    native = kernels(x)
    if native is None:
        return _in_torch(x, lambda values: values.to(torch.float64).abs())
    return _in_c(x, native.codec_magnitude_sums, np.float64)


def add_halves(terms: NDArray[_Float]) -> NDArray[_Float]:
    """Return the sum of every row; rows have a power of two of terms."""
    while terms.shape[1] > 1:
        half = terms.shape[1] // 2
        terms = terms[:, :half] + terms[:, half:]
    return terms[:, 0]


def total(sums: NDArray[np.float64]) -> float:
    """Return the sum over all chunks; infinite where it exceeds float64."""
    padded = np.zeros((1, 1 << max(len(sums) - 1, 0).bit_length()))
    padded[0, : len(sums)] = sums
    with np.errstate(over="ignore"):
        return float(add_halves(padded)[0])


def _in_c(x: Tensor, function: Callable[..., None], dtype: type[_Float]) -> NDArray[_Float]:
    sums = np.empty(-(-len(x) // CHUNK_VALUES), dtype)
    step = len(sums) if x.dtype == torch.float32 and x.is_contiguous() else _STEP_CHUNKS
    for first in range(0, len(sums), max(step, 1)):
        values = float32(x[first * CHUNK_VALUES : (first + step) * CHUNK_VALUES])
        function(values.data_ptr(), len(values), sums[first:].ctypes.data)
    return sums


def _in_torch(x: Tensor, terms_of: Callable[[Tensor], Tensor]) -> NDArray[np.float64]:
    """Return sums of ``terms_of(values)``, a new tensor, in its precision; float32 sums are given as float64."""
    sums = [np.zeros(0)]
    for first in range(0, len(x), _STEP_CHUNKS * CHUNK_VALUES):
        terms = terms_of(x[first : first + _STEP_CHUNKS * CHUNK_VALUES])
        if len(terms) % CHUNK_VALUES:
            terms = torch.nn.functional.pad(terms, (0, -len(terms) % CHUNK_VALUES))
        halves = terms.view(-1, CHUNK_VALUES)
        while halves.shape[1] > 1:
            half = halves.shape[1] // 2
            halves = halves[:, :half].add_(halves[:, half:])
        sums.append(halves[:, 0].cpu().numpy().astype(np.float64))
    return np.concatenate(sums)


# Index planes that the bytes of a norm take: a table of fewer levels has no room for them.
NORM_PLANES: Final = p4.THC_INDEX_PLANES
_NO_INDEX: Final = 255


class Scales(ABC):
    """How one codec carries its scales over. All workers do the same, with the same bits."""

    @abstractmethod
    def room(self, workers: int) -> int:
        """Return how many scales of each worker a scales' chunk holds."""

    @abstractmethod
    def pack(self, own: NDArray[np.uint32], worker: int, workers: int) -> NDArray[np.uint8]:
        """Return this worker's scales' chunk, shape (words up, 128)."""

    @abstractmethod
    def unpack(self, words: NDArray[np.uint8], count: int, workers: int) -> NDArray[np.uint32]:
        """Return the largest of all workers' scales, shape (count,), from the sum of their chunks.

        words has shape (words down, 128). Raises CodecError for what no workers can have sent.
        """

    @abstractmethod
    def carried(self, agreed: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return what the next tensor is encoded with."""

    def fit(self, carried: NDArray[np.uint32], agreed: NDArray[np.uint32]) -> bool:
        """Return whether the carried scales serve a tensor whose agreed ones are these."""
        return not self.exceeded(carried, agreed) and not self.too_wide(carried, agreed)

    @abstractmethod
    def exceeded(self, carried: NDArray[np.uint32], scales: NDArray[np.uint32]) -> bool:
        """Return whether the carried scale of some block is too small for this one, or the block is not finite."""

    @abstractmethod
    def too_wide(self, carried: NDArray[np.uint32], agreed: NDArray[np.uint32]) -> bool:
        """Return whether the carried scale of some block is so large that the block would lose precision."""


class NormScales(Scales):
    """THC's norms, as bits of float32: byte j of a worker's norm is a byte of index plane j.

    A carried norm is 9/8 of the last one, and fits a norm of 2/3 to 11/10 of it. With the published table a block's
    expected squared error is then at most 1.4 times that with its own norm, and 0.96 times where the norm stays.
    """

    ROOM: Final = np.float32(1.125)
    LEAST: Final = 2 / 3
    MOST: Final = 1.1

    def __init__(self, values: tuple[int, ...], norm_max: float) -> None:
        """``values``: of a table with 2**NORM_PLANES entries."""
        self._norm_max = np.float32(norm_max)
        # Index by table value.
        self._indices = np.full(256, _NO_INDEX, np.uint8)
        self._indices[list(values)] = np.arange(len(values))

    def room(self, workers: int) -> int:
        return p4.WORD_BYTES // workers

    def pack(self, own: NDArray[np.uint32], worker: int, workers: int) -> NDArray[np.uint8]:
        words = np.zeros((NORM_PLANES, p4.WORD_BYTES), np.uint8)
        words[:, worker * len(own) : (worker + 1) * len(own)] = own.astype(">u4").view(np.uint8).reshape(-1, 4).T
        return words

    def unpack(self, words: NDArray[np.uint8], count: int, workers: int) -> NDArray[np.uint32]:
        filled = workers * count
        sums = np.packbits(np.unpackbits(words[:, :filled], axis=1), axis=0)
        indices = self._indices[sums]
        if bool((indices == _NO_INDEX).any()) or bool(words[:, filled:].any()):
            raise CodecError("scales' chunk: sums that are no table values of one worker each")
        octets = np.packbits(np.unpackbits(indices, axis=0)[-NORM_PLANES:], axis=1)
        norms = octets.T.copy().view(">u4").astype(np.uint32)
        largest: NDArray[np.uint32] = norms.reshape(workers, count).max(axis=0)
        return largest

    def carried(self, agreed: NDArray[np.uint32]) -> NDArray[np.uint32]:
        norms: NDArray[np.float32] = np.minimum(agreed.view(np.float32) * self.ROOM, self._norm_max)
        return norms.view(np.uint32)

    def exceeded(self, carried: NDArray[np.uint32], scales: NDArray[np.uint32]) -> bool:
        # NaN is not at most anything.
        return not bool((_norms(scales) <= _norms(carried) * self.MOST).all())

    def too_wide(self, carried: NDArray[np.uint32], agreed: NDArray[np.uint32]) -> bool:
        return bool((_norms(agreed) < _norms(carried) * self.LEAST).any())


class ExponentScales(Scales):
    """SUM32's biased exponents, an element each.

    A carried exponent is one above the last one, and fits one that is up to ``SPARE`` below it: the error bound is then
    at most 2**SPARE times that with the block's own exponent. A block of zeros always fits.
    """

    SPARE: Final = 3

    def __init__(self, exponent_max: int) -> None:
        self._exponent_max = np.uint32(exponent_max)

    def room(self, workers: int) -> int:
        return SUM32.values // workers

    def pack(self, own: NDArray[np.uint32], worker: int, workers: int) -> NDArray[np.uint8]:
        elements = np.zeros(SUM32.values, ">u4")
        elements[worker * len(own) : (worker + 1) * len(own)] = own
        return elements.view(np.uint8).reshape(SUM32.up.words, p4.WORD_BYTES)

    def unpack(self, words: NDArray[np.uint8], count: int, workers: int) -> NDArray[np.uint32]:
        elements = np.ascontiguousarray(words).reshape(-1).view(">u4").astype(np.uint32)
        filled = workers * count
        if bool(elements[filled:].any()):
            raise CodecError("scales' chunk: an element that belongs to no worker is not 0")
        largest: NDArray[np.uint32] = elements[:filled].reshape(workers, count).max(axis=0)
        return largest

    def carried(self, agreed: NDArray[np.uint32]) -> NDArray[np.uint32]:
        return np.where(agreed > 0, np.minimum(agreed + np.uint32(1), self._exponent_max), np.uint32(0))

    def exceeded(self, carried: NDArray[np.uint32], scales: NDArray[np.uint32]) -> bool:
        return bool((scales > carried).any())

    def too_wide(self, carried: NDArray[np.uint32], agreed: NDArray[np.uint32]) -> bool:
        return bool(((agreed + np.uint32(self.SPARE) < carried) & (agreed > 0)).any())


def _norms(bits: NDArray[np.uint32]) -> NDArray[np.float64]:
    return bits.view(np.float32).astype(np.float64)
