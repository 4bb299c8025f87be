# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The trainer of dlcp takes the options of a training that the others take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, cast

import pytest
import sumwire
import torch
import torch.distributed as dist
from helpers.dlcp.fake_jobs import FakeJob, Table, lane_config
from sumwire.dlcp import lanes as lanes_module
from sumwire_lab.options.priority_lanes import LanedOptions
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.training.trainer import LanesTrainer, make_lanes_trainer
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore

LAYERS = 3


class Job(FakeJob):
    made: ClassVar[list[FakeJob]] = []


@pytest.fixture
def one_rank(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(lanes_module, "Job", Job)
    monkeypatch.setattr(sumwire, "load_job", lambda *_, **__: lane_config(0, 1, 4))
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def stepped(options: TrainOptions) -> tuple[LanesTrainer, list[int]]:
    """A trainer after its second step, since the first has DDP's own buckets. And how many buckets were handed over
    when the front layer's gradients were still to come, and in all."""
    Job.table = Table(1)
    model = nn.Sequential(*(nn.Linear(8, 8, bias=False) for _ in range(LAYERS)))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    made = make_lanes_trainer(model, sgd, LanedOptions(), options, job_file=Path("job.json"), rank=0)
    trainer = cast(LanesTrainer, made)
    seen = []

    def looks(_module: nn.Module, _inputs: object, output: torch.Tensor) -> None:
        output.register_hook(lambda _: seen.append(len(trainer._state._now)))  # type: ignore[no-untyped-call]

    model[0].register_forward_hook(looks)
    for _ in range(2):
        seen.clear()
        trainer.begin_step(keep=False)
        trainer.model(torch.ones(2, 8)).sum().backward()
        trainer.step()
    seen.append(len(trainer._state._step))
    trainer.close()
    return trainer, seen


def test_it_takes_size_of_buffers_and_lateness(one_rank: None) -> None:
    """A buffer of 0 is one for each tensor."""
    assert stepped(TrainOptions(buffer_mb=0.0))[1] == [LAYERS - 1, LAYERS]
    assert stepped(TrainOptions(buffer_mb=25.0))[1] == [0, 1]
    assert stepped(TrainOptions(buffer_mb=0.0, late=True))[1] == [0, LAYERS]


@pytest.mark.parametrize("feedback", [True, False])
def test_it_takes_error_feedback(one_rank: None, feedback: bool) -> None:
    assert (stepped(TrainOptions.of("digits", error_feedback=feedback))[0]._state.feedback is not None) == feedback
