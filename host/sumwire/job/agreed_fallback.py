# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A job's use of its fall-back: agreeing on it, handing out the last result, and the operations after it."""

from __future__ import annotations

import logging
from typing import Final

from torch import Tensor

from sumwire.errors import DeadlineError, FallbackError
from sumwire.job.fallback import Fallback
from sumwire.job.operations import Operation
from sumwire.transport.stats import JobStats

_LOG: Final = logging.getLogger("sumwire")


class AgreedFallback:
    """``active``: the workers have agreed on the fall-back; all operations now use the process group."""

    def __init__(self, group: Fallback, job: str, stats: JobStats) -> None:
        self.active = False
        self._group = group
        self._job = job
        self._stats = stats
        # Ranks that had closed the job when the workers agreed.
        self._closed: list[int] = []
        # The latest result, for workers that did not receive it. Callers never get this tensor.
        self._last: Tensor | None = None

    def keep(self, result: Tensor) -> None:
        """Keep the result of a completed operation, in case another worker did not receive it."""
        self._last = result

    def close(self, completed: int) -> None:
        """Agree once more before the job closes, so that a worker without the last result gets it.

        Raises FallbackError if another worker is gone.
        """
        if not self.active:
            self._agree(completed, closing=True, like=None)

    def finish(self, operation: Operation, completed: int, reason: DeadlineError) -> Tensor:
        """Finish an operation without the switch, together with all other workers, which do the same."""
        handed_out = self._agree(completed, closing=False, like=operation.like())
        _LOG.warning("job %s falls back to the ordinary all-reduce for good: %s", self._job, reason)
        self._stats.fallbacks += 1
        return self.carry_out(operation, completed) if handed_out is None else operation.take(handed_out)

    def carry_out(self, operation: Operation, completed: int) -> Tensor:
        """An operation by the process group's collectives. Raises FallbackError if a rank has closed the job."""
        if self._closed:
            raise FallbackError(f"operation {completed} cannot be finished: ranks {self._closed} have closed the job")
        self._stats.fallback_operations += 1
        return operation.ordinary(self._group)

    def _agree(self, completed: int, *, closing: bool, like: Tensor | None) -> Tensor | None:
        """Agree with all workers. Returns the result of operation ``completed`` if others have completed it already.

        ``like``: a tensor of that result's shape and dtype.
        """
        standing = self._group.agree(completed, closing=closing)
        behind = completed < standing.last
        if standing.uneven:
            own = like if behind else self._last
            if own is None:
                raise FallbackError(f"closed before operation {completed}, which other workers have completed")
            self._last = self._group.hand_out(standing, own.cpu())
        self._closed = [rank for rank, closed in enumerate(standing.closing) if closed]
        self.active = True
        return self._last if behind else None
