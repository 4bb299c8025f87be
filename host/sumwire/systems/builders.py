# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Builds systems from reductions, through a job or over a group.

Called by the entries in `gradients`, `thc`, `low_rank` and `marsit`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from torch import Tensor

from sumwire.codec.base import GradientCodec
from sumwire.errors import UsageError
from sumwire.job.job import Job, Residual
from sumwire.numeric import is_number
from sumwire.systems.spec import GROUP, SWITCH
from sumwire.systems.system import GradientSystem, MarsitSystem, System
from sumwire.training.ddp import Reduce
from sumwire.training.reductions import Collective, Peers, through_job


def gradients_over_job(
    name: str, job: Job, codec: GradientCodec | None = None, *, scale: float = 1.0, error_feedback: bool = False
) -> System:
    """Build a system whose gradients go through the job, by ``codec`` or else the job's own THC. Results are multiplied
    by ``scale``.

    Raises UsageError for a scale that is not positive and finite.
    """
    reduce = _scaled(through_job(job, codec), scale)
    return GradientSystem(name, SWITCH, job, reduce, job.stats.as_dict, error_feedback=error_feedback)


def gradients_over_group(
    name: str,
    reduce: Reduce,
    sent: Peers | Callable[[], int],
    *,
    scale: float = 1.0,
    error_feedback: bool = False,
) -> System:
    """Build a system whose gradients go over a group, with timing. Results are multiplied by ``scale``.

    ``sent``: a counter of the bytes sent so far, or a function that returns them; :class:`Peers` in it are closed with
    the system. Raises UsageError for a scale that is not positive and finite.
    """
    timed = Timed(sent)
    reduction = timed.reduction(_scaled(reduce, scale))
    system = GradientSystem(name, GROUP, None, reduction, timed.stats, error_feedback=error_feedback)
    if isinstance(sent, Peers):
        system.on_close(sent.close)
    return system


def marsit_over_hops(name: str, hops: Collective, sent: Callable[[], int], settings: dict[str, object]) -> System:
    """Build a Marsit system whose signs are merged hop by hop. ``sent`` returns the bytes sent so far."""
    timed = TimedCollective(hops, sent)
    return MarsitSystem(name, GROUP, None, timed, timed.stats, settings=settings)


def _scaled(reduce: Reduce, scale: float) -> Reduce:
    if not is_number(scale) or scale <= 0:
        raise UsageError(f"scale = {scale!r}: must be above 0")
    if scale == 1.0:
        return reduce

    @wraps(reduce)
    def scaled(x: Tensor, number: int) -> tuple[Tensor, Residual]:
        result, residual = reduce(x, number)
        return result * scale, residual

    return scaled


_Result = TypeVar("_Result")


class Timed:
    """Counts calls and their seconds. ``sent``: a counter of the payload bytes sent so far, or a function that returns
    them."""

    def __init__(self, sent: Peers | Callable[[], int]) -> None:
        self._sent = sent
        self._operations = 0
        self._seconds = 0.0

    def stats(self) -> dict[str, float]:
        """Return the same numbers as :attr:`System.stats`."""
        sent = self._sent.sent_bytes if isinstance(self._sent, Peers) else self._sent()
        return {"operations": self._operations, "operation_s": self._seconds, "payload_bytes": float(sent)}

    def reduction(self, reduce: Reduce) -> Reduce:
        """Return ``reduce`` with every call counted."""

        @wraps(reduce)
        def timed(x: Tensor, number: int) -> tuple[Tensor, Residual]:
            return self.call(lambda: reduce(x, number))

        return timed

    def call(self, call: Callable[[], _Result]) -> _Result:
        """Make a call and count it, whether it returns or raises."""
        began = time.monotonic()
        try:
            return call()
        finally:
            self._operations += 1
            self._seconds += time.monotonic() - began


class TimedCollective(Timed):
    """A collective for Marsit, with its calls counted."""

    def __init__(self, collective: Collective, sent: Callable[[], int]) -> None:
        super().__init__(sent)
        self._collective = collective
        # As functools.wraps names what a wrapper stands for; the collective's state is found by it.
        self.__wrapped__ = collective

    def sign_merge(self, plus: Tensor, /) -> Tensor:
        """See :class:`sumwire.training.reductions.Collective`."""
        return self.call(lambda: self._collective.sign_merge(plus))

    def mean(self, x: Tensor, /) -> Tensor:
        """See :class:`sumwire.training.reductions.Collective`."""
        return self.call(lambda: self._collective.mean(x))

    def all_finite(self, finite: bool, /) -> bool:
        """See :class:`sumwire.training.reductions.Collective`."""
        return self.call(lambda: self._collective.all_finite(finite))
