# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One worker of a job with a process group. Operations go through the switch, or otherwise by the group.

:class:`AgreedFallback` carries out every operation of such a job. The ranks agree on every change
    (:mod:`sumwire.job.coordination`). If the switch did not finish an operation, the rank gets the result from another
    rank, or all ranks repeat the operation by the process group. An exchange waits for as long as all ranks live
    (:class:`GroupTimeouts`).
"""

from __future__ import annotations

import binascii
import contextlib
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import torch
from sumwire_protocol.events import Event
from torch import Tensor

from sumwire.config import JobConfig
from sumwire.errors import (
    ConfigError,
    GroupError,
    PeerLostError,
    RetryError,
    StaleRunError,
    SumwireError,
    SwitchLostError,
    TransportError,
)
from sumwire.job.control import Change, Control, HaltedError
from sumwire.job.coordination import Coordinator
from sumwire.job.fallback import COMPARED
from sumwire.job.gloo import first_clause
from sumwire.job.operations import BYTES_PER_CHUNK, Operation, ResultCache, Signature
from sumwire.job.session import AloneSession, JobSession, SessionOptions, is_grouped, others_are_ahead
from sumwire.job.tuning import agreed_choice, load_table
from sumwire.transport.stats import JobStats
from sumwire.transport.switch_answers import check_switch

if TYPE_CHECKING:
    from sumwire.blind.keys import Keys

_LOG: Final = logging.getLogger("sumwire")
# Seconds without a result until the first warning, and from one to the next.
_WARN_AFTER_S: Final = 10.0
_WARN_EVERY_S: Final = 30.0
# After so many questions in a row (by default 5 s) an exchange is stalled. They are counted, because a process that was
# stopped has waited for nothing meanwhile.
_STALLED_CALLS: Final = 20
# How long the control thread waits for the switch's answer during the fall-back.
_HELLO_S: Final = 0.3


class GroupTimeouts:
    """Lets exchanges wait until the control thread says otherwise, and logs whom they wait for."""

    def __init__(self, control: Control, job: str) -> None:
        self._control = control
        self._job = job
        self._last_s = 0.0
        self._calls = 0
        self._warn_at_s = _WARN_AFTER_S

    def waiting(self, waited_s: float, missing: Collection[int] | None) -> None:
        """Check whether the exchange may go on waiting. Raises HaltedError when the ranks are making a decision, and
        the error that has ended the job on another rank."""
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
        """Raise the error, so that the operation asks for the fall-back."""
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
    """Carries out operations through the switch or by the group. ``always``: fall back also if the switch cannot be
    reached at the start."""

    control: Control
    stats: JobStats
    always: bool
    never: bool
    _history: _History = field(default_factory=_History, init=False)

    def carry_out(self, operation: Operation, call: str, through_switch: Callable[[], Tensor]) -> Tensor:
        """Return the result of the job's next operation. ``call`` describes it, equally on all workers.

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
        """Return the result of an operation that uses the process group by choice.

        It does so in the same way in every phase, because some ranks may already know of a fall-back when they begin
        it, and others not.
        """
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


class GroupSession(JobSession):
    """The session of a job with a process group. Creating and closing one are collective calls.

    Raises ConfigError on all ranks if the group's ranks do not match the job's workers.
    """

    def __init__(self, config: JobConfig, options: SessionOptions, stats: JobStats) -> None:
        super().__init__(config, options, stats)
        always = options.fallback == "always"
        whole = config.quorum == config.workers
        kept = ResultCache(most=1 if whole else None, most_bytes=options.kept_chunks * BYTES_PER_CHUNK)
        agreement = Coordinator(config.name, config.quorum, always=always)
        self._control = control = Control(
            config.name, config.worker, agreement, kept, stats, ranks=options.ranks, number=config.job
        )
        if sorted(control.workers) != list(range(config.workers)):
            control.end()
            rule = f"must be 0 to {config.workers - 1}, one for each rank: load_job(..., worker=dist.get_rank())"
            raise ConfigError("worker", control.workers, rule, where=f"job {config.name}")
        try:
            # Before the thread, whose fall-back would use the group's collectives too.
            table = load_table(config) if options.through == "auto" and whole else None
            self.choice = agreed_choice(
                config.name, options.through, table, control.fallback.gather, blind=config.blind
            )
            self._keys = _agreed_keys(config, control, options.blind_key) if config.blind else None
            if config.blind:
                _LOG.info("job %s: the workers have their secrets", config.name, extra=Event.KEYS_AGREED(**self._place))
        except SumwireError:
            control.end()
            raise
        control.start()
        self._timeout_policy = GroupTimeouts(control, config.name)
        try:
            self._transport = self._open(self._timeout_policy)
        except SumwireError as error:
            # The other ranks learn why this one has no socket, instead of waiting for it.
            control.fail(error)
            control.leave(str(error))
            raise
        control.sees_switch = self._sees_switch
        self._agreed = AgreedFallback(control, stats, always=always, never=options.fallback == "never")
        self._unfit = ""

    @property
    def fallen_back(self) -> bool:
        return not self._control.network

    def carry_out(self, operation: Operation, call: Signature) -> Tensor:
        control = self._control

        def through_switch() -> Tensor:
            if not control.joined:
                run = self._join(self._transport, self._timeout_policy)
                if self._keys is not None:
                    self._transport.masks = self._keys.for_run(run.first_round, run.nonces)
                control.note_joined()
            return operation.through_switch(self._transport, self._config, self._stats)

        if operation.by_group:
            return self._agreed.by_choice(operation, call.text)
        return self._agreed.carry_out(operation, call.text, through_switch)

    def results_ahead(self) -> bool:
        with self._control.using_network() as free:
            if not free:
                return self._control.handed_out() is not None
            return self._control.joined and others_are_ahead(self._transport)

    def give_up(self, why: str) -> None:
        self._control.announce_leaving(why)

    def close(self, why: str | None) -> None:
        try:
            if why is None:
                self._control.close()
            else:
                self._control.leave(why)
            self._say_closed(why)
        except SumwireError as error:
            _LOG.warning(
                "job %s: closed without the other workers: %s", self._config.name, error,
                extra=Event.JOB_CLOSED(**self._place, operations=self._stats.operations, reason=str(error)),
            )  # fmt: skip
        finally:
            self._transport.close()

    def pause(self) -> contextlib.AbstractContextManager[None]:
        return self._control.pause()

    def on_change(self, callback: Callable[[Change], None]) -> None:
        self._control.on_change.append(callback)

    def _sees_switch(self) -> bool:
        """Whether the switch answers, serves this job, and has its configuration. In the control thread."""
        try:
            state = self._transport.hello(_HELLO_S)
            if state is None:
                return False
            check_switch(self._config, state)
        except SumwireError as error:
            if str(error) != self._unfit:
                self._unfit = str(error)
                _LOG.warning(
                    "job %s: the switch answers, but does not fit: %s", self._config.name, error,
                    extra=Event.SWITCH_UNFIT(**self._place, reason=str(error)),
                )  # fmt: skip
            return False
        return True


def _agreed_keys(config: JobConfig, control: Control, known: bytes | None) -> Keys:
    """The secrets of a blind job's workers: a collective call."""
    from sumwire.blind.keys import Keys

    def gather(own: bytes) -> list[bytes]:
        rows = control.fallback.gather(torch.frombuffer(bytearray(own), dtype=torch.uint8))
        by_worker = dict(zip(control.workers, rows, strict=True))
        return [bytes(by_worker[worker].numpy()) for worker in range(config.workers)]

    return Keys.agree(f"{config.job} {config.name}", config.worker, gather, known)


def open_session(config: JobConfig, options: SessionOptions, stats: JobStats) -> JobSession:
    """Open a session: with the job's own ranks or the default process group, if either exists. Then it is a collective
    call."""
    grouped = is_grouped(options.ranks)
    return GroupSession(config, options, stats) if grouped else AloneSession(config, options, stats)
