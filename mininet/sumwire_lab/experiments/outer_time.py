# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Seconds of an outer step over links as between data centres: gloo, a ring with a byte a value, Sumwire with 4 bits.

All three go through the same soft switch, which delays and loses packets, in turn, by the same processes. TCP has
CUBIC, Linux's default, which takes each loss for congestion, and then BBR where the kernel has it, which bears random
loss best. With CUBIC a step takes so long that it has fewer values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from sumwire_lab.bench.exchanges import run_workers
from sumwire_lab.errors import LabError
from sumwire_lab.experiments.outer_worker import SYSTEMS
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.experiment import Say, interruptible, new_folder
from sumwire_lab.system import congestion_control

WORKERS: Final = 4
MBIT: Final = 20.0
LOSS: Final = 0.01
ROUND_TRIP_MS: Final = 50.0
CUBIC, BBR = "cubic", "bbr"
# Of a model, by congestion control, and in a quick try.
VALUES: Final = {CUBIC: 1_000_000, BBR: 4_000_000}
QUICK_VALUES: Final = {CUBIC: 250_000, BBR: 1_000_000}
REPEATS, QUICK_REPEATS = 3, 1
_MODULE: Final = "sumwire_lab.experiments.outer_worker"
# Between two hosts a packet passes the switch there and back, and each time two ports.
_PASSAGES: Final = 4


def impairment() -> str:
    """Of the soft switch's ports: loss in each direction of each link, and a quarter of the round trip."""
    return f"drop={LOSS},delay={ROUND_TRIP_MS / _PASSAGES},seed=1"


def run_outer_steps(results: Path, say: Say, *, quick: bool = False) -> dict[str, Any]:
    """By congestion control: `values` of the model, and `seconds` of an outer step by system: the slowest worker's,
    median of the repeats.

    Raises LabError, also if workers have different parameters.
    """
    require_tools()
    folder = new_folder(results, latest=False)
    sizes = QUICK_VALUES if quick else VALUES
    controls = congestion_control.available((CUBIC, BBR))
    values = {control: sizes[control] for control in controls}
    with interruptible():
        workers = _measured(values, folder / "steps", QUICK_REPEATS if quick else REPEATS)
    record: dict[str, Any] = {
        control: {"values": values[control], "seconds": by_system(workers, number)}
        for number, control in enumerate(controls)
    }
    for control, found in record.items():
        times = ", ".join(f"{name} {one:.2f} s" for name, one in found["seconds"].items())
        say(f"tcp {control}, {found['values']} values: {times}")
    (folder / "outer.json").write_text(json.dumps(record) + "\n")
    return record


def _measured(values: Mapping[str, int], folder: Path, repeats: int) -> list[dict[str, Any]]:
    options = RunOptions(workers=WORKERS, link=LinkOptions(MBIT), impair=impairment())
    with open_session(options, "soft", folder) as session:
        more = {"repeats": len(SYSTEMS) * repeats, "controls": [*values]}
        workers = run_workers(session, _MODULE, "outer", [*values.values()], **more)
    if len({tuple(worker["stats"]["digests"]) for worker in workers}) != 1:
        raise LabError(f"workers have different parameters after outer steps; see {folder}")
    return workers


def by_system(workers: Sequence[Mapping[str, Any]], size: int) -> dict[str, float]:
    """Median of the slowest workers' seconds for this one of the sizes. Repeats go through the systems in turn."""
    slowest = [max(each) for each in zip(*(worker["sizes"][size]["seconds"] for worker in workers), strict=True)]
    return {name: median(slowest[number :: len(SYSTEMS)]) for number, name in enumerate(SYSTEMS)}
