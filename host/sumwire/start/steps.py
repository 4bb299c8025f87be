# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One of the ranks that make steps of each system on this machine, and measure their processor time.

:mod:`sumwire.start.trial` starts `python -m sumwire.start.steps FOLDER RANK` for each. FOLDER/asked.json has
``systems``, ``shapes`` of tensors, and the ``rank`` of low-rank systems. Each writes FOLDER/RANK.json. Packets cross
the loopback interface and an aggregator, which rank 0 starts.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.distributed as dist
from sumwire_protocol.tables import AUTO, UNIFORM

from sumwire.aggregator.processes import ParentProcess
from sumwire.job.job import Job
from sumwire.start.job_request import JobRequest
from sumwire.start.rank_placement import ADDRESS, RANK_0, JobSource, job_for
from sumwire.systems.factory import make
from sumwire.systems.spec import GROUP, SWITCH
from sumwire.systems.table import TABLE

if TYPE_CHECKING:
    from torch._C._distributed_c10d import FileStore, Store
else:
    from torch.distributed import FileStore, Store

RANKS: Final = 4
LARGE: Final = "large"
SMALL: Final = "small"
# Pairs, because ACP-SGD's steps are of two kinds by turns.
_PAIRS: Final = 6
LARGE_VALUES: Final = 1 << 20
_SMALL_VALUES: Final = 8
_ALL_REDUCES: Final = 40
_LEARNING_RATE: Final = 0.01
_TIMEOUT: Final = timedelta(minutes=5)

Clock = Callable[[], float]
Spent = Mapping[str, Sequence[float]]


def run(folder: Path, rank: int) -> dict[str, list[float]]:
    """Make the steps: a collective call of all ranks.

    Returns, by system, the CPU seconds of this rank for a step, and on rank 0 also those of the aggregator. ``large``
    and ``small``: the CPU seconds of a plain all-reduce of such a tensor by gloo, and how many seconds it takes.
    """
    asked = json.loads((folder / "asked.json").read_text())
    store = FileStore(str(folder / "store"), RANKS)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    try:
        found = {LARGE: _all_reduce_s(LARGE_VALUES), SMALL: _all_reduce_s(_SMALL_VALUES)}
        groups = [name for name in asked["systems"] if SWITCH not in TABLE[name].routes]
        found |= {name: _step_s(name, None, asked, _no_clock) for name in groups}
        for table in (AUTO, UNIFORM):
            names = [name for name in asked["systems"] if name not in groups and table_of(name) == table]
            if names:
                with _job(store, rank, names, table) as (job, clock):
                    found |= {name: _step_s(name, job, asked, clock) for name in names}
    finally:
        dist.destroy_process_group()
    return found


def table_of(name: str) -> str:
    """Return the kind of THC's table in a job that the system takes."""
    return UNIFORM if TABLE[name].table == UNIFORM else AUTO


@contextmanager
def _job(store: Store, rank: int, names: Sequence[str], table: str) -> Iterator[tuple[Job, Clock]]:
    """A job of all ranks that has what these systems need, and the clock of its aggregator, on rank 0."""
    ops = dict.fromkeys(op for name in names for op in TABLE[name].routes[SWITCH].ops)
    source = JobSource(aggregator=RANK_0, request=JobRequest(ops=tuple(ops), table=table))
    place = job_for(store, rank, RANKS, source, timeout=_TIMEOUT)
    running = place.aggregator
    try:
        with Job(place.config, ranks=place.workers()) as job:
            yield job, _no_clock if running is None else _clock_of(running.pid)
    finally:
        if running is not None:
            running.close()


def _step_s(name: str, job: Job | None, asked: Mapping[str, Any], clock: Clock) -> list[float]:
    """Of optimizer steps with the same gradient each time."""
    route = TABLE[name].routes[GROUP if job is None else SWITCH]
    given = {"rank": asked["rank"]} if "rank" in route.options.names() else {}
    system = make(name, job, transport=GROUP if job is None else SWITCH, **given)
    gradients = [torch.randn(shape, dtype=torch.float32, device="cpu") for shape in asked["shapes"]]
    parameters = [torch.nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients]
    inner = torch.optim.SGD(parameters, lr=_LEARNING_RATE)
    optimizer = system.attach(torch.nn.ParameterList(parameters), inner)

    def prepare() -> None:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient.clone()

    own, aggregator_s = _each(prepare, optimizer.step, route.options.warm_up_steps(given), clock)
    system.close()
    return [median(map(fmean, zip(own[::2], own[1::2], strict=True))), aggregator_s]


def _all_reduce_s(values: int) -> list[float]:
    tensor = torch.ones(values, dtype=torch.float32, device="cpu")
    spent, took = [], []
    for _ in range(_ALL_REDUCES):
        dist.barrier()
        began, began_here = time.perf_counter(), time.process_time()
        dist.all_reduce(tensor)
        spent.append(time.process_time() - began_here)
        took.append(time.perf_counter() - began)
    # In some of them gloo's threads spin for milliseconds.
    return [min(spent), min(took)]


def _each(
    prepare: Callable[[], object], work: Callable[[], object], warm_up: int, clock: Clock
) -> tuple[list[float], float]:
    """CPU seconds of this process for the work, each time after a barrier, and of the aggregator on average."""
    own: list[float] = []
    for number in range(warm_up + 2 * _PAIRS):
        prepare()
        dist.barrier()
        if number == warm_up:
            others_began = clock()
        began = time.process_time()
        work()
        own.append(time.process_time() - began)
    dist.barrier()
    return own[warm_up:], (clock() - others_began) / (2 * _PAIRS)


def _no_clock() -> float:
    return 0.0


def _clock_of(process: int) -> Clock:
    """The CPU clock of a process and its children."""
    # As clock_getcpuclockid(3) makes them.
    clocks = [~pid << 3 | 2 for pid in (process, *_children(process))]
    return lambda: sum(map(time.clock_gettime, clocks))


def _children(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task").glob("*/children")
    return [int(pid) for path in listed for pid in path.read_text().split()]


def main(folder: str, rank: str) -> None:
    """Run, and write what was found."""
    ParentProcess().end_with_it()
    torch.set_num_threads(1)
    # This machine's ranks meet at its loopback, wherever those of its other jobs do.
    os.environ.pop(ADDRESS, None)
    found = run(Path(folder), int(rank))
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
