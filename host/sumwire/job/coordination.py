# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The decisions that the ranks of a job make together: when to fall back, return to the switch, or end.

Every rank has a :class:`Coordinator` and gives it the same status of all ranks in the same round. So every rank comes
to the same decision by itself, and no decision has to be confirmed. :class:`OwnRank` is this rank's own part. The
functions at the end make the errors that end a job: the same error, with the same text, on every rank.

There are no threads, clocks or sockets here: :mod:`sumwire.job.control` has them.

| phase | operations | leads to |
|---|---|---|
| NETWORK | through the switch | HALTING, when a rank has lost the switch |
| HALTING | none begins, and exchanges end | FALLBACK, when all have halted |
| FALLBACK | by the process group | HOLDING, when all ranks see the switch again |
| HOLDING | none begins | RETURNING, in the next round |
| RETURNING | those that some rank has begun | NETWORK, when all ranks have completed them |

Let c be the number of operations that a rank has completed. Once all ranks have halted, c no longer changes; F is the
largest c. Results of operations below F that some rank lacks are handed out by ranks that have them. Operations from F
on are made by the process group. So all replicas apply the same results, however far apart the ranks were.

Example: rank 1 of 3 loses the switch in operation 7, and ranks 0 and 2 have completed it: c = (8, 7, 8) and F = 8. Rank
0 hands out the result of operation 7, and operation 8 is an ordinary all-reduce on all ranks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from sumwire.job.heartbeat import Failure, RankStatus, Vector

# After a return that failed at once, the switch must be seen in twice as many rounds in a row before the next one.
_SEEN_MOST: Final = 8


class CoordinationPhase(Enum):
    """The phases of the table above."""

    NETWORK = auto()
    HALTING = auto()
    FALLBACK = auto()
    HOLDING = auto()
    RETURNING = auto()
    ENDED = auto()


@dataclass(frozen=True)
class HandOut:
    """Rank ``giver`` sends the result of ``operation`` to all."""

    operation: int
    giver: int


@dataclass(frozen=True)
class Halt:
    """No operation begins, and exchanges end."""


@dataclass(frozen=True)
class FallBack:
    """Operations from ``operation`` on are made by the process group. Results of earlier ones are handed out."""

    operation: int
    reason: str
    hand_outs: tuple[HandOut, ...]


@dataclass(frozen=True)
class Hold:
    """No operation begins."""


@dataclass(frozen=True)
class Limit:
    """Operations below ``operation`` may begin."""

    operation: int


@dataclass(frozen=True)
class Return:
    """Operations from ``operation`` on, the next one of every rank, go through the switch, after a new greeting."""

    operation: int


@dataclass(frozen=True)
class Fail:
    """The job ends with this error on every rank."""

    failure: Failure


@dataclass(frozen=True)
class Done:
    """All ranks have closed the job."""


Decision = Halt | FallBack | Hold | Limit | Return | Fail | Done


class Coordinator:
    """Makes the decisions. ``job``: its name, for texts. ``quorum``: how many ranks the network needs for a result.
    ``always``: a rank that cannot reach the switch at the start falls back too, instead of ending the job."""

    def __init__(self, job: str, quorum: int, *, always: bool = False) -> None:
        self.phase = CoordinationPhase.NETWORK
        self._job = job
        self._quorum = quorum
        self._always = always
        self._reason = ""
        # Whether the ranks halt because no result comes, and not because one of them has lost the switch.
        self._stalls = False
        # Rounds in a row in which all ranks have seen the switch, and how many are needed.
        self._seen = 0
        self._seen_needed = 1
        # The first operation after the latest return.
        self._returned_at = -1

    @property
    def urgent(self) -> bool:
        """Return whether the next round should follow soon, because a decision is being made."""
        return self.phase not in (CoordinationPhase.NETWORK, CoordinationPhase.FALLBACK)

    def step(self, vector: Vector) -> Decision | None:
        """Return the decision of one round, None if nothing changes. ``vector``: the statuses by rank."""
        ending = self._ending(vector)
        if ending is not None:
            self.phase = CoordinationPhase.ENDED
            return ending
        return self._decide(vector)

    def _decide(self, vector: Vector) -> Decision | None:
        match self.phase:
            case CoordinationPhase.NETWORK:
                decision: Decision | None = self._network(vector)
            case CoordinationPhase.HALTING:
                decision = self._halting(vector)
            case CoordinationPhase.FALLBACK:
                decision = self._fallback(vector)
            case CoordinationPhase.HOLDING:
                self.phase = CoordinationPhase.RETURNING
                decision = Limit(max(rank.started for rank in vector))
            case CoordinationPhase.RETURNING:
                decision = self._returning(vector)
            case CoordinationPhase.ENDED:
                decision = None
        return decision

    def _ending(self, vector: Vector) -> Fail | Done | None:
        failure = (
            _different_calls(self._job, vector)
            or next((rank.failure for rank in vector if rank.failure is not None), None)
            or _left(self._job, vector)
            or _closed_too_early(self._job, vector, self._needed(vector))
        )
        if failure is not None:
            return Fail(failure)
        return Done() if all(rank.closing for rank in vector) else None

    def _needed(self, vector: Vector) -> int:
        """Return how many ranks an operation needs to be completed."""
        return self._quorum if self.phase in (CoordinationPhase.NETWORK, CoordinationPhase.HALTING) else len(vector)

    def _network(self, vector: Vector) -> Halt | None:
        losers = [rank for rank in vector if rank.lost]
        if not losers and not self._stalled(vector):
            return None
        if losers:
            self._reason = f"worker {losers[0].worker}: {losers[0].lost}"
        else:
            self._reason = "all workers have sent, and no result comes"
        self._stalls = not losers
        self.phase = CoordinationPhase.HALTING
        return Halt()

    def _stalled(self, vector: Vector) -> bool:
        """Whether the switch lacks nothing for the oldest operation under way, and its results still do not come. For
        example it was restarted between the results to two workers, or a switch above it is gone."""
        oldest = min(rank.completed for rank in vector)
        begun = [rank for rank in vector if rank.started > oldest]
        waiting = [rank for rank in begun if rank.completed == oldest]
        # A greeting needs every rank, whatever the quorum.
        needed = self._needed(vector) if all(rank.joined for rank in waiting) else len(vector)
        return len(begun) >= needed and len(waiting) > 0 and all(rank.stalled for rank in waiting)

    def _halting(self, vector: Vector) -> FallBack | Fail | None:
        if not all(rank.halted for rank in vector):
            return None
        # Only now: a greeting may have ended after the round in which its ranks told that they wait for it.
        if self._stalls and not self._always and not all(rank.greeted for rank in vector):
            self.phase = CoordinationPhase.ENDED
            return Fail(_never_answered(self._job))
        first = max(rank.completed for rank in vector)
        hand_outs = []
        for operation in range(min(rank.completed for rank in vector), first):
            giver = _giver(vector, operation)
            if giver is None:
                self.phase = CoordinationPhase.ENDED
                return Fail(_too_far_apart(self._job, vector, operation))
            hand_outs.append(HandOut(operation, giver))
        self._seen = 0
        self._seen_needed = min(2 * self._seen_needed, _SEEN_MOST) if first == self._returned_at else 1
        self.phase = CoordinationPhase.FALLBACK
        return FallBack(first, self._reason, tuple(hand_outs))

    def _fallback(self, vector: Vector) -> Hold | None:
        seen = all(rank.sees_switch for rank in vector) and not any(rank.closing for rank in vector)
        self._seen = self._seen + 1 if seen else 0
        if self._seen < self._seen_needed:
            return None
        self.phase = CoordinationPhase.HOLDING
        return Hold()

    def _returning(self, vector: Vector) -> Return | None:
        first = max(rank.started for rank in vector)
        if any(rank.completed < first for rank in vector):
            return None
        self.phase = CoordinationPhase.NETWORK
        self._returned_at = first
        return Return(first)


def _giver(vector: Vector, operation: int) -> int | None:
    """The lowest rank that has the result of an operation."""
    able: Iterable[int] = (number for number, rank in enumerate(vector) if rank.kept_from <= operation < rank.completed)
    return next(iter(able), None)


class OwnRank:
    """This rank's part in the decisions. ``network``: operations go through the switch, else by the process group.
    ``first``: the result of an operation below this number is handed out to this rank.

    The rank calls :meth:`begin`, :meth:`leave_network` where an operation by the network fails, and :meth:`finish`.
    Between rounds it may set ``greeted`` (in any run; a return sets it too), ``joined`` (in the present one), ``lost``,
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
        """Return whether another rank hands out the result of the operation under way, or of the next one."""
        return not self.network and self.completed < self.first

    def begin(self, call: str, *, by_choice: bool = False) -> bool:
        """Begin the next operation. Returns whether it goes through the network; with ``by_choice`` it does not."""
        self.started = self.completed + 1
        self.call = call
        by_network = self.network and not by_choice
        self.users += by_network
        return by_network

    def leave_network(self) -> None:
        """Record that the operation under way, or another call, no longer uses the transport."""
        self.users -= 1
        self.stalled = False

    def finish(self, *, by_network: bool) -> None:
        """Record that the operation under way has its result. ``by_network``: whether the network produced it."""
        if by_network:
            self.leave_network()
        self.completed = self.started
        self.call = ""

    def cancel(self) -> None:
        """Record that the operation under way was not carried out on any rank."""
        self.started = self.completed
        self.call = ""

    def status(self, kept_from: int) -> RankStatus:
        """Return this rank's status for the others. ``kept_from``: the first operation whose result this rank can hand
        out."""
        return RankStatus(
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


def _different_calls(job: str, vector: Vector) -> Failure | None:
    """Two ranks make different calls of the same number."""
    first: dict[int, RankStatus] = {}
    for rank in vector:
        other = first.setdefault(rank.completed, rank) if rank.working else rank
        if other.call != rank.call:
            return Failure(
                "OrderError",
                f"job {job}: operation {rank.completed} is {other.call} on worker {other.worker}, but {rank.call} on "
                f"worker {rank.worker}; make the same calls in the same order on every worker",
            )
    return None


def _left(job: str, vector: Vector) -> Failure | None:
    """A rank takes part in no further round."""
    for rank in vector:
        if rank.left:
            return Failure(
                "PeerLostError",
                f"job {job}: worker {rank.worker} has left: {rank.left}; start the training on every worker again",
            )
    return None


def _closed_too_early(job: str, vector: Vector, needed: int) -> Failure | None:
    """An operation is under way that fewer than ``needed`` ranks will make."""
    closed = [rank for rank in vector if rank.closing]
    if not closed or len(vector) - len(closed) >= needed:
        return None
    end = max(rank.completed for rank in closed)
    if not any(rank.working and rank.completed >= end for rank in vector):
        return None
    workers = [rank.worker for rank in closed]
    return Failure(
        "PeerLostError",
        f"job {job}: operation {end} cannot be finished: workers {workers} have closed the job; make the same calls on "
        f"every worker",
    )


def _never_answered(job: str) -> Failure:
    """All workers have sent their greeting, and its result does not come."""
    return Failure(
        "SwitchLostError",
        f"job {job}: all workers have sent their greeting, and no result comes: the switch waits for other workers, or "
        f"cannot reach the switch above it; compare switch and configuration: `sumwire-controller status CONFIG`",
    )


def _too_far_apart(job: str, vector: Vector, operation: int) -> Failure:
    """A rank lacks a result that no other rank keeps any more."""
    completed = {rank.worker: rank.completed for rank in vector}
    return Failure(
        "FallbackError",
        f"job {job}: no fall-back: workers have completed {completed} operations, and none keeps the result of "
        f"operation {operation} any more; keep more with Job(config, kept_chunks=NUMBER)",
    )
