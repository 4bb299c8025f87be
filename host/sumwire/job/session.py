# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One worker's end of a job between its first operation and its close: alone, or together with a process group.

Both carry out operations one after the other and in one thread at a time. Alone, an exchange without results ends with
DeadlineError. With a group it waits for as long as all ranks live, and the group replaces the switch when it is lost
(:mod:`sumwire.job.coordination`). :class:`AloneTimeouts` and :class:`GroupTimeouts` are these two timeout policies.
"""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import torch
import torch.distributed as dist
from sumwire_protocol.events import Event
from torch import Tensor

from sumwire.config import JobConfig
from sumwire.errors import ClosedError, ConfigError, SumwireError, SwitchLostError
from sumwire.job.control import Change, Control
from sumwire.job.coordination import Coordinator
from sumwire.job.fallback import AgreedFallback
from sumwire.job.gloo import Ranks, available
from sumwire.job.handshake import JoinedRun, join
from sumwire.job.operations import BYTES_PER_CHUNK, Operation, ResultCache, Signature
from sumwire.job.tuning import CHOICES, Selection, Through, agreed_choice, load_table
from sumwire.transport.kept_results import KEPT_CHUNKS
from sumwire.transport.options import SILENCE_S, Alone, Delivery, Patience, TransportOptions
from sumwire.transport.retransmission import RttEstimator
from sumwire.transport.stats import JobStats
from sumwire.transport.switch_answers import check_switch
from sumwire.transport.udp import Transport
from sumwire.transport.window import Window

if TYPE_CHECKING:
    from sumwire.blind.keys import Keys


_LOG: Final = logging.getLogger("sumwire")
# Seconds without a result until the first warning, and from one to the next.
_WARN_AFTER_S: Final = 10.0
_WARN_EVERY_S: Final = 30.0
# After so many questions in a row (by default 5 s) an exchange is stalled. They are counted, because a process that was
# stopped has waited for nothing meanwhile.
_STALLED_CALLS: Final = 20


class AloneTimeouts(Alone):
    """That of a job without process group. :meth:`end` ends an exchange that waits, from another thread."""

    def __init__(self, job: str, deadline_s: float) -> None:
        super().__init__(deadline_s)
        self._job = job
        self._over = False

    def end(self) -> None:
        """The job is given up: let the exchange that waits, and all later ones, end with ClosedError."""
        self._over = True

    def waiting(self, waited_s: float, missing: Collection[int] | None) -> None:
        """Raises DeadlinePassedError after the deadline."""
        if self._over:
            raise ClosedError(f"job {self._job} is closed; make a new one: Job(config)")
        super().waiting(waited_s, missing)


class GroupTimeouts:
    """Waits as long as the control thread does not say otherwise, and names in the log who is waited for."""

    def __init__(self, control: Control, job: str) -> None:
        self._control = control
        self._job = job
        self._last_s = 0.0
        self._calls = 0
        self._warn_at_s = _WARN_AFTER_S

    def waiting(self, waited_s: float, missing: Collection[int] | None) -> None:
        """Raises HaltedError when the ranks decide something, and the error that has ended the job on another rank."""
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
        """Raises the error, so that the operation asks for the fall-back."""
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


# How long the control thread waits for the switch's answer during the fall-back.
_HELLO_S: Final = 0.3

FallbackOption = Literal["auto", "always", "never"]


@dataclass(frozen=True)
class SessionOptions:
    """Those of :class:`sumwire.Job`. ``settings``: JSON values that must be equal on all workers. ``ranks``: the job's
    own, if they are not the default group's."""

    settings: Mapping[str, object]
    deadline_s: float = 10.0
    join_s: float = 30.0
    fallback: FallbackOption = "auto"
    delivery: Delivery | None = None
    kept_chunks: int = KEPT_CHUNKS
    rtt: RttEstimator | None = None
    through: Through = "auto"
    silence_s: float = SILENCE_S
    blind_key: bytes | None = None
    ranks: Ranks | None = None


class JobSession(ABC):
    """See the module. ``stats``: the job's. ``choice``: which means go by the process group by choice."""

    _transport: Transport

    def __init__(self, config: JobConfig, options: SessionOptions, stats: JobStats) -> None:
        self.choice = Selection()
        self._config = config
        self._options = options
        self._stats = stats
        self._place: dict[str, Any] = {"job": config.job, "worker": config.worker, "name": config.name}
        # The one that this worker has joined last.
        self._run: JoinedRun | None = None

    @property
    def fallen_back(self) -> bool:
        """Whether operations now use the process group."""
        return False

    @property
    def window(self) -> Window:
        """The transport's. To look at: it belongs to the thread that works."""
        return self._transport.window

    @abstractmethod
    def carry_out(self, operation: Operation, call: Signature) -> Tensor:
        """The result of the next operation, which has its tag."""

    @abstractmethod
    def results_ahead(self) -> bool:
        """Whether the next operation will be completed without this worker's contribution."""

    @abstractmethod
    def give_up(self, why: str) -> None:
        """Let an operation under way in another thread, and all later ones, end with ClosedError. Does not wait."""

    @abstractmethod
    def close(self, why: str | None) -> None:
        """End this worker's part. ``why``: for a worker that leaves without the others."""

    @abstractmethod
    def pause(self) -> contextlib.AbstractContextManager[None]:
        """While it lasts, other workers do not warn that they wait for this one."""

    @abstractmethod
    def on_change(self, callback: Callable[[Change], None]) -> None:
        """Call ``callback`` at every change between the network and the process group."""

    def _say_closed(self, why: str | None) -> None:
        operations = self._stats.operations
        _LOG.info(
            "job %s: worker %d has closed it after %d operations%s",
            self._config.name, self._config.worker, operations, "" if why is None else f": {why}",
            extra=Event.JOB_CLOSED(**self._place, operations=operations, reason=why),
        )  # fmt: skip

    def _open(self, patience: Patience) -> Transport:
        options = self._options
        made = TransportOptions(options.deadline_s, options.delivery, options.kept_chunks, patience, options.silence_s)
        return Transport(self._config, made, rtt=options.rtt, stats=self._stats)

    def _join(self, transport: Transport, patience: Patience) -> JoinedRun:
        again = self._run is not None
        self._run = run = join(transport, self._config, self._options.settings, patience=patience)
        _LOG.info(
            "job %s: worker %d has joined the run that begins with round %d", self._config.name, self._config.worker,
            run.first_round,
            extra=Event.RUN_JOINED(**self._place, round=run.first_round, generation=run.generation, again=again),
        )  # fmt: skip
        return run


class AloneSession(JobSession):
    """Without a process group."""

    def __init__(self, config: JobConfig, options: SessionOptions, stats: JobStats) -> None:
        super().__init__(config, options, stats)
        self._patience = AloneTimeouts(config.name, options.deadline_s)
        self._joining = AloneTimeouts(config.name, options.join_s)
        self._transport = self._open(self._patience)

    def carry_out(self, operation: Operation, call: Signature) -> Tensor:
        if self._run is None:
            self._join(self._transport, self._joining)
        return operation.through_switch(self._transport, self._config, self._stats)

    def results_ahead(self) -> bool:
        # All workers greet each other first, so nobody is ahead before.
        return self._run is not None and others_are_ahead(self._transport)

    def give_up(self, why: str) -> None:
        self._patience.end()
        self._joining.end()

    def close(self, why: str | None) -> None:
        self._transport.close()
        self._say_closed(why)

    def pause(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def on_change(self, callback: Callable[[Change], None]) -> None:
        """Nothing ever changes."""


class GroupSession(JobSession):
    """With a process group. Creating and closing one are collective calls.

    Raises ConfigError on all ranks if their workers are not those of the job.
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
        self._patience = GroupTimeouts(control, config.name)
        try:
            self._transport = self._open(self._patience)
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
                run = self._join(self._transport, self._patience)
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


def others_are_ahead(transport: Transport) -> bool:
    """Whether the other workers have finished chunks of the next exchange."""
    transport.drain()
    return transport.others_reached(transport.next_sequence)


def is_grouped(ranks: Ranks | None) -> bool:
    """Whether a job has a process group: its own ranks, or the default group."""
    return ranks is not None or available()


def run_of(
    config: JobConfig, workers: int | None, fallback: FallbackOption, own_ranks: Ranks | None = None
) -> JobConfig:
    """The job as the run sees it that is about to begin: of ``workers`` workers, or as many as there are ranks, the
    job's own or the process group's, or all.

    Raises ConfigError if the job has no such run.
    """
    if fallback not in ("auto", "always", "never"):
        raise ConfigError("fallback", fallback, 'must be "auto", "always" or "never"', where=f"job {config.name}")
    if not is_grouped(own_ranks):
        return config if workers is None else config.for_run(workers)
    ranks = dist.get_world_size() if own_ranks is None else own_ranks.ranks
    if workers is not None and workers != ranks:
        rule = f"must be {ranks}, the ranks of the process group, or left out"
        raise ConfigError("workers", workers, rule, where=f"job {config.name}")
    return config.for_run(ranks)


def check_through(config: JobConfig, through: Through, *, grouped: bool) -> None:
    """Raises ConfigError for an option that this job cannot have. ``grouped``: it has a process group."""
    rule = ""
    if through not in CHOICES:
        rule = 'must be "auto", "switch" or "group"'
    elif through == "group" and not grouped:
        rule = "must be another one without a process group: call torch.distributed.init_process_group first"
    elif through == "group" and config.quorum < config.workers:
        rule = f"must be another one with a quorum of {config.quorum}: the process group waits for all workers"
    if rule:
        raise ConfigError("through", through, rule, where=f"job {config.name}")


def open_session(config: JobConfig, options: SessionOptions, stats: JobStats) -> JobSession:
    """With the job's own ranks or the default process group, if there are such: a collective call."""
    grouped = is_grouped(options.ranks)
    return GroupSession(config, options, stats) if grouped else AloneSession(config, options, stats)


def say_opened(config: JobConfig, *, grouped: bool) -> None:
    """Log that a worker has opened a job."""
    _LOG.info(
        "job %s: worker %d of %d at %s, aggregator %s",
        config.name, config.worker, config.workers, config.own_address.ip, config.aggregator,
        extra=Event.JOB_OPENED(
            job=config.job, worker=config.worker, name=config.name, workers=config.workers,
            aggregator=str(config.aggregator), grouped=grouped, keyed=config.key is not None,
            blind=config.blind,
        ),
    )  # fmt: skip


def say_failed(config: JobConfig, error: Exception) -> None:
    """Log that a job has failed, at a level below that of the exception, which says the same."""
    told = Event.JOB_FAILED(
        job=config.job, worker=config.worker, name=config.name, error=type(error).__name__, reason=str(error),
    )  # fmt: skip
    _LOG.info("%s", error, extra=told)
