# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Training in float16 with torch's GradScaler, some of whose steps overflow: what every rank sees."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sumwire
import torch
from sumwire import systems
from sumwire.config import parse_job
from sumwire.errors import NonFiniteError
from sumwire.lowrank.sync import AcpSgd
from sumwire.optim import GradientSync, Marsit
from sumwire.training.ddp import DdpState
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

SCALE = 1024.0
# What the loss of a step is multiplied by: beyond float16, after the scale.
OVERFLOW = 1e8


class Net(nn.Module):
    """A model of six parameters, with equal weights at every call."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.first = nn.Linear(8, 40)
        self.second = nn.Linear(40, 24)
        self.last = nn.Linear(24, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(torch.tanh(self.second(torch.tanh(self.first(x)))))
        return out


def batch(rank: int, step: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(64, 8, generator=torch.Generator().manual_seed(1000 * rank + step))
    return x, torch.stack([x[:, 0] * x[:, 1], x.sum(1), x[:, 2] - x[:, 3]], 1)


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def bits(tensors: Collection[Tensor | None]) -> list[int]:
    """Of floats, so that NaNs are compared too."""
    return [
        value for x in tensors for value in ([] if x is None else x.detach().reshape(-1).view(torch.int32).tolist())
    ]


def memory(hook: object, optimizer: object) -> list[Any]:
    """What a system keeps from step to step."""
    if isinstance(hook, DdpState) and hook.feedback is not None:
        hook.settle()
        return [bits([hook.feedback.residual(number) for number in range(6)])]
    if isinstance(optimizer, GradientSync):
        return [bits([optimizer.residual])]
    if isinstance(optimizer, Marsit):
        return [bits([optimizer.compensation]), optimizer.round]
    if isinstance(optimizer, AcpSgd):
        return [[bits(state.state().values()) for state in optimizer.states], optimizer.steps]
    return []


def train(
    rank: int,
    mapping: dict[str, Any] | None,
    name: str,
    options: dict[str, Any],
    inside: bool,
    bad: dict[int, list[int]],
    steps: int,
) -> dict[str, Any]:
    """Train a model, ``inside`` DistributedDataParallel or plain. In step s the loss of ranks ``bad[s]`` overflows."""
    model: nn.Module = Net()
    if inside:
        model = DistributedDataParallel(model, bucket_cap_mb=0.002)
    job = None if mapping is None else sumwire.Job(parse_job(mapping, rank), fallback="never", block=1024)
    system = systems.make(name, job, **options)
    optimizer = system.attach(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5))
    hook = system.hook()[0] if inside else None
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)
    found: dict[str, Any] = {"scales": [], "losses": [], "kept": [], "skipped": [], "gradients": [], "nans": []}
    for step in range(steps):
        optimizer.zero_grad()
        x, y = batch(rank, step)
        with torch.autocast("cpu", torch.float16):
            loss = (model(x) - y).square().mean()
        remembered, before = memory(hook, optimizer), flat(model)
        scaler.scale(loss * (OVERFLOW if rank in bad.get(step, []) else 1.0)).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        scaler.update()
        if step in bad:
            gradients = [p.grad for p in model.parameters()]
            found["kept"].append(memory(hook, optimizer) == remembered and remembered != [])
            found["skipped"].append(torch.equal(flat(model), before))
            found["gradients"].append(bits(gradients))
            found["nans"].append(sum(int((~torch.isfinite(g)).sum()) for g in gradients if g is not None))
        found["scales"].append(scaler.get_scale())
        found["losses"].append(float(loss.detach()))
    system.close()
    if job is not None:
        job.close()
    return {**found, "parameters": bits([flat(model)])}


def told_to_raise(
    rank: int, mapping: dict[str, Any] | None, name: str, options: dict[str, Any], inside: bool
) -> dict[str, Any]:
    """Three steps of a system that is told to raise. In the second the loss of rank 1 is NaN: the error it gives, and
    whether that left everything as it was. A model ``inside`` DistributedDataParallel makes no third step."""
    model: nn.Module = Net()
    if inside:
        model = DistributedDataParallel(model, bucket_cap_mb=0.002)
    job = None if mapping is None else sumwire.Job(parse_job(mapping, rank), fallback="never", block=1024)
    system = systems.make(name, job, nonfinite="raise", **options)
    optimizer = system.attach(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5))
    hook = system.hook()[0] if inside else None
    text, kept = "", False
    for step in range(2 if inside else 3):
        optimizer.zero_grad()
        x, y = batch(rank, step)
        loss = (model(x) - y).square().mean()
        remembered, before = memory(hook, optimizer), flat(model)
        try:
            (loss * (torch.nan if step == 1 and rank == 1 else 1.0)).backward()
            optimizer.step()
        except NonFiniteError as error:
            text = f"step {step}: {error}"
            kept = memory(hook, optimizer) == remembered and torch.equal(flat(model), before)
    system.close()
    if job is not None:
        job.close()
    return {"text": text, "kept": kept, "parameters": bits([flat(model)])}


def without_scaler(rank: int, name: str, options: dict[str, Any], value: float) -> list[list[int]]:
    """Over the group, a gradient with a bad value on rank 1: what it becomes, and what the next good one does."""
    weight = nn.Parameter(torch.zeros(3000))
    system = systems.make(name, **options)
    optimizer = system.attach(nn.ParameterList([weight]), torch.optim.SGD([weight], lr=0.0))
    found = []
    for bad in (True, False):
        with torch.no_grad():
            weight.zero_()
        weight.grad = torch.randn(3000, generator=torch.Generator().manual_seed(rank))
        if bad and rank == 1:
            weight.grad[7] = value
        optimizer.step()
        assert weight.grad is not None
        found.append(bits([weight.grad]))
    system.close()
    return found
