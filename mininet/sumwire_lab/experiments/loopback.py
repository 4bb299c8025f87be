# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Experiments with ranks as processes of this machine, with loopback addresses. They measure final losses of trainings
with a software aggregator, bytes that a node with several ranks sends, and the cost of a job's control thread.

    python -m sumwire_lab.experiments.loopback outer STEPS SEED...
    python -m sumwire_lab.experiments.loopback sharded STEPS SEED...
    python -m sumwire_lab.experiments.loopback nodes NODES RANKS
    python -m sumwire_lab.experiments.loopback control RANKS SECONDS
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import sumwire
import torch
import torch.distributed as dist
from sumwire.job.control import Control
from sumwire.job.coordination import Coordinator
from sumwire.job.operations import ResultCache
from sumwire.optim import Outer
from sumwire.start import supervisor
from sumwire.start.job_request import JobRequest, job_file_for
from sumwire.start.service import serving
from sumwire.training.all_reduce import Precision
from sumwire.transport.stats import JobStats
from sumwire_protocol import constants as p4
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.optim import Optimizer

from sumwire_lab.errors import ProcessDiedError
from sumwire_lab.training import text_data, workload

_SECONDS: Final = 3600.0
_SLOTS: Final = 512
_Given = TypeVar("_Given")
_Answer = TypeVar("_Answer")

# Of trainings whose final losses are compared.
RANKS: Final = 4
EVERY: Final = 20
PRECISIONS: Final[tuple[Precision, ...]] = ("exact", "4bit", "1bit")
BAD: Final = "1 bit, no error feedback"
# How gradients and parameters travel: a name, and what `attach` is told; None for gloo. BAD is known to be bad.
WAYS: Final[dict[str, dict[str, Any] | None]] = {
    "gloo": None,
    "4bit": {},
    "4bit, parameters 8bit": {"parameters": "8bit"},
    BAD: {"precision": "1bit", "error_feedback": False},
}
_WIDTH: Final = 64
_BATCH: Final = 8
_LR: Final = 2e-3

# Of means whose bytes are counted.
VALUES: Final = 1_000_000
_MEANS: Final = 3


def forked(
    ranks: int,
    work: Callable[[int, _Given], _Answer],
    serve: Callable[[ExitStack], _Given],
    *,
    group: bool = True,
    meanwhile: Callable[[], None] = lambda: None,
) -> list[_Answer]:
    """Run `work(rank, given)` on forked ranks, and return what they return, in any order; with `group` within a process
    group over gloo.

    Ranks are forked, so that torch is loaded once: the caller must not have used torch's threads. `serve` then starts
    the programs that they need, which may have threads, and returns `given`. `meanwhile` runs in this process, beside
    them. Raises ProcessDiedError if a rank fails.
    """
    context = multiprocessing.get_context("fork")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        given, answers = context.SimpleQueue(), context.SimpleQueue()

        def run(rank: int) -> None:
            torch.set_num_threads(1)
            mine = given.get()
            if group:
                os.environ["GLOO_SOCKET_IFNAME"] = "lo"
                method, timeout = f"file://{folder}/store", timedelta(seconds=_SECONDS)
                dist.init_process_group("gloo", init_method=method, rank=rank, world_size=ranks, timeout=timeout)
            answers.put(work(rank, mine))
            if group:
                dist.destroy_process_group()

        processes = [context.Process(target=run, args=(rank,)) for rank in range(ranks)]
        for process in processes:
            process.start()
        stack.callback(_end, processes)
        made = serve(stack)
        for _ in processes:
            given.put(made)
        meanwhile()
        for process in processes:
            process.join(_SECONDS)
            if process.exitcode != 0:
                raise ProcessDiedError(f"a rank of {ranks} ended with {process.exitcode}; see what it wrote above")
        return [answers.get() for _ in processes]


def _end(processes: Sequence[Any]) -> None:
    for process in processes:
        if process.is_alive():
            process.kill()
        process.join()


def _network(first: int) -> str:
    """The first three octets of addresses of this process."""
    return f"127.{first + os.getpid() // 254 % (255 - first)}.{1 + os.getpid() % 254}"


def _aggregator(job: dict[str, Any], stack: ExitStack) -> None:
    stack.enter_context(supervisor.started(supervisor.here("--log-level", "warning"), job, lambda _: None))


# -- final losses ------------------------------------------------------------------------------------------


def _in_a_job(work: Callable[[sumwire.Job], dict[str, list[float]]], ops: Sequence[str]) -> dict[str, list[float]]:
    """What `work` returns on one of the ranks of a job."""
    network = _network(6)
    job = {
        "format": 3,
        "name": "loopback",
        "job": 1,
        "ops": [*ops],
        "slots": _SLOTS,
        "aggregator": f"{network}.250",
        "hosts": [f"{network}.{1 + rank}" for rank in range(RANKS)],
    }

    def joined(rank: int, file: str) -> dict[str, list[float]]:
        with sumwire.Job(sumwire.load_job(file, worker=rank)) as mine:
            return work(mine)

    def serve(stack: ExitStack) -> str:
        file = Path(stack.enter_context(tempfile.TemporaryDirectory()), "job.json")
        file.write_text(json.dumps(job))
        _aggregator(job, stack)
        return str(file)

    return forked(RANKS, joined, serve)[0]


def _trained(model: nn.Module, optimizer: Optimizer, seed: int, steps: int) -> float:
    """Mean loss of a character on the held-out text after so many steps; equal on all ranks."""
    data = text_data.load()
    draws = torch.Generator().manual_seed(1000 * seed + dist.get_rank())
    for _ in range(steps):
        chosen = torch.randint(len(data.train_x), (_BATCH,), generator=draws)
        optimizer.zero_grad()
        workload.loss(model, data.train_x[chosen], data.train_y[chosen]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    with torch.no_grad():
        return float(workload.loss(model, data.test_x, data.test_y))


def outer_losses(steps: int, seeds: Sequence[int]) -> dict[str, list[float]]:
    """Return final losses of a character transformer after the same outer steps, by precision, in the seeds' order."""

    def trained(job: sumwire.Job, precision: Precision, seed: int) -> float:
        torch.manual_seed(seed)
        model = text_data.Transformer(_WIDTH)
        inner = torch.optim.AdamW(model.parameters(), lr=_LR)
        return _trained(model, Outer(inner, job, every=EVERY, precision=precision), seed, steps)

    return _in_a_job(
        lambda job: {name: [trained(job, name, seed) for seed in seeds] for name in PRECISIONS},
        ("thc", "max32", "sum32", "sign"),
    )


def sharded_losses(steps: int, seeds: Sequence[int]) -> dict[str, list[float]]:
    """Return final losses of a character transformer by FSDP2 over all ranks, by transport, in the seeds' order.

    They are computed with the gathered parameters.
    """

    def trained(job: sumwire.Job, options: dict[str, Any] | None, seed: int) -> float:
        torch.manual_seed(seed)
        model: Any = text_data.Transformer(_WIDTH)
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
        if options is not None:
            sumwire.sharded.attach(model, job, **options)
        return _trained(model, torch.optim.AdamW(model.parameters(), lr=_LR), seed, steps)

    return _in_a_job(
        lambda job: {name: [trained(job, options, seed) for seed in seeds] for name, options in WAYS.items()},
        ("thc", "max32", "sum32", "sign"),
    )


# -- bytes of a node ---------------------------------------------------------------------------------------


def node_bytes(nodes: int, ranks: int) -> dict[str, Any]:
    """Return the bytes that a node sends, with its ranks behind one worker (``node``) and as separate workers
    (``flat``).

    The bytes of a worker do not depend on the number of workers. A job has at most 32 workers; with more ranks, one per
    node is measured, and multiplied. Raises ProcessDiedError.
    """
    flat_ranks = ranks if nodes * ranks <= p4.JOB_WORKERS_MAX else 1
    shared = _sent(nodes, ranks, nodes)
    flat = _sent(nodes, flat_ranks, nodes * flat_ranks)
    return {
        "nodes": nodes,
        "ranks": ranks,
        "workers_flat": nodes * flat_ranks,
        "node": sum(shared) / nodes,
        "flat": sum(flat) / nodes * ranks / flat_ranks,
    }


def _sent(nodes: int, ranks: int, workers: int) -> list[int]:
    """Bytes that each rank has sent."""
    network = _network(4)
    aggregator = f"{network}.250"
    job = job_file_for([f"{network}.{1 + worker}" for worker in range(workers)], aggregator, JobRequest())

    def reduced(rank: int, service: str) -> int:
        with sumwire.init(service, quiet=True) as mine:
            tensor = torch.randn(VALUES, generator=torch.Generator().manual_seed(rank))
            before = mine.stats.bytes_sent
            for _ in range(_MEANS):
                sumwire.all_reduce(tensor, mine)
            return mine.stats.bytes_sent - before

    def serve(stack: ExitStack) -> str:
        _aggregator(job, stack)
        return f"{aggregator}:{stack.enter_context(serving(job, aggregator, 0))}"

    return forked(nodes * ranks, reduced, serve)


# -- the control thread ------------------------------------------------------------------------------------


def control_cost(ranks: int, seconds: int) -> dict[str, Any]:
    """Return milliseconds of CPU per second and rank for ranks that only sleep, without and with a control thread."""

    def slept(rank: int, _: None) -> tuple[float, float]:
        without = _cpu_ms_per_s(seconds)
        control = Control("cost", rank, Coordinator("cost", ranks), ResultCache(most=1, most_bytes=0), JobStats())
        control.start()
        try:
            return without, _cpu_ms_per_s(seconds)
        finally:
            control.close()

    rows = forked(ranks, slept, lambda _: None)
    without, with_control = (sum(row[at] for row in rows) / ranks for at in (0, 1))
    return {
        "ranks": ranks,
        "cpu_ms_per_s_without": round(without, 3),
        "cpu_ms_per_s_with": round(with_control, 3),
        "share_of_a_core": round((with_control - without) / 1000, 5),
    }


def _cpu_ms_per_s(seconds: float) -> float:
    began, cpu = time.monotonic(), time.process_time()
    threading.Event().wait(seconds)
    return (time.process_time() - cpu) * 1000 / (time.monotonic() - began)


MEASURED: Final[dict[str, Callable[..., dict[str, Any]]]] = {
    "outer": lambda steps, *seeds: outer_losses(steps, seeds),
    "sharded": lambda steps, *seeds: sharded_losses(steps, seeds),
    "nodes": node_bytes,
    "control": control_cost,
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(MEASURED[sys.argv[1]](*map(int, sys.argv[2:]))) + "\n")
