# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The residuals of a step that has several buckets: all of them are kept, or none.

A step whose result has NaN or infinity is one that the optimizer does not make (torch.amp.GradScaler skips it). So the
residuals must be those from before it, also of the buckets that were finite. New residuals are staged until the last
bucket has its result.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence

from torch import Tensor

from sumwire.codec.feedback import ParameterFeedback

# (parameter, number of values), in a bucket's order.
Parts = Sequence[tuple[Hashable, int]]


class Step:
    """One step's residuals. Any thread may stage or drop. ``former`` is the step before, to be settled first."""

    def __init__(self, feedback: ParameterFeedback, former: Step | None) -> None:
        self._feedback = feedback
        self._former = former
        self._buckets = 0
        self._complete = False
        self._staged: list[tuple[Parts, Tensor]] = []
        self._ended = 0
        self._dropped = False
        self._error: Exception | None = None
        self._settled = threading.Event()
        self._lock = threading.Lock()

    @property
    def dropped(self) -> bool:
        """Whether the step's residuals are not kept."""
        return self._dropped

    @property
    def settled(self) -> bool:
        """Whether the step's residuals are kept or dropped."""
        return self._settled.is_set()

    def hand_over(self, *, last: bool) -> None:
        """Count a bucket, which is to be staged; ``last`` if the step has no other."""
        with self._lock:
            self._buckets += 1
            self._complete = last

    def await_former(self) -> None:
        """Wait until the residuals of the step before are kept or dropped. Raises an error of making them."""
        former = self._former
        if former is not None:
            former.wait()
            self._former = None

    def wait(self) -> None:
        """Wait until this step's residuals are kept or dropped. Raises an error of making them."""
        self._settled.wait()
        if self._error is not None:
            raise self._error

    def stage(self, parts: Parts, residual: Tensor) -> None:
        """Take a bucket's new residual. That of the last bucket makes all of them the parameters'."""
        with self._lock:
            if self._dropped:
                return
            self._staged.append((parts, residual))
            self._ended += 1
            if self._complete and self._ended == self._buckets:
                for staged in self._staged:
                    self._feedback.store(*staged)
                self._staged.clear()
                self._settled.set()

    def drop(self, error: Exception | None = None) -> None:
        """Keep none of the step's residuals. ``error``: what `wait` raises."""
        with self._lock:
            self._dropped = True
            self._error = self._error or error
            self._staged.clear()
            self._settled.set()

    def abandon(self) -> None:
        """Drop a step whose last bucket has not come; else do nothing."""
        if not self._complete:
            self.drop()
