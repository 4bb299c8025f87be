# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""An operation of a job with a process group: through the switch while there is one, else by the group's collectives.

The ranks agree on every change (:mod:`sumwire.job.agreement`). An operation that the network did not finish gets the
result that another rank has, or is made once more by the process group on all ranks.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from torch import Tensor

from sumwire.errors import (
    GroupError,
    PeerLostError,
    RetryError,
    StaleRunError,
    SumwireError,
    SwitchLostError,
    TransportError,
)
from sumwire.job.control import Control, HaltedError
from sumwire.job.gloo_group import first_clause
from sumwire.job.operations import Operation
from sumwire.transport.stats import JobStats

# So many operations by choice begin by comparing the calls, and of the later ones on large tensors every so many: it
# takes as long as a small operation. Programs whose calls differ mostly do so in their first steps. In between, gloo
# itself finds tensors that are not equally long.
COMPARED: Final = 16


@dataclass
class _History:
    """The operations by choice so far: how many, and 16 bits for all their calls."""

    count: int = 0
    tag: int = 0

    def add(self, call: str) -> int:
        """The bits with one more call."""
        self.count += 1
        self.tag = binascii.crc_hqx(call.encode(), self.tag)
        return self.tag


@dataclass(frozen=True)
class AgreedFallback:
    """``always``: a switch that cannot be reached at the start is no error either."""

    control: Control
    stats: JobStats
    always: bool
    never: bool
    _history: _History = field(default_factory=_History, init=False)

    def carry_out(self, operation: Operation, call: str, through_switch: Callable[[], Tensor]) -> Tensor:
        """The result of the job's next operation. ``call`` describes it, equally on all workers.

        Raises RetryError if the operation was not made, and the error that has ended the job on all ranks.
        """
        by_network = self.control.begin(call)
        try:
            if by_network:
                result = self._through_switch(through_switch)
                if result is not None:
                    self.control.finish(operation.kept(result), by_network=True)
                    return result
            result = self._without_switch(operation, call, begun=by_network)
        except RetryError:
            self.control.cancel(by_network=by_network)
            raise
        except SumwireError as error:
            raise self.control.fail(error) from error
        self.control.finish(operation.kept(result), by_network=False)
        return result

    def by_choice(self, operation: Operation, call: str) -> Tensor:
        """The result of an operation that goes by the process group in every phase, and in the same way: some ranks may
        have learned of a fall-back when they begin it, and others not."""
        self.control.begin(call, by_choice=True)
        first = self._history.count < COMPARED
        operation.compared = first or self._history.count % COMPARED != 0
        operation.tag = self._history.add(call)
        try:
            result = self._by_group(operation, call if first else None)
        except SumwireError as error:
            raise self.control.fail(error) from error
        self.control.finish_by_choice(operation.kept(result))
        self.stats.group_operations += 1
        self.stats.group_values += operation.values
        return result

    def _through_switch(self, through_switch: Callable[[], Tensor]) -> Tensor | None:
        """None if the ranks have agreed on the fall-back meanwhile."""
        try:
            return through_switch()
        except HaltedError:
            self.control.await_fallback()
        except (SwitchLostError, TransportError) as error:
            if self.never or not (self.always or self.control.greeted):
                raise
            self.control.await_fallback(str(error))
        except StaleRunError as error:
            # The group's ranks have the job's addresses and ports, so nobody else can be in a newer run: it is the next
            # greeting of one of them, or what processes before them have sent.
            if self.never or not self.control.greeted:
                raise
            self.control.await_fallback(str(error))
        return None

    def _without_switch(self, operation: Operation, call: str, *, begun: bool) -> Tensor:
        """``begun``: this worker has sent contributions to the switch."""
        handed_out = self.control.handed_out()
        if handed_out is not None:
            return operation.take(handed_out, begun=begun)
        self.stats.fallback_operations += 1
        return self._by_group(operation, call)

    def _by_group(self, operation: Operation, call: str | None = None) -> Tensor:
        """``call``: to be compared before."""
        try:
            if call is not None:
                self.control.fallback.compare(call)
            return operation.ordinary(self.control.fallback)
        except GroupError as error:
            why = first_clause(str(error))
            raise PeerLostError(f"a collective of the process group failed: {why}; start all workers again") from error
