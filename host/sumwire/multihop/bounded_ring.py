# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sums around a ring of ranks, with a bound on what may be missing: DLCP without a switch.

Each rank adds its values to the partial sums that the rank before sends it, packet by packet, and sends them on: n - 1
hops (reduce-scatter), after which each rank has the sums of a segment. These are then passed around, again in n - 1
hops (all-gather).

Partial sums may be left out, but final sums may not, so all ranks end with the same bits. A rank that did not get a
packet passes on its own values only. Each packet carries its number of contributions. A partial sum that was left out
stays with the rank that could not pass it on, as part of its residual. So sums and residuals together contain
everything that the ranks contributed.

Example: 3 ranks with 1, 2 and 4. Rank 0 sends 1 to rank 1, and it is left out. Rank 1 sends 2, and rank 2 ends with 6
of two contributions. The mean is 3, and rank 0 keeps 1 for the next step.

:class:`PointToPoint` sends one tensor from one host to another in the same packets: DLCP's transport alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.multihop import schedule
from sumwire.multihop.neighbours import Neighbours
from sumwire.multihop.schedule import Segment, Step
from sumwire.multihop.transfer import VALUES, Incoming, Numbers, OutgoingTensor

Tagger = Callable[[NDArray[np.float32]], NDArray[np.uint8]]
"""Magnitudes of a tensor's packets, float32 (packets,) -> their TOS bytes, uint8 of that shape."""
UNTAGGED: Final = 0
# The priority's bits: docs/dlcp.md.
_PRIORITY: Final = 0xE0


def tagged(tag: Tagger, values: NDArray[np.float32]) -> tuple[NDArray[np.uint8], int]:
    """Return the TOS byte of each packet with these values, shape (packets, VALUES), and the TOS byte of the same
    priority for packets that must not be lost.

    A packet's magnitude is the L2 norm of its values.
    """
    norms = np.sqrt(np.square(values, dtype=np.float64).sum(1)).astype(np.float32)
    tos = tag(norms)
    return tos, int(tos[0]) & _PRIORITY | p4.ECN_ECT


@dataclass
class RingStats:
    """Counters of one rank. ``packets``: sent, of which ``again`` were retransmissions. ``contributions``: due in this
    rank's sums, of which ``missing`` are not in them. ``left_out``: packets of partial sums that this rank did without.
    ``operations``: completed."""

    operations: int = 0
    packets: int = 0
    again: int = 0
    left_out: int = 0
    contributions: int = 0
    missing: int = 0

    @property
    def payload_bytes(self) -> int:
        return self.packets * VALUES * 4


@dataclass(frozen=True, eq=False)
class Reduced:
    """The result. ``sums``, float32 (values,), each of ``counts`` contributions, int64 (values,): equal on all ranks.
    ``kept``: this rank's own or passed-on values that are not in the sums; float32 (values,)."""

    sums: NDArray[np.float32]
    counts: NDArray[np.int64]
    kept: NDArray[np.float32]


def allowances(bound: float, chunks: int, ranks: int) -> list[list[int]]:
    """Return how many packets of each segment may be left out at each hop: first index the segment, second the hop.

    A packet left out at hop k, counted from 1, costs the k contributions in it. The total is at most floor(bound *
    chunks * ranks) contributions, divided evenly among the segments. A segment's hops get one packet each, from the
    first on, as long as its share suffices: early hops cost less.

    Example: 1 % of 400 packets and 4 ranks are 16 contributions, 4 for each segment of 100 packets: 2 packets at the
    first hop, 1 at the second, none at the third.
    """
    segments = Segment(0, chunks).split(ranks)
    edges = [math.floor(bound * chunk * ranks) for chunk in [0, *(segment.stop for segment in segments)]]
    sizes = [segment.size for segment in segments]
    shares = [end - begin for begin, end in itertools.pairwise(edges)]
    return [_per_hop(share, size, ranks - 1) for share, size in zip(shares, sizes, strict=True)]


def _per_hop(left: int, size: int, hops: int) -> list[int]:
    """How many of ``size`` packets may be left out at each of so many hops, if that may cost ``left`` contributions."""
    full = min(left // (hops * (hops + 1) // 2), size) if hops else 0
    found = [full] * hops
    left -= full * (hops * (hops + 1) // 2)
    while any(fitting := [cost <= left and found[cost - 1] < size for cost in range(1, hops + 1)]):
        for cost in (cost for cost in range(1, hops + 1) if fitting[cost - 1] and cost <= left):
            found[cost - 1] += 1
            left -= cost
    return found


class BoundedRing:
    """Rank ``rank`` of ``ranks`` in a ring, whose neighbours are connected.

    ``bound``: the share of a tensor's contributions that may be missing from its sums, in [0, 1).
    """

    def __init__(self, neighbours: Neighbours, ranks: int, rank: int, bound: float = 0.0) -> None:
        self.ranks = ranks
        self.rank = rank
        self.stats = RingStats()
        self._neighbours = neighbours
        self._bound = bound

    def reduce(self, values: NDArray[np.float32], tag: Tagger | None = None) -> Reduced:
        """Sum ``values``, float32 (values,), over all ranks. All ranks call with the same number of values.

        ``tag``: computes the TOS bytes of partial sums from the magnitudes of this rank's values. Final sums and
        retransmissions have the same priority and drop class 0. Raises HopError if a neighbour is gone or makes another
        call.
        """
        if values.size == 0 or self.ranks == 1:
            return Reduced(values.copy(), np.ones(values.size, np.int64), np.zeros_like(values))
        walk = _Walk(self, values, tag)
        self._neighbours.run(walk.outgoing, walk.incoming, answer_tos=walk.protected)
        self._count(walk)
        return walk.reduced()

    def _count(self, walk: _Walk) -> None:
        stats = self.stats
        stats.operations += 1
        stats.again += walk.outgoing.again
        stats.packets += walk.outgoing.again + len(walk.outgoing.packets)
        stats.left_out += int(np.count_nonzero(walk.incoming.left_out))
        stats.contributions += self.ranks * len(walk.counts)
        stats.missing += int(self.ranks * len(walk.counts) - walk.counts.sum())


class _Walk:
    """One operation: the partial sums of all chunks at this rank, and what is done with packets that arrive."""

    def __init__(self, ring: BoundedRing, values: NDArray[np.float32], tag: Tagger | None) -> None:
        chunks = -(-values.size // VALUES)
        self._size = values.size
        self._sums = np.zeros((chunks, VALUES), np.float32)
        self._sums.reshape(-1)[: values.size] = values
        self.counts = np.ones(chunks, np.int64)
        steps = schedule.ring(ring.ranks, ring.rank, chunks)
        out, self._out_adds = _places([(step.send, step.merges) for step in steps])
        self._chunk_of_out = out
        self._chunk_of_in, self._adds = _places([(step.receive, step.merges) for step in steps])
        first = steps[0].send.size
        # What is received at one step is sent at the next one, in the same order.
        self._onward = np.arange(len(self._chunk_of_in)) + first
        tos = self._tags(tag, out)
        self.outgoing = OutgoingTensor(len(out), values.size, tos, self.protected)
        allowed = allowances(ring._bound, chunks, ring.ranks)
        hop, limits = _limits(steps, allowed, ring.ranks, chunks)
        self.incoming = Incoming(len(self._chunk_of_in), values.size, self, hop, limits)
        self._hand_on(np.arange(first))

    def take(self, numbers: Numbers, values: NDArray[np.float32], counts: NDArray[np.int64]) -> None:
        """See Sink."""
        chunks, adds = self._chunk_of_in[numbers], self._adds[numbers]
        self._sums[chunks[adds]] += values[adds]
        self.counts[chunks[adds]] += counts[adds]
        self._sums[chunks[~adds]] = values[~adds]
        self.counts[chunks[~adds]] = counts[~adds]
        self._hand_on(self._onward[numbers])

    def leave_out(self, numbers: Numbers) -> None:
        """See Sink."""
        self._hand_on(self._onward[numbers])

    def reduced(self) -> Reduced:
        """The result, when all is done."""
        kept = np.zeros_like(self._sums)
        lost = np.flatnonzero(self.outgoing.left_out)
        kept[self._chunk_of_out[lost]] = self.outgoing.packets["values"][lost]
        counts = np.repeat(self.counts, VALUES)[: self._size]
        return Reduced(self._sums.reshape(-1)[: self._size], counts, kept.reshape(-1)[: self._size])

    def _hand_on(self, numbers: Numbers) -> None:
        numbers = numbers[numbers < len(self._chunk_of_out)]
        chunks = self._chunk_of_out[numbers]
        self.outgoing.fill(numbers, self._sums[chunks], self.counts[chunks])

    def _tags(self, tag: Tagger | None, chunk_of_out: Numbers) -> NDArray[np.uint8]:
        if tag is None:
            self.protected = UNTAGGED
            return np.zeros(len(chunk_of_out), np.uint8)
        by_chunk, self.protected = tagged(tag, self._sums)
        return np.where(self._out_adds, by_chunk[chunk_of_out], self.protected).astype(np.uint8)


def _places(segments: Sequence[tuple[Segment, bool]]) -> tuple[Numbers, NDArray[np.bool_]]:
    """The chunk of every packet, in the order of the steps; and whether it is a partial sum."""
    chunks = [np.arange(segment.start, segment.stop) for segment, _ in segments]
    adds = [np.full(segment.size, merges) for segment, merges in segments]
    return np.concatenate(chunks), np.concatenate(adds)


def _limits(
    steps: Sequence[Step], allowed: list[list[int]], ranks: int, chunks: int
) -> tuple[Numbers, NDArray[np.int64]]:
    """The step of every packet that arrives, and how many packets of each step may be left out."""
    segments = Segment(0, chunks).split(ranks)
    hop = np.repeat(np.arange(len(steps)), [step.receive.size for step in steps])
    limits = [allowed[segments.index(step.receive)][number] if step.merges else 0 for number, step in enumerate(steps)]
    return hop, np.array(limits, np.int64)


@dataclass(frozen=True, eq=False)
class Received:
    """A received tensor. ``values``, float32 (values,), zeros where nothing came; ``came``, bool (values,)."""

    values: NDArray[np.float32]
    came: NDArray[np.bool_]


class PointToPoint:
    """One end of a connection between two hosts. ``neighbours`` has the other host on both sides.

    Both ends have the same ``bound``: the share of a tensor's packets that may be missing, in [0, 1). When one sends,
    the other must receive.
    """

    def __init__(self, neighbours: Neighbours, bound: float = 0.0) -> None:
        self._neighbours = neighbours
        self._bound = bound

    def send(self, values: NDArray[np.float32], tag: Tagger | None = None) -> NDArray[np.float32]:
        """Send ``values``, float32 (values,). Returns the values that the other end did without, and zeros elsewhere;
        error feedback adds them to the next tensor. ``tag``: computes the packets' TOS bytes. Raises HopError."""
        chunks = _chunks(values.size)
        rows = np.zeros((chunks, VALUES), np.float32)
        rows.reshape(-1)[: values.size] = values
        tos, kept = tagged(tag, rows) if tag and chunks else (np.zeros(chunks, np.uint8), UNTAGGED)
        # Memory of its own, since what is sent again is protected.
        outgoing = OutgoingTensor(chunks, values.size, tos.copy(), kept)
        outgoing.fill(np.arange(chunks), rows, np.ones(chunks, np.int64))
        self._neighbours.run(outgoing, _incoming(0, _Nothing(0), 0), answer_tos=kept)
        rows[~outgoing.left_out] = 0.0
        return rows.reshape(-1)[: values.size]

    def receive(self, length: int) -> Received:
        """Receive a tensor of ``length`` values. Raises HopError, also if the other end sends another length."""
        sink = _Nothing(_chunks(length))
        incoming = _incoming(length, sink, math.floor(self._bound * _chunks(length)))
        self._neighbours.run(OutgoingTensor(0, length, np.zeros(0, np.uint8), UNTAGGED), incoming)
        came = np.repeat(~incoming.left_out, VALUES)[:length]
        return Received(sink.values.reshape(-1)[:length], came)


class _Nothing:
    """What came, and zeros for the rest."""

    def __init__(self, chunks: int) -> None:
        self.values = np.zeros((chunks, VALUES), np.float32)

    def take(self, numbers: Numbers, values: NDArray[np.float32], counts: NDArray[np.int64]) -> None:
        """See Sink."""
        self.values[numbers] = values

    def leave_out(self, numbers: Numbers) -> None:
        """See Sink: they stay zeros."""


def _incoming(length: int, sink: _Nothing, allowed: int) -> Incoming:
    chunks = _chunks(length)
    return Incoming(chunks, length, sink, np.zeros(chunks, np.int64), np.array([allowed]))


def _chunks(values: int) -> int:
    return -(-values // VALUES)
