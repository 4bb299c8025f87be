# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What stands around each Python block of the pages: the names it takes for granted, and what must hold after it.

Each ``before`` returns the names; each ``after`` checks, and returns what must be equal on all ranks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import sumwire
import torch
import torch.distributed as dist
from sumwire import checkpoint
from sumwire.config import parse_job
from sumwire.delivery import Delivery
from sumwire.dlcp.sync import LaneState, lane_hook
from sumwire.job.gloo import Ranks
from sumwire.start.service import serving
from sumwire.training.reductions import through_group
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

RANKS = 2
Names = dict[str, Any]


def _ready(names: Names) -> Tensor:
    return torch.zeros(0)


@dataclass(frozen=True)
class Setting:
    """``ops`` and ``lanes`` are those of digits.json; without ops no aggregator serves it."""

    before: Callable[[int], Names]
    after: Callable[[Names], Tensor] = _ready
    ops: tuple[str, ...] = ()
    lanes: int = 1
    # The block makes the process group itself.
    own_group: bool = False
    closes: tuple[str, ...] = field(default=())


def small_model() -> nn.Module:
    """A model with equal weights at every call; its matrices are large enough for low-rank factors to gain."""
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(48, 64), nn.Tanh(), nn.Linear(64, 8))


def tensor_of(rank: int) -> Tensor:
    return torch.randn(5000, generator=torch.Generator().manual_seed(rank))


def true_mean() -> Tensor:
    return torch.stack([tensor_of(rank) for rank in range(RANKS)]).mean(0)


def nmse(result: Tensor, mean: Tensor) -> float:
    return float((result - mean).square().sum() / mean.square().sum())


def flat(model: nn.Module) -> Tensor:
    pieces = [parameter.detach() for parameter in model.parameters()]
    return torch.cat([(one.full_tensor() if isinstance(one, DTensor) else one).reshape(-1) for one in pieces])


def batches_of(rank: int) -> list[tuple[Tensor, Tensor]]:
    draws = torch.Generator().manual_seed(100 + rank)
    return [(torch.randn(16, 48, generator=draws), torch.randn(16, 8, generator=draws)) for _ in range(3)]


def one_step(names: Names) -> None:
    inputs, labels = names["batches"][0]
    names["optimizer"].zero_grad()
    names["loss"](names["model"](inputs), labels).backward()
    names["optimizer"].step()


def training(rank: int) -> Names:
    """What a training loop has."""
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return {
        "torch": torch, "sumwire": sumwire, "rank": rank, "model": model, "make_model": lambda: model,
        "optimizer": optimizer, "loss": nn.functional.mse_loss, "batches": batches_of(rank), "start": flat(model),
        "DistributedDataParallel": DistributedDataParallel,
    }  # fmt: skip


def with_job(rank: int) -> Names:
    job = sumwire.Job(sumwire.load_job("digits.json", worker=rank))
    return {**training(rank), "job": job, "tensor": tensor_of(rank)}


def trained(names: Names) -> Tensor:
    """The parameters, which have moved."""
    parameters = flat(names["model"])
    assert not torch.equal(parameters, names["start"])
    return parameters


def trained_by_a_step(names: Names) -> Tensor:
    one_step(names)
    return trained(names)


def one_outer_step(names: Names) -> Tensor:
    """The local steps until the first one: the ranks have moved, and are equal again."""
    while not names["optimizer"].exchanges:
        one_step(names)
    return trained(names)


def reduced(names: Names) -> Tensor:
    """The second all-reduce was one of the mean."""
    assert nmse(names["tensor"], true_mean()) < 0.1
    return torch.as_tensor(names["tensor"])


def summing(rank: int) -> Names:
    return {"tensor": tensor_of(rank), "counts": torch.arange(5000.0)}


def summed(names: Names) -> Tensor:
    tensor: Tensor = names["tensor"]
    assert torch.equal(names["counts"], RANKS * torch.arange(5000.0))
    assert 0.001 < nmse(tensor, RANKS * true_mean()) < 0.05
    return tensor


def signs(names: Names) -> Tensor:
    result, sure = names["tensor"], true_mean().abs() == torch.stack([tensor_of(r).abs() for r in range(RANKS)]).mean(0)
    assert torch.equal(result.abs(), torch.ones_like(result))
    assert torch.equal(result[sure], true_mean().sign()[sure])
    return torch.as_tensor(result)


def two_hosts(rank: int) -> Names:
    return {"sumwire": sumwire, "ThreadPoolExecutor": ThreadPoolExecutor, "values": tensor_of(rank).numpy()}


def all_came(names: Names) -> Tensor:
    """Or their sender has them."""
    received, kept = names["received"], names["kept"]
    assert received.came.mean() > 0.9
    assert np.array_equal(received.values + kept, names["values"])
    return torch.zeros(0)


def bounded(rank: int) -> Names:
    names = {**training(rank), "tensor": tensor_of(rank), "Delivery": Delivery}
    names["config"] = sumwire.load_job("digits.json", worker=rank)
    names["tag"] = lambda magnitudes: np.full(len(magnitudes), 0xE2, np.uint8)
    return names


def bounded_mean(names: Names) -> Tensor:
    assert nmse(names["mean"], true_mean()) < 0.1
    assert names["residual"]().shape == names["tensor"].shape
    return torch.as_tensor(names["mean"])


def overflowing(rank: int) -> Names:
    """Rank 1's first inputs are beyond float16."""
    names = with_job(rank)
    if rank == 1:
        names["batches"][0] = (names["batches"][0][0] * 1e30, names["batches"][0][1])
    return names


def skipped_once(names: Names) -> Tensor:
    scale = names["scaler"].get_scale()
    assert scale == 2.0**15
    return torch.cat([trained(names), torch.tensor([scale])])


def policy_is_taken(names: Names) -> Tensor:
    policy = names["Mine"]()
    config = sumwire.load_job("digits.json", worker=dist.get_rank())
    with sumwire.dlcp.Lanes(config, policy=policy) as lanes:
        assert lanes.priorities == (6, 2)
    assert policy.drop_classes(0.0, np.array([1.0, 2.0, 3.0], np.float32)).tolist() == [3, 0, 0]
    return torch.zeros(0)


def in_lanes(rank: int) -> Names:
    lanes = sumwire.dlcp.Lanes(sumwire.load_job("digits.json", worker=rank))
    names = training(rank)
    model = DistributedDataParallel(names["model"], broadcast_buffers=False)
    state = LaneState(lanes, model.module)
    model.register_comm_hook(state, lane_hook)
    inputs, labels = names["batches"][0]
    return {**names, "lanes": lanes, "model": model, "state": state, "steps": 3, "inputs": inputs, "labels": labels}


def cut(rank: int) -> Names:
    return {**with_job(rank), "resume": False}


def saved_by_all(names: Names) -> Tensor:
    """Every rank's entry is in the checkpoint."""
    dist.barrier()
    assert set(sumwire.checkpoint.read("latest", "system")) == {"worker0", "worker1"}
    return trained(names)


def hooked(rank: int) -> Names:
    names = with_job(rank)
    return {**names, "model": DistributedDataParallel(names["model"])}


class EntriesOfTwo:
    """The entries that this rank and another one would have saved, of twice as many workers."""

    def __init__(self, system: sumwire.systems.System) -> None:
        self._system = system

    def state_dict(self) -> Names:
        workers = [checkpoint.Place(dist.get_rank() + number, 2 * RANKS) for number in (0, RANKS)]
        entries = (checkpoint.packed(self._system.kind(), place, self._system.kept()) for place in workers)
        return {key: entry for one in entries for key, entry in one.items()}

    def load_state_dict(self, state_dict: Names) -> None:
        raise NotImplementedError


def saved_by_more(rank: int) -> Names:
    # The ranks have it; where tests are collected it would take a second.
    import torch.distributed.checkpoint as dcp

    names = with_job(rank)
    system = sumwire.systems.make("thc", names["job"])
    names["optimizer"] = system.attach(names["model"], names["optimizer"])
    one_step(names)
    dcp.save({"model": names["model"], "system": EntriesOfTwo(system)}, checkpoint_id="latest")
    return {**names, "system": system, "dcp": dcp, "before": _residual(system)}


def _residual(system: sumwire.systems.System) -> Tensor:
    residual = system.kept().residuals["optimizer"]["optimizer"]["residual"]
    assert isinstance(residual, Tensor)
    return residual.clone()


def residuals_are_divided(names: Names) -> Tensor:
    """2/4 of the sum of two equal ones."""
    torch.testing.assert_close(_residual(names["system"]), names["before"])
    return trained_by_a_step(names)


def with_gradients(rank: int) -> Names:
    names = training(rank)
    inputs, labels = names["batches"][0]
    names["loss"](names["model"](inputs), labels).backward()
    names["gradients"] = [parameter.grad.clone() for parameter in names["model"].parameters()]
    return names


def nothing_lost(names: Names) -> Tensor:
    for parameter, before in zip(names["model"].parameters(), names["gradients"], strict=True):
        assert torch.equal(parameter.grad, before)
    return torch.zeros(0)


def with_reduce(rank: int) -> Names:
    from sumwire.lowrank import AcpSgd

    return {**training(rank), "AcpSgd": AcpSgd, "reduce": through_group()}


def merged(names: Names) -> Tensor:
    everyone = torch.stack([tensor_of(rank) >= 0 for rank in range(RANKS)])
    sure = everyone.all(0) | ~everyone.any(0)
    assert torch.equal(names["merged"][sure], everyone[0][sure])
    torch.testing.assert_close(names["mean"], true_mean())
    return torch.cat([names["merged"].float(), names["mean"]])


def beside_a_service(rank: int) -> Names:
    """Of the job of digits.json, on rank 0, which knows it by the environment."""
    names = {**training(rank), "model": DistributedDataParallel(small_model()), "services": ExitStack()}
    names["optimizer"] = torch.optim.SGD(names["model"].parameters(), lr=0.1)
    if rank == 0:
        job = json.loads(Path("digits.json").read_text())
        address = job["addresses"][0]["aggregator"]
        port = names["services"].enter_context(serving(job, address, 0))
        os.environ["SUMWIRE_SERVICE"] = f"{address}:{port}"
    return names


def trained_through_service(names: Names) -> Tensor:
    os.environ.pop("SUMWIRE_SERVICE", None)
    names["services"].close()
    parameters = trained_by_a_step(names)
    assert names["job"].stats.operations > 0
    return parameters


def trained_by_the_choice(names: Names) -> Tensor:
    os.environ.pop("SUMWIRE_SERVICE", None)
    names["services"].close()
    parameters = trained_by_a_step(names)
    assert names["system"].stats["operations"] > 0
    return parameters


def without_service(rank: int) -> Names:
    os.environ["SUMWIRE_ADDRESS"] = json.loads(Path("digits.json").read_text())["addresses"][0]["aggregator"]
    return {"sumwire": sumwire}


def in_one_node(rank: int) -> Names:
    """The ranks are those of one machine: its worker is the only one, so it falls back at once."""
    names = {**training(rank), "model": DistributedDataParallel(small_model()), "dist": dist, "job": None}
    names["optimizer"] = torch.optim.SGD(names["model"].parameters(), lr=0.1)
    if rank == 0:
        brief = {"format": 3, "name": "one", "job": 9, "aggregator": "127.1.1.250", "hosts": ["127.1.1.1"]}
        ranks = Ranks(dist.HashStore(), 0, 1, timedelta(seconds=30))
        names["job"] = sumwire.Job(parse_job(brief, 0), ranks=ranks, fallback="always", silence_s=0.2)
    return names


def of_shards(rank: int) -> Names:
    """As `beside_a_service`; every rank is a node."""
    names = beside_a_service(rank)
    return {**names, "make_model": small_model, "nodes": RANKS, "ranks_a_node": 1}


def of_shards_in_a_job(rank: int) -> Names:
    """With the job, and what the page has imported before."""
    return {**of_shards(rank), "sumwire": sumwire, "fully_shard": fully_shard, "job": sumwire.init()}


def trained_in_shards(names: Names) -> Tensor:
    names["optimizer"] = torch.optim.SGD(names["model"].parameters(), lr=0.1)
    return trained_through_service(names)


def trained_in_one_node(names: Names) -> Tensor:
    names["model"].register_comm_hook(names["state"], sumwire.ddp_hook)
    parameters = trained_by_a_step(names)
    names["state"].close()
    if names["job"] is not None:
        names["job"].close()
    return parameters


_THC = ("thc", "max32")
SETTINGS: dict[str, Setting] = {
    "README.md: In your training loop": Setting(beside_a_service, trained_through_service, _THC, closes=("job",)),
    "README.md: In your training loop (2)": Setting(training, trained, _THC, own_group=True),
    "README.md: In your training loop (3)": Setting(
        with_job, trained_by_a_step, ("sign", "sum32", "max32"), closes=("job",)
    ),
    "start.md: Three lines in the script": Setting(
        beside_a_service, trained_through_service, _THC, closes=("job",)
    ),
    "start.md: The system that pays": Setting(
        beside_a_service, trained_by_the_choice, (*_THC, "sum32"), closes=("system",)
    ),
    "start.md: Without any service": Setting(without_service, lambda names: names["job"].mean(true_mean()),
                                             closes=("job",)),
    "sharded.md: FSDP2": Setting(of_shards, trained_in_shards, _THC, closes=("job",)),
    "sharded.md: Parameters with 8 bits": Setting(of_shards_in_a_job, trained_in_shards, _THC, closes=("job",)),
    "start.md: Many ranks a node": Setting(in_one_node, trained_in_one_node),
    "host.md: Entry points": Setting(
        lambda rank: {**training(rank), "tensor": tensor_of(rank),
                      "model": DistributedDataParallel(small_model())},
        reduced, _THC,
    ),
    "host.md: Entry points (2)": Setting(with_job, signs, ("sign", "max32"), closes=("job",)),
    "backend.md: A backend of torch.distributed": Setting(summing, summed, _THC, own_group=True),
    "outer.md: Use": Setting(with_job, one_outer_step, _THC, closes=("job",)),
    "host.md: Waiting, fall-back and return": Setting(
        lambda rank: {**with_job(rank), "evaluate": lambda model: None}, closes=("job",), ops=_THC
    ),
    "host.md: Waiting, fall-back and return (2)": Setting(with_job, closes=("job",), ops=_THC),
    "host.md: Checkpoints": Setting(cut, saved_by_all, _THC, closes=("system", "job")),
    "host.md: Checkpoints (2)": Setting(hooked, trained_by_a_step, _THC, closes=("job",)),
    "host.md: Checkpoints (3)": Setting(saved_by_more, residuals_are_divided, _THC, closes=("system", "job")),
    "host.md: Many workers: thc-wide": Setting(with_job, bounded_mean, ("sum32", "max32"), closes=("job",)),
    "host.md: Infinity and NaN": Setting(overflowing, skipped_once, _THC, closes=("job",)),
    "host.md: Bounded loss": Setting(bounded, bounded_mean, _THC),
    "dlcp.md: DLCP: packets that know what they carry": Setting(
        training, trained_by_a_step, _THC, lanes=2, closes=("system", "lanes")
    ),
    "dlcp.md: Your own policy": Setting(lambda rank: {"np": np}, policy_is_taken, _THC, lanes=2),
    "dlcp.md: Stragglers": Setting(in_lanes, trained, _THC, lanes=2, closes=("lanes",)),
    "dlcp.md: How much loss a script bears": Setting(with_gradients, nothing_lost),
    "dlcp.md: Without a switch: a ring, or two hosts": Setting(training, trained_by_a_step, closes=("system",)),
    "dlcp.md: Without a switch: a ring, or two hosts (2)": Setting(two_hosts, all_came),
    "systems.md: Systems": Setting(training, trained, own_group=True),
    "acp.md: Use": Setting(with_job, trained, ("sum32", "max32"), closes=("job",)),
    "acp.md: Use (2)": Setting(with_reduce, trained_by_a_step),
    "sign.md: Rings and tori without a switch": Setting(lambda rank: {"x": tensor_of(rank)}, merged),
}  # fmt: skip


def run_block(rank: int, name: str, text: str, place: str, folder: str, port: int) -> list[float]:
    """On every rank: the block as it is printed, in ``folder``, which has the job file."""
    setting = SETTINGS[name]
    os.chdir(folder)
    _enter_group(rank, setting.own_group, port)
    names = setting.before(rank)
    exec(compile(text, place, "exec"), names)
    equal = setting.after(names)
    for thing in setting.closes:
        names[thing].close()
    if setting.own_group:
        dist.destroy_process_group()
    return [float(value) for value in equal]


def _enter_group(rank: int, own_group: bool, port: int) -> None:
    """A gloo group, or the environment of a process that makes one, as torchrun sets it."""
    if own_group:
        if dist.is_initialized():
            dist.destroy_process_group()
        os.environ |= {
            "RANK": str(rank),
            "WORLD_SIZE": str(RANKS),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
    elif not dist.is_initialized():
        dist.init_process_group("gloo", init_method=f"file://{Path.cwd() / 'store'}", rank=rank, world_size=RANKS)
