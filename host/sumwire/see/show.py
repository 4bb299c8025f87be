# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Stories as text and as JSON, and packets line by line as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any, Final

from sumwire_protocol import layout

from sumwire.see import wording
from sumwire.see.captures import Frame
from sumwire.see.following import AGAIN, LOST, REFUSED, RESENT, STALE, Event, Follower
from sumwire.see.lives import Filter, Life, Story
from sumwire.see.packets import Counts, packets_of

_WHOLE: Final = "capture whole frames (tcpdump -s 0)"


def as_dict(story: Story, wanted: Filter) -> dict[str, Any]:
    """For JSON: times in seconds."""
    return {
        **asdict(story.counts),
        "points": story.points,
        "seconds": story.ended_s - story.began_s,
        "totals": story.totals(),
        "chunks": [life.as_dict() for life in story.chosen(wanted)],
    }


def as_text(story: Story, wanted: Filter) -> Iterator[str]:
    """The lines: a summary, then each chunk's life, in milliseconds from the capture's beginning on."""
    yield from summary(story)
    for life in story.chosen(wanted):
        yield ""
        yield heading(life)
        for event in life.events:
            yield line(event, story.began_s)


def summary(story: Story) -> Iterator[str]:
    """What is in the captures."""
    counts, totals = story.counts, story.totals()
    seconds = story.ended_s - story.began_s
    points = f"{story.points} points" if story.points > 1 else "one point"
    yield f"{counts.packets} packets of Sumwire at {points} in {seconds:.3f} s, {len(story.lives)} chunks"
    closed = sum(life.closed_s is not None for life in story.lives.values())
    known = f"{totals[LOST]} lost" if story.points > 1 else "losses: capture both ends of a link to see them"
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


def heading(life: Life) -> str:
    """One line about a chunk."""
    chunk, first = life.chunk, life.first
    if chunk.round is None:
        return f"job {chunk.job}: questions about slot {chunk.slot} (HELLO)"
    name = f"job {chunk.job} slot {chunk.slot} round {chunk.round}: {layout.OP_NAMES[first.op]} chunk {first.chunk}"
    ended = "no result" if life.closed_s is None else f"{life.closed_s * 1e3:.3f} ms"
    words = [f"{name} of bucket {first.bucket}", ended]
    words += [f"{count} {what}" for what in (LOST, RESENT, STALE, REFUSED) if (count := life.count(what))]
    return ", ".join(words)


def line(event: Event, began_s: float) -> str:
    """One event."""
    return f"{(event.at_s - began_s) * 1e3:12.3f} ms  {event.point or '-':<14} {wording.text_of(event)}"


def follow(frames: Iterable[Frame], wanted: Filter, say: Callable[[Event, float], None]) -> Counts:
    """Tell each event as its packet comes. ``say`` gets it, and when the first packet came. Raises CaptureError."""
    counts, follower, began = Counts(), Follower(), None
    for frame in frames:
        for seen in filter(wanted.takes, packets_of(frame, counts)):
            began = seen.at_s if began is None else began
            _, event = follower.take(seen)
            if not wanted.troubled or event.what in (RESENT, AGAIN, STALE, REFUSED):
                say(event, began)
    return counts
