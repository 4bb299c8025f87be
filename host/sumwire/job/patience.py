# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How long a job's exchanges wait: with a process group as long as all ranks live, and alone until a deadline."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Final

from sumwire_protocol.logs.events import Event

from sumwire.errors import ClosedError, SwitchLostError
from sumwire.job.control import Control
from sumwire.transport.options import Alone

_LOG: Final = logging.getLogger("sumwire")
# Seconds without a result until the first warning, and from one to the next.
_WARN_AFTER_S: Final = 10.0
_WARN_EVERY_S: Final = 30.0
# After so many questions in a row (by default 5 s) an exchange is stalled. They are counted, because a process that was
# stopped has waited for nothing meanwhile.
_STALLED_CALLS: Final = 20


class AlonePatience(Alone):
    """That of a job without process group. :meth:`end` ends an exchange that waits, from another thread."""

    def __init__(self, job: str, deadline_s: float) -> None:
        super().__init__(deadline_s)
        self._job = job
        self._over = False

    def end(self) -> None:
        """The job is given up: let the exchange that waits, and all later ones, end with ClosedError."""
        self._over = True

    def waiting(self, waited_s: float, missing: Collection[int] | None) -> None:
        """Raises DeadlinePassedError after the deadline."""
        if self._over:
            raise ClosedError(f"job {self._job} is closed; make a new one: Job(config)")
        super().waiting(waited_s, missing)


class GroupPatience:
    """Waits as long as the control thread does not say otherwise, and names in the log who is waited for."""

    def __init__(self, control: Control, job: str) -> None:
        self._control = control
        self._job = job
        self._last_s = 0.0
        self._calls = 0
        self._warn_at_s = _WARN_AFTER_S

    def waiting(self, waited_s: float, missing: Collection[int] | None) -> None:
        """Raises HaltedError when the ranks decide something, and the error that has ended the job on another rank."""
        if waited_s < self._last_s:
            self._calls = 0
            self._warn_at_s = _WARN_AFTER_S
        self._last_s = waited_s
        self._calls += 1
        self._control.check_exchange(stalled=self._calls >= _STALLED_CALLS)
        if waited_s >= self._warn_at_s:
            self._warn_at_s += _WARN_EVERY_S
            self._warn(waited_s, missing)

    def switch_lost(self, error: SwitchLostError) -> None:
        """Raises the error, so that the operation asks for the fall-back."""
        raise error

    def _warn(self, waited_s: float, missing: Collection[int] | None) -> None:
        paused = self._control.paused_workers()
        if missing is None:
            who = "other workers"
        elif silent := sorted({*missing} - paused):
            who = f"workers {silent}"
        else:
            who = "" if missing else "the result"
        if who:
            _LOG.warning(
                "job %s: operation %d has waited %.0f s for %s; this lasts until the process group's time-out. Use "
                "`with job.pause():` where a worker is silent on purpose",
                self._job, self._control.completed, waited_s, who,
                extra=Event.WORKERS_AWAITED(
                    **self._control.place, operation=self._control.completed, waited_s=waited_s,
                    missing=None if missing is None else sorted(missing),
                ),
            )  # fmt: skip
