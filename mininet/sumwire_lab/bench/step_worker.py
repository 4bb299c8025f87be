# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A worker that makes optimizer steps with one system: `python -m sumwire_lab.bench.step_worker SPEC.json RANK`.

A step begins with a gradient and ends when the optimizer has applied the aggregate.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import sumwire
import torch
import torch.distributed as dist
from sumwire import systems

from sumwire_lab.bench import worker
from sumwire_lab.bench.wire import sides
from sumwire_lab.bench.worker import Exchange
from sumwire_lab.options.recipes import Chosen, parse
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.options.tasks import DEFAULT_TASK
from sumwire_lab.training.trainer import system_options

# Nothing is learned here; any rate will do.
_LEARNING_RATE: Final = 0.01


class Steps(Exchange):
    """Steps of one parameter matrix, nearly square, with the same gradient each time."""

    def __init__(self, chosen: Chosen, job: sumwire.Job | None, spec: dict[str, Any], rank: int) -> None:
        super().__init__(job)
        # Power-SGD sends its first gradients uncompressed.
        self.warm_up = chosen.recipe.warm_up_steps
        self._chosen = chosen
        self._rank = rank
        self._options = TrainOptions.of(DEFAULT_TASK, rank=spec["rank"], share=spec["share"])

    def begin(self, size: int) -> None:
        """See Exchange."""
        self._parameter = torch.nn.Parameter(torch.zeros(sides(size)))
        model = torch.nn.ParameterList([self._parameter])
        given = system_options(self._chosen, self._options, dist.get_world_size(), lambda step: 1.0)
        self._system = systems.make(self._chosen.recipe.system, self.job, transport=self._chosen.transport, **given)
        self._optimizer = self._system.attach(model, torch.optim.SGD(model.parameters(), lr=_LEARNING_RATE))
        self._gradient = torch.randn(sides(size), generator=torch.Generator().manual_seed(self._rank))

    def prepare(self) -> None:
        """See Exchange."""
        self._parameter.grad = self._gradient.clone()

    def exchange(self) -> None:
        """See Exchange."""
        self._optimizer.step()

    def end(self) -> None:
        """See Exchange."""
        dist.barrier()
        self._system.close()


def make(spec: dict[str, Any], rank: int) -> Steps:
    """The system of the spec, with a job if it needs one."""
    chosen = parse(spec["system"])
    job = sumwire.Job(sumwire.load_job(spec["job_file"], worker=rank)) if chosen.switched else None
    return Steps(chosen, job, spec, rank)


if __name__ == "__main__":
    worker.run(sys.argv[1:], make)
