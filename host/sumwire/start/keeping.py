# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps the aggregators of a job running: starts each, and another one in its place whenever it ends."""

from __future__ import annotations

import contextlib
import math
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sumwire.start.child import Aggregator, Say
from sumwire.start.errors import StartError

# From the end of an aggregator to the next one, after each of several that ended one after the other. Together 9
# minutes, for a server that is started again.
_WAITS_S: Final = (0.0, 1.0, 5.0, *(30.0,) * 18)
# One that has served for so long starts the count anew.
_LASTS_S: Final = _WAITS_S[-1]
# One that is about to be ready says so; without a word of it this is how often it is looked at.
_LOOK_S: Final = 1.0


@dataclass(frozen=True)
class Program:
    """How an aggregator is started. ``address``: which one of a tree it is; empty for a single one."""

    command: Sequence[str]
    address: str = ""


def keep(programs: Sequence[Program], job: Mapping[str, Any], say: Say, ready: threading.Event) -> None:
    """Keep them until the process is interrupted; all end then. ``ready`` is set while all of them serve.

    Workers return to an aggregator that was started again, with empty slots. Raises StartError if one ends many
    times in succession, and at once if one does not become ready at all. One that has served before is tried again for
    9 minutes: its server may be starting.
    """
    changed: queue.SimpleQueue[None] = queue.SimpleQueue()
    kept = [_Kept(program, job, say, changed) for program in programs]
    with _ended(kept):
        while True:
            now = time.monotonic()
            due = min(one.look(now) for one in kept)
            serving = all(one.is_serving for one in kept)
            if serving and not ready.is_set():
                ready.set()
                if len(kept) > 1:
                    say(f"all {len(kept)} aggregators are ready")
            elif not serving:
                ready.clear()
            with contextlib.suppress(queue.Empty):
                changed.get(timeout=None if due == math.inf else max(0.0, due - now))


@contextlib.contextmanager
def _ended(kept: Sequence[_Kept]) -> Iterator[None]:
    """All that run end with the block."""
    try:
        yield
    finally:
        running = [one.running for one in kept if one.running is not None]
        # Side by side: each may take some time, on another machine.
        for aggregator in running:
            aggregator.end()
        for aggregator in running:
            aggregator.close()


class _Kept:
    """One of them."""

    def __init__(self, program: Program, job: Mapping[str, Any], say: Say, changed: queue.SimpleQueue[None]) -> None:
        self._program, self._job, self._changed = program, job, changed
        self._say = say
        self.running: Aggregator | None = None
        self.is_serving = False
        self._failures = 0
        self._begins_at = -math.inf
        self._served_from = math.inf
        self._has_served = False

    def look(self, now: float) -> float:
        """Do what is due at ``now``, in seconds of the monotonic clock. Returns when the next look is due."""
        if self.running is None and now >= self._begins_at:
            self.running = Aggregator(self._program.command, self._job, self._tell, lambda: self._changed.put(None))
        if self.running is None:
            return self._begins_at
        try:
            if not self.is_serving and self.running.is_ready():
                self.is_serving = self._has_served = True
                self._served_from = now
        except StartError as error:
            if not self._has_served:
                where = f"{self._program.address}: " if self._program.address else ""
                raise StartError(f"{where}{error}") from error
            # It has ended, or hangs. Its server may be starting.
            self._note_end(self.running, now)
            return now
        if self.is_serving and self.running.has_ended:
            self._note_end(self.running, now)
            return now
        return math.inf if self.is_serving else now + _LOOK_S

    def _note_end(self, ended: Aggregator, now: float) -> None:
        what = "has ended" if ended.has_ended else "is not ready"
        ended.close()
        self.running, self.is_serving = None, False
        lasted = now - self._served_from >= _LASTS_S
        self._served_from = math.inf
        self._failures = 0 if lasted else self._failures + 1
        if self._failures == len(_WAITS_S):
            raise StartError(f"{self._name} has ended {self._failures} times; see its lines above, then start it again")
        wait_s = _WAITS_S[self._failures]
        self._say(f"{self._name} {what}; the next one starts in {wait_s:g} s")
        self._begins_at = now + wait_s

    @property
    def _name(self) -> str:
        return f"the aggregator {self._program.address}".rstrip()

    def _tell(self, line: str) -> None:
        """Say its lines, of several with their address. A JSON object stays one."""
        address = "" if line.startswith("{") else self._program.address
        self._say(f"{address}: {line}" if address else line)
