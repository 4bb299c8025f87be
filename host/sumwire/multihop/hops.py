# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What one rank computes at a hop: the merge of sign bits, or the cascading compression that Marsit avoids."""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from sumwire.multihop.draws import Bits, Draws
from sumwire.multihop.errors import HopError
from sumwire.multihop.merge import merge
from sumwire.multihop.schedule import Segment, Step

WEIGHT_BYTES: Final = 1
SCALE: Final = np.dtype("<f4")


class Hopper(Protocol):
    """One rank's data during the steps."""

    def message(self, step: Step) -> Bits:
        """Return what this rank sends at the step."""

    def expected_bytes(self, step: Step) -> int:
        """Return the length of what it receives at the step."""

    def take(self, step: Step, message: Bits) -> None:
        """Merge or store what was received. Raises HopError if it does not fit the step."""


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
