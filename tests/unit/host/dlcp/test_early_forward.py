# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Early forward: the next forward pass begins while back layers' gradients still travel, with the same parameters."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from helpers.dlcp import fake_jobs
from helpers.dlcp.fake_jobs import FakeJob, MakeLanes
from helpers.training.replicas import flat
from sumwire import systems
from sumwire.dlcp.sync import EarlySync, LaneState
from sumwire.errors import UsageError
from sumwire.training import early_forward
from sumwire.training.comm_thread import wait_for
from sumwire.training.early_forward import EarlyForward, stages
from torch import Tensor, nn
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

WIDTH = 32
OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "adam-tensor": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01)),
}


class Net(nn.Module):
    """A child that is no container, containers, and a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Linear(WIDTH, WIDTH)
        self.middle = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.back = nn.ModuleList([nn.Linear(WIDTH, WIDTH)])

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.back[0](self.middle(self.front(x) * self.scale)))


def made() -> Net:
    torch.manual_seed(3)
    return Net()


def trained(make_lanes: MakeLanes, make: Callable[[Any], Optimizer], *, early: bool, ddp: bool) -> Tensor:
    network = made()
    model: nn.Module = DistributedDataParallel(network, bucket_cap_mb=0.005) if ddp else network
    lanes = make_lanes()
    inner = make(network.parameters())
    optimizer = systems.make("dlcp", lanes, early_forward=early).attach(model, inner)
    schedule = torch.optim.lr_scheduler.ExponentialLR(inner, 0.5)
    for step in range(5):
        torch.manual_seed(step)
        optimizer.zero_grad()
        (10 * model(torch.randn(8, WIDTH))).square().mean().backward()
        optimizer.step()
        schedule.step()
    if early:
        cast(EarlySync, optimizer).finish()
    lanes.close()
    return flat(network)


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize("ddp", [False, True], ids=["plain", "ddp"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_are_those_of_waiting(one_rank: None, make_lanes: MakeLanes, name: str, ddp: bool) -> None:
    """Also with a learning rate that changes between the step and the updates."""
    waited = trained(make_lanes, OPTIMIZERS[name], early=False, ddp=ddp)
    assert torch.equal(trained(make_lanes, OPTIMIZERS[name], early=True, ddp=ddp), waited)
    assert not torch.equal(waited, flat(made()))


def test_the_forward_pass_begins_before_the_back_layers_means_are_there(make_lanes: MakeLanes) -> None:
    lanes, model = make_lanes(), nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(4)))
    optimizer = systems.make("dlcp", lanes, early_forward=True).attach(
        model, torch.optim.SGD(model.parameters(), lr=0.1)
    )
    before = [layer.weight.detach().clone() for layer in cast(list[nn.Linear], list(model))]
    model(torch.ones(2, WIDTH)).sum().backward()
    # The back layer's mean is held up.
    gate = cast(FakeJob, lanes.jobs[3]).table.gates[lanes.jobs[3].config.job] = threading.Event()
    optimizer.step()
    optimizer.zero_grad()
    changed = []

    def looks(layer: nn.Linear, weight: Tensor) -> Callable[..., None]:
        def hook(*_: object) -> None:
            changed.append(not torch.equal(layer.weight, weight))
            if len(changed) == 3:
                gate.set()

        return hook

    for layer, weight in zip(cast(list[nn.Linear], list(model)), before, strict=True):
        layer.register_forward_hook(looks(layer, weight))
    model(torch.ones(2, WIDTH))
    assert changed == [True] * 4, "three layers computed with their new values while the fourth's were on their way"


class Skipping(nn.Module):
    """Layers of which a forward pass may skip the last, with which the back lane has nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(3)))
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, *, skips: bool = False) -> Tensor:
        return cast(Tensor, self.body(x) if skips else self.head(self.body(x)))


@pytest.mark.parametrize("steps", [True, False], ids=["step", "no-step"])
def test_a_forward_pass_may_skip_a_lane_whose_mean_is_on_its_way(
    make_lanes: MakeLanes, monkeypatch: pytest.MonkeyPatch, steps: bool
) -> None:
    """The lane's thread makes the residual of the first step before it waits for it in the second."""
    lanes, model = make_lanes(), Skipping()
    optimizer = systems.make("dlcp", lanes, early_forward=True).attach(
        model, torch.optim.SGD(model.parameters(), lr=0.1)
    )
    sync = cast(EarlySync, optimizer)
    gate = cast(FakeJob, lanes.jobs[3]).table.gates[lanes.jobs[3].config.job] = threading.Event()
    model(torch.ones(2, WIDTH)).sum().backward()
    optimizer.step() if steps else sync.synchronize()
    model(torch.ones(2, WIDTH), skips=True).sum().backward()

    def waits(mean: Future[Tensor]) -> Tensor:
        gate.set()
        return wait_for(mean)

    def steps_and_finishes() -> None:
        optimizer.step()
        sync.finish()

    # The mean comes when somebody waits for it.
    monkeypatch.setattr(early_forward, "wait_for", waits)
    ends = threading.Thread(target=steps_and_finishes, daemon=True)
    ends.start()
    ends.join(60)
    assert not ends.is_alive(), "a lane's thread waits for itself"


@pytest.mark.parametrize("early", [False, True])
def test_two_backward_passes_make_one_update(
    one_rank: None, make_lanes: MakeLanes, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    """The second's gradients have those of the first in them. The plain update is that of torch alone."""
    monkeypatch.setattr(fake_jobs, "coarse", Tensor.clone)
    updated = []
    for network in (made(), made()):
        inner = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
        model: nn.Module = network
        optimizer: Optimizer = inner
        if updated:
            lanes, model = make_lanes(), DistributedDataParallel(network)
            optimizer = systems.make("dlcp", lanes, early_forward=early).attach(model, inner)
        for step in range(3):
            optimizer.zero_grad()
            for part in range(2):
                torch.manual_seed(10 * step + part)
                model(torch.randn(8, WIDTH)).square().mean().backward()
            optimizer.step()
        if early and updated:
            cast(EarlySync, optimizer).finish()
        updated.append(flat(network))
    lanes.close()
    torch.testing.assert_close(*updated)


def test_a_state_dict_has_the_whole_step(make_lanes: MakeLanes) -> None:
    model = made()
    before = model.back[0].weight.detach().clone()
    optimizer = systems.make("dlcp", make_lanes(), early_forward=True).attach(
        model, torch.optim.SGD(model.parameters(), lr=0.1)
    )
    model(torch.ones(2, WIDTH)).sum().backward()
    optimizer.step()
    assert torch.equal(model.back[0].weight, before), "nobody has asked for it yet"
    assert not torch.equal(model.state_dict()["back.0.weight"], before)


def test_stages() -> None:
    net = made()
    found = list(stages(net))
    assert [stage for stage, _ in found] == [net, net.front, *net.middle, net.back[0]]
    assert [len(parameters) for _, parameters in found] == [1, 2, 2, 0, 2, 2]
    with pytest.raises(UsageError, match="Linear has no layers"):
        EarlyForward(nn.Linear(2, 2), torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0))


def test_what_needs_the_whole_step_is_refused(make_lanes: MakeLanes) -> None:
    model = made()
    optimizer = systems.make("dlcp", make_lanes(), early_forward=True).attach(
        model, torch.optim.SGD(model.parameters(), lr=0.1)
    )
    with pytest.raises(UsageError, match="leave early_forward out"):
        optimizer.step(lambda: 0.0)
    rule = "nonfinite = 'raise' needs the whole step: leave early_forward out"
    with pytest.raises(UsageError, match=rule):
        systems.make("dlcp", make_lanes(), early_forward=True, nonfinite="raise")
    with pytest.raises(UsageError, match=rule):
        systems.make("dlcp", make_lanes(nonfinite="raise"), early_forward=True)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for lanes, state_too in ((make_lanes(), "raise"), (make_lanes(nonfinite="raise"), "propagate")):
        state = LaneState(lanes, model, nonfinite=cast(Any, state_too))
        with pytest.raises(UsageError, match=rule):
            EarlySync(model, sgd, state, sends=True)


@pytest.mark.parametrize("nonfinite", ["propagate", "raise"])
def test_jobs_get_the_lanes_choice_for_nan(make_lanes: MakeLanes, nonfinite: str) -> None:
    lanes = make_lanes(nonfinite=nonfinite)
    assert lanes.nonfinite == nonfinite
    assert {cast(FakeJob, job).options["nonfinite"] for job in lanes.jobs} == {nonfinite}
