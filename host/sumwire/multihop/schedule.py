# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ring and torus all-reduce as a list of steps per rank: which bytes it sends to and receives from whom.

A ring of m ranks makes a reduce-scatter of m - 1 steps, after which rank r has the result of segment r + 1, and an
all-gather of m - 1 steps. A torus makes the reduce-scatter along its rows, then along its columns on the segment that
each rank holds, then gathers along columns and along rows: 2 (cols - 1) + 2 (rows - 1) steps instead of 2 (n - 1).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sumwire.errors import RecreateError, UsageError


class ScheduleError(UsageError, ValueError):
    """The schedule cannot serve this shape of ring or torus, or this tensor. The text names value and rule."""


class HopError(RecreateError):
    """A neighbour is gone, or has sent something that the schedule does not have at this hop, so the ranks are out of
    step."""


RANKS_MAX: Final = 255
"""A message has its number of workers in one byte."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Units start..stop-1 of the data."""

    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def split(self, parts: int) -> list[Segment]:
        """Return `parts` consecutive segments whose sizes differ by at most 1; some are empty if units are few."""
        edges = [self.start + self.size * k // parts for k in range(parts + 1)]
        return [Segment(a, b) for a, b in itertools.pairwise(edges)]


@dataclass(frozen=True, slots=True)
class Step:
    """One hop of one rank: it sends one segment and receives another, at the same time.

    Weights are numbers of workers in a message. If the step `merges`, the received bits are merged with the receiver's
    own, which stand for `own_weight` workers; else they replace them.
    """

    to: int
    send: Segment
    send_weight: int
    source: int
    receive: Segment
    receive_weight: int
    merges: bool
    own_weight: int


def ring(ranks: int, rank: int, units: int) -> list[Step]:
    """Return the steps of one rank in a ring. Raises ScheduleError for a rank that is not in it."""
    return _plan((ranks,), rank, units)


def torus(rows: int, cols: int, rank: int, units: int) -> list[Step]:
    """Return the steps of the rank in a torus whose number is row * cols + col. Raises ScheduleError like `ring`."""
    return _plan((cols, rows), rank, units)


def columns_of(ranks: int, rows: int) -> int:
    """Return the columns of a torus of `rows` rows. Raises ScheduleError if the rows do not divide the ranks."""
    if rows < 1 or ranks % rows:
        raise ScheduleError(f"torus of {rows} rows: must divide the {ranks} ranks")
    return ranks // rows


@dataclass(frozen=True)
class _Circle:
    """The ranks of one ring of a dimension: `ring[k]` is the rank at place k, `place` this rank's own."""

    ring: tuple[int, ...]
    place: int
    parts: list[Segment]

    def at(self, offset: int) -> int:
        return self.ring[(self.place + offset) % len(self.ring)]

    def part(self, offset: int) -> Segment:
        return self.parts[(self.place + offset) % len(self.ring)]


def _plan(sizes: Sequence[int], rank: int, units: int) -> list[Step]:
    """Return the steps of one rank in a torus of any dimensions, the fastest first.

    A rank's place in a dimension is its number divided by the sizes before, modulo the dimension's size.
    """
    ranks = 1
    for size in sizes:
        ranks *= size
    if not 1 <= ranks <= RANKS_MAX:
        raise ScheduleError(f"{ranks} ranks: must be 1..{RANKS_MAX}")
    if not 0 <= rank < ranks:
        raise ScheduleError(f"rank {rank}: must be 0..{ranks - 1}")
    steps: list[Step] = []
    circles: list[_Circle] = []
    whole, stride = Segment(0, units), 1
    for size in sizes:
        place = rank // stride % size
        base = rank - place * stride
        circle = _Circle(tuple(base + k * stride for k in range(size)), place, whole.split(size))
        # The dimensions before are merged already: each rank of this ring stands for `stride` workers.
        steps += _reduce_scatter(circle, stride)
        circles.append(circle)
        whole, stride = circle.part(1), stride * size
    for circle in reversed(circles):
        steps += _all_gather(circle, ranks)
    return steps


def _reduce_scatter(circle: _Circle, weight: int) -> list[Step]:
    return [
        Step(
            circle.at(1), circle.part(-k), (k + 1) * weight,
            circle.at(-1), circle.part(-k - 1), (k + 1) * weight, merges=True, own_weight=weight,
        )
        for k in range(len(circle.ring) - 1)
    ]  # fmt: skip


def _all_gather(circle: _Circle, weight: int) -> list[Step]:
    return [
        Step(
            circle.at(1), circle.part(1 - k), weight,
            circle.at(-1), circle.part(-k), weight, merges=False, own_weight=weight,
        )
        for k in range(len(circle.ring) - 1)
    ]  # fmt: skip
