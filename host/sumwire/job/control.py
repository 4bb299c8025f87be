# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The control thread of a job with a process group. It exchanges heartbeats with the other ranks and carries out what
all of them decide (:mod:`sumwire.job.coordination`).

A round takes place every second, and every 20 ms while a decision is being made. It needs all ranks. A stopped rank
only delays it. A dead rank makes it fail: then the job ends with PeerLostError, without waiting for a timeout.

The thread that makes operations calls :meth:`Control.begin` and the methods after it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from commonlib.events import ProgramEvent, Told
from sumwire_protocol.events import Event

from sumwire.errors import ClosedError, GroupError, PeerLostError, RecreateError, SumwireError, UsageError
from sumwire.job.coordination import Coordinator, Decision, Fail, FallBack, OwnRank, Return
from sumwire.job.gloo import Fallback, Ranks, first_clause
from sumwire.job.heartbeat import Failure, RankStatus, Rounds
from sumwire.job.operations import CachedResult, HandedOut, ResultCache
from sumwire.lifecycle import Lifecycle
from sumwire.transport.stats import JobStats


@dataclass(frozen=True)
class Change:
    """A change between network and process group. ``kind``: "fallback" to the process group, or "return" to the
    network. ``operation``: the first one after the change, the same on all workers. ``reason``: a text for humans."""

    kind: Literal["fallback", "return"]
    operation: int
    reason: str


_LOG: Final = logging.getLogger("sumwire")
# Seconds between two rounds, and while something is being decided.
ROUND_S: Final = 1.0
URGENT_ROUND_S: Final = 0.02
# How long a rank that leaves waits for the round that tells the others. Longer if one of them is stopped.
_LEAVING_S: Final = 5.0


class HaltedError(Exception):
    """This rank must leave its exchange, because the ranks are deciding."""


class _StoppedError(Exception):
    """The process ends, and so must the control thread."""


class Control:
    """The control thread of one job. ``agreement``: the job's :class:`~sumwire.job.coordination.Coordinator`. ``kept``:
    the job's latest results by the network. ``sees_switch``: called during the fall-back to test whether the switch
    serves this job; it may take some tenths of a second. ``ranks``: the job's ranks, if they are not those of the
    default group.

    Creating one is a collective call of all ranks. Raises GroupError if it fails.
    """

    def __init__(
        self,
        job: str,
        worker: int,
        agreement: Coordinator,
        kept: ResultCache,
        stats: JobStats,
        *,
        ranks: Ranks | None = None,
        number: int | None = None,
    ) -> None:
        self.place: dict[str, Any] = {"job": number, "worker": worker, "name": job}
        self.sees_switch: Callable[[], bool] = lambda: False
        self.on_change: list[Callable[[Change], None]] = []
        self._job = job
        self._agreement = agreement
        self._kept = kept
        self._stats = stats
        self._member = OwnRank(worker)
        self._handed_out: dict[int, HandedOut] = {}
        # Guards all that both threads use. Notified after every change.
        self._changed = threading.Condition()
        self._wake = threading.Event()
        self._stopping = False
        self._life = Lifecycle(f"job {job}", "Job(config)")
        self._rounds = Rounds(self._check_stopping, ranks)
        self.fallback = Fallback(self.check, ranks)
        self._vector: list[RankStatus] = self._rounds.exchange(self._member.status(0))
        # Operations that all ranks have completed.
        self._completed_by_all = 0

    @property
    def workers(self) -> list[int]:
        """The workers of the ranks, by rank."""
        return [rank.worker for rank in self._vector]

    @property
    def network(self) -> bool:
        """Whether operations go through the switch."""
        with self._changed:
            return self._member.network

    @property
    def greeted(self) -> bool:
        """Return whether this rank has ever completed a handshake, or returned to the switch together with all
        others."""
        return self._member.greeted

    @property
    def joined(self) -> bool:
        """Return whether this rank has completed the handshake of the present run."""
        return self._member.joined

    def note_joined(self) -> None:
        """Record that this rank has taken part in the greeting of the present run."""
        with self._changed:
            self._member.greeted = self._member.joined = True

    @property
    def completed(self) -> int:
        """Number of operations that this rank has completed."""
        with self._changed:
            return self._member.completed

    def start(self) -> None:
        """Start the thread."""
        # gloo's threads must find no thread of Python's when the interpreter is gone.
        self._life.close_at_exit(self.end)
        self._life.start(self._work, "sumwire control", stop=self._stop)

    def end(self) -> None:
        """End the thread, whatever it is waiting for, and the groups. Also works if the thread was never started."""
        self._life.close(self._close_groups)

    def _close_groups(self) -> None:
        self._rounds.close()
        self.fallback.close()

    def _stop(self) -> None:
        self._stopping = True
        self._wake.set()

    # -- the thread that makes operations ---------------------------------------------------------------

    def begin(self, call: str, *, by_choice: bool = False) -> bool:
        """Wait until the next operation may begin, and begin it. Returns whether it goes through the network; with
        ``by_choice`` it does not.

        Raises the error that has ended the job.
        """
        with self._changed:
            self._check()
            while not self._member.may_begin:
                self._changed.wait()
                self._check()
            return self._member.begin(call, by_choice=by_choice)

    def finish(self, result: CachedResult, *, by_network: bool) -> None:
        """Record that the operation has its result."""
        with self._changed:
            self._finish(result, kept=by_network, by_network=by_network)

    def finish_by_choice(self, result: CachedResult) -> None:
        """Record that an operation has its result which went by the process group by choice."""
        with self._changed:
            # Other ranks may not have it yet when a fall-back is agreed on.
            self._finish(result, kept=self._member.network, by_network=False)

    def cancel(self, *, by_network: bool) -> None:
        """Record that the operation was not carried out on any rank."""
        with self._changed:
            if by_network:
                self._member.leave_network()
            self._member.cancel()

    def await_fallback(self, lost: str = "") -> None:
        """Leave the operation's exchange, and wait until the ranks have agreed on the fall-back.

        ``lost``: the reason why this rank asks for it. Raises the error that has ended the job.
        """
        with self._changed:
            self._member.leave_network()
            self._member.lost = lost
            self._wake.set()
            while self._member.network:
                self._check()
                self._changed.wait()
            self._check()

    def fail(self, error: SumwireError) -> RecreateError | UsageError | SumwireError:
        """End the job on all ranks with this error, or with an error that another rank reported first. Returns the
        error used."""
        with self._changed:
            if self._member.left:
                return error
            self._member.failing = Failure.of(error)
            self._wake.set()
            self._changed.wait_for(lambda: self._member.ended, _LEAVING_S)
            agreed = self._member.failure
        if agreed is None or agreed == self._member.failing:
            return error
        return agreed.error()

    def check(self) -> None:
        """Raise the error that has ended the job, if one has."""
        with self._changed:
            self._check()

    def check_exchange(self, *, stalled: bool) -> None:
        """Check whether a waiting exchange may go on. ``stalled``: it has waited long without a new result.

        Raises HaltedError if it must end, or the error that has ended the job.
        """
        with self._changed:
            self._check()
            self._member.stalled = stalled
            if self._member.halting:
                raise HaltedError

    def handed_out(self) -> HandedOut | None:
        """Return the result of the operation under way, or of the next one, if another rank hands it out."""
        with self._changed:
            return self._handed_out.get(self._member.completed)

    @contextlib.contextmanager
    def using_network(self) -> Iterator[bool]:
        """Context manager: the caller may use the transport between operations. Yields whether the network is in use.

        Raises the error that has ended the job.
        """
        with self._changed:
            self._check()
            member = self._member
            free = member.network and not member.halting
            member.users += free
        try:
            yield free
        finally:
            with self._changed:
                member.users -= free
                self._changed.notify_all()

    def paused_workers(self) -> set[int]:
        """Return the workers that are silent on purpose."""
        with self._changed:
            return {rank.worker for rank in self._vector if rank.paused}

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Tell the others that this worker is silent on purpose."""
        self._set_paused(paused=True)
        try:
            yield
        finally:
            self._set_paused(paused=False)

    def close(self) -> None:
        """Wait until all ranks close the job. Raises the error that has ended it, if there is one."""
        with self._changed:
            self._member.closing = True
            self._wake.set()
            self._changed.wait_for(lambda: self._member.ended)
            failure = self._member.failure
        self.end()
        if failure is not None:
            raise failure.error()

    def announce_leaving(self, why: str) -> None:
        """Tell the other ranks that this rank leaves. The job then ends for them with PeerLostError, and for this
        rank's threads with ClosedError."""
        with self._changed:
            self._member.left = self._member.left or why
            self._wake.set()
            self._changed.notify_all()

    def leave(self, why: str) -> None:
        """Like :meth:`announce_leaving`, and also wait some seconds for the heartbeat that tells the others."""
        self.announce_leaving(why)
        with self._changed:
            over = self._changed.wait_for(lambda: self._member.ended, _LEAVING_S)
        if over:
            self.end()

    def _finish(self, result: CachedResult, *, kept: bool, by_network: bool) -> None:
        if kept:
            self._kept.add(self._member.completed, result)
            self._kept.trim(self._completed_by_all)
        self._handed_out.pop(self._member.completed, None)
        self._member.finish(by_network=by_network)

    def _set_paused(self, *, paused: bool) -> None:
        with self._changed:
            self._member.paused = paused
            self._wake.set()

    def _check(self) -> None:
        if self._member.failure is not None:
            raise self._member.failure.error()
        if self._member.left or self._member.done:
            raise ClosedError(f"job {self._job} is closed; make a new one: Job(config)")

    # -- the control thread -----------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while not self._member.ended:
                self._wait()
                self._round()
        except _StoppedError:
            return
        except GroupError as error:
            self._lose_peers(str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for this rank
            _LOG.exception("job %s: the control thread failed", self._job, extra=self._failed(error))
            self._lose_peers(f"{type(error).__name__}: {error}")

    def _wait(self) -> None:
        self._wake.wait(URGENT_ROUND_S if self._agreement.urgent else ROUND_S)
        self._wake.clear()
        self._check_stopping()
        if not self._member.network and not self._agreement.urgent:
            seen = self.sees_switch()
            with self._changed:
                self._member.sees_switch = seen

    def _round(self) -> None:
        with self._changed:
            member = self._member
            status = member.status(self._kept.first if len(self._kept) else member.completed)
        vector = self._rounds.exchange(status)
        decision = self._agreement.step(vector)
        handed_out = self._hand_out(decision) if isinstance(decision, FallBack) else {}
        # Before an operation is made in the new way.
        self._tell(decision)
        with self._changed:
            self._vector = vector
            self._completed_by_all = min(rank.completed for rank in vector)
            if decision is not None:
                self._handed_out.update(handed_out)
                member.apply(decision)
            self._changed.notify_all()

    def _hand_out(self, decision: FallBack) -> dict[int, HandedOut]:
        """The results that this rank lacks, by operation. All ranks take part in all of them."""
        found = {}
        for hand_out in decision.hand_outs:
            kept = self._kept.result(hand_out.operation) if hand_out.giver == self._rounds.rank else None
            tensor = self._rounds.hand_out(hand_out.giver, None if kept is None else kept.tensor())
            contributors = self._rounds.hand_out(hand_out.giver, None if kept is None else kept.contributors)
            if hand_out.operation >= self._member.completed:
                worker = self._vector[hand_out.giver].worker
                found[hand_out.operation] = HandedOut(worker, tensor, contributors)
        return found

    def _tell(self, decision: Decision | None) -> None:
        if isinstance(decision, FallBack):
            self._stats.fallbacks += 1
            change = Change("fallback", decision.operation, decision.reason)
            _LOG.warning(
                "job %s falls back to the ordinary all-reduce from operation %d on: %s",
                self._job, decision.operation, decision.reason,
                extra=Event.FALLEN_BACK(**self.place, operation=decision.operation, reason=decision.reason),
            )  # fmt: skip
        elif isinstance(decision, Return):
            self._stats.returns += 1
            # All ranks have the results that are still kept.
            self._kept.trim(decision.operation)
            change = Change("return", decision.operation, "all workers see the switch")
            _LOG.warning(
                "job %s returns to the switch from operation %d on", self._job, decision.operation,
                extra=Event.RETURNED(**self.place, operation=decision.operation),
            )  # fmt: skip
        else:
            if isinstance(decision, Fail) and decision.failure.kind == PeerLostError.__name__:
                self._say_lost(decision.failure.text)
            return
        for callback in self.on_change:
            try:
                callback(change)
            except Exception as error:  # noqa: BLE001 - the caller's, which must not end the job
                _LOG.exception("job %s: a callback of on_change failed", self._job, extra=self._failed(error))

    def _failed(self, error: Exception) -> dict[str, Told]:
        place = {name: self.place[name] for name in ("job", "worker")}
        return ProgramEvent.THREAD_FAILED(**place, reason=f"{type(error).__name__}: {error}")

    def _say_lost(self, why: str) -> None:
        # The operation under way ends with an error that says the same.
        _LOG.info("%s", why, extra=Event.WORKER_LOST(**self.place, reason=why))

    def _lose_peers(self, why: str) -> None:
        error = PeerLostError(
            f"job {self._job}: another worker's process has ended or cannot be reached ({first_clause(why)}); start "
            f"the training on every worker again, as torchrun --max-restarts does"
        )
        self._say_lost(str(error))
        with self._changed:
            self._member.apply(Fail(Failure.of(error)))
            self._changed.notify_all()
        # So that ranks that still wait for this one learn it too.
        self._rounds.close()

    def _check_stopping(self) -> None:
        if self._stopping:
            raise _StoppedError
