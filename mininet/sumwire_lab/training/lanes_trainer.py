# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A worker's part in a laned system: DDP in small buckets over lanes, and steps that the others make without it."""

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
from sumwire_lab.training.comm_timing import HookTimer
from sumwire_lab.training.trainer import Member

BUCKETS: Final = 4
"""About so many; DDP does not divide a parameter."""
_MB: Final = 1 << 20


class LanedMember(Member):
    """Its tensors' records come from the lanes."""

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
        """See Member."""
        self._followed_s = None
        super().begin_step(keep)

    def behind(self) -> bool:
        """Whether the others are through with this worker's next step."""
        return self._state.behind()

    def follow(self) -> None:
        """Take that step's gradients from them, instead of forward and backward."""
        began = time.perf_counter()
        self._state.follow()
        self._followed_s = time.perf_counter() - began

    def seconds(self) -> float:
        """See Member."""
        return super().seconds() if self._followed_s is None else self._followed_s

    def tensors(self) -> list[dict[str, Any]]:
        """See Member."""
        return [record.as_dict() for record in self._lanes.take_records()]


def join_lanes(
    network: torch.nn.Module, optimizer: Optimizer, options: LanedOptions, *, job_file: Path, rank: int
) -> Member:
    """Make one worker a member. Collective."""
    delivery = Delivery(loss_bound=options.loss_bound, divisor=options.divisor)  # type: ignore[arg-type]
    lanes = Lanes(sumwire.load_job(job_file, worker=rank), delivery=delivery)
    size = sum(p.numel() * p.element_size() for p in network.parameters())
    ddp = DistributedDataParallel(network, bucket_cap_mb=size / BUCKETS / _MB)
    system = cast(LaneSystem, systems.make("dlcp", lanes))
    state, hook = system.hook_for(network)
    assert isinstance(state, LaneState)
    timer = HookTimer(hook, state)
    # A lambda, because DDP compares a hook's annotations and does not know those written as text.
    ddp.register_comm_hook(None, lambda _, bucket: timer.hand_over(bucket))
    member = LanedMember(ddp, optimizer, lanes, system, state)
    member.hook = timer
    return member
