# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A chunk's life: who sent, what was lost and sent again, when each worker had the result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sumwire_protocol import layout

from sumwire.errors import CaptureError
from sumwire.see import wording
from sumwire.see.captures import CaptureReader, Frame
from sumwire.see.following import AGAIN, INFORMED, LOST, REFUSED, RESENT, RESULT, SENT, STALE, Chunk, Event, Follower
from sumwire.see.losses import losses
from sumwire.see.packets import Counts, Seen, packets_of

PACKETS_MOST: Final = 1_000_000
_TROUBLE: Final = (LOST, RESENT, STALE, REFUSED, AGAIN)


@dataclass(frozen=True)
class Filter:
    """Which packets are meant: those that have all the given numbers. ``troubled``: only chunks with a packet that was
    lost, sent again, refused, or too late."""

    job: int | None = None
    worker: int | None = None
    slot: int | None = None
    chunk: int | None = None
    troubled: bool = False

    def takes(self, seen: Seen) -> bool:
        """Whether a packet is meant."""
        wanted = ((self.job, seen.job), (self.worker, seen.worker), (self.slot, seen.slot), (self.chunk, seen.chunk))
        return all(want is None or want == has for want, has in wanted)


@dataclass
class Life:
    """All events of one chunk, in their order."""

    chunk: Chunk
    events: list[Event] = field(default_factory=list)

    def count(self, *what: str) -> int:
        """Events of these kinds."""
        return sum(event.what in what for event in self.events)

    @property
    def first(self) -> Seen:
        """The packet that says what the chunk is: a contribution, if there is one."""
        return next((event.seen for event in self.events if event.what == SENT), self.events[0].seen)

    @property
    def closed_s(self) -> float | None:
        """Seconds from the first contribution to the last worker's first result; None without either."""
        began = [event.at_s for event in self.events if event.what == SENT]
        ended = [event.at_s for event in self.events if event.what == RESULT]
        return max(ended) - min(began) if began and ended else None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        chunk, first = self.chunk, self.first
        return {
            "job": chunk.job, "slot": chunk.slot, "round": chunk.round, "token": f"{chunk.token:016x}",
            "op": layout.OP_NAMES[first.op], "bucket": first.bucket, "chunk": first.chunk, "closed_s": self.closed_s,
            "lost": self.count(LOST), "resent": self.count(RESENT),
            "events": [wording.as_dict(event) for event in self.events],
        }  # fmt: skip


@dataclass
class Story:
    """What captures tell: the chunks' lives in the order of their beginning, and counts."""

    counts: Counts
    lives: Mapping[Chunk, Life]
    points: int
    began_s: float
    ended_s: float

    def totals(self) -> dict[str, int]:
        """Events by kind."""
        return {what: sum(life.count(what) for life in self.lives.values()) for what in (*_TROUBLE, RESULT, INFORMED)}

    def chosen(self, wanted: Filter) -> list[Life]:
        """The lives that a filter leaves."""
        return [life for life in self.lives.values() if not wanted.troubled or life.count(*_TROUBLE)]


def read(readers: Iterable[tuple[str, CaptureReader]], wanted: Filter) -> Story:
    """The story of one or several captures, by name. Their clocks must agree.

    Raises CaptureError, also for more than PACKETS_MOST packets.
    """
    counts, packets = Counts(), list[Seen]()
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


def _undamaged(name: str, reader: CaptureReader, counts: Counts) -> Iterator[Frame]:
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


def _told(packets: list[Seen], counts: Counts) -> Story:
    follower, lives = Follower(), dict[Chunk, Life]()
    chunks = dict[int, Chunk]()
    for seen in packets:
        chunk, event = follower.take(seen)
        chunks[id(seen)] = chunk
        lives.setdefault(chunk, Life(chunk)).events.append(event)
    for lost in losses(packets):
        lives[chunks[id(lost)]].events.append(Event(lost.at_s, lost.point, LOST, lost))
    for life in lives.values():
        life.events.sort(key=lambda event: event.at_s)
    began, ended = (packets[0].at_s, packets[-1].at_s) if packets else (0.0, 0.0)
    return Story(counts, lives, len({seen.point for seen in packets}), began, ended)
