# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Hours of training of one job, with stragglers and failures, step by step but without packets.

Between two events (a worker or switch fails, or is back) all steps of a batch are drawn together, so hours of 100,000
workers take seconds. All numbers come from one generator, so a seed plays the same again.

**A worker fails.** With ``elastic`` (docs/elastic.md) the others notice it after 10 s where its machine is gone, the
lighthouse drops it 2 s after its last heartbeat, the step comes to nothing, and the others go on without it. When it is
back, all wait until it has the model of another. Without ``elastic`` all start again from the last checkpoint.

**A switch fails.** Nothing answers for 3 s (docs/protocol.md), then every step uses gloo until the switch is back and
all have asked for it, which they do each second.

Failures come without memory, at a constant rate for every worker that is there and for every switch.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from sumwire.transport.options import SILENCE_S

from sumwire_lab.errors import OptionError
from sumwire_lab.options.fabric import Fabric
from sumwire_lab.options.fields import Checked, Rule, at_least, option
from sumwire_lab.simulate.flows import Step
from sumwire_lab.simulate.stragglers import Slowness, none, slowest

NOTICE_S: Final = 10.0
"""After which a machine that says nothing counts as gone (docs/elastic.md)."""
DROPPED_S: Final = 2.0
"""After which the lighthouse drops a rank (docs/elastic.md)."""
ASKED_S: Final = 1.0
"""Between two questions whether the switch is back (docs/protocol.md)."""
_HOUR: Final = 3600.0
_DRAWN_MOST: Final = 1 << 16
_POSITIVE: Final = Rule(lambda seconds: seconds > 0, "must be above 0")
_NOT_NEGATIVE: Final = at_least(0, "must not be negative")


@dataclass(frozen=True)
class Failures(Checked):
    """What fails, how often, and what it costs; seconds. Means between failures are of a single worker or switch."""

    worker_mean_s: float = option(math.inf, "mean seconds between a worker's failures", rule=_POSITIVE)
    worker_away_s: float = option(600.0, "seconds until a failed worker is back", rule=_POSITIVE)
    switch_mean_s: float = option(math.inf, "mean seconds between a switch's failures", rule=_POSITIVE)
    switch_away_s: float = option(60.0, "seconds until a failed switch is back", rule=_POSITIVE)
    noticed_s: float = option(NOTICE_S + DROPPED_S, "seconds until the others go on without it", rule=_NOT_NEGATIVE)
    silence_s: float = option(
        SILENCE_S, "seconds without an answer until the switch counts as lost", rule=_NOT_NEGATIVE
    )
    elastic: bool = option(True, "all start again from a checkpoint when a worker fails", flag="no-elastic")
    checkpoint_s: float = option(1800.0, "seconds between checkpoints", rule=_POSITIVE)
    restart_s: float = option(300.0, "seconds to start all workers again", rule=_NOT_NEGATIVE)
    state_bytes: float = option(0.0, "bytes of the model and optimizer that a worker gets", rule=_NOT_NEGATIVE)


@dataclass
class Days:
    """What became of the hours. All seconds add up to the whole: ``stepped_s`` in steps that count, ``fallen_back_s``
    of these over gloo, ``lost_s`` in steps that came to nothing or were taken back, ``stalled_s`` without any.

    ``worker_steps``: workers that took part, summed over the steps that count. ``least_workers``: at any time.
    ``draws``: batches of random numbers that were drawn.
    """

    seconds: float = 0.0
    steps: int = 0
    worker_steps: int = 0
    stepped_s: float = 0.0
    fallen_back_s: float = 0.0
    lost_s: float = 0.0
    stalled_s: float = 0.0
    worker_failures: int = 0
    switch_failures: int = 0
    least_workers: int = 0
    draws: int = 0

    @property
    def step_s(self) -> float:
        """Mean seconds of a step that counts."""
        return self.stepped_s / self.steps if self.steps else math.inf

    def share(self, fabric: Fabric, step: Step) -> float:
        """Return the training that was done, as a share of what all workers do without stragglers and failures."""
        return self.worker_steps * step.seconds / (fabric.workers * self.seconds)


def days(
    fabric: Fabric,
    step: Step,
    hours: float,
    *,
    fallback: Step | None = None,
    slowness: Slowness = none,
    failures: Failures | None = None,
    seed: int = 0,
) -> Days:
    """Return what hours of training come to. ``step``: over the switches; ``fallback``: over gloo, needed where
    switches fail. ``slowness``: of each worker and step.

    Exchanges take as long with fewer workers. Raises OptionError for no hours, and for switches that fail without a
    fall-back.
    """
    _POSITIVE.check("hours", hours)
    failures = failures or Failures()
    if fallback is None and math.isfinite(failures.switch_mean_s):
        raise OptionError(
            f"switch-mean-s={failures.switch_mean_s:g}: needs a fall-back; give the step over gloo as well"
        )
    run = _Run(fabric, step, fallback or step, slowness, failures, np.random.default_rng(seed))
    return run.played(hours * _HOUR)


_WORKER, _SWITCH, _WORKER_BACK, _SWITCH_BACK = range(4)


@dataclass
class _Run:
    _fabric: Fabric
    _step: Step
    _fallback: Step
    _slowness: Slowness
    _failures: Failures
    _random: np.random.Generator
    _now: float = 0.0
    _away: int = 0
    _switches_away: int = 0
    _checked_at: float = 0.0

    def __post_init__(self) -> None:
        fabric = self._fabric
        self._switches = sum(fabric.nodes(level) for level in range(1, len(fabric.levels))) + fabric.spines
        self._found = Days(least_workers=fabric.workers)
        # Since the last checkpoint, for what is taken back.
        self._since = Days()

    def played(self, seconds: float) -> Days:
        found = self._found
        back: list[tuple[float, int]] = []
        while self._now < seconds:
            kind, at = self._next_failure()
            if back and back[0][0] <= at:
                at, kind = back[0]
            end = min(at, seconds)
            cut = kind in (_WORKER, _SWITCH) or end == seconds
            self._advance(end, cut=cut)
            if end == seconds:
                break
            if kind in (_WORKER_BACK, _SWITCH_BACK):
                heapq.heappop(back)
                self._returned(kind)
            elif kind == _WORKER:
                found.worker_failures += 1
                heapq.heappush(back, (at + self._failures.worker_away_s, _WORKER_BACK))
                self._worker_failed()
            else:
                found.switch_failures += 1
                heapq.heappush(back, (at + self._failures.switch_away_s, _SWITCH_BACK))
                self._switches_away += 1
                self._stall(self._failures.silence_s)
            found.least_workers = min(found.least_workers, self._fabric.workers - self._away)
        found.stalled_s -= max(0.0, self._now - seconds)
        found.seconds = seconds
        return found

    def _next_failure(self) -> tuple[int, float]:
        """Memoryless, so it may be drawn anew after every event."""
        self._found.draws += 1
        first, second = -np.log1p(-self._random.random(2))
        workers, switches = self._fabric.workers - self._away, self._switches - self._switches_away
        at = [
            first * self._failures.worker_mean_s / workers if workers else math.inf,
            second * self._failures.switch_mean_s / switches if switches else math.inf,
        ]
        kind = _WORKER if at[0] <= at[1] else _SWITCH
        return kind, self._now + float(min(at))

    def _advance(self, end: float, *, cut: bool) -> None:
        """Makes steps until then. The step under way is lost (``cut``), or made whole."""
        workers = self._fabric.workers - self._away
        if not workers:
            self._stall(max(0.0, end - self._now))
            return
        step = self._fallback if self._switches_away else self._step
        while self._now < end:
            count = min(_DRAWN_MOST, math.ceil((end - self._now) / step.seconds) + 1)
            self._found.draws += 1
            taken = step.slowed(slowest(self._slowness, workers, self._random.random(count)))
            ends = np.cumsum(taken)
            whole = int(np.searchsorted(ends, end - self._now, side="right"))
            if not cut and whole < count:
                whole += 1
            self._made(whole, float(ends[whole - 1]) if whole else 0.0, workers)
            if whole < count and cut:
                self._found.lost_s += end - self._now
                self._now = end

    def _made(self, steps: int, seconds: float, workers: int) -> None:
        if not steps:
            return
        found = self._found
        found.steps += steps
        found.worker_steps += steps * workers
        found.stepped_s += seconds
        fallen_back_s = seconds if self._switches_away else 0.0
        found.fallen_back_s += fallen_back_s
        self._now += seconds
        if self._now - self._checked_at >= self._failures.checkpoint_s:
            # The latest checkpoint is at most a period old.
            self._checked_at = self._now - (self._now - self._checked_at) % self._failures.checkpoint_s
            share = min(1.0, (self._now - self._checked_at) / seconds)
            self._since = Days(steps=int(steps * share), stepped_s=seconds * share, fallen_back_s=fallen_back_s * share)
            self._since.worker_steps = self._since.steps * workers
        else:
            since = self._since
            self._since = replace(
                since,
                steps=since.steps + steps,
                stepped_s=since.stepped_s + seconds,
                fallen_back_s=since.fallen_back_s + fallen_back_s,
                worker_steps=since.worker_steps + steps * workers,
            )

    def _worker_failed(self) -> None:
        failures, found, since = self._failures, self._found, self._since
        self._away += 1
        if failures.elastic:
            self._stall(failures.noticed_s)
            return
        found.steps -= since.steps
        found.worker_steps -= since.worker_steps
        found.stepped_s -= since.stepped_s
        found.fallen_back_s -= since.fallen_back_s
        found.lost_s += since.stepped_s
        # Nothing begins before all are there.
        self._stall(max(failures.restart_s, failures.worker_away_s))
        self._since, self._checked_at = Days(), self._now

    def _returned(self, kind: int) -> None:
        if kind == _SWITCH_BACK:
            self._switches_away -= 1
            self._stall(ASKED_S / 2)
            return
        self._away -= 1
        if self._failures.elastic:
            self._stall(8 * self._failures.state_bytes / self._fabric.rate_bit_s)

    def _stall(self, seconds: float) -> None:
        self._now += seconds
        self._found.stalled_s += seconds
