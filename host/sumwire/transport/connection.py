# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What all exchanges of one transport share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from sumwire.config import JobConfig
from sumwire.transport.catchup.catchup import CatchUp
from sumwire.transport.hello import hello_packet
from sumwire.transport.link import Link
from sumwire.transport.pace import Pace
from sumwire.transport.stats import JobStats
from sumwire.transport.window import Window


@dataclass(frozen=True)
class Connection:
    """``catch_up``: None if slots close only with all workers. ``clock``: a monotonic clock, in seconds. ``silence_s``:
    see TransportOptions."""

    config: JobConfig
    stats: JobStats
    link: Link
    window: Window
    catch_up: CatchUp | None
    clock: Callable[[], float]
    silence_s: float
    pace: Pace = field(default_factory=Pace)

    @cached_property
    def all_seats(self) -> int:
        """The bitmap of all workers at this worker's switch."""
        return sum(1 << seat for seat in self.config.seats)

    @cached_property
    def closing_contributions(self) -> int:
        """Contributions that close a slot at this worker's switch: the quorum, or in a tree all workers there."""
        config = self.config
        return config.quorum if len(config.seats) == config.workers else len(config.seats)

    def say_hello(self) -> None:
        """Ask the switch for its configuration and slot 0. The answer comes like any datagram."""
        self.link.asked_at = self.clock()
        self.window.counters.probes += 1
        self.link.send_one(hello_packet(self.config), None)

    @property
    def next_sequence(self) -> int:
        """Sequence number of the first chunk that no exchange has had."""
        return self.window.base + self.window.chunks
