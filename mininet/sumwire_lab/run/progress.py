# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Progress of a training, as one line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from sumwire_lab.run.records import Follower, WorkerRecord

LINE_SECONDS: Final = 2.0


def line(system: str, record: WorkerRecord, elapsed_s: float) -> str:
    """System, step, loss, accuracy, communication time and the estimated remaining time."""
    last = record.steps[-1]
    done = last.step + 1
    left = elapsed_s / done * (record.total_steps - done)
    accuracy = next((s.accuracy for s in reversed(record.steps) if s.accuracy is not None), None)
    loss = "      -" if last.loss is None else f"{last.loss:7.4f}"
    tested = "      -" if accuracy is None else f"{100 * accuracy:6.2f} %"
    return (
        f"{system:>5}  step {done:>4}/{record.total_steps}  loss {loss}  "
        f"accuracy {tested}  comm {last.comm_s:6.3f} s  left {left:4.0f} s"
    )


class Progress:
    """Follows the workers' records and reports new steps, at most every two seconds."""

    def __init__(
        self,
        system: str,
        followers: Sequence[Follower],
        say: Callable[[str], None],
        on_first_step: Callable[[], None] = lambda: None,
    ) -> None:
        self._system = system
        self._on_first_step = on_first_step
        self._followers = followers
        self._say = say
        self._first_s: float | None = None
        self._said_s = 0.0
        self._said_step = -1

    def tick(self) -> None:
        """Read what is new, and report it if a line is due."""
        for follower in self._followers:
            follower.poll()
        record = self._followers[0].record
        if not record.steps:
            return
        now = time.monotonic()
        if self._first_s is None:
            self._first_s = now - record.steps[0].step_s
            self._on_first_step()
        step = record.steps[-1].step
        finished = step + 1 == record.total_steps
        if step > self._said_step and (finished or now - self._said_s >= LINE_SECONDS):
            self._said_s, self._said_step = now, step
            self._say(line(self._system, record, now - self._first_s))
