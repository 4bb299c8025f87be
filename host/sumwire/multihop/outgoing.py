# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The packets of one operation to a neighbour: which go out when, and what the neighbour said of them.

Times are seconds of any monotonic clock.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sumwire.multihop.frames import DATA, MAGIC, PACKET, WINDOW_MAX, Flags, Numbers, State
from sumwire.transport.congestion import WindowLimit
from sumwire.transport.fast_retransmit import REORDER_TOLERANCE, FastRetransmit
from sumwire.transport.in_flight import Flight
from sumwire.transport.rtt import RttEstimator

# Packets that are sent again when the timer expires: most often the neighbour is only late.
_BURST: Final = 4
# A share of lost packets above this is a full queue, and counts as that many marks; below it, it is a bad link. It is
# counted over so many packets, and a window at least.
_LOSS_MAX: Final = 0.02
_COUNTED_MIN: Final = 100


class Path:
    """What is learned about the way to a neighbour, from one operation to the next."""

    def __init__(self) -> None:
        self.rtt = RttEstimator(initial_s=0.06, min_s=0.02)
        self.limit = WindowLimit(WINDOW_MAX)
        self._arrived = self._lost = 0

    def results(self, arrived: int, lost: int, now: float, *, marked: int, used: int) -> None:
        """So many packets have arrived, ``marked`` of them with a CE mark, and so many were lost. ``used``: how many
        were in flight: a window that is not used does not grow, since nothing is known of it (RFC 7661)."""
        self._arrived += arrived
        self._lost += lost
        full = 0
        if self._arrived >= max(self.limit.chunks, _COUNTED_MIN):
            full = self._lost if self._lost > _LOSS_MAX * self._arrived else 0
            self._arrived = self._lost = 0
        if marked + full or 2 * used >= self.limit.chunks:
            self.limit.results(arrived, now, marked=min(marked + full, arrived))


class Outgoing:
    """``count`` packets of a tensor of ``length`` values.

    ``packets``: their contents (:data:`PACKET`). ``tos``: the TOS byte of each. ``left_out``: those that the neighbour
    did without. ``again``: transmissions after the first.
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
        """Whether the neighbour has answered all of them."""
        return self._base == len(self.packets)

    def fill(self, numbers: Numbers, values: NDArray[np.float32], counts: NDArray[np.int64]) -> None:
        """The values and contributions of some packets are known now: they may go out."""
        self.packets["values"][numbers] = values
        self.packets["count"][numbers] = counts
        self._ready[numbers] = True

    def due(self, path: Path, now: float) -> Numbers:
        """The packets to send now, those to send again first."""
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
        """Packets are about to be sent: write into them how far this side is. One that goes again is protected."""
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
        """Packets have been sent, these before all others that :meth:`due` named."""
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

    def answered(self, state: State, path: Path, now: float) -> None:
        """Take in what the neighbour says."""
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
        """When packets are sent again without any sign; None if none are in flight."""
        oldest = self._flight.oldest()
        if oldest < 0:
            return None
        return max(float(self._flight.sent_at[oldest]), self._timer_from) + path.rtt.timeout_s
