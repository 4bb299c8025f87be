# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures how much shorter a step is if the next forward pass begins while back layers' gradients still travel.

Four workers train a model of equal layers by DDP, with a bucket and a lane for each layer, on slow links. Computing
takes about as long as communication, as a training without computing shows. The same training is made with and without
early forward, in turn. A layer's computing is a sleep, like that of an accelerator, so that the machine's cores are
left to the network.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch
import torch.distributed as dist
from sumwire import systems
from sumwire.dlcp.lanes import Lanes
from sumwire.dlcp.sync import EarlySync
from sumwire.transport.options import Delivery
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from sumwire_lab.bench.benchmark import network_experiment, write_record
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.fabric import Fabric
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.experiment import Say
from sumwire_lab.study.workers import Rank
from sumwire_lab.training.worker import settle

WIDTH: Final = 256
# Steps before the measured ones, in which DDP lays out its buckets.
WARM_UP: Final = 4
_BATCH: Final = 4


@dataclass(frozen=True)
class Given:
    """The worker's input: whether the next forward pass begins early, and the seconds of a layer's forward pass."""

    early: bool
    layer_s: float


class _Pause(torch.autograd.Function):
    """The identity, which takes some seconds forward and twice as long backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seconds: float) -> Tensor:
        ctx.seconds = seconds
        time.sleep(seconds)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        time.sleep(2 * ctx.seconds)
        return gradients[0], None


class Layer(nn.Linear):
    """A layer whose forward pass takes `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(WIDTH, WIDTH)
        self.seconds = seconds

    def forward(self, x: Tensor) -> Tensor:
        paused: Tensor = _Pause.apply(super().forward(x), self.seconds)  # type: ignore[no-untyped-call]
        return paused


def measure(given: Given, rank: Rank) -> dict[str, Any]:
    """Return the median of the seconds per step, and a digest of the parameters at the end."""
    with rank.group():
        return _measured(given, rank)


def _measured(given: Given, rank: Rank) -> dict[str, Any]:
    torch.manual_seed(1)
    network = nn.Sequential(*(Layer(given.layer_s) for _ in range(LAYERS)))
    layer_mb = sum(p.numel() * p.element_size() for p in network[0].parameters()) / (1 << 20)
    model = DistributedDataParallel(network, bucket_cap_mb=layer_mb)
    job = rank.config()
    with Lanes(job, delivery=Delivery(), fallback="never") as lanes:
        system = systems.make("dlcp", lanes, early_forward=given.early)
        optimizer = system.attach(model, torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9))
        generator = torch.Generator().manual_seed(rank.number)
        begun = []
        settle()
        for step in range(WARM_UP + STEPS + 1):
            if step == WARM_UP:
                dist.barrier()
            begun.append(time.monotonic())
            optimizer.zero_grad()
            model(torch.randn(_BATCH, WIDTH, generator=generator)).square().mean().backward()
            optimizer.step()
        if isinstance(optimizer, EarlySync):
            optimizer.finish()
        system.close()
    seconds = median(later - earlier for earlier, later in pairwise(begun[WARM_UP:]))
    flat = torch.cat([p.detach().reshape(-1) for p in network.parameters()])
    return {"step_s": seconds, "digest": hashlib.sha256(flat.numpy().tobytes()).hexdigest()}


# A step's results then take 1.2 s on a worker's link: 520 packets of 1098 bytes. Slow, so that processors hardly count.
MBIT: Final = 3.75
LANES: Final = 8
LAYERS: Final = 8
STEPS: Final = 15
# Forward pass of one layer; the backward pass takes twice as long. With eight layers a step computes for 1.2 s.
LAYER_S: Final = 0.05
COMPUTING_S: Final = 3 * LAYERS * LAYER_S
# Whether the forward pass begins early, and the seconds of a layer.
KINDS: Final = {"waiting": (False, LAYER_S), "early": (True, LAYER_S), "communicating": (False, 0.0)}
_DEADLINE_S: Final = 900.0


@dataclass(frozen=True)
class EarlyForwardOutcome:
    """Seconds per step of the slowest worker, one for each turn: without and with early forward, and without computing.
    Also whether all parameters were equal at the end."""

    waiting_s: list[float]
    early_s: list[float]
    communicating_s: list[float]
    equal: bool

    @property
    def gain(self) -> float:
        """Return the step time without early forward over that with it, the median over the turns."""
        return median(waiting / early for waiting, early in zip(self.waiting_s, self.early_s, strict=True))

    @property
    def balance(self) -> float:
        """Ratio of communication to computation in a step, each measured alone."""
        return median(self.communicating_s) / COMPUTING_S


def run_early_forward(results: Path, say: Say, *, turns: int = 2, switch: str = "soft") -> EarlyForwardOutcome:
    """Train with and without early forward, in turn. Raises LabError."""
    seconds: dict[str, list[float]] = {name: [] for name in KINDS}
    digests = set()
    with network_experiment(results) as folder:
        for turn in range(turns):
            for name, (early, layer_s) in KINDS.items():
                records = _train(early, layer_s, switch, folder / f"{name}{turn}")
                seconds[name].append(max(float(record["step_s"]) for record in records))
                digests |= {record["digest"] for record in records}
                say(f"{name}: {seconds[name][-1]:.3f} s per step")
    outcome = EarlyForwardOutcome(seconds["waiting"], seconds["early"], seconds["communicating"], len(digests) == 1)
    write_record(vars(outcome), folder, "early_forward")
    return outcome


def _train(early: bool, layer_s: float, switch: str, folder: Path) -> list[dict[str, Any]]:
    options = RunOptions(switch=switch, link=LinkOptions(MBIT, priorities=True))

    def jobs(fabric: Fabric) -> list[dict[str, Any]]:
        return [entry | {"lanes": LANES} for entry in control_plane.training_job(fabric)]

    with open_session(options, switches.choose(switch), folder, jobs) as session:
        return session.call(measure, Given(early, layer_s), _DEADLINE_S)
