# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Bytes that a node with several ranks puts on the wire, against as many ranks that are a worker each.

All ranks are processes of this machine, with addresses on loopback, and a software aggregator. What a worker sends does
not depend on how many there are. A job has at most 32 of them: of more ranks, one a node is measured, and multiplied.

    python -m sumwire_lab.experiments.ways_nodes NODES RANKS
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from sumwire.start import child
from sumwire.start.description import Wanted, described
from sumwire.start.service import serving
from sumwire_protocol import constants as p4

from sumwire_lab.errors import ProcessDiedError

VALUES: Final = 1_000_000
_MEANS: Final = 3
_SECONDS: Final = 600.0


@dataclass(frozen=True)
class _Meeting:
    """What the ranks need to know: ``go`` is set once there is a service, at ``port``."""

    store: str
    aggregator: str
    go: Any
    port: Any
    answers: Any


def measured(nodes: int, ranks: int) -> dict[str, Any]:
    """Bytes that a node sends, with its ranks behind one worker (``node``) and as workers (``flat``). Raises
    ProcessDiedError."""
    workers = nodes * ranks
    flat_ranks = ranks if workers <= p4.JOB_WORKERS_MAX else 1
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
    count = nodes * ranks
    prefix = f"127.{4 + os.getpid() // 254 % 251}.{1 + os.getpid() % 254}"
    aggregator = f"{prefix}.250"
    job = described([f"{prefix}.{1 + worker}" for worker in range(workers)], aggregator, Wanted())
    # Forked, so that torch is loaded once.
    context = multiprocessing.get_context("fork")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        # Before the threads of service and aggregator: each waits until the job is there.
        meeting = _Meeting(
            str(Path(folder) / "store"), aggregator, context.Event(), context.Value("i", 0), context.SimpleQueue()
        )
        processes = [context.Process(target=_work, args=(rank, count, meeting)) for rank in range(count)]
        for process in processes:
            process.start()
        stack.callback(_end, processes)
        stack.enter_context(child.Aggregator(child.here("--log-level", "warning"), job, lambda _: None))
        meeting.port.value = stack.enter_context(serving(job, aggregator, 0))
        meeting.go.set()
        for process in processes:
            process.join(_SECONDS)
            if process.exitcode != 0:
                raise ProcessDiedError(f"a rank of {count} ended with {process.exitcode}; see what it wrote above")
        return [meeting.answers.get() for _ in processes]


def _end(processes: list[Any]) -> None:
    for process in processes:
        if process.is_alive():
            process.kill()
        process.join()


def _work(rank: int, ranks: int, meeting: _Meeting) -> None:
    import sumwire
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    meeting.go.wait()
    patience = timedelta(seconds=_SECONDS)
    dist.init_process_group(
        "gloo", init_method=f"file://{meeting.store}", rank=rank, world_size=ranks, timeout=patience
    )
    with sumwire.init(f"{meeting.aggregator}:{meeting.port.value}", quiet=True) as job:
        tensor = torch.randn(VALUES, generator=torch.Generator().manual_seed(rank))
        before = job.stats.bytes_sent
        for _ in range(_MEANS):
            sumwire.all_reduce(tensor, job)
        meeting.answers.put(job.stats.bytes_sent - before)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measured(int(sys.argv[1]), int(sys.argv[2]))) + "\n")
