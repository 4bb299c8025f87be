# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the ranks of a job decide together, from what all of them told in a round.

Every rank has an :class:`Agreement` and gives it the same vector of standings in the same round. So each comes to the
same decision by itself, and nothing has to be confirmed.

| phase | operations | leads to |
|---|---|---|
| NETWORK | through the switch | HALTING, when a rank has lost the switch |
| HALTING | none begins, and exchanges end | FALLBACK, when all have halted |
| FALLBACK | by the process group | HOLDING, when all ranks see the switch again |
| HOLDING | none begins | RETURNING, in the next round |
| RETURNING | those that some rank has begun | NETWORK, when all ranks have completed them |

Let c be the operations that a rank has completed. Once all have halted the values of c stand, and F is the largest.
Results of operations below F that some rank lacks are handed out by ranks that have them. Operations from F on are
made by the process group. So all replicas apply the same results, however far apart the ranks were.

Example: rank 1 of 3 loses the switch in operation 7, and ranks 0 and 2 have completed it: c = (8, 7, 8) and F = 8.
Rank 0 hands out the result of operation 7, and operation 8 is an ordinary all-reduce on all ranks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from sumwire.job import endings
from sumwire.job.standing import Failure, Vector

# After a return that failed at once, the switch must be seen in twice as many rounds in a row before the next one.
_SEEN_MOST: Final = 8


class Phase(Enum):
    """See the module."""

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


class Agreement:
    """``job``: its name, for texts. ``quorum``: ranks that the network needs for a result. ``always``: a rank that
    cannot reach the switch at the start falls back too, instead of ending the job."""

    def __init__(self, job: str, quorum: int, *, always: bool = False) -> None:
        self.phase = Phase.NETWORK
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
        """Whether the next round should follow soon, because something is being decided."""
        return self.phase not in (Phase.NETWORK, Phase.FALLBACK)

    def step(self, vector: Vector) -> Decision | None:
        """The decision of one round, None if nothing changes. ``vector``: the standings by rank."""
        ending = self._ending(vector)
        if ending is not None:
            self.phase = Phase.ENDED
            return ending
        return self._decide(vector)

    def _decide(self, vector: Vector) -> Decision | None:
        match self.phase:
            case Phase.NETWORK:
                decision: Decision | None = self._network(vector)
            case Phase.HALTING:
                decision = self._halting(vector)
            case Phase.FALLBACK:
                decision = self._fallback(vector)
            case Phase.HOLDING:
                self.phase = Phase.RETURNING
                decision = Limit(max(rank.started for rank in vector))
            case Phase.RETURNING:
                decision = self._returning(vector)
            case Phase.ENDED:
                decision = None
        return decision

    def _ending(self, vector: Vector) -> Fail | Done | None:
        failure = (
            endings.different_calls(self._job, vector)
            or next((rank.failure for rank in vector if rank.failure is not None), None)
            or endings.left(self._job, vector)
            or endings.closed_too_early(self._job, vector, self._needed(vector))
        )
        if failure is not None:
            return Fail(failure)
        return Done() if all(rank.closing for rank in vector) else None

    def _needed(self, vector: Vector) -> int:
        """Ranks without which no operation can be completed."""
        return self._quorum if self.phase in (Phase.NETWORK, Phase.HALTING) else len(vector)

    def _network(self, vector: Vector) -> Halt | None:
        losers = [rank for rank in vector if rank.lost]
        if not losers and not self._stalled(vector):
            return None
        if losers:
            self._reason = f"worker {losers[0].worker}: {losers[0].lost}"
        else:
            self._reason = "all workers have sent, and no result comes"
        self._stalls = not losers
        self.phase = Phase.HALTING
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
            self.phase = Phase.ENDED
            return Fail(endings.never_answered(self._job))
        first = max(rank.completed for rank in vector)
        hand_outs = []
        for operation in range(min(rank.completed for rank in vector), first):
            giver = _giver(vector, operation)
            if giver is None:
                self.phase = Phase.ENDED
                return Fail(endings.too_far_apart(self._job, vector, operation))
            hand_outs.append(HandOut(operation, giver))
        self._seen = 0
        self._seen_needed = min(2 * self._seen_needed, _SEEN_MOST) if first == self._returned_at else 1
        self.phase = Phase.FALLBACK
        return FallBack(first, self._reason, tuple(hand_outs))

    def _fallback(self, vector: Vector) -> Hold | None:
        seen = all(rank.sees_switch for rank in vector) and not any(rank.closing for rank in vector)
        self._seen = self._seen + 1 if seen else 0
        if self._seen < self._seen_needed:
            return None
        self.phase = Phase.HOLDING
        return Hold()

    def _returning(self, vector: Vector) -> Return | None:
        first = max(rank.started for rank in vector)
        if any(rank.completed < first for rank in vector):
            return None
        self.phase = Phase.NETWORK
        self._returned_at = first
        return Return(first)


def _giver(vector: Vector, operation: int) -> int | None:
    """The lowest rank that has the result of an operation."""
    able: Iterable[int] = (number for number, rank in enumerate(vector) if rank.kept_from <= operation < rank.completed)
    return next(iter(able), None)
