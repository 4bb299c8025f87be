# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One worker of the all-reduce benchmark: `python -m sumwire_lab.bench_worker SPEC.json RANK`."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from sumwire_lab.processes import end_with_parent
from sumwire_lab.train import GROUP_TIMEOUT, MASTER_PORT, leave

Reduce = Callable[[torch.Tensor], object]


def measure(reduce: Reduce, size: int, repeats: int, rank: int) -> list[float]:
    """Seconds of each repeat; a first one, not counted, warms up. All workers begin together, after a barrier."""
    tensor = torch.randn(size, generator=torch.Generator().manual_seed(rank))
    seconds = []
    for _ in range(repeats + 1):
        work = tensor.clone()
        dist.barrier()
        began = time.perf_counter()
        reduce(work)
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


def open_reduce(spec: dict[str, Any], rank: int) -> tuple[Reduce, Callable[[], None]]:
    """(the system's all-reduce, how to close it)"""
    if spec["job_file"] is None:
        return dist.all_reduce, lambda: None
    import sumwire

    job = sumwire.Job(sumwire.load_job(spec["job_file"], worker=rank))
    return lambda tensor: sumwire.all_reduce(tensor, job), job.close


def main(arguments: list[str]) -> None:
    end_with_parent()
    spec, rank = json.loads(Path(arguments[0]).read_text()), int(arguments[1])
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = spec["interfaces"][rank]
    world = len(spec["interfaces"])
    method = f"tcp://{spec['master']}:{MASTER_PORT}"
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=world, timeout=GROUP_TIMEOUT)
    reduce, close = open_reduce(spec, rank)
    times = [measure(reduce, size, spec["repeats"], rank) for size in spec["sizes"]]
    Path(spec["results"][rank]).write_text(json.dumps(times))
    dist.barrier()
    close()
    dist.destroy_process_group()
    leave()


if __name__ == "__main__":
    main(sys.argv[1:])
