# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The ranks of one node in a sharded training: `python -m sumwire_lab.experiments.sharded_worker SPEC.json NODE`.

The ranks are processes in the node's namespace. They train the character transformer by FSDP2, over all ranks or with
replicas on the nodes, by gloo or through a job. Parameters may be gathered with 8 bits, also by gloo.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

import sumwire
import torch
import torch.distributed as dist
from sumwire.sharded.fsdp2 import round_gathers
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from sumwire_lab.errors import ProcessDiedError
from sumwire_lab.system.processes import end_with_parent, leave
from sumwire_lab.training import text_data, workload
from sumwire_lab.training.worker import GROUP_TIMEOUT, MASTER_PORT, settle

GLOO: Final = "gloo"
SUMWIRE: Final = "sumwire"
# With parameters gathered with 8 bits.
ROUNDED: Final = {GLOO: "gloo, parameters 8bit", SUMWIRE: "sumwire, parameters 8bit"}
_LEARNING_RATE: Final = 1e-3
_WARM_UP: Final = 1


def train(spec: dict[str, Any], rank: int) -> dict[str, Any]:
    """Seconds of each step, CPU seconds of a step, the loss of the last one, a digest of all parameters and their
    number, and the job's bytes."""
    ranks, through = spec["ranks"], spec["system"] in (SUMWIRE, ROUNDED[SUMWIRE])
    rounded = spec["system"] in ROUNDED.values()
    both = init_device_mesh("cpu", (len(spec["interfaces"]), ranks), mesh_dim_names=("replicate", "shard"))
    model = _sharded(_network(spec["width"]), _mesh(both, spec["replicas"], through))
    job = sumwire.init(job=spec["job_file"], quiet=True) if through else None
    if job is not None:
        sumwire.sharded.attach(model, job, parameters="8bit" if rounded else "exact")
    elif rounded:
        round_gathers(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, fused=True)
    x, y = _samples(rank, spec["characters"])
    settle()
    seconds, cpu_s, loss = [], 0.0, torch.zeros(())
    for step in range(_WARM_UP + spec["repeats"]):
        dist.barrier()
        began, cpu_began = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        loss = workload.loss(model, x[step : step + 1], y[step : step + 1])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step >= _WARM_UP:
            seconds.append(time.perf_counter() - began)
            cpu_s += (time.process_time() - cpu_began) / spec["repeats"]
    parameters = sum(parameter.numel() for parameter in model.parameters())
    record = {
        "seconds": seconds, "cpu_s": cpu_s, "loss": loss.item(), "digest": _digest(model), "parameters": parameters
    }  # fmt: skip
    if job is not None:
        record |= {"bytes": job.stats.bytes_sent, "fallbacks": job.stats.fallbacks}
        dist.barrier()
        job.close()
    return record


def _network(width: int) -> nn.Module:
    """Equal on all ranks."""
    torch.manual_seed(1)
    return text_data.Transformer(width)


def _mesh(both: DeviceMesh, replicas: bool, through: bool) -> DeviceMesh:
    """With replicas gloo sums over both dimensions itself, and the job's hook over the nodes."""
    if not replicas:
        return init_device_mesh("cpu", (dist.get_world_size(),))
    return both["shard"] if through else both


def _sharded(model: Any, mesh: DeviceMesh) -> Any:
    """Each block is a unit, and the rest is one. Parameters stay whole between forward and backward pass."""
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=False)
    return fully_shard(model, mesh=mesh, reshard_after_forward=False)


def _samples(rank: int, characters: int) -> tuple[torch.Tensor, torch.Tensor]:
    """This rank's own, cut to so many characters."""
    samples = text_data.load()
    world = dist.get_world_size()
    return samples.train_x[rank::world, :characters], samples.train_y[rank::world, :characters]


def _digest(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for parameter in model.parameters():
        whole = parameter.detach()
        digest.update((whole.full_tensor() if isinstance(whole, DTensor) else whole).numpy().tobytes())
    return digest.hexdigest()


def _rank(spec: dict[str, Any], node: int, local: int) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = spec["interfaces"][node]
    rank, world = node * spec["ranks"] + local, len(spec["interfaces"]) * spec["ranks"]
    method = f"tcp://{spec['master']}:{MASTER_PORT}"
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=world, timeout=GROUP_TIMEOUT)
    everyone: list[Any] = [None] * world
    dist.all_gather_object(everyone, train(spec, rank))
    if local == 0:
        Path(spec["results"][node]).write_text(json.dumps(everyone))
    dist.barrier()
    dist.destroy_process_group()


def main(arguments: list[str]) -> None:
    """All ranks of the node, of which this process starts the others. Raises ProcessDiedError."""
    end_with_parent()
    spec, node = json.loads(Path(arguments[0]).read_text()), int(arguments[1])
    # Forked, so that torch is loaded once; nothing has started threads yet.
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_rank, args=(spec, node, local)) for local in range(spec["ranks"])]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    ended = [process.exitcode for process in processes]
    if any(ended):
        raise ProcessDiedError(f"ranks of node {node} ended with {ended}; see what they wrote above")
    leave()


if __name__ == "__main__":
    main(sys.argv[1:])
