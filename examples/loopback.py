# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the examples share: some ranks and a software aggregator on this machine, without a switch and without root.

The ranks are processes. Each rank and the aggregator have a loopback address of their own, because every Sumwire
worker is told apart by its address.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

# What a rank does: its number, and the path of the job file.
Work = Callable[[int, Path], object]


def job_file(ranks: int, ops: list[str]) -> dict[str, Any]:
    """A job file as `sumwire-controller job-file` writes it, here with loopback addresses."""
    network = f"127.{1 + os.getpid() // 254 % 254}.{1 + os.getpid() % 254}"
    addresses = [
        {"worker": rank, "ip": f"{network}.{1 + rank}", "udp_port": 21335, "aggregator": f"{network}.250", "seat": rank}
        for rank in range(ranks)
    ]
    job = {"format": 3, "name": "example", "job": 1, "ops": ops, "workers": ranks, "quorum": ranks, "slots": 256}
    return {**job, "addresses": addresses}


def run(work: Work, *, ranks: int = 2, ops: list[str] | None = None) -> None:
    """Run ``work(rank, job file)`` in every rank, with a gloo process group. Without ``ops`` there is no aggregator."""
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "job.json"
        job.write_text(json.dumps(job_file(ranks, ops or ["max32"])))
        aggregator = _aggregator(job) if ops else None
        try:
            _run_ranks(work, ranks, job)
        finally:
            if aggregator is not None:
                aggregator.terminate()
                aggregator.wait()


def _aggregator(job: Path) -> subprocess.Popen[str]:
    """`sumwire-aggregator job.json`, once it has said that it is ready."""
    command = [sys.executable, "-P", "-m", "sumwire.aggregator.cli", str(job)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if "ready: " not in process.stdout.readline():
        raise SystemExit("the aggregator did not start")
    return process


def _run_ranks(work: Work, ranks: int, job: Path) -> None:
    # Forked, so that torch is loaded once. Nothing has used torch's threads before.
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_rank, args=(work, rank, ranks, job)) for rank in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit("a rank has failed")


def _rank(work: Work, rank: int, ranks: int, job: Path) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = f"file://{job.parent}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    work(rank, job)
    dist.destroy_process_group()


def address() -> str:
    """A loopback address of the aggregator and all ranks of one run."""
    return os.environ.setdefault("SUMWIRE_ADDRESS", f"127.{2 + os.getpid() // 254 % 253}.{1 + os.getpid() % 254}.1")


def under_torchrun(script: str, main: Callable[[], object], *, ranks: int) -> None:
    """Run ``main`` in every rank: here if torchrun has started this process, else let torchrun start the script."""
    if "RANK" in os.environ:
        torch.set_num_threads(1)
        main()
        return
    address()
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-P", "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", script]
    raise SystemExit(subprocess.run(command, env=environment, check=False).returncode)


def say(rank: int, text: str) -> None:
    """Print on rank 0 only."""
    if rank == 0:
        print(text, flush=True)
