# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A rank with an interpreter of its own, which ends in one of many ways: `python -m helpers.gloo.leaving WAY RANK RANKS
STORE JOB_FILE`. Writes "done" at its end."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from datetime import timedelta

import sumwire
import torch
import torch.distributed as dist
from helpers.transport.udp_bridge import SILENCE_S
from sumwire.training.comm_thread import CommThread

# So that nothing is collected before the interpreter ends.
KEPT: list[object] = []


def closed(job: sumwire.Job, rank: int) -> None:
    job.close()


def forgotten(job: sumwire.Job, rank: int) -> None:
    pass


def destroyed_then_closed(job: sumwire.Job, rank: int) -> None:
    dist.destroy_process_group()
    job.close()


def closed_then_destroyed(job: sumwire.Job, rank: int) -> None:
    job.close()
    dist.destroy_process_group()


def destroyed_then_forgotten(job: sumwire.Job, rank: int) -> None:
    dist.destroy_process_group()


def one_leaves(job: sumwire.Job, rank: int) -> None:
    """Rank 0 ends without a word; the others want one more operation."""
    if rank == 0:
        return
    try:
        job.reduce(torch.ones(1000))
    except sumwire.PeerLostError:
        sys.stdout.write("lost\n")


def waiting_in_a_thread(job: sumwire.Job, rank: int) -> None:
    """A thread is in an operation that rank 0 does not make."""
    if rank == 0:
        return
    thread = CommThread("test")
    KEPT.append(thread)
    thread.submit(lambda: job.reduce(torch.ones(1000)))


def cannot_make_another(job: sumwire.Job, rank: int) -> None:
    """Rank 0 begins a job that it cannot make, and ends before rank 1."""
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        with contextlib.suppress(sumwire.ConfigError):
            sumwire.Job(job.config, deadline_s=0)
        store.set("pid", str(os.getpid()))
        return
    pid = int(store.get("pid"))
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.kill(pid, 0)
            threading.Event().wait(0.01)


WAYS: dict[str, Callable[[sumwire.Job, int], None]] = {
    way.__name__: way
    for way in (
        closed,
        forgotten,
        destroyed_then_closed,
        closed_then_destroyed,
        destroyed_then_forgotten,
        one_leaves,
        waiting_in_a_thread,
        cannot_make_another,
    )
}


def main(way: str, rank: str, ranks: str, store: str, job_file: str) -> None:
    own = int(rank)
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=own, world_size=int(ranks), timeout=timedelta(seconds=60)
    )
    job = sumwire.Job(sumwire.load_job(job_file, worker=own), fallback="always", silence_s=SILENCE_S)
    KEPT.append(job)
    for _ in range(2):
        job.reduce(torch.ones(1000))
    WAYS[way](job, own)
    sys.stdout.write("done\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
