# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures the seconds of a step of sharded training, with gloo and through the network in turn.

Nodes with several ranks each train the character transformer by FSDP2. With replicas the shards stay within a node
(HSDP); without, all ranks have shards. gloo's nodes are connected by kernel bridges, which cost almost nothing, and
have their offloads. The same links carry Sumwire's packets to a P4 switch, or to an aggregator on a server. Both may
gather parameters with 8 bits.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import sumwire
import torch
import torch.distributed as dist
from sumwire.sharded.fsdp2 import round_gathers
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from sumwire_lab.bench.benchmark import network_experiment, write_record
from sumwire_lab.errors import LabError, ProcessDiedError
from sumwire_lab.options.recipes import TEXT
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.experiment import Say
from sumwire_lab.study.workers import Rank
from sumwire_lab.system.processes import end_with_parent
from sumwire_lab.training import text_data, workload
from sumwire_lab.training.worker import settle

GLOO: Final = "gloo"
SUMWIRE: Final = "sumwire"
# With parameters gathered with 8 bits.
ROUNDED: Final = {GLOO: "gloo, parameters 8bit", SUMWIRE: "sumwire, parameters 8bit"}
_LEARNING_RATE: Final = 1e-3
_WARM_UP: Final = 1


def train(spec: Mapping[str, Any], rank: Rank) -> dict[str, Any]:
    """Train on one rank. Returns the seconds of each step, the CPU seconds of a step, the last loss, a digest and the
    number of all parameters, and the job's bytes."""
    ranks, through = spec["ranks"], spec["system"] in (SUMWIRE, ROUNDED[SUMWIRE])
    rounded = spec["system"] in ROUNDED.values()
    both = init_device_mesh("cpu", (rank.ranks // ranks, ranks), mesh_dim_names=("replicate", "shard"))
    model = _sharded(_network(spec["width"]), _mesh(both, spec["replicas"], through))
    job = sumwire.init(job=str(rank.job_file), quiet=True) if through else None
    if job is not None:
        sumwire.sharded.attach(model, job, parameters="8bit" if rounded else "exact")
    elif rounded:
        round_gathers(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, fused=True)
    x, y = _samples(rank.number, CHARACTERS)
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


def node(spec: Mapping[str, Any], rank: Rank) -> list[dict[str, Any]]:
    """Run all ranks of a node; this process starts the others. Returns the records of every rank of all nodes.

    Raises ProcessDiedError.
    """
    # Forked, so that torch is loaded once; nothing has started threads yet.
    context = multiprocessing.get_context("fork")
    answers, count = context.SimpleQueue(), spec["ranks"]
    mine = [replace(rank, number=rank.number * count + local, ranks=rank.ranks * count) for local in range(count)]
    processes = [context.Process(target=_train_rank, args=(spec, one, answers)) for one in mine]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    ended = [process.exitcode for process in processes]
    if any(ended):
        raise ProcessDiedError(f"ranks of node {rank.number} ended with {ended}; see what they wrote above")
    everyone: list[dict[str, Any]] = answers.get()
    return everyone


def _train_rank(spec: Mapping[str, Any], rank: Rank, answers: Any) -> None:
    end_with_parent()
    with rank.group():
        everyone: list[Any] = [None] * rank.ranks
        dist.all_gather_object(everyone, train(spec, rank))
        answers.put(everyone)
        dist.barrier()


MBIT: Final = 100.0
NODES: Final = 4
RANKS: Final = 2
# Of a rank's sample in a step. All ranks share the processors of one machine: computing is not what is measured.
CHARACTERS: Final = 8
# 6,013,537 parameters. In narrower models, whose gradients need less time, other parts of a step weigh more.
WIDTH: Final = 2 * TEXT.hidden
NARROW: Final = TEXT.hidden
STEPS: Final = 4
_DEADLINE_S: Final = 900.0
SYSTEMS: Final = (GLOO, SUMWIRE)
WITH_ROUNDED: Final = (*SYSTEMS, *ROUNDED.values())


@dataclass(frozen=True)
class Sharded:
    """The result. ``parameters``: number of the model's. ``seconds``: by system, for each turn, the slowest rank's
    median over its steps. ``cpu_s``: CPU seconds of all ranks in a step. ``losses``: of the last step, the mean over
    the ranks. ``equal``: whether all ranks had the same parameters at the end of each turn."""

    parameters: int
    seconds: dict[str, list[float]]
    cpu_s: dict[str, list[float]]
    losses: dict[str, list[float]]
    equal: bool

    def ratio(self, slow: str = GLOO, fast: str = SUMWIRE) -> float:
        """Return the seconds of a step with one system over those with another: medians over the turns."""
        return median(self.seconds[slow]) / median(self.seconds[fast])


@dataclass(frozen=True)
class Training:
    """Options. ``replicas``: shards stay within the nodes. ``width``: that of the model. ``steps``: measured steps in
    each turn. ``systems``: those that train in turn."""

    replicas: bool
    width: int = WIDTH
    steps: int = STEPS
    switch: str = "soft"
    systems: tuple[str, ...] = SYSTEMS


def run_sharded(results: Path, say: Say, training: Training, *, turns: int) -> Sharded:
    """Train with all systems, in turn. Raises LabError, also if a job has fallen back."""
    seconds: dict[str, list[float]] = {system: [] for system in training.systems}
    cpu_s: dict[str, list[float]] = {system: [] for system in training.systems}
    losses: dict[str, list[float]] = {system: [] for system in training.systems}
    equal, parameters = True, 0
    with network_experiment(results) as folder:
        for turn in range(turns):
            for system in training.systems:
                ranks = _train(system, training, folder / f"{system.replace(', ', '-').replace(' ', '-')}{turn}")
                parameters = ranks[0]["parameters"]
                seconds[system].append(median(map(max, zip(*(rank["seconds"] for rank in ranks), strict=True))))
                cpu_s[system].append(sum(rank["cpu_s"] for rank in ranks))
                losses[system].append(sum(rank["loss"] for rank in ranks) / len(ranks))
                equal = equal and len({rank["digest"] for rank in ranks}) == 1
                say(f"{system}: {seconds[system][-1]:.3f} s a step")
    outcome = Sharded(parameters, seconds, cpu_s, losses, equal)
    write_record(vars(outcome), folder, "sharded")
    return outcome


def _train(system: str, training: Training, folder: Path) -> list[dict[str, Any]]:
    """What every rank has measured."""
    options = RunOptions(workers=NODES, switch=training.switch, link=LinkOptions(MBIT))
    with open_session(options, training.switch if system in (SUMWIRE, ROUNDED[SUMWIRE]) else None, folder) as session:
        told = {
            "system": system,
            "ranks": RANKS,
            "replicas": training.replicas,
            "repeats": training.steps,
            "width": training.width,
        }
        nodes = session.call(node, told, _DEADLINE_S)
    ranks: list[dict[str, Any]] = nodes[0]
    if len(ranks) != NODES * RANKS or any(rank.get("fallbacks") for rank in ranks):
        raise LabError(f"{system}: some rank has not trained through the network; see {folder}")
    return ranks
