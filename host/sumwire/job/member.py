# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One rank's own part of the agreement: what it does, what it may do, and how decisions change that.

Without threads, clocks or sockets. :mod:`sumwire.job.control` gives it both.
"""

from __future__ import annotations

from sumwire.job.agreement import Decision, Done, Fail, FallBack, Halt, Hold, Limit, Return
from sumwire.job.standing import Failure, Standing


class Member:
    """``network``: operations go through the switch, else by the process group. ``first``: the result of an operation
    below this number is handed out to this rank.

    The rank calls :meth:`begin`, for an operation by the network :meth:`leave_network`, and :meth:`finish`. Between
    rounds it may set ``greeted`` (in any run; a return sets it too), ``joined`` (in the present one), ``lost``,
    ``stalled``, ``sees_switch``, ``paused``, ``closing``, ``left`` and ``failing``. ``failure``: how the job has ended,
    by agreement.
    """

    def __init__(self, worker: int) -> None:
        self.worker = worker
        self.completed = 0
        self.started = 0
        self.call = ""
        self.network = True
        self.first = 0
        self.greeted = False
        self.joined = False
        self.lost = ""
        self.stalled = False
        self.sees_switch = False
        self.paused = False
        self.closing = False
        self.left = ""
        self.failing: Failure | None = None
        self.failure: Failure | None = None
        self.done = False
        # Calls that use the transport now.
        self.users = 0
        self.halting = False
        # No operation with this number or a higher one begins.
        self._limit: int | None = None

    @property
    def ended(self) -> bool:
        """Whether no further round follows."""
        return self.done or self.failure is not None

    @property
    def working(self) -> bool:
        """Whether an operation is under way."""
        return self.started > self.completed

    @property
    def may_begin(self) -> bool:
        """Whether the next operation may begin."""
        return self._limit is None or self.completed < self._limit

    @property
    def handed_out(self) -> bool:
        """Whether the result of the next operation, or of the one under way, is handed out."""
        return not self.network and self.completed < self.first

    def begin(self, call: str, *, by_choice: bool = False) -> bool:
        """The next operation begins. Returns whether it goes through the network; ``by_choice`` it does not."""
        self.started = self.completed + 1
        self.call = call
        by_network = self.network and not by_choice
        self.users += by_network
        return by_network

    def leave_network(self) -> None:
        """The operation under way, or another call, does not use the transport any more."""
        self.users -= 1
        self.stalled = False

    def finish(self) -> None:
        """The operation under way has its result."""
        self.completed = self.started
        self.call = ""

    def cancel(self) -> None:
        """The operation under way was not made, on any rank."""
        self.started = self.completed
        self.call = ""

    def standing(self, kept_from: int) -> Standing:
        """What this rank tells the others. ``kept_from``: the first operation whose result it can hand out."""
        return Standing(
            worker=self.worker,
            completed=self.completed,
            started=self.started,
            kept_from=kept_from,
            call=self.call,
            greeted=self.greeted,
            joined=self.joined,
            halted=self.halting and not self.users,
            lost=self.lost,
            stalled=self.stalled,
            sees_switch=self.sees_switch,
            paused=self.paused,
            closing=self.closing,
            left=self.left,
            failure=self.failing,
        )

    def apply(self, decision: Decision) -> None:
        """Follow a decision. Results are handed out before."""
        match decision:
            case Halt():
                self.halting = True
                self._limit = self.started
            case FallBack(operation=operation):
                self.network = self.halting = self.sees_switch = self.joined = False
                self.lost = ""
                self.first = operation
                self._limit = None
            case Hold():
                self._limit = self.started
            case Limit(operation=operation):
                self._limit = operation
            case Return():
                # All ranks have seen the switch, also one that has never greeted because others lost it meanwhile.
                self.network = self.greeted = True
                self._limit = None
            case Fail(failure=failure):
                self.failure = failure
            case Done():
                self.done = True
