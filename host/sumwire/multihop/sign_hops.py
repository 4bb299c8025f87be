# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Merges signs hop by hop: pure functions on packed bits, and the computation of one rank at a hop.

Marsit's one-bit merge (arXiv 2204.06787): signs of a workers are merged with signs of b workers; bit 1 is plus. Where
they differ, the second is taken with probability b / (a + b). If P(plus) is the share of plus among the workers of each
side, it is the share among all a + b workers after the merge.

:class:`CascadeHopper` is the cascading compression that Marsit avoids. :class:`SimulatedSigns` are all ranks of a ring
or torus in one process, in lockstep: with the same seed it gives the same bits as distributed ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from sumwire.multihop import schedule
from sumwire.multihop.schedule import HopError, Segment, Step


def merge(first: Bits, second: Bits, first_weight: int, second_weight: int, draws: Draws) -> Bits:
    """Return the merge of two arrays of one shape, a new array.

    A bit is that of `second` with probability second_weight / (first_weight + second_weight), else that of `first`.
    Weights are numbers of workers. Raises ValueError for weights below 1 or different shapes.
    """
    if first_weight < 1 or second_weight < 1:
        raise ValueError(f"weights {first_weight} and {second_weight}: each side stands for 1 worker or more")
    if first.shape != second.shape:
        raise ValueError(f"shapes {first.shape} and {second.shape} must be equal")
    take_second = draws.bernoulli(second_weight, first_weight + second_weight, first.shape)
    return reservoir_form(first, second, take_second)


def reservoir_form(first: Bits, second: Bits, take_second: Bits) -> Bits:
    """Return `second` where `take_second` is 1, else `first`. The probability is the same for all values."""
    return first ^ ((first ^ second) & take_second)


def paper_form(received: Bits, own: Bits, transient: Bits) -> Bits:
    """Return the merge as the paper writes it: (received AND own) OR ((received XOR own) AND transient).

    The transient bit is 1 with probability (m - 1)/m where `own` is 0 and 1/m where it is 1, m workers in all.
    """
    return (received & own) | ((received ^ own) & transient)


def transient_of(own: Bits, take_own: Bits) -> Bits:
    """Return the paper's transient bits for draws of the reservoir form. With them both forms give equal results."""
    return ~(own ^ take_own)


Bits = NDArray[np.uint8]
"""Packed bits: value i of a row is bit i % 8 of byte i // 8, counted from the most significant."""


class Draws:
    """The random bits of one worker; equal (seed, worker) and equal calls give equal bits.

    The stream is consumed in the order of hops, coordinates and rounds, so no random bit is used twice. The streams
    of two workers are independent (numpy's SeedSequence).
    """

    def __init__(self, seed: int, worker: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, worker])))

    def state(self) -> dict[str, Any]:
        """Return the stream's position, in plain values."""
        return dict(self._generator.bit_generator.state)

    def go_on(self, state: dict[str, Any]) -> None:
        """Continue the stream at a position that `state` returned."""
        self._generator.bit_generator.state = state

    def bits(self, shape: tuple[int, ...]) -> Bits:
        """Return fair bits, packed; `shape` counts bytes."""
        return self._generator.integers(0, 256, shape, np.uint8)

    def bernoulli(self, numerator: int, denominator: int, shape: tuple[int, ...]) -> Bits:
        """Return packed bits, each 1 with probability numerator / denominator; `shape` counts bytes.

        It compares a uniform binary fraction u with p digit by digit, for all values at once, until every value is
        decided; p is not rounded. Each digit decides half of the undecided values, so N values take about log2 N + 1
        random bits each. A denominator that is a power of two takes its log2.
        """
        if not 0 <= numerator <= denominator or denominator < 1:
            raise ValueError(f"probability {numerator}/{denominator}: must be in 0..1")
        if numerator == denominator:
            return np.full(shape, 0xFF, np.uint8)
        below = np.zeros(shape, np.uint8)  # u < p is certain
        open_ = np.full(shape, 0xFF, np.uint8)  # u and p agree so far
        rest = numerator
        # Once p has no digits left, an open u is not below it.
        while rest and open_.any():
            digit, rest = divmod(2 * rest, denominator)
            drawn = self.bits(shape)
            if digit:
                below |= open_ & ~drawn
                open_ &= drawn
            else:
                open_ &= ~drawn
        return below

    def uniform(self, count: int) -> NDArray[np.float64]:
        """Return uniform numbers in [0, 1)."""
        return self._generator.random(count)


WEIGHT_BYTES: Final = 1
SCALE: Final = np.dtype("<f4")


class Hopper(Protocol):
    """One rank's data during the steps."""

    def message(self, step: Step) -> Bits:
        """Return what this rank sends at the step."""

    def expected_bytes(self, step: Step) -> int:
        """Return the length of the message that this rank receives at the step."""

    def take(self, step: Step, message: Bits) -> None:
        """Merge or store a received message. Raises HopError if it does not fit the step."""


class SignHopper:
    """Sign bits, packed, shape (..., bytes); leading axes are rounds done at once. A message is a weight, then bits.

    `bits` is changed in place. At the end it is the merged result, equal on all ranks.
    """

    def __init__(self, bits: Bits, draws: Draws) -> None:
        self.bits = bits
        self._draws = draws

    def message(self, step: Step) -> Bits:
        part = self.bits[..., step.send.start : step.send.stop]
        return np.concatenate([np.array([step.send_weight], np.uint8), part.reshape(-1)])

    def expected_bytes(self, step: Step) -> int:
        return WEIGHT_BYTES + int(np.prod(self.bits.shape[:-1], dtype=np.int64)) * step.receive.size

    def take(self, step: Step, message: Bits) -> None:
        weight = int(message[0])
        if weight != step.receive_weight:
            raise HopError(
                f"rank {step.source} sent signs of {weight} workers: this hop has {step.receive_weight}; give all "
                "ranks the same group and options"
            )
        part = self.bits[..., step.receive.start : step.receive.stop]
        received = message[WEIGHT_BYTES:].reshape(part.shape)
        part[...] = merge(received, part, weight, step.own_weight, self._draws) if step.merges else received


class CascadeHopper:
    """Cascading compression: at every hop, decompress, add the rank's own values, compress again. A unit is 8 values.

    A vector v is compressed to a scale and one bit per value. If `stochastic` (SSDM), the scale is the L2 norm, and a
    bit is plus with probability 1/2 + v_i / (2 scale): unbiased, but each hop adds a variance of the order of the norm.
    Else the scale is the mean of |v_i| and the bit the sign of v_i: biased. A message is the scale as float32, then
    bits. The last hop's sum is compressed once more to be gathered. `values`, float32 padded to whole units, becomes
    the estimate of the sum.
    """

    def __init__(self, values: NDArray[np.float32], draws: Draws, *, stochastic: bool, length: int) -> None:
        self.values = values
        self._draws = draws
        self._stochastic = stochastic
        self._length = length
        self._gathered: dict[Segment, Bits] = {}

    def message(self, step: Step) -> Bits:
        if step.send in self._gathered:
            return self._gathered[step.send]
        packed = self._compress(step.send)
        if not step.merges:
            # All ranks, this one too, must hold what the message says.
            self._hold(step.send, packed)
        return packed

    def expected_bytes(self, step: Step) -> int:
        return SCALE.itemsize + step.receive.size

    def take(self, step: Step, message: Bits) -> None:
        if step.merges:
            values = self._part(step.receive)
            values += self._decompress(message, values.size)
        else:
            self._hold(step.receive, message)

    def _hold(self, segment: Segment, message: Bits) -> None:
        self._gathered[segment] = message
        self._part(segment)[:] = self._decompress(message, segment.size * 8)

    def _part(self, segment: Segment) -> NDArray[np.float32]:
        return self.values[8 * segment.start : 8 * segment.stop]

    def _compress(self, segment: Segment) -> Bits:
        values = self._part(segment)
        count = max(0, min(self._length, 8 * segment.stop) - 8 * segment.start)
        scale = self._scale(values[:count])
        if self._stochastic and scale > 0:
            plus = self._draws.uniform(values.size) < 0.5 + values / (2 * scale)
        else:
            plus = values >= 0
        head = np.array([scale], SCALE).view(np.uint8)
        return np.concatenate([head, np.packbits(plus)])

    def _scale(self, values: NDArray[np.float32]) -> np.float32:
        """Return the scale; NaN unless it is finite."""
        if values.size == 0:
            return np.float32(0.0)
        wide = values.astype(np.float64)
        with np.errstate(over="ignore"):
            scale = np.float32(np.sqrt(np.sum(wide**2)) if self._stochastic else np.mean(np.abs(wide)))
        return scale if np.isfinite(scale) else np.float32(np.nan)

    @staticmethod
    def _decompress(message: Bits, count: int) -> NDArray[np.float32]:
        scale = message[: SCALE.itemsize].copy().view(SCALE)[0]
        plus = np.unpackbits(message[SCALE.itemsize :], count=count)
        values: NDArray[np.float32] = np.where(plus == 1, scale, -scale).astype(np.float32)
        return values


class SimulatedSigns:
    """Simulates all ranks of a ring (`rows` None) or a torus, each with its own stream of random bits."""

    def __init__(self, ranks: int, rows: int | None = None, *, seed: int) -> None:
        self.ranks = ranks
        self._rows = rows
        self._cols = schedule.columns_of(ranks, rows) if rows is not None else ranks
        self._draws = [Draws(seed, rank) for rank in range(ranks)]

    def plan(self, rank: int, units: int) -> list[Step]:
        """Return the steps of one rank."""
        if self._rows is None:
            return schedule.ring(self.ranks, rank, units)
        return schedule.torus(self._rows, self._cols, rank, units)

    def sign_merge(self, bits: Bits) -> Bits:
        """Return the merged signs, shape (..., bytes), of all ranks' packed signs, shape (ranks, ..., bytes).

        Axes in between are rounds done at once. Raises HopError if the ranks do not end with equal bits.
        """
        if bits.shape[0] != self.ranks:
            raise ValueError(f"signs of {bits.shape[0]} ranks: there are {self.ranks}")
        hoppers = [SignHopper(own.copy(), draws) for own, draws in zip(bits, self._draws, strict=True)]
        lockstep(hoppers, [self.plan(rank, bits.shape[-1]) for rank in range(self.ranks)])
        result = hoppers[0].bits
        if not all(np.array_equal(result, other.bits) for other in hoppers):
            raise HopError("the ranks ended with different bits; give all ranks the same options")
        return result


def lockstep(hoppers: Sequence[Hopper], plans: Sequence[Sequence[Step]]) -> None:
    """Make all steps: in each, every rank sends, then every rank receives. Raises HopError for a message of the wrong
    length."""
    for steps in zip(*plans, strict=True):
        sent = {(rank, step.to): hoppers[rank].message(step) for rank, step in enumerate(steps)}
        for rank, step in enumerate(steps):
            message = sent[step.source, rank]
            if len(message) != hoppers[rank].expected_bytes(step):
                expected = hoppers[rank].expected_bytes(step)
                raise HopError(
                    f"rank {rank} got {len(message)} bytes, not {expected}; give all ranks tensors of one length"
                )
            hoppers[rank].take(step, message)
