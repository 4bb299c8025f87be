# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The trainer of the system dlcp: DDP with small buckets in priority lanes, and steps that a straggler follows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final, cast

import sumwire
import torch
from sumwire import systems
from sumwire.dlcp.lanes import Lanes
from sumwire.dlcp.sync import LaneState
from sumwire.systems.kinds import LaneSystem
from sumwire.transport.delivery import Delivery
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from sumwire_lab.options.priority_lanes import LanedOptions
from sumwire_lab.options.recipes import parse
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.training.comm_timing import HookTimer
from sumwire_lab.training.trainer import Trainer, bucket_mb, hand_over_of

BUCKETS: Final = 4
"""Approximate number of buckets, unless the run says their size; DDP does not divide a parameter."""
_MB: Final = 1 << 20


class LanesTrainer(Trainer):
    """A trainer whose tensors go through priority lanes, which also record their times."""

    def __init__(
        self, model: torch.nn.Module, optimizer: Optimizer, lanes: Lanes, system: LaneSystem, state: LaneState
    ) -> None:
        def close() -> None:
            system.close()
            lanes.close()

        super().__init__(model, optimizer, lambda: dict(system.stats), close)
        self._lanes = lanes
        self._state = state
        self._followed_s: float | None = None

    def begin_step(self, keep: bool) -> None:
        """See Trainer."""
        self._followed_s = None
        super().begin_step(keep)

    def behind(self) -> bool:
        """Whether the other workers have completed this worker's next step without it."""
        return self._state.behind()

    def follow(self) -> None:
        """Take the results of the next step instead of computing forward and backward."""
        began = time.perf_counter()
        self._state.follow()
        self._followed_s = time.perf_counter() - began

    def seconds(self) -> float:
        """See Trainer."""
        return super().seconds() if self._followed_s is None else self._followed_s

    def tensors(self) -> list[dict[str, Any]]:
        """See Trainer."""
        return [record.as_dict() for record in self._lanes.take_records()]


def delivery(options: LanedOptions) -> Delivery:
    """What may be missing from a job's sums."""
    return Delivery(loss_bound=options.loss_bound, divisor=options.divisor)  # type: ignore[arg-type]


def make_lanes_trainer(
    network: torch.nn.Module,
    optimizer: Optimizer,
    options: LanedOptions,
    train: TrainOptions,
    *,
    job_file: Path,
    rank: int,
) -> Trainer:
    """One worker's trainer. Collective: every worker calls it at the same time."""
    taken = {name: value for name, value in train.system.items() if parse("dlcp").has(name)}
    lanes = Lanes(sumwire.load_job(job_file, worker=rank), delivery=delivery(options))
    size = sum(p.numel() * p.element_size() for p in network.parameters())
    ddp = DistributedDataParallel(network, bucket_cap_mb=bucket_mb(train, size / BUCKETS / _MB))
    system = cast(LaneSystem, systems.make("dlcp", lanes, **taken))
    state, hook = system.hook_for(network)
    assert isinstance(state, LaneState)
    timer = HookTimer(hook, state)
    hand_over = hand_over_of(timer, train)
    # A lambda, because DDP checks a hook's annotations and does not understand annotations that are strings.
    ddp.register_comm_hook(None, lambda _, bucket: hand_over(bucket))
    trainer = LanesTrainer(ddp, optimizer, lanes, system, state)
    trainer.hook = timer
    return trainer
