# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How much shorter is a step if the next forward pass begins while back layers' gradients still travel?

Four workers train a model of equal layers by DDP, with a bucket and a lane for each layer, on slow links. Computing
takes about as long as communication, which a training that computes nothing shows. The same training is made with and
without early forward, in turn.
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
_MODULE: Final = "sumwire_lab.experiments.early_forward_worker"


@dataclass(frozen=True)
class EarlyForwardOutcome:
    """Seconds per step of the slowest worker, one for each turn, without and with early forward and without computing;
    and whether all parameters were equal at the end."""

    waiting_s: list[float]
    early_s: list[float]
    communicating_s: list[float]
    equal: bool

    @property
    def gain(self) -> float:
        """Step time without over with early forward, the median over the turns."""
        return median(waiting / early for waiting, early in zip(self.waiting_s, self.early_s, strict=True))

    @property
    def balance(self) -> float:
        """Communication over computation in a step, each by itself."""
        return median(self.communicating_s) / COMPUTING_S


def run_early_forward(results: Path, say: Say, *, turns: int = 2, switch: str = "soft") -> EarlyForwardOutcome:
    """Train with and without early forward, in turn. Raises LabError."""
    require_tools()
    folder = new_folder(results, latest=False)
    seconds: dict[str, list[float]] = {name: [] for name in KINDS}
    digests = set()
    with interruptible():
        for turn in range(turns):
            for name, (early, layer_s) in KINDS.items():
                records = _train(early, layer_s, switch, folder / f"{name}{turn}")
                seconds[name].append(max(float(record["step_s"]) for record in records))
                digests |= {record["digest"] for record in records}
                say(f"{name}: {seconds[name][-1]:.3f} s per step")
    outcome = EarlyForwardOutcome(seconds["waiting"], seconds["early"], seconds["communicating"], len(digests) == 1)
    (folder / "early_forward.json").write_text(json.dumps(vars(outcome)) + "\n")
    return outcome


def _train(early: bool, layer_s: float, switch: str, folder: Path) -> list[dict[str, Any]]:
    options = RunOptions(switch=switch, link=LinkOptions(MBIT, priorities=True))

    def jobs(fabric: Fabric) -> list[dict[str, Any]]:
        return [entry | {"lanes": LANES} for entry in control_plane.training_job(fabric)]

    with open_session(options, switches.choose(switch), folder, jobs) as session:
        more = {"early": early, "layers": LAYERS, "layer_s": layer_s, "repeats": STEPS}
        records = run_workers(session, _MODULE, "dlcp", [], **more)
    if not records:
        raise LabError(f"no worker has measured anything; see {folder}")
    return records
