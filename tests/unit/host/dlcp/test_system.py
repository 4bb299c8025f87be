# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""DLCP by its name among the systems."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import sumwire
import torch
from helpers.dlcp.fake_jobs import MakeLanes
from helpers.training.replicas import flat
from sumwire import systems
from sumwire.dlcp.sync import LaneState
from sumwire.errors import ConfigError, NonFiniteError, UsageError
from sumwire.training.hierarchical import NodeJob
from torch import nn


def test_a_plain_model(make_lanes: MakeLanes) -> None:
    lanes = make_lanes()
    system = systems.make("dlcp", lanes)
    model = nn.Sequential(nn.Linear(8, 40), nn.Linear(40, 8))
    before = flat(model)
    optimizer = system.attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
    model(torch.full((4, 8), 5.0)).sum().backward()
    optimizer.step()
    assert not torch.equal(flat(model), before)
    assert system.stats["operations"] >= 2, "a tensor for each lane that has parameters"
    assert (system.name, system.transport) == ("dlcp", "switch")
    system.close()


def test_it_raises_for_nan_if_told_to(make_lanes: MakeLanes) -> None:
    system = systems.make("dlcp", make_lanes(), nonfinite="raise")
    model = nn.Sequential(nn.Linear(8, 40), nn.Linear(40, 8))
    optimizer = system.attach(model, torch.optim.SGD(model.parameters(), lr=1.0))
    before = flat(model)
    (model(torch.ones(4, 8)).sum() * torch.nan).backward()
    with pytest.raises(NonFiniteError, match="hold NaN or infinity"):
        optimizer.step()
    assert torch.equal(flat(model), before)
    system.close()
    with pytest.raises(UsageError, match="nonfinite = 'stop': must be one of 'propagate', 'raise'"):
        systems.make("dlcp", make_lanes(), nonfinite=cast(Any, "stop"))


def test_callers_may_register_the_hook_themselves(make_lanes: MakeLanes) -> None:
    system = systems.make("dlcp", make_lanes(), error_feedback=False)
    with pytest.raises(UsageError, match="attach it first"):
        system.hook()
    state, hook = cast(Any, system).hook_for(nn.Linear(3, 3))
    assert isinstance(state, LaneState) and state.feedback is None
    assert hook is sumwire.dlcp.lane_hook


def test_lanes_are_not_taken_for_a_job(make_lanes: MakeLanes) -> None:
    with pytest.raises(UsageError, match=r"system thc: Lanes given: needs a sumwire.Job"):
        systems.make("thc", make_lanes())
    with pytest.raises(UsageError, match="system dlcp: needs a job"):
        systems.make("dlcp", transport="switch")
    with pytest.raises(UsageError, match="runs over switch"):
        systems.make("dlcp", transport="group")


def test_a_job_with_several_ranks_to_a_worker_is_refused_with_a_cure() -> None:
    job = NodeJob("nodes", None, cast(Any, SimpleNamespace(leads=False)), 4)
    for name in ("thc", "dlcp"):
        with pytest.raises(UsageError, match=rf"{name}: job nodes has several ranks to a worker.*use sumwire.DdpState"):
            systems.make(name, job)


@pytest.mark.parametrize("early", [False, True])
def test_an_optimizer_with_a_parameter_outside_the_model_is_refused(make_lanes: MakeLanes, early: bool) -> None:
    """Nobody would exchange it."""
    model, outside = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)), nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([*model.parameters(), outside], lr=0.1)
    with pytest.raises(
        UsageError, match=r"optimizer's parameter 4 of shape \(1,\): must be one of those to synchronise"
    ):
        systems.make("dlcp", make_lanes(), early_forward=early).attach(model, optimizer)


def test_what_the_table_says_of_it() -> None:
    spec = systems.TABLE["dlcp"]
    assert (spec.acts, spec.ops, spec.transports) == ("hook", ("thc", "max32"), ("switch",))


def test_public_names() -> None:
    assert sumwire.dlcp.Lanes.__name__ == "Lanes"
    assert sumwire.dlcp.Tag(7, 0).tos == 0xE2
    with pytest.raises(AttributeError, match="nothing"):
        _ = sumwire.dlcp.nothing
    with pytest.raises(ConfigError):
        sumwire.dlcp.Tag(9)
