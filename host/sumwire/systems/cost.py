# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The wire cost of a system for one gradient: the bits in docs/systems.md, and the bytes that limit a benchmark.

A cost is the mean over the steps. Bytes include packet headers, bits do not. Neither includes acknowledgements or
retransmissions.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sumwire_protocol.ops import Op

from sumwire.wire.packets import HEADER_BYTES, LOWER_HEADER_BYTES, WORD_BYTES

# A full TCP segment: 1448 bytes of data with timestamps in a frame of 1514.
TCP_PAYLOAD: Final = 1448
TCP_FRAME: Final = 1514
_BYTE: Final = 8
_SAME: Final = "the same"
_HOPS: Final = "2 (n - 1)/n"


@dataclass(frozen=True)
class Gradient:
    """The gradient of one matrix, with the rank of low-rank systems and the fraction of values that `topk` sends."""

    rows: int
    columns: int
    rank: int
    share: float

    @property
    def values(self) -> int:
        """Values of the matrix."""
        return self.rows * self.columns


@dataclass(frozen=True, slots=True)
class CarriedValues:
    """The numbers that represent a gradient on the wire.

    ``count`` returns how many there are. ``factor`` is that number per value of the gradient, as the docs write it; it
    is "" if every value is sent.
    """

    count: Callable[[Gradient], float]
    factor: str = ""


EVERY_VALUE: Final = CarriedValues(lambda g: g.values)
LARGEST: Final = CarriedValues(lambda g: g.share * g.values, "k")
BOTH_FACTORS: Final = CarriedValues(lambda g: g.rank * (g.rows + g.columns), "(rows + columns) rank / (rows columns)")
ONE_FACTOR: Final = CarriedValues(
    lambda g: g.rank * (g.rows + g.columns) / 2, "(rows + columns) rank / (2 rows columns)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost(ABC):
    """Bits that one worker sends and receives. ``extra``, for the docs: what other steps add per value."""

    carried: CarriedValues = EVERY_VALUE
    extra: str = ""

    @property
    @abstractmethod
    def up(self) -> str:
        """Bits sent per value of the gradient, as the docs write it."""

    @property
    @abstractmethod
    def down(self) -> str:
        """Bits received per value of the gradient."""

    def link_bytes(self, gradient: Gradient, workers: int) -> float:
        """Return bytes on the busier direction of a worker's link for one gradient; ``extra`` is left out."""
        return max(self.both_ways(self.carried.count(gradient), workers))

    @abstractmethod
    def both_ways(self, numbers: float, workers: int) -> tuple[float, float]:
        """Return the bytes that a worker sends and receives for so many numbers, with headers; ``extra`` is left
        out."""

    def _text(self, bits: float) -> str:
        factor = f" {self.carried.factor}" if self.carried.factor else ""
        return f"{_number(bits)}{factor}{self.extra}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InPackets(Cost):
    """Cost of packets of one op, to the switch and back. ``agreement_bits``: bits per number for the preliminary
    exchange."""

    op: Op
    agreement_bits: float = 0.0

    @property
    def up(self) -> str:
        return self._text(self._bits(self.op.up.words))

    @property
    def down(self) -> str:
        return _or_the_same(self._text(self._bits(self.op.down.words)), self.up)

    def both_ways(self, numbers: float, workers: int) -> tuple[float, float]:
        """Return the bytes in both directions, without those of the preliminary exchange."""
        packets = math.ceil(numbers / self.op.values)
        up, down = (LOWER_HEADER_BYTES + HEADER_BYTES + one.words * WORD_BYTES for one in (self.op.up, self.op.down))
        return packets * up, packets * down

    def _bits(self, words: int) -> float:
        return words * WORD_BYTES * _BYTE / self.op.values + self.agreement_bits


@dataclass(frozen=True, slots=True, kw_only=True)
class InFields(InPackets):
    """Cost of packets of one op that have ``fields`` numbers in each element."""

    fields: int

    def both_ways(self, numbers: float, workers: int) -> tuple[float, float]:
        up, down = InPackets.both_ways(self, numbers, workers)
        return up / self.fields, down / self.fields

    def _bits(self, words: int) -> float:
        return InPackets._bits(self, words) / self.fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ByAllReduce(Cost):
    """Cost of numbers of ``bits`` each that the group's ring all-reduce sums."""

    bits: float

    @property
    def up(self) -> str:
        return self._text(self.bits)

    @property
    def down(self) -> str:
        return _or_the_same(self.up, self.up)

    def both_ways(self, numbers: float, workers: int) -> tuple[float, float]:
        return _ring(self.bits / _BYTE * numbers, workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByAllGather(Cost):
    """Numbers of ``bits`` each, sent to every other worker."""

    bits: float

    @property
    def up(self) -> str:
        return self._text(self.bits)

    @property
    def down(self) -> str:
        return "n" if self.up == "1" else f"{self.up} n"

    def both_ways(self, numbers: float, workers: int) -> tuple[float, float]:
        return _in_segments((workers - 1) * self.bits / _BYTE * numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class HopByHop(Cost):
    """Cost of sending one bit per value to the next neighbour of a ring or torus, at every hop."""

    @property
    def up(self) -> str:
        return f"{_HOPS}{self.extra}"

    @property
    def down(self) -> str:
        return _SAME

    def both_ways(self, numbers: float, workers: int) -> tuple[float, float]:
        return _ring(numbers / _BYTE, workers)


def _ring(payload: float, workers: int) -> tuple[float, float]:
    """A ring all-reduce sends n - 1 parts of 1/n to sum, and n - 1 to spread the sums."""
    return _in_segments(2 * (workers - 1) / workers * payload)


def _in_segments(payload: float) -> tuple[float, float]:
    """A group sends in full TCP segments, as much as it receives."""
    return (payload * TCP_FRAME / TCP_PAYLOAD,) * 2


def _number(bits: float) -> str:
    return f"{bits:.1f}".removesuffix(".0")


def _or_the_same(down: str, up: str) -> str:
    """A long expression is not written twice."""
    return _SAME if down == up and " " in up else down
