# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Statistics of systems without a job, which would count for them."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from torch import Tensor

from sumwire.job.job import Residual
from sumwire.training.collective import Collective
from sumwire.training.ddp import Reduce

_Result = TypeVar("_Result")


class Timed:
    """Counts calls and their seconds. ``sent`` gives the payload bytes sent so far."""

    def __init__(self, sent: Callable[[], int]) -> None:
        self._sent = sent
        self._operations = 0
        self._seconds = 0.0

    def stats(self) -> dict[str, float]:
        """As :attr:`System.stats`."""
        return {
            "operations": self._operations,
            "operation_s": self._seconds,
            "payload_bytes": float(self._sent()),
        }

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
        """See :class:`sumwire.training.collective.Collective`."""
        return self.call(lambda: self._collective.sign_merge(plus))

    def mean(self, x: Tensor, /) -> Tensor:
        """See :class:`sumwire.training.collective.Collective`."""
        return self.call(lambda: self._collective.mean(x))

    def all_finite(self, finite: bool, /) -> bool:
        """See :class:`sumwire.training.collective.Collective`."""
        return self.call(lambda: self._collective.all_finite(finite))
