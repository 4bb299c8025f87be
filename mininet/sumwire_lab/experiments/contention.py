# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How long does a small tensor of the front layers take when a large one of the back layers is already under way?

Three ways: in a job with one lane, in lanes on links that ignore priorities, and in lanes on links that serve packets
by priority.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from sumwire_lab.bench.exchanges import run_workers
from sumwire_lab.errors import LabError
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.fabric import Fabric
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.experiment import Say, interruptible, new_folder

MBIT: Final = 10.0
LANES: Final = 4
BACK_VALUES: Final = 1_000_000
FRONT_VALUES: Final = 125_000
# Delay of the front tensor, after which the other one's packets fill the links.
GAP_S: Final = 0.1
_MODULE: Final = "sumwire_lab.experiments.contention_worker"


@dataclass(frozen=True)
class Way:
    """How the two tensors are sent."""

    lanes: int
    priorities: bool


WAYS: Final = {"one": Way(1, False), "alike": Way(LANES, False), "priorities": Way(LANES, True)}


def run_contention(results: Path, say: Say, switch: str = "soft") -> dict[str, float]:
    """By way: seconds from the front tensor's hand-over to its result (the slowest worker's, median of the repeats).

    Raises LabError, also if workers have different results.
    """
    require_tools()
    folder = new_folder(results, latest=False)
    done = {}
    with interruptible():
        for name, way in WAYS.items():
            done[name] = _measure(way, switch, folder / name)
            say(f"{name}: the front layer's tensor is done after {done[name]:.3f} s")
    (folder / "contention.json").write_text(json.dumps(done) + "\n")
    return done


def _measure(way: Way, switch: str, folder: Path) -> float:
    options = RunOptions(switch=switch, link=LinkOptions(MBIT, priorities=way.priorities))

    def jobs(fabric: Fabric) -> list[dict[str, Any]]:
        return [entry | {"lanes": way.lanes} for entry in control_plane.training_job(fabric)]

    with open_session(options, switches.choose(switch), folder, jobs) as session:
        measured = run_workers(session, _MODULE, "dlcp", [BACK_VALUES, FRONT_VALUES], gap_s=GAP_S)
    if len({worker["digest"] for worker in measured}) != 1:
        raise LabError(f"workers have different results; see {folder}")
    return float(median(max(each) for each in zip(*(worker["front_s"] for worker in measured), strict=True)))
