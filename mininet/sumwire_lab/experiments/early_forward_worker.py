# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a model of equal layers in lanes: `python -m sumwire_lab.experiments.early_forward_worker SPEC.json RANK`.

A layer's computing takes a given time, in which the process sleeps as if an accelerator computed: the machine's cores
are left to the network.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

import sumwire
import torch
import torch.distributed as dist
from sumwire import systems
from sumwire.dlcp.lanes import Lanes
from sumwire.dlcp.sync import EarlySync
from sumwire.transport.delivery import Delivery
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from sumwire_lab.system.processes import end_with_parent, leave
from sumwire_lab.training.worker import GROUP_TIMEOUT, MASTER_PORT, settle

WIDTH: Final = 256
# Steps before the measured ones, in which DDP lays out its buckets.
WARM_UP: Final = 4
_BATCH: Final = 4


class _Pause(torch.autograd.Function):
    """The identity, which takes some seconds forward and twice as long backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seconds: float) -> Tensor:
        ctx.seconds = seconds
        time.sleep(seconds)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        time.sleep(2 * ctx.seconds)
        return gradients[0], None


class Layer(nn.Linear):
    """A layer whose forward pass takes `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(WIDTH, WIDTH)
        self.seconds = seconds

    def forward(self, x: Tensor) -> Tensor:
        paused: Tensor = _Pause.apply(super().forward(x), self.seconds)  # type: ignore[no-untyped-call]
        return paused


def measure(spec: dict[str, Any], rank: int) -> dict[str, Any]:
    """The median of the seconds per step, and a digest of the parameters at the end."""
    torch.manual_seed(1)
    network = nn.Sequential(*(Layer(spec["layer_s"]) for _ in range(spec["layers"])))
    layer_mb = sum(p.numel() * p.element_size() for p in network[0].parameters()) / (1 << 20)
    model = DistributedDataParallel(network, bucket_cap_mb=layer_mb)
    job = sumwire.load_job(spec["job_file"], worker=rank)
    with Lanes(job, delivery=Delivery(), fallback="never") as lanes:
        system = systems.make("dlcp", lanes, early_forward=spec["early"])
        optimizer = system.attach(model, torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9))
        generator = torch.Generator().manual_seed(rank)
        begun = []
        settle()
        for step in range(WARM_UP + spec["repeats"] + 1):
            if step == WARM_UP:
                dist.barrier()
            begun.append(time.monotonic())
            optimizer.zero_grad()
            model(torch.randn(_BATCH, WIDTH, generator=generator)).square().mean().backward()
            optimizer.step()
        if isinstance(optimizer, EarlySync):
            optimizer.finish()
        system.close()
    seconds = median(later - earlier for earlier, later in pairwise(begun[WARM_UP:]))
    flat = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
    return {"step_s": seconds, "digest": hashlib.sha256(flat.numpy().tobytes()).hexdigest()}


def main(arguments: list[str]) -> None:
    end_with_parent()
    spec, rank = json.loads(Path(arguments[0]).read_text()), int(arguments[1])
    torch.set_num_threads(1)
    interfaces = spec["interfaces"]
    os.environ["GLOO_SOCKET_IFNAME"] = interfaces[rank]
    address = f"tcp://{spec['master']}:{MASTER_PORT}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=len(interfaces), timeout=GROUP_TIMEOUT)
    Path(spec["results"][rank]).write_text(json.dumps(measure(spec, rank)))
    dist.destroy_process_group()
    leave()


if __name__ == "__main__":
    main(sys.argv[1:])
