# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One operation's packets between two neighbours: values in one direction, and their state (arrived, left out) in the
other.

All numbers are little-endian. A packet of values (DATA) has a head of 36 bytes and 352 float32, so with IPv4 and UDP it
has 1472 bytes. A STATE has a head of 32 bytes and two bitmaps. A HERE is a head of DATA alone.

A packet is lost when three packets arrive that were sent after it. If the bound allows, it is then left out at once;
otherwise it is sent again. Times are seconds of any monotonic clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from sumwire.multihop.schedule import HopError
from sumwire.transport.congestion import WindowLimit
from sumwire.transport.retransmission import REORDER_TOLERANCE, FastRetransmit, RttEstimator
from sumwire.transport.scheduling import Flight
from sumwire.wire.messages import are_marked

VALUES: Final = 352
"""Values of a packet."""
MAGIC: Final = 0x5352
DATA: Final = 1
HERE: Final = 2
STATE: Final = 3
# In the flags of a STATE: the sender wants an answer. In those of a HERE: the operation has arrived, as I know.
ASKS: Final = 1
DONE: Final = 1
WINDOW_MAX: Final = 4096
"""The most packets between the oldest one that is not answered and the newest one that is sent."""

# `length`: values of the whole tensor. `sent_below`: all packets with a smaller number have been sent before. `base`:
# all packets with a smaller number have been answered. `count`: contributions in the values.
_HEAD: Final = [
    ("magic", "<u2"), ("kind", "u1"), ("flags", "u1"), ("operation", "<u4"), ("token", "<u8"), ("length", "<u4"),
    ("number", "<u4"), ("sent_below", "<u4"), ("base", "<u4"), ("count", "<u4"),
]  # fmt: skip
HEAD: Final = np.dtype(_HEAD)
PACKET: Final = np.dtype([*_HEAD, ("values", "<f4", (VALUES,))])
# `first`, `covered`: the packets that the bitmaps are of. `arrived`, `marked`: DATA of this operation so far, and those
# with a CE mark.
_STATE: Final = np.dtype(
    [
        ("magic", "<u2"), ("kind", "u1"), ("flags", "u1"), ("operation", "<u4"), ("token", "<u8"),
        ("first", "<u4"), ("covered", "<u4"), ("arrived", "<u4"), ("marked", "<u4"),
    ]
)  # fmt: skip
STATE_MAX: Final = _STATE.itemsize + 2 * WINDOW_MAX // 8

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class TransferState:
    """The receiver's state of packets ``first`` and those after it. ``settled`` packets need not be sent any more; of
    these, ``left_out`` were not received. ``arrived`` packets of the operation have come so far, ``marked`` of them
    with a CE mark. ``asks``: the sender of the STATE requests one in return."""

    operation: int
    first: int
    settled: Flags
    left_out: Flags
    arrived: int = 0
    marked: int = 0
    asks: bool = False

    def packed(self, token: int) -> bytes:
        """Return the state as a datagram."""
        head = np.array(
            (
                MAGIC, STATE, ASKS if self.asks else 0, self.operation, token,
                self.first, len(self.settled), self.arrived, self.marked,
            ),
            _STATE,
        )  # fmt: skip
        return head.tobytes() + np.packbits(self.settled).tobytes() + np.packbits(self.left_out).tobytes()


def unpack_state(datagram: NDArray[np.uint8], token: int) -> TransferState | None:
    """Return the STATE in a datagram; None if it is something else, or belongs to another run."""
    if len(datagram) < _STATE.itemsize:
        return None
    head = datagram[: _STATE.itemsize].view(_STATE)[0]
    if head["magic"] != MAGIC or head["kind"] != STATE or head["token"] != token:
        return None
    covered = int(head["covered"])
    size = -(-covered // 8)
    if len(datagram) != _STATE.itemsize + 2 * size:
        return None
    bits = datagram[_STATE.itemsize :]
    settled, left_out = (np.unpackbits(part, count=covered) == 1 for part in (bits[:size], bits[size:]))
    return TransferState(
        int(head["operation"]), int(head["first"]), settled, left_out, int(head["arrived"]), int(head["marked"]),
        bool(head["flags"] & ASKS),
    )  # fmt: skip


def here(operation: int, token: int, *, done: bool) -> bytes:
    """Return a HERE message of the operation."""
    head = np.zeros(1, HEAD)
    head["magic"], head["kind"], head["flags"] = MAGIC, HERE, DONE if done else 0
    head["operation"], head["token"] = operation, token
    return head.tobytes()


class PacketSink(Protocol):
    """The receiver's side, which is given the packets."""

    def take(self, numbers: Numbers, values: NDArray[np.float32], counts: NDArray[np.int64]) -> None:
        """Take packets that arrived for the first time: their values, shape (packets, VALUES), and contributions."""

    def leave_out(self, numbers: Numbers) -> None:
        """Record that packets are lost and no longer awaited."""


class Incoming:
    """The receiving side: ``count`` packets of a tensor of ``length`` values, which go to ``sink``.

    ``hop``: the hop of each packet, in rising order. ``allowed``: how many packets of each hop may be left out.
    """

    def __init__(self, count: int, length: int, sink: PacketSink, hop: Numbers, allowed: NDArray[np.int64]) -> None:
        self.left_out: Flags = np.zeros(count, np.bool_)
        self._length = length
        self._sink = sink
        self._hop = hop
        self._allowed = allowed.copy()
        self._settled: Flags = np.zeros(count, np.bool_)
        self._open = count
        self._overtaking = np.zeros(REORDER_TOLERANCE, np.int64)
        self._looked_below = 0
        # Below these the neighbour knows all.
        self._known_below = 0
        self._arrived = self._marked = 0

    @property
    def done(self) -> bool:
        """Whether no packet is awaited any more."""
        return self._open == 0

    def arrive(self, packets: NDArray[np.void], tos: NDArray[np.uint8]) -> None:
        """Take packets of this operation that arrived with these TOS bytes. Raises HopError if they belong to another
        tensor."""
        other = packets["length"] != self._length
        if other.any():
            raise HopError(
                f"the neighbour sends a tensor of {int(packets['length'][other.argmax()])} values: this rank has "
                f"{self._length}; make the same calls on all ranks, then start all workers again"
            )
        self._arrived += len(packets)
        self._marked += int(np.count_nonzero(are_marked(tos)))
        numbers = packets["number"].astype(np.int64)
        inside = np.flatnonzero(numbers < len(self._settled))
        _, first = np.unique(numbers[inside], return_index=True)
        rows = inside[first]
        rows = rows[~self._settled[numbers[rows]]]
        if len(rows):
            self._settle(numbers[rows])
            self._sink.take(numbers[rows], packets["values"][rows], packets["count"][rows].astype(np.int64))
        self._known_below = max(self._known_below, int(packets["base"].max(initial=0)))
        latest = np.concatenate([self._overtaking, packets["sent_below"].astype(np.int64)])
        self._overtaking = np.sort(latest)[-REORDER_TOLERANCE:]
        self._look_for_lost()

    def state(self, operation: int, *, asks: bool = False) -> TransferState:
        """Return the state that the neighbour should know."""
        first = self._known_below
        settled = np.flatnonzero(self._settled[first : first + WINDOW_MAX])
        window = slice(first, first + int(settled[-1]) + 1 if len(settled) else first)
        return TransferState(
            operation, first, self._settled[window], self.left_out[window], self._arrived, self._marked, asks
        )

    def _look_for_lost(self) -> None:
        below = min(int(self._overtaking[0]), len(self._settled))
        lost = self._looked_below + np.flatnonzero(~self._settled[self._looked_below : below])
        self._looked_below = max(self._looked_below, below)
        if not len(lost):
            return
        # The first of each hop, as many as are allowed there.
        hops = self._hop[lost]
        place = np.arange(len(lost)) - np.searchsorted(hops, hops)
        chosen = lost[place < self._allowed[hops]]
        if len(chosen):
            np.subtract.at(self._allowed, self._hop[chosen], 1)
            self.left_out[chosen] = True
            self._settle(chosen)
            self._sink.leave_out(chosen)

    def _settle(self, numbers: Numbers) -> None:
        self._settled[numbers] = True
        self._open -= len(numbers)


# Packets that are sent again when the timer expires: most often the neighbour is only late.
_BURST: Final = 4
# A share of lost packets above this is a full queue, and counts as that many marks; below it, it is a bad link. It is
# counted over so many packets, and a window at least.
_LOSS_MAX: Final = 0.02
_COUNTED_MIN: Final = 100


class Path:
    """What is known about the path to a neighbour, kept from one operation to the next."""

    def __init__(self) -> None:
        self.rtt = RttEstimator(initial_s=0.06, min_s=0.02)
        self.limit = WindowLimit(WINDOW_MAX)
        self._arrived = self._lost = 0

    def results(self, arrived: int, lost: int, now: float, *, marked: int, used: int) -> None:
        """Take in that ``arrived`` packets have arrived, ``marked`` of them with a CE mark, and ``lost`` were lost.

        ``used``: how many were in flight. The window does not grow if it was not used, since nothing was learned about
        it (RFC 7661).
        """
        self._arrived += arrived
        self._lost += lost
        full = 0
        if self._arrived >= max(self.limit.chunks, _COUNTED_MIN):
            full = self._lost if self._lost > _LOSS_MAX * self._arrived else 0
            self._arrived = self._lost = 0
        if marked + full or 2 * used >= self.limit.chunks:
            self.limit.results(arrived, now, marked=min(marked + full, arrived))


class OutgoingTensor:
    """The sending side: ``count`` packets of a tensor of ``length`` values.

    ``packets``: their contents (:data:`PACKET`). ``tos``: the TOS byte of each. ``left_out``: which of them the
    neighbour did without. ``again``: number of retransmissions.
    """

    def __init__(self, count: int, length: int, tos: NDArray[np.uint8], kept: int) -> None:
        self.packets = np.zeros(count, PACKET)
        self.packets["magic"], self.packets["kind"], self.packets["length"] = MAGIC, DATA, length
        self.packets["number"] = np.arange(count)
        self.tos = tos
        self.left_out: Flags = np.zeros(count, np.bool_)
        self.again = 0
        self._kept = kept
        self._ready: Flags = np.zeros(count, np.bool_)
        self._flight = Flight(count)
        self._fast = FastRetransmit()
        self._base = self._sent_below = 0
        self._timer_from = 0.0
        self._burst: Numbers = np.zeros(0, np.int64)
        self._arrived = self._marked = self._lost = 0

    @property
    def done(self) -> bool:
        """Whether the neighbour has answered all packets."""
        return self._base == len(self.packets)

    def fill(self, numbers: Numbers, values: NDArray[np.float32], counts: NDArray[np.int64]) -> None:
        """Set the values and contributions of some packets. They may be sent from now on."""
        self.packets["values"][numbers] = values
        self.packets["count"][numbers] = counts
        self._ready[numbers] = True

    def due(self, path: Path, now: float) -> Numbers:
        """Return the packets to send now, the repeated ones first."""
        expiry = self.expiry(path)
        if expiry is not None and now >= expiry:
            self._burst = self._flight.all_flying()[:_BURST]
            self._timer_from = now
            path.rtt.back_off()
        window = slice(self._base, self._base + WINDOW_MAX)
        fresh = self._base + np.flatnonzero(self._ready[window] & (self._flight.first[window] == 0))
        overtaken = self._fast.threshold
        if not len(fresh) and self._flight.count <= REORDER_TOLERANCE:
            # Nothing follows that could overtake the last ones (compare early retransmit, RFC 5827).
            overtaken = self._fast.latest
        again = np.union1d(self._burst[self._flight.flying[self._burst]], self._flight.before(overtaken, WINDOW_MAX))
        return np.concatenate([again, fresh[: max(path.limit.chunks - self._flight.count, 0)]])

    def stamp(self, numbers: Numbers) -> None:
        """Prepare packets for sending: write this side's progress into them. A retransmission gets drop class 0."""
        again = self._flight.first[numbers] > 0
        fresh = numbers[~again]
        in_turn = fresh == self._sent_below + np.arange(len(fresh))
        run = len(fresh) if in_turn.all() else int(in_turn.argmin())
        self.packets["sent_below"][numbers[again]] = self._sent_below
        self.packets["sent_below"][fresh[:run]] = fresh[:run]
        self.packets["sent_below"][fresh[run:]] = self._sent_below + run
        self.packets["base"][numbers] = self._base
        self.tos[numbers[again]] = self._kept

    def sent(self, numbers: Numbers, now: float) -> None:
        """Record that packets were sent: the first ones of those that :meth:`due` named."""
        first = self._flight.first[numbers] == 0
        again = numbers[~first]
        if len(again):
            self._flight.send_again(again, now)
            self.again += len(again)
            self._lost += len(np.setdiff1d(again, self._burst))
            self._burst = np.setdiff1d(self._burst, again)
        if first.any():
            self._flight.make_room(int(first.sum()))
            self._flight.send(numbers[first], now)
        unsent = self._flight.first[self._sent_below : self._sent_below + WINDOW_MAX] == 0
        self._sent_below += int(unsent.argmax()) if unsent.any() else len(unsent)

    def answered(self, state: TransferState, path: Path, now: float) -> None:
        """Take in the state that the neighbour has sent."""
        used = self._flight.count
        end = min(state.first + len(state.settled), len(self.packets))
        settled = state.first + np.flatnonzero(state.settled[: max(end - state.first, 0)])
        fresh = settled[self._flight.flying[settled]]
        if len(fresh):
            self.left_out[fresh] = state.left_out[fresh - state.first]
            self._lost += int(np.count_nonzero(self.left_out[fresh]))
            landing = self._flight.landing(fresh, REORDER_TOLERANCE)
            self._fast.answered(landing.latest)
            self._flight.land(fresh)
            path.rtt.settle()
            if landing.sent_at is not None:
                path.rtt.sample(now - landing.sent_at)
                path.limit.round_trip(now - landing.sent_at)
            self._timer_from = now
            self._base = self._flight.landed_until(self._base)
        # Both only grow; an old STATE that comes late tells nothing.
        if state.arrived > self._arrived:
            marked = max(state.marked - self._marked, 0)
            path.results(state.arrived - self._arrived, self._lost, now, marked=marked, used=used)
            self._arrived, self._marked, self._lost = state.arrived, state.marked, 0

    def expiry(self, path: Path) -> float | None:
        """Return when packets in flight are sent again without any sign of loss; None if none are in flight."""
        oldest = self._flight.oldest()
        if oldest < 0:
            return None
        return max(float(self._flight.sent_at[oldest]), self._timer_from) + path.rtt.timeout_s
