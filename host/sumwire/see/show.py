# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Shows timelines as text and as JSON, and packets line by line as they come. Used by `sumwire decode`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from sumwire_protocol import layout

from sumwire.see.captures import CaptureCounts, Frame, packets_of
from sumwire.see.timeline import (
    AGAIN,
    ASKED,
    INFORMED,
    LOST,
    REFUSED,
    RESENT,
    RESULT,
    SENT,
    STALE,
    ChunkTimeline,
    PacketEvent,
    PacketFilter,
    PacketFollower,
    Timelines,
)

_BITMAP_BITS: Final = 32
_WHOLE: Final = "capture whole frames (tcpdump -s 0)"


def event_as_dict(event: PacketEvent) -> dict[str, Any]:
    """Return the contents as values that JSON can hold, with times in seconds."""
    seen = event.seen
    found: dict[str, Any] = {
        "at_s": event.at_s,
        "point": event.point,
        "what": event.what,
        "worker": seen.worker,
        "host": event.host,
        "switch": event.switch,
        "kind": layout.KINDS[seen.kind],
        "count": seen.count,
        "round": seen.round,
        "contributors": seen.contributors,
        "flags": list(layout.flag_names(seen.flags)),
        "copy": event.copy,
        "answered": event.answered,
        "after_s": event.after_s,
        "text": text_of(event),
    }
    if event.what == REFUSED:
        found["reason"] = _reason(event)
    return found


def _why_again(event: PacketEvent) -> str:
    if event.copy == 1 or event.after_s is None:
        return ""
    return ", the one before was answered" if event.answered else f", no answer for {event.after_s * 1e3:.3f} ms"


def _reason(event: PacketEvent) -> str:
    return layout.REASONS.get(event.seen.count, f"code {event.seen.count}")


def _workers(event: PacketEvent) -> str:
    bits = event.seen.contributors
    named = [str(bit) for bit in range(_BITMAP_BITS) if bits >> bit & 1]
    if not named:
        return "nobody is in"
    return f"worker {named[0]} is in" if len(named) == 1 else f"workers {', '.join(named)} are in"


# By what happened, with the words of :func:`text_of`.
_TEXTS: Final[Mapping[str, str]] = {
    SENT: "{who} sends to {event.switch}{several}{flags}",
    RESENT: "{who} sends copy {event.copy}{again}{flags}",
    ASKED: "{who} asks {event.switch}{again}",
    RESULT: "{who} gets the result: count {seen.count}, {workers}{flags}{since}",
    AGAIN: "{who} gets the result again: count {seen.count}, {workers}{flags}{since}",
    INFORMED: "{who} is told: {where}{workers}{flags}{since}",
    STALE: "{who} is too late: the slot is in round {seen.round}{since}",
    REFUSED: "{who} is refused: {reason}{since}",
    LOST: "lost behind this point: {kind} of {seen.ends.source} to {seen.ends.target}, worker {seen.worker}{flags}",
}


def text_of(event: PacketEvent) -> str:
    """Return the event in words."""
    seen = event.seen
    reason = _reason(event) if event.what == REFUSED else ""
    means = layout.meaning(f"REJECT_{reason}") if reason else ""
    return _TEXTS[event.what].format(
        event=event,
        seen=seen,
        who=f"worker {seen.worker} ({event.host})",
        several=f" for {seen.count} hosts" if seen.count > 1 else "",
        flags="".join(f" [{name}]" for name in layout.flag_names(seen.flags)),
        again=_why_again(event),
        workers=_workers(event),
        where=f"round {seen.round}, " if seen.is_hello else "",
        since="" if event.after_s is None else f", after {event.after_s * 1e3:.3f} ms",
        reason=f"{reason}: {means}" if means else reason,
        kind=layout.KINDS[seen.kind],
    )


def as_dict(timelines: Timelines, wanted: PacketFilter) -> dict[str, Any]:
    """Return the contents as values that JSON can hold, with times in seconds."""
    return {
        **asdict(timelines.counts),
        "points": timelines.points,
        "seconds": timelines.ended_s - timelines.began_s,
        "totals": timelines.totals(),
        "chunks": [_timeline_as_dict(timeline) for timeline in timelines.chosen(wanted)],
    }


def _timeline_as_dict(timeline: ChunkTimeline) -> dict[str, Any]:
    chunk, first = timeline.chunk, timeline.first
    return {
        "job": chunk.job, "slot": chunk.slot, "round": chunk.round, "token": f"{chunk.token:016x}",
        "op": layout.OP_NAMES[first.op], "bucket": first.bucket, "chunk": first.chunk, "closed_s": timeline.closed_s,
        "lost": timeline.count(LOST), "resent": timeline.count(RESENT),
        "events": [event_as_dict(event) for event in timeline.events],
    }  # fmt: skip


def as_text(timelines: Timelines, wanted: PacketFilter) -> Iterator[str]:
    """Yield a summary, then each chunk's timeline, in milliseconds from the beginning of the capture."""
    yield from summary(timelines)
    for timeline in timelines.chosen(wanted):
        yield ""
        yield heading(timeline)
        for event in timeline.events:
            yield line(event, timelines.began_s)


def summary(timelines: Timelines) -> Iterator[str]:
    """Yield a summary of what the captures hold."""
    counts, totals = timelines.counts, timelines.totals()
    seconds = timelines.ended_s - timelines.began_s
    points = f"{timelines.points} points" if timelines.points > 1 else "one point"
    yield f"{counts.packets} packets of Sumwire at {points} in {seconds:.3f} s, {len(timelines.chunks)} chunks"
    closed = sum(timeline.closed_s is not None for timeline in timelines.chunks.values())
    known = f"{totals[LOST]} lost" if timelines.points > 1 else "losses: capture both ends of a link to see them"
    yield (
        f"{closed} chunks with a result; {known}; {totals[RESENT]} sent again, {totals[AGAIN]} results again, "
        f"{totals[STALE]} too late, {totals[REFUSED]} refused"
    )
    if counts.malformed or counts.others:
        frames = "1 frame" if counts.others == 1 else f"{counts.others} frames"
        yield f"beside them {frames} of others, {counts.malformed} malformed at Sumwire's port"
    if counts.headless:
        yield f"{counts.headless} frames at Sumwire's port were captured without a whole header: {_WHOLE}"
    if counts.behind:
        yield f"{counts.behind} packets of trains were not captured: {_WHOLE}"
    for name in counts.cut_short:
        yield f"{name} ends in the middle of a packet"
    for damage in counts.damaged:
        yield f"{damage}; what follows could not be read"


def heading(timeline: ChunkTimeline) -> str:
    """Return one line about a chunk."""
    chunk, first = timeline.chunk, timeline.first
    if chunk.round is None:
        return f"job {chunk.job}: questions about slot {chunk.slot} (HELLO)"
    name = f"job {chunk.job} slot {chunk.slot} round {chunk.round}: {layout.OP_NAMES[first.op]} chunk {first.chunk}"
    ended = "no result" if timeline.closed_s is None else f"{timeline.closed_s * 1e3:.3f} ms"
    words = [f"{name} of bucket {first.bucket}", ended]
    words += [f"{count} {what}" for what in (LOST, RESENT, STALE, REFUSED) if (count := timeline.count(what))]
    return ", ".join(words)


def line(event: PacketEvent, began_s: float) -> str:
    """Return one event as a line of text."""
    return f"{(event.at_s - began_s) * 1e3:12.3f} ms  {event.point or '-':<14} {text_of(event)}"


def follow(frames: Iterable[Frame], wanted: PacketFilter, say: Callable[[PacketEvent, float], None]) -> CaptureCounts:
    """Pass each event to ``say`` as its packet comes, with the time of the first packet. Raises CaptureError."""
    counts, follower, began = CaptureCounts(), PacketFollower(), None
    for frame in frames:
        for seen in filter(wanted.takes, packets_of(frame, counts)):
            began = seen.at_s if began is None else began
            _, event = follower.take(seen)
            if not wanted.troubled or event.what in (RESENT, AGAIN, STALE, REFUSED):
                say(event, began)
    return counts
