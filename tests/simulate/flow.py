# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What flows to the switch of a blind job: a schedule is played in two worlds, which the switch must not tell apart.

In world "b" workers 0 and 1 have exchanged some of their values, drawn element by element (for means by THC block by
block, since a block is rotated as a whole). So all sums, which the switch may know, are those of world "a"; what one
worker has is not. All that is drawn is equal in both. From what a switch sees it may then learn nothing:

- **Shape.** Times, ports, lengths and every field of every packet are equal, but for OVERFLOW, which the switch sets by
  masked numbers. So is the payload of all that is not SUM32, which is the greeting's.
- **Sums.** What all workers sent to one place adds up to the same. Only numbers that workers hide from it differ.
- **Masks.** A worker sends one payload to a place, and no two of its payloads have the same number twice at one spot.
- **Distribution.** Bytes of payloads, of hidden sums, and of the differences of two in a row are uniform: chi-square,
  over all schedules together (:class:`Tally`).
- **Correlation.** Payloads do not follow what they hide.

The switch may be an :class:`simulate.adversary.Adversary`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise, zip_longest
from typing import Any, Final
from unittest import mock

import numpy as np
from golden import model, ops
from numpy.typing import NDArray
from scipy.stats import chi2
from sumwire.blind.masks import Masks
from sumwire.codec.seeds import RoundingStream

from simulate.adversary import is_sumwire
from simulate.network import Network
from simulate.play import Play
from simulate.schedule import Schedule
from simulate.switches import Frames

REJECTS_BELOW: Final = 1e-4
SURE_BELOW: Final = 1e-12
_BYTES_LEAST: Final = 4096
_SAME_MOST: Final = 2
Place = tuple[int, int, int]


@dataclass
class Tally:
    """Of many plays: how often each byte was seen, and what is needed for the correlation of payloads and secrets."""

    payloads: NDArray[np.int64] = field(default_factory=lambda: np.zeros(256, np.int64))
    steps: NDArray[np.int64] = field(default_factory=lambda: np.zeros(256, np.int64))
    hidden: NDArray[np.int64] = field(default_factory=lambda: np.zeros(256, np.int64))
    hidden_steps: NDArray[np.int64] = field(default_factory=lambda: np.zeros(256, np.int64))
    products: float = 0.0
    elements: int = 0

    def __iadd__(self, other: Tally) -> Tally:
        for name in ("payloads", "steps", "hidden", "hidden_steps"):
            getattr(self, name).__iadd__(getattr(other, name))
        self.products += other.products
        self.elements += other.elements
        return self

    @property
    def p_values(self) -> dict[str, float]:
        """How often a switch would see what is this uneven, or follows secrets this closely, if it learns nothing."""
        found = {name: _p(getattr(self, name)) for name in ("payloads", "steps", "hidden", "hidden_steps")}
        return {**found, "secrets": math.erfc(abs(self.products) / math.sqrt(2 * max(self.elements, 1)))}

    @property
    def correlation(self) -> float:
        """Of a worker's masked numbers and what they hide."""
        return self.products / max(self.elements, 1)

    def problems(self, below: float = REJECTS_BELOW) -> list[str]:
        """What a switch learns, but for a chance of ``below``."""
        return [f"a switch learns of {name}: p = {p:.1e}" for name, p in self.p_values.items() if p < below]


def _p(counts: NDArray[np.int64]) -> float:
    if counts.sum() < _BYTES_LEAST:
        return 1.0
    expected = counts.sum() / 256
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), 255))


class Transcript:
    """All that the switches of one play see."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._hosts = {network.place_of(worker): worker for worker in range(network.shape.workers)}
        self._also = network.on_frame
        self.shape: list[tuple[Any, ...]] = []
        self.sent: dict[Place, dict[int, list[bytes]]] = {}
        # Payloads whose sums only workers can read.
        self.hidden: set[bytes] = set()
        self.tally = Tally()
        network.on_frame = self.see

    def see(self, name: str, port: int, frame: bytes, leaving: Frames) -> None:
        """See Network.on_frame."""
        if self._also is not None:
            self._also(name, port, frame, leaving)
        now = round(self._network.world.now, 9)
        self.shape += [(now, name, -out, *_fields(sent)) for out, sent in leaving]
        self.shape.append((now, name, port, *_fields(frame)))
        if (name, port) in self._hosts and is_sumwire(frame):
            packet = model.decode(frame[42:])
            # Only sums of masked numbers are taken after a greeting, whose own packets say nothing of values.
            if packet.kind == model.CONTRIBUTE and packet.payload and packet.op != ops.SUM32:
                self.shape[-1] = (*self.shape[-1], packet.payload)
            elif packet.kind == model.CONTRIBUTE and packet.payload:
                given = self.sent.setdefault((packet.token, packet.slot, packet.round), {})
                copies = given.setdefault(self._hosts[name, port], [])
                if packet.payload not in copies:
                    copies.append(packet.payload)

    def masked(self, before: NDArray[np.uint8], after: NDArray[np.uint8], hidden: bool) -> None:
        """A worker has masked a chunk."""
        if hidden:
            self.hidden.add(after.tobytes())
            return
        secret, payload = (_elements(part.tobytes()).view(np.int32).astype(np.float64) for part in (before, after))
        spread = secret.std()
        if spread:
            self.tally.products += float(((secret - secret.mean()) / spread * payload).sum()) / (2**31 / math.sqrt(3))
            self.tally.elements += len(secret)

    def sums(self) -> dict[Place, NDArray[np.uint32]]:
        """What all workers sent to each place, but for those whose sums are hidden."""
        return {place: total for place, (total, hidden) in self._totals().items() if not hidden}

    def _totals(self) -> dict[Place, tuple[NDArray[np.uint32], bool]]:
        found: dict[Place, tuple[NDArray[np.uint32], bool]] = {}
        for place, given in self.sent.items():
            if len(given) == self._network.shape.workers:
                payloads = [copies[0] for copies in given.values()]
                total = np.stack([_elements(payload) for payload in payloads]).sum(0, np.uint32)
                found[place] = total, any(payload in self.hidden for payload in payloads)
        return found

    def problems(self) -> list[str]:
        """What is wrong in this world alone; fills the tally."""
        found, by_worker = [], dict[int, list[NDArray[np.uint32]]]()
        for place, given in self.sent.items():
            for worker, copies in given.items():
                by_worker.setdefault(worker, []).append(_elements(copies[0]))
                if len(copies) > 1:
                    found.append(f"worker {worker} sent {len(copies)} payloads to slot {place[1]}, round {place[2]}")
        for worker, payloads in by_worker.items():
            rows = np.stack(payloads)
            same = max((int((rows[k + 1 :] == rows[k]).sum(1).max()) for k in range(len(rows) - 1)), default=0)
            if same > _SAME_MOST:
                found.append(f"two payloads of worker {worker} have {same} numbers in common: masks came twice")
            self.tally.payloads += _counted(rows)
            self.tally.steps += _counted(np.diff(rows, axis=0))
        hidden = [total for total, is_hidden in self._totals().values() if is_hidden]
        for total in hidden:
            self.tally.hidden += _counted(total[total != 0])
        for one, other in pairwise(hidden):
            self.tally.hidden_steps += _counted((other - one)[(one != 0) & (other != 0)])
        if _p(self.tally.payloads) < SURE_BELOW:
            found.append("payloads are not masked: their bytes are not uniform")
        return found


def _elements(payload: bytes) -> NDArray[np.uint32]:
    return np.frombuffer(payload, ">u4").astype(np.uint32)


def _counted(elements: NDArray[np.uint32]) -> NDArray[np.int64]:
    return np.bincount(np.ascontiguousarray(elements).view(np.uint8).reshape(-1), minlength=256)


def _fields(frame: bytes) -> tuple[Any, ...]:
    """All of a frame but its payload and the flag that follows from masked numbers."""
    if not is_sumwire(frame):
        return len(frame), frame
    packet = model.decode(frame[42:])
    flags = packet.flags & ~model.OVERFLOW
    # Of the IPv4 header and UDP's, checksums follow from the payload alone.
    return len(frame), frame[:24], frame[26:40], packet._replace(payload=b"", tag=b"", flags=flags)


@contextlib.contextmanager
def _seen_by(transcript: Transcript) -> Iterator[None]:
    """Within it the workers' masks tell what they mask. Workers 0 and 1 round alike, so that their values can be
    exchanged: a switch can compute how each of them rounds."""
    hide, places, rounding = Masks.hide, Masks.places, RoundingStream.correlated
    hidden: dict[Masks, set[int]] = {}

    def told_places(masks: Masks, sequence: int, chunks: int) -> NDArray[np.uint32]:
        hidden.setdefault(masks, set()).update(range(sequence, sequence + chunks))
        return places(masks, sequence, chunks)

    def told_hide(masks: Masks, sequence: int, payload: NDArray[np.uint8]) -> None:
        before, of_places = payload.copy(), hidden.get(masks, set())
        hide(masks, sequence, payload)
        for k in range(len(payload)):
            transcript.masked(before[k], payload[k], sequence + k in of_places)

    def alike(job: int, worker: int, *rest: Any) -> RoundingStream:
        return rounding(job, max(worker, 1), *rest)

    with (
        mock.patch.object(Masks, "hide", told_hide),
        mock.patch.object(Masks, "places", told_places),
        mock.patch.object(RoundingStream, "correlated", alike),
    ):
        yield


def _world(schedule: Schedule, name: str) -> tuple[Transcript, list[str]]:
    played = Play(replace(schedule, world=name))
    transcript = Transcript(played.network)
    with _seen_by(transcript):
        outcome = played.play()
    return transcript, outcome.violations


def told_apart(schedule: Schedule) -> tuple[list[str], Tally]:
    """What a switch learns of a blind job in this schedule beyond its sums, and what else is wrong; [] if nothing."""
    transcripts, found = [], list[str]()
    for name in ("a", "b"):
        transcript, violations = _world(schedule, name)
        transcripts.append(transcript)
        found += violations + transcript.problems()
    one, other = transcripts
    for k, (left, right) in enumerate(zip_longest(one.shape, other.shape)):
        if left != right:
            found.append(f"event {k} tells the worlds apart: {left} and {right}")
            break
    sums, others = one.sums(), other.sums()
    different = [place for place in sums.keys() & others.keys() if not np.array_equal(sums[place], others[place])]
    if different:
        _, slot, round_ = min(different)
        found.append(f"{len(different)} sums tell the worlds apart, the first in slot {slot}, round {round_}")
    # Only the first world's: what both have in common would count twice.
    return found, one.tally
