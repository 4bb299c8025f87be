# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Builds each chunk's timeline from captured packets: what was sent, lost and sent again, and when results came.

:class:`PacketFollower` takes packets one by one, and finds for each which packet it answers and which it repeats.
:func:`read` does so for whole captures. Used by `show` and by `sumwire decode`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sumwire_protocol import constants as p4

from sumwire.errors import CaptureError
from sumwire.see.captures import CaptureCounts, CapturedPacket, CaptureReader, Frame, losses, packets_of

# Questions that are remembered. Those of longest ago are forgotten first.
_REMEMBERED: Final = 1 << 18

SENT, RESENT, ASKED, RESULT, AGAIN, INFORMED, STALE, REFUSED, LOST = (
    "sent", "resent", "asked", "result", "result again", "informed", "stale", "refused", "lost",
)  # fmt: skip
"""What an event is. LOST is only known where both ends of a link are captured (:mod:`sumwire.see.captures`)."""
PACKETS_MOST: Final = 1_000_000
_TROUBLE: Final = (LOST, RESENT, STALE, REFUSED, AGAIN)


class TracedChunk(NamedTuple):
    """One round of one slot in one run. It is the same chunk of a tensor at every switch of a tree, and for all
    workers.

    ``round`` is None, and ``token`` 0, for a HELLO about slot 0, whatever its round.
    """

    job: int
    slot: int
    round: int | None
    token: int


@dataclass(frozen=True, slots=True)
class PacketEvent:
    """One packet of a chunk's timeline at one point of capture. ``what``: one of the names above.

    ``worker``: the worker's number at the switch; ``host`` and ``switch``: the two addresses. ``copy``: which copy of a
    question it is, from 1 on. ``answered``: for a copy, whether the copy before was answered. ``after_s``: seconds
    since the copy before it, or since the question that it answers.
    """

    at_s: float
    point: str
    what: str
    seen: CapturedPacket
    copy: int = 1
    answered: bool = False
    after_s: float | None = None

    @property
    def host(self) -> str:
        """The address of the worker."""
        return self.seen.ends.source if self.seen.from_worker else self.seen.ends.target

    @property
    def switch(self) -> str:
        """The address of the switch."""
        return self.seen.ends.target if self.seen.from_worker else self.seen.ends.source


@dataclass(slots=True)
class _TracedContribution:
    chunk: TracedChunk
    latest_s: float
    copies: int = 0
    answered: bool = False
    has_result: bool = False


class PacketFollower:
    """Relates each packet to earlier ones. It takes packets in capture order, and keeps capture points separate."""

    def __init__(self) -> None:
        self._questions: OrderedDict[tuple[object, ...], _TracedContribution] = OrderedDict()

    def take(self, seen: CapturedPacket) -> tuple[TracedChunk, PacketEvent]:
        """Return the chunk that a packet belongs to, and the packet's event."""
        return self._question(seen) if seen.from_worker else self._answer(seen)

    def _question(self, seen: CapturedPacket) -> tuple[TracedChunk, PacketEvent]:
        chunk = _chunk_of(seen)
        own, by_call = _keys(seen)
        asks = seen.kind
        question = self._questions.get((*own, asks))
        if question is None:
            question = _TracedContribution(chunk, seen.at_s)
        # The same question again is a new one once it has its answer.
        if asks == p4.KIND_PROBE and question.answered:
            question.copies = 0
        after_s = seen.at_s - question.latest_s if question.copies else None
        question.copies += 1
        again = question.copies > 1
        what = ASKED if asks == p4.KIND_PROBE else RESENT if again else SENT
        event = PacketEvent(seen.at_s, seen.point, what, seen, question.copies, question.answered and again, after_s)
        question.latest_s, question.answered = seen.at_s, False
        for key in (own, by_call):
            self._remember((*key, asks), question)
            self._remember(key, question)
        return chunk, event

    def _answer(self, seen: CapturedPacket) -> tuple[TracedChunk, PacketEvent]:
        own, by_call = _keys(seen)
        key = by_call if seen.kind == p4.KIND_STALE else own
        asked = {p4.KIND_RESULT: (p4.KIND_CONTRIBUTE,), p4.KIND_INFORM: (p4.KIND_PROBE,)}.get(seen.kind, ())
        question = self._questions.get((*key, *asked))
        what = _ANSWERS[seen.kind]
        if question is None:
            return _chunk_of(seen), PacketEvent(seen.at_s, seen.point, what, seen)
        if what == RESULT and question.has_result:
            what = AGAIN
        question.has_result = question.has_result or what == RESULT
        question.answered = True
        event = PacketEvent(seen.at_s, seen.point, what, seen, question.copies, after_s=seen.at_s - question.latest_s)
        return question.chunk, event

    def _remember(self, key: tuple[object, ...], question: _TracedContribution) -> None:
        self._questions[key] = question
        self._questions.move_to_end(key)
        if len(self._questions) > _REMEMBERED:
            self._questions.popitem(last=False)


_ANSWERS: Final = {p4.KIND_RESULT: RESULT, p4.KIND_STALE: STALE, p4.KIND_INFORM: INFORMED, p4.KIND_REFUSED: REFUSED}


def _chunk_of(seen: CapturedPacket) -> TracedChunk:
    if seen.is_hello:
        return TracedChunk(seen.job, seen.slot, None, 0)
    return TracedChunk(seen.job, seen.slot, seen.round, seen.token)


def _keys(seen: CapturedPacket) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Equal for a question and its answers: with the round, and, as STALE has another, with the call instead."""
    ends = seen.ends
    sides = (ends.source, ends.source_port, ends.target, ends.target_port)
    sides = sides if seen.from_worker else (*sides[2:], *sides[:2])
    who = (seen.point, *sides, seen.job, seen.slot, seen.worker, seen.op)
    if seen.is_hello:
        # Its answer has the job's generation in the token's place.
        return (*who, "hello"), (*who, "hello")
    return (*who, seen.token, "round", seen.round), (*who, seen.token, "call", seen.bucket, seen.chunk)


@dataclass(frozen=True)
class PacketFilter:
    """Selects packets that have all the given numbers. ``troubled``: only chunks with a packet that was lost, sent
    again, refused, or too late."""

    job: int | None = None
    worker: int | None = None
    slot: int | None = None
    chunk: int | None = None
    troubled: bool = False

    def takes(self, seen: CapturedPacket) -> bool:
        """Return whether a packet passes."""
        wanted = ((self.job, seen.job), (self.worker, seen.worker), (self.slot, seen.slot), (self.chunk, seen.chunk))
        return all(want is None or want == has for want, has in wanted)


@dataclass
class ChunkTimeline:
    """All packets of one chunk, in their order."""

    chunk: TracedChunk
    events: list[PacketEvent] = field(default_factory=list)

    def count(self, *what: str) -> int:
        """Return the number of events of these kinds."""
        return sum(event.what in what for event in self.events)

    @property
    def first(self) -> CapturedPacket:
        """The packet that identifies the chunk: its first contribution, if there is one."""
        return next((event.seen for event in self.events if event.what == SENT), self.events[0].seen)

    @property
    def closed_s(self) -> float | None:
        """The seconds from the first contribution to the last worker's first result; None if either is missing."""
        began = [event.at_s for event in self.events if event.what == SENT]
        ended = [event.at_s for event in self.events if event.what == RESULT]
        return max(ended) - min(began) if began and ended else None


@dataclass
class Timelines:
    """The timelines of all chunks in captures, by their first packet, and counts."""

    counts: CaptureCounts
    chunks: Mapping[TracedChunk, ChunkTimeline]
    points: int
    began_s: float
    ended_s: float

    def totals(self) -> dict[str, int]:
        """Return the number of events of each kind."""
        return {
            what: sum(timeline.count(what) for timeline in self.chunks.values())
            for what in (*_TROUBLE, RESULT, INFORMED)
        }

    def chosen(self, wanted: PacketFilter) -> list[ChunkTimeline]:
        """Return the timelines that pass a filter."""
        return [timeline for timeline in self.chunks.values() if not wanted.troubled or timeline.count(*_TROUBLE)]


def read(readers: Iterable[tuple[str, CaptureReader]], wanted: PacketFilter) -> Timelines:
    """Build the timelines of one or several captures, given by name. Their clocks must agree.

    Raises CaptureError, also for more than PACKETS_MOST packets.
    """
    counts, packets = CaptureCounts(), list[CapturedPacket]()
    several = len(readers := list(readers)) > 1
    for name, reader in readers:
        for frame in _undamaged(name, reader, counts):
            point = f"{name}:{frame.point}" if several and frame.point else name if several else frame.point
            packets += [seen for seen in packets_of(frame._replace(point=point), counts) if wanted.takes(seen)]
            if len(packets) > PACKETS_MOST:
                rule = f"more than {PACKETS_MOST} packets of Sumwire"
                raise CaptureError(f"{name}: {rule}; choose some: --job, --worker, --slot or --chunk NUMBER")
        if reader.cut_short:
            counts.cut_short.append(name)
    packets.sort(key=lambda seen: seen.at_s)
    return _told(packets, counts)


def _undamaged(name: str, reader: CaptureReader, counts: CaptureCounts) -> Iterator[Frame]:
    """The frames of a capture. One that is damaged further on gives those before, and is noted."""
    some = False
    try:
        for frame in reader:
            some = True
            yield frame
    except CaptureError:
        if not some:
            raise
        counts.damaged.append(f"{name} is damaged at {reader.damage}")


def _told(packets: list[CapturedPacket], counts: CaptureCounts) -> Timelines:
    follower, timelines = PacketFollower(), dict[TracedChunk, ChunkTimeline]()
    chunks = dict[int, TracedChunk]()
    for seen in packets:
        chunk, event = follower.take(seen)
        chunks[id(seen)] = chunk
        timelines.setdefault(chunk, ChunkTimeline(chunk)).events.append(event)
    for lost in losses(packets):
        timelines[chunks[id(lost)]].events.append(PacketEvent(lost.at_s, lost.point, LOST, lost))
    for timeline in timelines.values():
        timeline.events.sort(key=lambda event: event.at_s)
    began, ended = (packets[0].at_s, packets[-1].at_s) if packets else (0.0, 0.0)
    return Timelines(counts, timelines, len({seen.point for seen in packets}), began, ended)
