# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What tcpdump would see at both ends of every link while a schedule is played, and what was lost between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from simulate.network import Terms, Weather
from simulate.play import Outcome, Play
from simulate.schedule import Schedule, Step


class Seen(NamedTuple):
    """A frame at one end of a link, in seconds of virtual time."""

    at_s: float
    end: str
    frame: bytes


class Crossing(NamedTuple):
    """A frame sent into a link. ``arrived``: copies that came out of it."""

    at_s: float
    source: str
    target: str
    frame: bytes
    arrived: int


@dataclass
class Capture:
    """All of a run."""

    seen: list[Seen] = field(default_factory=list)
    crossings: list[Crossing] = field(default_factory=list)

    def in_order(self) -> list[Seen]:
        return sorted(self.seen, key=lambda one: one.at_s)


def lossy_tree(seed: int, values: int, drop: float = 0.01, steps: int = 1) -> Schedule:
    """A run of four workers at two leaves and a spine, all of whose links lose packets."""
    terms = Terms("tree22", slots=16, quorum=4)
    calls = tuple(Step("reduce", values, bucket) for bucket in range(steps))
    return Schedule(seed, terms, Weather(drop=drop), calls, skew_s=(0.0,) * 4)


def play_captured(schedule: Schedule) -> tuple[Capture, Outcome]:
    """Play a schedule, and watch all links."""
    play, capture = Play(schedule), Capture()

    def watch(source: str, target: str, frame: bytes, delays: list[float]) -> None:
        now = play.world.now
        capture.crossings.append(Crossing(now, source, target, frame, len(delays)))
        capture.seen.append(Seen(now, source, frame))
        capture.seen.extend(Seen(now + delay, target, frame) for delay in delays)

    play.network.on_wire = watch
    return capture, play.play()
