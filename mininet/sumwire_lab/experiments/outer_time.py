# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Seconds of an outer step over links as between data centres: gloo, a ring with a byte a value, Sumwire with 4 bits.

All three go through the same soft switch, which delays and loses packets, in turn, by the same processes. TCP has BBR
where the kernel lets namespaces choose it: that bears random loss best.
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
from sumwire_lab.run.experiment import Say, interruptible, new_folder
from sumwire_lab.run.session import open_session

WORKERS: Final = 4
MBIT: Final = 20.0
LOSS: Final = 0.01
ROUND_TRIP_MS: Final = 50.0
VALUES, QUICK_VALUES = 4_000_000, 1_000_000
REPEATS, QUICK_REPEATS = 3, 1
_CONTROLS: Final = ("bbr", "cubic", "reno")
# What namespaces may choose.
_ALLOWED: Final = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
_MODULE: Final = "sumwire_lab.experiments.outer_worker"
# Between two hosts a packet passes the switch there and back, and each time two ports.
_PASSAGES: Final = 4


def impairment() -> str:
    """Of the soft switch's ports: loss in each direction of each link, and a quarter of the round trip."""
    return f"drop={LOSS},delay={ROUND_TRIP_MS / _PASSAGES},seed=1"


def run_outer_steps(results: Path, say: Say, *, quick: bool = False) -> dict[str, Any]:
    """`tcp`: congestion control. `seconds`: of an outer step by system, the slowest worker's, median of the repeats.

    Raises LabError, also if workers have different parameters.
    """
    require_tools()
    folder = new_folder(results, latest=False)
    control = best_control(_ALLOWED.read_text())
    with interruptible():
        seconds = _measured(control, folder / "steps", *((QUICK_VALUES, QUICK_REPEATS) if quick else (VALUES, REPEATS)))
    say(f"tcp {control}: " + ", ".join(f"{name} {one:.2f} s" for name, one in seconds.items()))
    record = {"tcp": control, "seconds": seconds}
    (folder / "outer.json").write_text(json.dumps(record) + "\n")
    return record


def best_control(allowed: str) -> str:
    """The best congestion control of the kernel's list. Raises LabError."""
    for name in _CONTROLS:
        if name in allowed.split():
            return name
    raise LabError(f"tcp_allowed_congestion_control has {allowed.strip()!r}, none of {', '.join(_CONTROLS)}")


def _measured(control: str, folder: Path, values: int, repeats: int) -> dict[str, float]:
    options = RunOptions(workers=WORKERS, link=LinkOptions(MBIT), impair=impairment())
    with open_session(options, "soft", folder) as session:
        for host in session.fabric.hosts:
            session.network.run(host, ["sysctl", "-q", "-w", f"net.ipv4.tcp_congestion_control={control}"])
        workers = run_workers(session, _MODULE, "outer", [values], repeats=len(SYSTEMS) * repeats)
    if len({tuple(worker["stats"]["digests"]) for worker in workers}) != 1:
        raise LabError(f"workers have different parameters after outer steps; see {folder}")
    return by_system(workers)


def by_system(workers: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Median of the slowest workers' seconds. Repeats go through the systems in turn."""
    slowest = [max(each) for each in zip(*(worker["sizes"][0]["seconds"] for worker in workers), strict=True)]
    return {name: median(slowest[number :: len(SYSTEMS)]) for number, name in enumerate(SYSTEMS)}
