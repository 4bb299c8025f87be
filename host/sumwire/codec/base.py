# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What every gradient codec offers to the layers above, and the registry of codecs."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sumwire import _p4 as p4
from sumwire.codec.errors import CodecError


@dataclass(frozen=True, slots=True)
class CodecInfo:
    """A codec's wire footprint. Words are 128 bytes, counted per chunk."""

    name: str
    op: int
    words_up: int
    words_down: int
    chunk_values: int
    # Op of a preliminary exchange whose outcome `encode` needs (`preliminary`, uint32 values), or None.
    preliminary_op: int | None = None


class CodecRound(ABC):
    """One tensor in one round of aggregation."""

    def preliminary(self) -> NDArray[np.uint32]:
        """What goes into the preliminary exchange; empty where the codec has none."""
        return np.zeros(0, np.uint32)

    def prepare(self) -> None:
        """Work that does not need the preliminary exchange's outcome, and can be done while it is under way."""
        return None

    @abstractmethod
    def encode(self, agreed: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """Payload words of shape (chunks, words_up, 128); `agreed` is the preliminary exchange's outcome, of
        `preliminary`'s shape: the largest of all workers in every place."""

    @abstractmethod
    def decode(self, words: NDArray[np.uint8], counts: NDArray[np.integer]) -> Tensor:
        """What the contributors' tensors are aggregated to (their mean, or what the codec makes of it) from result
        words (chunks, words_down, 128): shape (length,), float32 unless the codec keeps float64.

        counts, shape (chunks,), says how many workers are in each chunk; a chunk of none decodes to zeros.
        Equal input gives equal bits on every worker.
        """

    @abstractmethod
    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """What this worker's payload left out of its tensor: float32, shape (length,).

        Where `included`, shape (chunks,), is False, the chunk did not get into the sum and is left out whole.
        """


class GradientCodec(ABC):
    """Makes rounds. Stateless between them, and so free to be used by several threads."""

    info: ClassVar[CodecInfo]

    def chunks(self, length: int) -> int:
        """Packets of a tensor of `length` values."""
        return -(-length // self.info.chunk_values)

    @abstractmethod
    def begin(self, x: Tensor, sequence: int, bucket: int) -> CodecRound:
        """Start a round with a flat tensor; `sequence` counts the uses of `bucket`, alike on all workers.

        Raises NonFiniteError for NaN or Inf, CodecError for another shape or dtype.
        """

    def ordinary(self, x: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
        """The same aggregate by an ordinary all-reduce: `mean` gives that of float32 CPU tensors over all workers.

        As good as the codec's own or better: nothing is left out of it.
        """
        return mean(x)


class CodecRegistry:
    """Codec classes by name. Refuses at registration what would only fail on the wire."""

    def __init__(self) -> None:
        self._codecs: dict[str, type[GradientCodec]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._codecs)

    def __getitem__(self, name: str) -> type[GradientCodec]:
        if name not in self._codecs:
            raise CodecError(f"codec {name!r}: known are {sorted(self._codecs)}")
        return self._codecs[name]

    def register(self, codec: type[GradientCodec]) -> None:
        """Add a class under its info's name. Raises CodecError if it is abstract, known, or does not fit a slot."""
        info = getattr(codec, "info", None)
        if not isinstance(info, CodecInfo):
            raise CodecError(f"{codec.__name__}: has no CodecInfo as `info`")
        if inspect.isabstract(codec):
            raise CodecError(f"{codec.__name__}: lacks {sorted(codec.__abstractmethods__)}")
        if info.name in self._codecs:
            raise CodecError(f"codec {info.name!r}: is already {self._codecs[info.name].__name__}")
        for field, words in (("words_up", info.words_up), ("words_down", info.words_down)):
            if not 1 <= words <= p4.SLOT_WORDS:
                raise CodecError(f"codec {info.name!r}: {field}={words} must be 1..{p4.SLOT_WORDS}, a slot's words")
        if info.chunk_values < 1:
            raise CodecError(f"codec {info.name!r}: chunk_values={info.chunk_values} must be positive")
        self._codecs[info.name] = codec


def default_registry() -> CodecRegistry:
    """A registry of the codecs that come with Sumwire."""
    from sumwire.codec.sign import EfSignCodec, SsdmCodec, VoteCodec
    from sumwire.codec.sum32 import Sum32Codec
    from sumwire.codec.thc import ThcCodec

    registry = CodecRegistry()
    for codec in (ThcCodec, Sum32Codec, VoteCodec, EfSignCodec, SsdmCodec):
        registry.register(codec)
    return registry
