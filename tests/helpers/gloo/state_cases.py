# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Training that is cut in two, as one of several ranks: what the ranks of test_state do."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import sumwire
import torch
import torch.distributed as dist
from sumwire import checkpoint, systems
from sumwire.config import parse_job
from sumwire.delivery import Delivery
from sumwire.dlcp.lanes import Lanes
from sumwire.multihop import RingSigns
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

# The content of a job file; None is no job, the process group does it.
Job = Mapping[str, Any] | None
# Small buckets, so that DDP's first ones differ from its later ones.
BUCKET_MB = 0.004


class Net(nn.Module):
    """Equal weights at every call."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.Linear(12, 40)
        self.norm = nn.LayerNorm(40)
        self.second = nn.Linear(40, 40)
        self.last = nn.Linear(40, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(torch.tanh(self.first(x)))
        out: Tensor = self.last(torch.tanh(self.second(x)))
        return out


def batch(rank: int, step: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(16, 12, generator=torch.Generator().manual_seed(100 * rank + step))
    return x, x[:, :6] - 0.1 * rank


@contextlib.contextmanager
def made(rank: int, name: str, mapping: Job, options: Mapping[str, Any]) -> Iterator[systems.System]:
    """A system, over the job of a mapping, or over the process group."""
    with contextlib.ExitStack() as stack:
        over: Any = None
        if mapping is not None:
            config = parse_job(dict(mapping), rank)
            if name == "dlcp":
                over = stack.enter_context(Lanes(config, block=1024, delivery=Delivery(), fallback="never"))
            else:
                over = stack.enter_context(sumwire.Job(config, block=1024, fallback="never"))
        system = systems.make(name, over, **options)
        stack.callback(system.close)
        yield system


def checkpoints() -> Any:
    """Torch's module, which takes a second to load: the ranks have it (sumwire_lab.faults.programs)."""
    import torch.distributed.checkpoint

    return torch.distributed.checkpoint


def train(
    rank: int,
    name: str,
    mapping: Job,
    options: Mapping[str, Any],
    ddp: bool,
    steps: tuple[int, int],
    folder: str,
) -> list[float]:
    """Parameters after the steps. Goes on from the folder's checkpoint unless they begin at 0, and leaves another."""
    model: nn.Module = Net()
    if ddp:
        model = DistributedDataParallel(model, bucket_cap_mb=BUCKET_MB)
    with made(rank, name, mapping, options) as system:
        optimizer = system.attach(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
        path = Path(folder) / name
        if steps[0]:
            checkpoints().load({"model": model, "system": system}, checkpoint_id=path)
        for step in range(*steps):
            optimizer.zero_grad()
            x, y = batch(rank, step)
            (model(x) - y).square().mean().backward()
            optimizer.step()
        if not steps[0]:
            checkpoints().save({"model": model, "system": system}, checkpoint_id=path)
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).tolist()


def saved(rank: int, name: str, mapping: Job, options: Mapping[str, Any], folder: str) -> bool:
    """Whether a new system, after loading the folder's checkpoint, has its state bit for bit."""
    model = Net()
    with made(rank, name, mapping, options) as system:
        system.attach(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9))
        path = Path(folder) / name
        checkpoints().load({"system": system}, checkpoint_id=path)
        there = checkpoint.read(path, "system")
        assert set(there) == {f"worker{number}" for number in range(dist.get_world_size())}
        return same(system.state_dict()[f"worker{rank}"], there[f"worker{rank}"])


def same(one: Any, other: Any) -> bool:
    """Whether two nested values are equal, tensors bit for bit."""
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, Mapping):
        return isinstance(other, Mapping) and list(one) == list(other) and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def divided(rank: int, name: str, options: Mapping[str, Any], folder: str) -> tuple[list[float], str]:
    """The residual of a worker that goes on from another number of them; and what it is told without the others'."""
    weight = nn.Parameter(torch.zeros(50))
    system = systems.make(name, **options)
    optimizer = system.attach(nn.ParameterList([weight]), torch.optim.SGD([weight], lr=0.1))
    path = Path(folder) / "divided"
    refused = ""
    if path.exists():
        there = checkpoint.read(path, "system")
        try:
            system.load_state_dict({"worker0": there["worker0"]})
        except sumwire.UsageError as error:
            refused = str(error)
        system.load_state_dict(there)
    else:
        weight.grad = torch.randn(50, generator=torch.Generator().manual_seed(rank))
        optimizer.step()
        dist.barrier()
        checkpoints().save({"system": system}, checkpoint_id=path)
    residual = system.state_dict()[f"worker{rank}"][1]["residuals"]["optimizer"]["optimizer"]["residual"]
    system.close()
    return residual.tolist(), refused


def streams(rank: int) -> None:
    """A rank goes on with its own stream of random numbers, and does not take another one's."""
    ring = RingSigns(seed=3)
    plus = batch(rank, 0)[0] >= 0
    ring.sign_merge(plus)
    kept = ring.kept()
    second = ring.sign_merge(plus)
    ring.restore(kept)
    assert torch.equal(ring.sign_merge(plus), second)
    third = ring.sign_merge(plus)
    ring.restore(kept)
    ring.sign_merge(plus)
    ring.restore(checkpoint.Content(rest={**kept.rest, "rank": rank + 1}))
    assert torch.equal(ring.sign_merge(plus), third)


def refused(rank: int) -> list[str]:
    """What is said of states that cannot be: no model yet, another system, a system that is pickled, no names."""

    def attached(name: str, **options: Any) -> systems.System:
        model = Net()
        system = systems.make(name, **options)
        system.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
        return system

    def unnamed() -> None:
        system = systems.make("thc")
        system.hook()
        system.state_dict()

    topk, thc, powersgd = attached("topk"), attached("thc"), systems.make("powersgd")
    calls: list[Callable[[], object]] = [
        lambda: systems.make("thc").state_dict(),
        lambda: thc.load_state_dict(topk.state_dict()),
        lambda: copy.copy(thc),
        unnamed,
        powersgd.state_dict,
        lambda: attached("acp", rank=2).load_state_dict(attached("acp", rank=3).state_dict()),
    ]
    said = []
    for call in calls:
        try:
            call()
            said.append("")
        except sumwire.UsageError as error:
            said.append(str(error))
    for system in (topk, thc, powersgd):
        system.close()
    return said


def hooks_of_callers(rank: int) -> list[str]:
    """Parts of the states of systems whose hook the caller registers."""
    found = []
    for name in ("thc", "powersgd", "marsit-ring"):
        model = DistributedDataParallel(Net())
        system = systems.make(name)
        model.register_comm_hook(*system.hook_for(model))
        model(batch(rank, 0)[0]).square().mean().backward()
        with contextlib.suppress(sumwire.UsageError):
            state = system.state_dict()[f"worker{rank}"][1]
            system.load_state_dict(system.state_dict())
            found.append(f"{name}: {' '.join(state['rest'])}")
        system.close()
    return found
