# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire.init()`: the job of this rank, in a training script.

import sumwire

job = sumwire.init()                                                       # after init_process_group
model.register_comm_hook(sumwire.DdpState(job), sumwire.ddp_hook)
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Any, Final, overload

import torch
import torch.distributed as dist
from commonlib.untrusted import shown
from sumwire_protocol.events import Event
from torch import nn
from torch.distributed.rendezvous import rendezvous

from sumwire import logs
from sumwire.errors import UsageError
from sumwire.job.gloo import available, default_timeout
from sumwire.job.job import Job
from sumwire.start import auto
from sumwire.start.errors import PlaceError
from sumwire.start.job_request import JobRequest
from sumwire.start.launchers import RENDEZVOUS, check_numbers, torchrun_variables
from sumwire.start.rank_placement import RANK_0, WAIT_S, JobSource, RankPlacement, job_for
from sumwire.start.rendezvous import Rendezvous, fresh
from sumwire.systems.factory import make
from sumwire.systems.pays import STAND_INS
from sumwire.systems.spec import SWITCH
from sumwire.systems.system import System
from sumwire.systems.table import TABLE
from sumwire.training.hierarchical import AnyJob, NodeJob, RankGroup

_LOG: Final = logging.getLogger("sumwire")


@overload
def init(
    service: str | None = None,
    *,
    job: str | Path | None = None,
    aggregator: str | None = None,
    address: str | None = None,
    bits: int | None = None,
    wait_s: float = WAIT_S,
    quiet: bool = False,
    system: None = None,
    **options: Any,
) -> AnyJob: ...


@overload
def init(
    service: str | None = None,
    *,
    job: str | Path | None = None,
    aggregator: str | None = None,
    address: str | None = None,
    bits: int | None = None,
    wait_s: float = WAIT_S,
    quiet: bool = False,
    system: str,
    model: nn.Module | None = None,
    aggregator_rate: str | None = None,
    **options: Any,
) -> System: ...


def init(
    service: str | None = None,
    *,
    job: str | Path | None = None,
    aggregator: str | None = None,
    address: str | None = None,
    bits: int | None = None,
    wait_s: float = WAIT_S,
    quiet: bool = False,
    system: str | None = None,
    model: nn.Module | None = None,
    aggregator_rate: str | None = None,
    **options: Any,
) -> AnyJob | System:
    """Return the job of this rank: a collective call of all ranks. `init_process_group` may have been called before or
    not.

    Without a process group it makes one, of gloo and, on GPUs, NCCL if torch has it, for ranks that torchrun, Slurm's
    srun or an mpirun has started. For the last two it also sets torchrun's variables, such as RANK and LOCAL_RANK.

    The job comes from a service that `sumwire up` has started: at ``service``, HOST or HOST:PORT; or at
    SUMWIRE_SERVICE, if any rank's environment sets it; or on rank 0's machine. ``job``: a job file instead. SUMWIRE_JOB
    in every rank's environment names one too, if SUMWIRE_SERVICE is not set. ``aggregator="rank0"`` starts an
    aggregator beside rank 0, which ends with rank 0. For it, ``address`` or SUMWIRE_ADDRESS is this machine's own
    address, where the route to rank 0's machine does not determine it, and ``bits`` the bits of THC's indices.

    If a machine has one address in the job and several ranks, they share a worker, and each gets a :class:`NodeJob`.
    With "rank0", ranks that are all on one machine are a worker each. ``wait_s``: seconds to wait for a service that is
    not running yet, and for its aggregator to become ready. ``options`` are those of :class:`sumwire.Job`.

    ``system``: return a :class:`sumwire.systems.System` in place of a job: "ssgd" (gloo), "fp16", "sum32", "thc" or
    "thc-wide", or "auto" for the one that `sumwire pays` would recommend: see :mod:`sumwire.start.auto`, also for
    ``model`` and ``aggregator_rate``. "ssgd" and "fp16" use no job, so none is looked for. The job of another system is
    closed with it. A system needs a rank for each worker.

    Rank 0 prints its choice in one line on stderr, unless ``quiet``. The job is closed when the process ends, if it was
    not closed before. Raises ServiceError, PlaceError, ReachError and StartError of :mod:`sumwire.start.errors`, the
    errors of a Job, and UsageError for an unknown option or system.
    """
    check_options(options)
    _check_system(system, model, aggregator_rate)
    _enter_group()
    source = JobSource(service, job, aggregator, address, JobRequest(bits=bits), wait_s)
    if system == auto.AUTO:
        asked = auto.Asked(model, aggregator_rate, beside_rank_0=aggregator == RANK_0)
        system = _chosen(asked, quiet=quiet)
    if system is None:
        return _started(source, options, quiet=quiet)
    nonfinite = options.get("nonfinite", "propagate")
    if SWITCH not in TABLE[system].routes:
        return make(system, nonfinite=nonfinite)
    return _over_job(system, _started(source, options, quiet=quiet))


def _check_system(system: str | None, model: nn.Module | None, aggregator_rate: str | None) -> None:
    if system is None:
        given = [name for name, value in (("model", model), ("aggregator_rate", aggregator_rate)) if value is not None]
        if given:
            raise UsageError(f'{" and ".join(given)}: of no use without system="auto": give that, or leave it out')
    elif system not in (auto.AUTO, *STAND_INS):
        raise UsageError(
            f'system = {shown(system)}: must be "auto" or one of {", ".join(STAND_INS)}; other systems need options or '
            "a trial: sumwire.systems.make(NAME, sumwire.init())"
        )


def _started(source: JobSource, options: dict[str, Any], *, quiet: bool) -> AnyJob:
    store = dist.distributed_c10d._get_default_store()
    check = options.get("fallback") != "always"
    place = job_for(store, dist.get_rank(), dist.get_world_size(), source, check=check, timeout=default_timeout())
    try:
        made = _job_of(place, options)
    except BaseException:
        if place.aggregator is not None:
            place.aggregator.close()
        raise
    if place.aggregator is not None:
        made.on_close(place.aggregator.close)
    _close_at_exit(made)
    _say(place, made, quiet=quiet)
    return made


def _chosen(asked: auto.Asked, *, quiet: bool) -> str:
    store = dist.distributed_c10d._get_default_store()
    meeting = Rendezvous(store, dist.get_rank(), dist.get_world_size(), default_timeout())
    choice = auto.choose(meeting, asked)
    _tell(choice.line, Event.SYSTEM_CHOSEN(system=choice.system, reason=choice.line), meeting.rank, quiet=quiet)
    return choice.system


def _over_job(name: str, job: AnyJob) -> System:
    try:
        # A NodeJob is refused there, with what can be done.
        system = make(name, job)  # type: ignore[arg-type]
    except BaseException:
        job.close(agree=False)
        raise
    system.on_close(job.close)
    return system


def check_options(options: Iterable[str], call: Callable[..., object] = init) -> None:
    """Raise UsageError for an option that neither :func:`init`, or another ``call``, nor a Job has, before ranks wait
    for each other."""
    known = (signature(call).parameters.keys() | signature(Job).parameters.keys()) - {"options", "config", "ranks"}
    for name in options:
        if name not in known:
            near = get_close_matches(name, known, 1)
            which = near[0] if near else f"one of {', '.join(sorted(known))}"
            raise UsageError(f"sumwire.{call.__name__} has no option {shown(name)}: give {which}, or leave it out")


def _enter_group() -> None:
    if available():
        return
    if any(name not in os.environ for name in RENDEZVOUS):
        # Set, as torchrun does: the script may choose its GPU by LOCAL_RANK.
        os.environ.update(torchrun_variables(os.environ))
    missing = [name for name in RENDEZVOUS if name not in os.environ]
    if missing:
        raise PlaceError(
            f"no process group, and no {', '.join(missing)} in the environment: start the script by torchrun, srun or "
            "mpirun, or call torch.distributed.init_process_group first"
        )
    check_numbers()
    timeout = dist.default_pg_timeout
    store, rank, ranks = next(rendezvous("env://", timeout=timeout))
    # Addresses that gloo's ranks have left there at an earlier attempt lead nowhere.
    store = fresh(store, rank, ranks, timeout)
    dist.init_process_group(_backend(), store=store, rank=rank, world_size=ranks)


def _backend() -> str:
    """Of a group that this module makes. Some builds of torch have CUDA and no NCCL."""
    return "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"


def _job_of(place: RankPlacement, options: dict[str, Any]) -> AnyJob:
    def of_worker() -> Job | None:
        return Job(place.config, ranks=place.workers(), **options) if place.is_worker else None

    job = place.rendezvous.telling(of_worker)
    if job is not None and all(len(node) == 1 for node in place.nodes):
        return job
    try:
        # Ranks that are no worker learn here whether theirs has a job, before they wait for it in a group.
        place.rendezvous.gather(None)
        return NodeJob(place.config.name, job, RankGroup.among(place.nodes), dist.get_world_size())
    except BaseException:
        if job is not None:
            job.close(agree=False)
        raise


def _close_at_exit(job: AnyJob) -> None:
    def close() -> None:
        # Python sets it when an exception ends the program: the others must not wait for this rank then.
        job.close(agree=getattr(sys, "last_value", None) is None)

    atexit.register(close)
    job.on_close(lambda: atexit.unregister(close))


def _say(place: RankPlacement, job: AnyJob, *, quiet: bool) -> None:
    config = place.config
    sizes = sorted({len(node) for node in place.nodes})
    shared = "" if sizes == [1] else f", {'-'.join(map(str, sizes))} ranks each"
    thc = "" if config.thc is None else f", thc with {config.thc.bits} bits"
    line = (
        f"sumwire: job {config.name} {place.found}: worker {config.worker} of {config.workers} at "
        f"{config.own_address.ip}{shared}, aggregator {config.aggregator}{thc}, {config.slots} slots"
    )
    told = Event.JOB_FOUND(
        job=config.job, worker=config.worker, name=config.name, found=place.found, workers=config.workers,
        aggregator=str(config.aggregator),
    )  # fmt: skip
    _tell(line, told, place.rendezvous.rank, quiet=quiet)


def _tell(line: str, told: dict[str, Any], rank: int, *, quiet: bool) -> None:
    _LOG.info(line, extra=told)
    # A log that is shown has the line by now.
    if rank == 0 and not quiet and not logs.shown():
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
