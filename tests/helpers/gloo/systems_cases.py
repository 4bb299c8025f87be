# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the ranks of test_systems_group do. Each function runs on every rank and returns plain data."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from sumwire import systems
from sumwire.codec.tables import solve
from sumwire.errors import SumwireError
from sumwire.training.optim import Marsit
from sumwire.training.reductions import Peers, thc_through_group, through_group
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 4
LENGTH = 3000
# By name: what tests make systems with, over a group and over a switch.
SYSTEMS: dict[str, dict[str, Any]] = {
    "ssgd": {},
    "fp16": {},
    "bf16": {},
    "thc": {},
    "thc-uniform": {"bits": 4},
    "topk": {"k": 0.2},
    "terngrad": {},
    "vote": {"scale": 0.05},
    "ef-sign": {},
    "powersgd": {"rank": 1, "start_iter": 2, "min_compression": 1.1},
    "acp": {"rank": 1, "min_compression": 1.1},
    "acp-thc": {"rank": 1, "min_compression": 1.1},
    "marsit-ring": {"full_precision_every": 3},
    "marsit-torus": {"rule": "published", "global_lr": 0.01, "full_precision_every": 3, "rows": 2},
    "cascade": {"scale": 0.05},
    "cascade-magnitude": {},
    "dlcp-ring": {},
}
OVER_A_SWITCH: dict[str, dict[str, Any]] = {
    "thc": {},
    "thc-unbiased": {},
    "thc-wide": {},
    "sum32": {},
    "vote": {"scale": 0.05},
    "ef-sign": {},
    "ssdm": {"scale": 0.05},
    "marsit": {"full_precision_every": 5},
    "acp": {"rank": 1, "min_compression": 1.1},
    "acp-thc": {"rank": 1, "min_compression": 1.1},
}


class Net(nn.Module):
    """`spare` takes part in every third step only; `never` never does. The same weights at every call."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.Linear(6, 20)
        self.spare = nn.Linear(20, 20)
        self.never = nn.Parameter(torch.ones(3))
        self.last = nn.Linear(20, 6)

    def forward(self, x: Tensor, use_spare: bool) -> Tensor:
        x = torch.tanh(self.first(x))
        out: Tensor = self.last(torch.tanh(self.spare(x)) if use_spare else x)
        return out


def batch(rank: int, step: int) -> Tensor:
    return torch.randn(16, 6, generator=torch.Generator().manual_seed(100 * rank + step))


def given(rank: int, step: int, length: int = LENGTH) -> Tensor:
    """A gradient of the rank's own."""
    x = torch.randn(length, generator=torch.Generator().manual_seed(1000 * rank + step))
    return x * torch.arange(1, length + 1).remainder(7) + 0.1 * rank


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def train(rank: int, names: list[str]) -> dict[str, dict[str, Any]]:
    """Parameters and statistics after some steps, of plain models and of models inside DDP."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        for inside in (False, True):
            model: nn.Module = Net()
            if inside:
                model = DistributedDataParallel(model, find_unused_parameters=True, bucket_cap_mb=0.001)
            system = systems.make(name, **SYSTEMS[name])
            optimizer = system.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
            losses = []
            for step in range(STEPS):
                optimizer.zero_grad()
                x = batch(rank, step)
                loss = (model(x, step % 3 == 1) - x).square().mean()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                losses.append(float(loss.detach()))
            system.close()
            found[f"{name} {'ddp' if inside else 'plain'}"] = {
                "parameters": flat(model).tolist(),
                "losses": losses,
                "stats": system.stats,
            }
    return found


def gradients(rank: int, name: str, options: dict[str, Any], steps: int) -> list[list[float]]:
    """What a plain system makes of `given`, one step after the other."""
    weight = nn.Parameter(torch.zeros(LENGTH))
    system = systems.make(name, **options)
    optimizer = system.attach(nn.ParameterList([weight]), torch.optim.SGD([weight], lr=0.0))
    found = []
    for step in range(steps):
        weight.grad = given(rank, step)
        optimizer.step()
        found.append(weight.grad.tolist())
    system.close()
    return found


def low_rank(rank: int, name: str, options: dict[str, Any], shape: tuple[int, int], steps: int) -> list[Any]:
    """What a system makes of constant gradients of one matrix."""
    weight = nn.Parameter(torch.zeros(shape))
    system = systems.make(name, **options)
    optimizer = system.attach(nn.ParameterList([weight]), torch.optim.SGD([weight], lr=0.0))
    found = []
    for _ in range(steps):
        weight.grad = None
        constant = given(rank, 0, weight.numel()).view(shape)
        (weight * constant).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        assert weight.grad is not None
        found.append(weight.grad.tolist())
    system.close()
    return found


def thc_sums(rank: int, number: int) -> tuple[list[float], list[float]]:
    """The second mean of THC over the group, of the default table, and the residual."""
    reduce = thc_through_group(None, solve(4, 30, 1 / 32), seed=9, block=1024)
    reduce(given(rank, 0), number)
    mean, residual = reduce(given(rank, 1), number)
    return mean.tolist(), residual().tolist()


def threads_around(rank: int, name: str) -> tuple[int, int]:
    """How many threads begin with a system, and how many of them are left once it is closed and dropped; those of gloo
    too, which look for work 100 times a second. Threads of earlier systems may end in between, so they are not counted
    together."""
    dist.barrier()
    before = _threads()
    system = systems.make(name, **SYSTEMS[name])
    dist.barrier()
    during = _threads() - before
    system.close()
    del system
    gc.collect()
    return len(during), len(_threads() - before)


def _threads() -> set[str]:
    return {entry.name for entry in Path("/proc/self/task").iterdir()}


def refusals(rank: int) -> list[str]:
    """What `make` and `attach` refuse where there is a process group."""
    # From torch 2.15 on all ranks make all groups, or torch itself waits in the next one.
    can_be_alone = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15)
    stranger = dist.new_group([0], use_local_synchronization=True) if rank == 0 and can_be_alone else None
    linear = nn.Linear(4, 6)
    frozen = nn.Linear(2, 2).requires_grad_(False)

    def attach(name: str, model: nn.Module, **options: Any) -> None:
        system = systems.make(name, **options)
        try:
            system.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        finally:
            system.close()

    calls = [
        lambda: systems.make("thc", granularity=64),
        lambda: systems.make("thc", granularity=0),
        lambda: systems.make("thc-uniform", bits=5),
        lambda: systems.make("topk", k=0.0),
        lambda: systems.make("topk", k=1.5),
        lambda: systems.make("vote", scale=-1.0),
        lambda: systems.make("powersgd", rank=0),
        lambda: systems.make("powersgd", start_iter=1),
        lambda: systems.make("marsit-torus", rule="published", global_lr=0.1, rows=3),
        lambda: attach("acp", linear, rank=0),
        lambda: attach("acp-thc", linear, rank=1, accumulation=0),
        lambda: attach("ssgd", frozen),
        lambda: attach("topk", frozen),
    ]
    assert stranger is None or dist.get_world_size(stranger) == 1
    return [_refusal(call) for call in calls]


def _refusal(call: Any) -> str:
    try:
        call()
    except SumwireError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def pair(rank: int) -> list[float]:
    """The mean over ranks 1 and 3 by a group of theirs, its bytes; and, elsewhere, the refusal."""
    group = dist.new_group([1, 3])
    if rank in (1, 3):
        peers = Peers(group)
        mean, residual = through_group(peers)(torch.full((5,), float(rank)), 0)
        half, _ = through_group(peers)(torch.full((2,), 60000.0, dtype=torch.float16), 0)
        return [*mean.tolist(), *residual().tolist(), *half.tolist(), float(peers.sent_bytes)]
    assert "not in the group" in _refusal(lambda: systems.make("ssgd", group=group))
    return []


def broken(rank: int) -> list[str]:
    """What collectives raise when torch says that a peer is gone."""
    peers = Peers()

    def gone(*_: Any, **__: Any) -> None:
        raise RuntimeError("Connection closed by peer")

    kept = dist.all_reduce, dist.all_gather
    dist.all_reduce = dist.all_gather = gone
    try:
        calls = (peers.add_, peers.largest_, peers.gather)
        return [_refusal(lambda call=call: call(torch.zeros(7))) for call in calls]
    finally:
        dist.all_reduce, dist.all_gather = kept


def marsit_on_group(rank: int) -> list[list[float]]:
    """Parameters after a full-precision round and after a sign round, over the default process group."""
    weight = nn.Parameter(torch.zeros(11))
    marsit = Marsit(torch.optim.SGD([weight], lr=1.0), dist.group.WORLD, rule="published", global_lr=0.5)
    rows = []
    for _ in range(2):
        weight.grad = torch.full((11,), float(1 + rank))
        marsit.step()
        rows.append(weight.tolist())
    return rows
