# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One worker of the all-reduce benchmark: `python -m sumwire_lab.bench.allreduce_worker SPEC.json RANK`."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
import torch.distributed as dist

from sumwire_lab.system import drop_counters
from sumwire_lab.system.processes import cpu_clock, cpu_seconds, end_with_parent
from sumwire_lab.training.worker import GROUP_TIMEOUT, MASTER_PORT, leave, settle

Reduce = Callable[[torch.Tensor], object]


def measure(reduce: Reduce, size: int, repeats: int, rank: int, switches: Sequence[int] = ()) -> dict[str, Any]:
    """Seconds of each repeat, and the CPU seconds of all repeats together: this worker's, and those of the switches.

    A first repeat, not counted, warms up. All workers begin together, after a barrier.
    """
    tensor = torch.randn(size, generator=torch.Generator().manual_seed(rank))
    seconds, own_s, switch_s = [], 0.0, 0.0
    for repeat in range(repeats + 1):
        work = tensor.clone()
        dist.barrier()
        switch_began, own_began, began = cpu_seconds(switches), time.process_time(), time.perf_counter()
        reduce(work)
        if repeat:
            seconds.append(time.perf_counter() - began)
            own_s += time.process_time() - own_began
            switch_s += cpu_seconds(switches) - switch_began
    return {"seconds": seconds, "cpu_s": own_s, "switch_cpu_s": switch_s}


def open_reduce(spec: dict[str, Any], rank: int) -> tuple[Reduce, Callable[[], dict[str, Any]], Callable[[], None]]:
    """(the system's all-reduce, its statistics so far, how to close it)"""
    if spec["job_file"] is None:
        return dist.all_reduce, dict, lambda: None
    import sumwire

    job = sumwire.Job(sumwire.load_job(spec["job_file"], worker=rank))
    op: Literal["mean", "sign"] = "sign" if spec["system"] == "sign" else "mean"
    return lambda tensor: sumwire.all_reduce(tensor, job, op=op), job.stats.as_dict, job.close


def main(arguments: list[str]) -> None:
    end_with_parent()
    spec, rank = json.loads(Path(arguments[0]).read_text()), int(arguments[1])
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = spec["interfaces"][rank]
    world = len(spec["interfaces"])
    method = f"tcp://{spec['master']}:{MASTER_PORT}"
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=world, timeout=GROUP_TIMEOUT)
    reduce, stats, close = open_reduce(spec, rank)
    # One worker looks at the switches: it is enough, and costs the others nothing.
    switches = [cpu_clock(pid) for pid in spec["switches"]] if rank == 0 else []
    settle()
    lost = drop_counters.host_sockets()
    sizes = [measure(reduce, size, spec["repeats"], rank, switches) for size in spec["sizes"]]
    record = {"sizes": sizes, "host_sockets": drop_counters.host_sockets() - lost, "stats": stats()}
    Path(spec["results"][rank]).write_text(json.dumps(record))
    dist.barrier()
    close()
    dist.destroy_process_group()
    leave()


if __name__ == "__main__":
    main(sys.argv[1:])
