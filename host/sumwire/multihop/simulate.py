# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""All ranks of a ring or torus in one process, in lockstep: the schedule and merge of the distributed form, without
its messages. With the same seed it gives the same bits as distributed ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sumwire.multihop import schedule
from sumwire.multihop.draws import Bits, Draws
from sumwire.multihop.errors import HopError
from sumwire.multihop.hops import Hopper, SignHopper
from sumwire.multihop.schedule import Step


class SimulatedSigns:
    """A ring (`rows` None) or a torus of `ranks` ranks with their streams of random bits."""

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
    """Make all steps: at each, every rank sends, then every rank receives. Raises HopError for a wrong length."""
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
