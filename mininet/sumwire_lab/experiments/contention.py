# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures how long a small tensor of the front layers takes when a large one of the back layers is already in flight.
Three ways: in a job with one lane, in lanes on links that ignore priorities, and in lanes on links that serve packets
by priority."""

from __future__ import annotations

import hashlib
import select
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import torch
from sumwire.dlcp.lanes import Lanes

from sumwire_lab.bench.benchmark import network_experiment, write_record
from sumwire_lab.errors import LabError
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.fabric import Fabric
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.experiment import Say
from sumwire_lab.study.workers import Rank
from sumwire_lab.training.worker import settle

FRONT, BACK = 0.0, 1.0
_BACK_BUCKET, _FRONT_BUCKET = 0, 1
# One chunk, so that the greeting of every lane is over before anything is timed.
_WARM_UP_VALUES: Final = 1024


def both(lanes: Lanes, back: torch.Tensor, front: torch.Tensor, gap_s: float) -> tuple[float, bytes]:
    """Hand over the back tensor, and ``gap_s`` later the front one. Returns the front one's seconds, and both
    results."""
    first = lanes.submit(lanes.lane_of(BACK), partial(_mean, lanes, back, _BACK_BUCKET, BACK))
    select.select([], [], [], gap_s)
    began = time.monotonic()
    second = lanes.submit(lanes.lane_of(FRONT), partial(_mean, lanes, front, _FRONT_BUCKET, FRONT))
    front_mean = second.wait()
    seconds = time.monotonic() - began
    return seconds, front_mean.numpy().tobytes() + first.wait().numpy().tobytes()


def _mean(lanes: Lanes, x: torch.Tensor, bucket: int, position: float) -> torch.Tensor:
    # A copy, because the memory of a result is reused.
    return lanes.reduce(x, bucket, position)[0].clone()


def measure(_: None, rank: Rank) -> dict[str, Any]:
    """Measure the seconds of the front tensor in each repeat, and a digest of all results.

    The workers agree on a maximum before each repeat, so that they begin together.
    """
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(rank.number)
    digest, seconds = hashlib.sha256(), []
    with Lanes(rank.config(), fallback="never") as lanes:
        for position in (BACK, FRONT):
            lanes.reduce(torch.ones(_WARM_UP_VALUES), 0, position)
        settle()
        for _repeat in range(REPEATS):
            back = torch.randn(BACK_VALUES, generator=generator)
            front = torch.randn(FRONT_VALUES, generator=generator)
            lanes.jobs[0].max32(np.array([rank.number], np.uint32))
            took, content = both(lanes, back, front, GAP_S)
            seconds.append(took)
            digest.update(content)
    return {"front_s": seconds, "digest": digest.hexdigest()}


MBIT: Final = 10.0
LANES: Final = 4
BACK_VALUES: Final = 1_000_000
FRONT_VALUES: Final = 125_000
# Delay of the front tensor, after which the other one's packets fill the links.
GAP_S: Final = 0.1
REPEATS: Final = 3
_DEADLINE_S: Final = 900.0


@dataclass(frozen=True)
class LanesWay:
    """A way to send the two tensors."""

    lanes: int
    priorities: bool


WAYS: Final = {"one": LanesWay(1, False), "alike": LanesWay(LANES, False), "priorities": LanesWay(LANES, True)}


def run_contention(results: Path, say: Say, switch: str = "soft") -> dict[str, float]:
    """Return, by way, the seconds from the front tensor's hand-over to its result (the slowest worker's, median of the
    repeats).

    Raises LabError, also if workers have different results.
    """
    done = {}
    with network_experiment(results) as folder:
        for name, way in WAYS.items():
            done[name] = _measure(way, switch, folder / name)
            say(f"{name}: the front layer's tensor is done after {done[name]:.3f} s")
        write_record(done, folder, "contention")
    return done


def _measure(way: LanesWay, switch: str, folder: Path) -> float:
    options = RunOptions(switch=switch, link=LinkOptions(MBIT, priorities=way.priorities))

    def jobs(fabric: Fabric) -> list[dict[str, Any]]:
        return [entry | {"lanes": way.lanes} for entry in control_plane.training_job(fabric)]

    with open_session(options, switches.choose(switch), folder, jobs) as session:
        measured = session.call(measure, None, _DEADLINE_S)
    if len({worker["digest"] for worker in measured}) != 1:
        raise LabError(f"workers have different results; see {folder}")
    return float(median(max(each) for each in zip(*(worker["front_s"] for worker in measured), strict=True)))
