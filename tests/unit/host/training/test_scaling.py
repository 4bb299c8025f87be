# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""torch's GradScaler: what is kept from step to step follows its scale; clipping; one worker in one process."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from helpers.training.replicas import batch, flat, net
from sumwire.errors import UsageError
from sumwire.lowrank.sync import AcpSgd
from sumwire.training.buckets import Bucket
from sumwire.training.ddp import DdpState
from sumwire.training.optim import GradientSync, Marsit
from sumwire.training.reductions import Threads
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

# By step, powers of two: scaling by them is exact.
SCALES = (1024.0, 1024.0, 256.0, 4096.0, 4096.0, 512.0, 512.0)


def coarse(x: Tensor, number: int) -> tuple[Tensor, Callable[[], Tensor]]:
    """Three leading bits of every value, and the rest."""
    mantissa, exponent = torch.frexp(x)
    sent = torch.ldexp((mantissa * 8).round() / 8, exponent)
    return sent, lambda: x - sent


class Hooked(Optimizer):
    """A model's gradients as two buckets of a DDP hook, then the inner optimizer's step."""

    def __init__(self, optimizer: Optimizer, scaler: GradScaler | None) -> None:
        super().__init__(optimizer.param_groups, optimizer.defaults)
        self.inner = optimizer
        self.state_ = DdpState(None, reduce=coarse, scaler=scaler)

    def reduce(self) -> None:
        parameters = self.param_groups[0]["params"]
        halves = [parameters[:2], parameters[2:]]
        flats = [torch.cat([cast(Tensor, p.grad).reshape(-1) for p in half]) for half in halves]
        buckets = [
            Bucket(i, i == 1, flat, tuple(half)) for i, (flat, half) in enumerate(zip(flats, halves, strict=True))
        ]
        futures = [self.state_.submit(cast(Any, bucket)) for bucket in buckets]
        for half, future in zip(halves, futures, strict=True):
            for p, piece in zip(half, torch.split(future.wait(), [p.numel() for p in half]), strict=True):
                p.grad = piece.view(p.shape)

    def step(self, closure: Any = None) -> None:
        self.inner.step()


def acp(model: nn.Module, inner: Optimizer, scaler: GradScaler | None) -> Optimizer:
    return AcpSgd(model, inner, coarse, rank=1, min_compression=0.0)


def sync(model: nn.Module, inner: Optimizer, scaler: GradScaler | None) -> Optimizer:
    return GradientSync(inner, coarse)


def hooked(model: nn.Module, inner: Optimizer, scaler: GradScaler | None) -> Optimizer:
    return Hooked(inner, scaler)


def untold(model: nn.Module, inner: Optimizer, scaler: GradScaler | None) -> Optimizer:
    return Hooked(inner, None)


def train(make: Callable[..., Optimizer], scaled: bool, bad: int | None = None) -> Tensor:
    """Parameters after steps with SCALES. Step ``bad`` overflows, and is made again."""
    model = net(torch.float32)
    scaler = GradScaler("cpu", init_scale=SCALES[0], enabled=scaled)
    optimizer = make(model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5), scaler if scaled else None)
    for step, scale in enumerate(SCALES):
        for overflows in [True, False] if step == bad else [False]:
            optimizer.zero_grad()
            x, y = batch(0, step, torch.float32)
            loss = (model(x) - y).square().mean() * (float("inf") if overflows else 1.0)
            scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            if isinstance(optimizer, Hooked):
                optimizer.reduce()
            scaler.step(optimizer)
            scaler.update(SCALES[min(step + 1, len(SCALES) - 1)] if not overflows else scale / 2)
    return flat(model)


@pytest.mark.parametrize("bad", [None, 3])
@pytest.mark.parametrize("make", [acp, sync, hooked, untold])
def test_what_is_kept_follows_the_scale(make: Callable[..., Optimizer], bad: int | None) -> None:
    """Training with scales that change, and with a step that overflows, is training without any."""
    torch.testing.assert_close(train(make, True, bad), train(make, False), rtol=1e-6, atol=1e-7)


def test_a_compiled_step_is_traced_without_a_warning() -> None:
    """While a hook looks for a scaler."""
    state = DdpState(None, reduce=coarse)
    parameter = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], lr=torch.tensor(0.5))
    parameter.grad = torch.ones(3)
    with warnings.catch_warnings(record=True) as caught:
        torch.compile(optimizer.step, backend="eager")()
    assert [str(one.message) for one in caught if "_getframe" in str(one.message)] == []
    assert parameter.tolist() == [0.5, 0.5, 0.5]
    assert state.scaler is None


def test_gradients_may_be_unscaled_before_the_step() -> None:
    model = net(torch.float32)
    scaler = GradScaler("cpu", init_scale=64.0)
    optimizer = GradientSync(torch.optim.SGD(model.parameters(), lr=1.0), lambda x, number: (x, lambda: x))
    before = flat(model)
    scaler.scale((model(batch(0, 0, torch.float32)[0])).sum()).backward()  # type: ignore[no-untyped-call]
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scaler.step(optimizer)
    scaler.update()
    assert float((flat(model) - before).norm()) == pytest.approx(0.5, rel=1e-4)


def test_acp_says_how_to_clip_what_is_sent_already() -> None:
    def begun() -> tuple[nn.Module, GradScaler, AcpSgd]:
        model, scaler = net(torch.float32), GradScaler("cpu", init_scale=64.0)
        optimizer = AcpSgd(model, torch.optim.SGD(model.parameters(), lr=1.0), coarse, rank=1, min_compression=0.0)
        scaler.scale((model(batch(0, 0, torch.float32)[0])).sum()).backward()  # type: ignore[no-untyped-call]
        return model, scaler, optimizer

    model, scaler, optimizer = begun()
    scaler.unscale_(optimizer)
    with pytest.raises(UsageError, match=r"call synchronize\(\), then unscale_ and step with .inner"):
        scaler.step(optimizer)
    optimizer.zero_grad()
    optimizer.close()
    model, scaler, optimizer = begun()
    before = flat(model)
    optimizer.synchronize()
    scaler.unscale_(optimizer.inner)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scaler.step(optimizer.inner)
    assert float((flat(model) - before).norm()) == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("scheduled", [False, True])
def test_the_scaler_gives_no_warning_and_schedulers_do_not_hide_the_argument(scheduled: bool) -> None:
    model = net(torch.float32)
    marsit = Marsit(torch.optim.SGD(model.parameters(), lr=0.1), Threads(1).of(0), rule="published", global_lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(marsit, 1) if scheduled else None
    scaler = GradScaler("cpu")
    with warnings.catch_warnings(record=True) as caught:
        for value in (float("inf"), 1.0):
            before = flat(model)
            scaler.scale(model(torch.ones(1, 6)).sum() * value).backward()  # type: ignore[no-untyped-call]
            scaler.step(marsit)
            scaler.update()
            assert torch.equal(flat(model), before) == (value != 1.0)
            if scheduler is not None:
                scheduler.step()
            marsit.zero_grad()
    assert [str(one.message) for one in caught if "GradScaler" in str(one.message)] == []
