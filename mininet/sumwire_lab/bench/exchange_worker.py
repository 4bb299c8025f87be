# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One worker that exchanges one gradient after another: `python -m sumwire_lab.bench.exchange_worker SPEC RANK`."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sumwire
import torch
import torch.distributed as dist
from sumwire import systems

from sumwire_lab.bench.wire import sides
from sumwire_lab.options.recipes import Chosen, parse
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.options.tasks import DEFAULT_TASK
from sumwire_lab.system import drop_counters
from sumwire_lab.system.processes import cpu_clock, cpu_seconds, end_with_parent
from sumwire_lab.training.trainer import system_options
from sumwire_lab.training.worker import GROUP_TIMEOUT, MASTER_PORT, leave, settle

# Whatever is learned: nothing is.
_LEARNING_RATE = 0.01


def measure(
    chosen: Chosen, job: sumwire.Job | None, spec: dict[str, Any], *, size: int, rank: int, switches: Sequence[int]
) -> dict[str, Any]:
    """Seconds of each repeat, from the gradient to the optimizer's step with the aggregate, and the CPU seconds of all.

    Repeats before warm up: torch's Power-SGD sends its first gradients whole.
    """
    parameter = torch.nn.Parameter(torch.zeros(sides(size)))
    model = torch.nn.ParameterList([parameter])
    options = TrainOptions.of(DEFAULT_TASK, rank=spec["rank"], share=spec["share"])
    given = system_options(chosen, options, dist.get_world_size(), lambda step: 1.0)
    system = systems.make(chosen.recipe.system, job, transport=chosen.transport, **given)
    optimizer = system.attach(model, torch.optim.SGD(model.parameters(), lr=_LEARNING_RATE))
    gradient = torch.randn(sides(size), generator=torch.Generator().manual_seed(rank))
    seconds, own_s, switch_s = [], 0.0, 0.0
    for repeat in range(chosen.recipe.warm_up_steps + spec["repeats"]):
        parameter.grad = gradient.clone()
        dist.barrier()
        switch_began, own_began, began = cpu_seconds(switches), time.process_time(), time.perf_counter()
        optimizer.step()
        if repeat >= chosen.recipe.warm_up_steps:
            seconds.append(time.perf_counter() - began)
            own_s += time.process_time() - own_began
            switch_s += cpu_seconds(switches) - switch_began
    dist.barrier()
    system.close()
    return {"seconds": seconds, "cpu_s": own_s, "switch_cpu_s": switch_s}


def main(arguments: list[str]) -> None:
    end_with_parent()
    spec, rank = json.loads(Path(arguments[0]).read_text()), int(arguments[1])
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = spec["interfaces"][rank]
    world = len(spec["interfaces"])
    method = f"tcp://{spec['master']}:{MASTER_PORT}"
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=world, timeout=GROUP_TIMEOUT)
    chosen = parse(spec["system"])
    job = sumwire.Job(sumwire.load_job(spec["job_file"], worker=rank)) if chosen.switched else None
    # One worker looks at the switches: it is enough, and costs the others nothing.
    switches = [cpu_clock(pid) for pid in spec["switches"]] if rank == 0 else []
    settle()
    lost = drop_counters.host_sockets()
    sizes = [measure(chosen, job, spec, size=size, rank=rank, switches=switches) for size in spec["sizes"]]
    stats = job.stats.as_dict() if job is not None else {}
    record = {"sizes": sizes, "host_sockets": drop_counters.host_sockets() - lost, "stats": stats}
    Path(spec["results"][rank]).write_text(json.dumps(record))
    dist.barrier()
    if job is not None:
        job.close()
    dist.destroy_process_group()
    leave()


if __name__ == "__main__":
    main(sys.argv[1:])
