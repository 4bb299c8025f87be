# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One worker's session in a job, between its first operation and its close: the common part, and the form without a
process group. :mod:`sumwire.job.group_session` has the form with one.

Operations are carried out one after the other, in one thread at a time. Without a process group an exchange without
results ends with DeadlineError (:class:`AloneTimeouts`).
"""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch.distributed as dist
from sumwire_protocol.events import Event
from torch import Tensor

from sumwire.config import JobConfig
from sumwire.errors import ClosedError, ConfigError
from sumwire.job.control import Change
from sumwire.job.gloo import Ranks, available
from sumwire.job.handshake import JoinedRun, join
from sumwire.job.operations import Operation, Signature
from sumwire.job.tuning import CHOICES, Selection, Through
from sumwire.transport.kept_results import KEPT_CHUNKS
from sumwire.transport.options import SILENCE_S, Alone, Delivery, TimeoutPolicy, TransportOptions
from sumwire.transport.retransmission import RttEstimator
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport
from sumwire.transport.window import Window

_LOG: Final = logging.getLogger("sumwire")


class AloneTimeouts(Alone):
    """Limits how long an exchange waits in a job without a process group. :meth:`end`, called by another thread, ends
    the wait."""

    def __init__(self, job: str, deadline_s: float) -> None:
        super().__init__(deadline_s)
        self._job = job
        self._over = False

    def end(self) -> None:
        """End the waiting exchange, and all later ones, with ClosedError, because the job is given up."""
        self._over = True

    def waiting(self, waited_s: float, missing: Collection[int] | None) -> None:
        """Raise DeadlinePassedError if the deadline has passed."""
        if self._over:
            raise ClosedError(f"job {self._job} is closed; make a new one: Job(config)")
        super().waiting(waited_s, missing)


FallbackOption = Literal["auto", "always", "never"]


@dataclass(frozen=True)
class SessionOptions:
    """The options of :class:`sumwire.Job` that a session needs. ``settings``: JSON values that must be equal on all
    workers. ``ranks``: the job's own, if they are not the default group's."""

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
    """The common part of sessions. ``stats``: the job's. ``choice``: decides which means use the process group by
    choice."""

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
        """The transport's window. Any thread may read it; only the thread that makes operations changes it."""
        return self._transport.window

    @abstractmethod
    def carry_out(self, operation: Operation, call: Signature) -> Tensor:
        """Carry out the next operation under its tag, and return the result."""

    @abstractmethod
    def results_ahead(self) -> bool:
        """Return whether the next operation will be completed without this worker's contribution."""

    @abstractmethod
    def give_up(self, why: str) -> None:
        """End the operation under way in another thread, and all later ones, with ClosedError. Does not wait."""

    @abstractmethod
    def close(self, why: str | None) -> None:
        """End this worker's session. ``why``: the reason, if it leaves without the others."""

    @abstractmethod
    def pause(self) -> contextlib.AbstractContextManager[None]:
        """Context manager: inside it, other workers do not warn that they wait for this one."""

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

    def _open(self, timeout_policy: TimeoutPolicy) -> Transport:
        options = self._options
        made = TransportOptions(
            options.deadline_s, options.delivery, options.kept_chunks, timeout_policy, options.silence_s
        )
        return Transport(self._config, made, rtt=options.rtt, stats=self._stats)

    def _join(self, transport: Transport, timeout_policy: TimeoutPolicy) -> JoinedRun:
        again = self._run is not None
        self._run = run = join(transport, self._config, self._options.settings, timeout_policy=timeout_policy)
        _LOG.info(
            "job %s: worker %d has joined the run that begins with round %d", self._config.name, self._config.worker,
            run.first_round,
            extra=Event.RUN_JOINED(**self._place, round=run.first_round, generation=run.generation, again=again),
        )  # fmt: skip
        return run


class AloneSession(JobSession):
    """The session of a job without a process group."""

    def __init__(self, config: JobConfig, options: SessionOptions, stats: JobStats) -> None:
        super().__init__(config, options, stats)
        self._timeout_policy = AloneTimeouts(config.name, options.deadline_s)
        self._joining = AloneTimeouts(config.name, options.join_s)
        self._transport = self._open(self._timeout_policy)

    def carry_out(self, operation: Operation, call: Signature) -> Tensor:
        if self._run is None:
            self._join(self._transport, self._joining)
        return operation.through_switch(self._transport, self._config, self._stats)

    def results_ahead(self) -> bool:
        # All workers greet each other first, so nobody is ahead before.
        return self._run is not None and others_are_ahead(self._transport)

    def give_up(self, why: str) -> None:
        self._timeout_policy.end()
        self._joining.end()

    def close(self, why: str | None) -> None:
        self._transport.close()
        self._say_closed(why)

    def pause(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def on_change(self, callback: Callable[[Change], None]) -> None:
        """Do nothing: without a process group there is no fall-back."""


def others_are_ahead(transport: Transport) -> bool:
    """Return whether the other workers have finished chunks of the next exchange."""
    transport.drain()
    return transport.others_reached(transport.next_sequence)


def is_grouped(ranks: Ranks | None) -> bool:
    """Return whether a job has a process group: its own ranks, or the default group."""
    return ranks is not None or available()


def run_of(
    config: JobConfig, workers: int | None, fallback: FallbackOption, own_ranks: Ranks | None = None
) -> JobConfig:
    """Return the job's configuration for the run that is about to begin. The run has ``workers`` workers, or as many as
    there are ranks (the job's own or the process group's), or all.

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
    """Raise ConfigError for a value of ``through`` that this job cannot have. ``grouped``: it has a process group."""
    rule = ""
    if through not in CHOICES:
        rule = 'must be "auto", "switch" or "group"'
    elif through == "group" and not grouped:
        rule = "must be another one without a process group: call torch.distributed.init_process_group first"
    elif through == "group" and config.quorum < config.workers:
        rule = f"must be another one with a quorum of {config.quorum}: the process group waits for all workers"
    if rule:
        raise ConfigError("through", through, rule, where=f"job {config.name}")


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
    """Log that a job has failed, at a lower level than the exception, which says the same."""
    told = Event.JOB_FAILED(
        job=config.job, worker=config.worker, name=config.name, error=type(error).__name__, reason=str(error),
    )  # fmt: skip
    _LOG.info("%s", error, extra=told)
