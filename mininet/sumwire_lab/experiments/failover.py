# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Kills a spine switch during operations: how long do workers stall, and are all results equal?"""

from __future__ import annotations

import json
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import sumwire_controller
from sumwire_controller.deploy.watch import Event, Watch

from sumwire_lab.errors import LabError
from sumwire_lab.experiments.spines import HOST_MBIT, SLOT, TRUNK_MBIT, WORKERS, jobs
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import Session, open_session
from sumwire_lab.study.experiment import Say, interruptible, new_folder

VALUES: Final = 50_000
OPERATIONS: Final = 60
# The spine is killed when the first worker has completed so many operations.
DIES_AFTER: Final = 20
_DEADLINE_SECONDS: Final = 120.0


@dataclass(frozen=True)
class Failover:
    """``usual_s``: the median operation. ``stall_s``: how much longer the longest one took. ``left_out_s``: time until
    the leaves' tables no longer used the spine. ``digests``: of all results, one per worker."""

    usual_s: float
    stall_s: float
    left_out_s: float
    digests: list[str]
    fallbacks: int

    @property
    def equal(self) -> bool:
        return len(set(self.digests)) == 1


def run_failover(results: Path, say: Say, switch: str = "soft") -> Failover:
    """Kill the second spine during the operations. Raises LabError."""
    require_tools()
    folder = new_folder(results, latest=False)
    link = LinkOptions(HOST_MBIT, trunk_mbit=TRUNK_MBIT)
    options = RunOptions(workers=WORKERS, topology="leaf-spine2", switch=switch, link=link)
    with (
        interruptible(),
        open_session(options, switches.choose(switch), folder, lambda fabric: jobs(fabric, SLOT)) as session,
    ):
        left_out_s, records = _work(session)
    # The first operation waits for processes that are still starting.
    seconds = [max(each) for each in zip(*(record["seconds"] for record in records), strict=True)][1:]
    usual = median(seconds)
    outcome = Failover(
        usual,
        max(seconds) - usual,
        left_out_s,
        [record["digest"] for record in records],
        sum(record["fallbacks"] for record in records),
    )
    (folder / "failover.json").write_text(json.dumps(asdict(outcome)) + "\n")
    say(f"a dead spine: left out after {left_out_s:.3f} s, longest stall {outcome.stall_s:.3f} s")
    return outcome


def _work(session: Session) -> tuple[float, list[dict[str, Any]]]:
    hosts, folder = session.fabric.hosts, session.folder
    spec: dict[str, Any] = {
        "job_file": str(session.job_file),
        "values": VALUES,
        "operations": OPERATIONS,
        "results": [str(folder / f"worker{rank}.json") for rank in range(len(hosts))],
        "counts": [str(folder / f"count{rank}") for rank in range(len(hosts))],
    }
    path = folder / "spec.json"
    path.write_text(json.dumps(spec))
    configs = sumwire_controller.configs_of(sumwire_controller.load_topology(folder / control_plane.CONFIGURATION))
    serving = session.serving()
    spine = serving.pop(session.fabric.label("spine2"))
    died, left_out = _Moment(), _Moment()

    def heard(event: Event) -> None:
        if event.kind == "moved":
            left_out.note()

    def tick() -> None:
        count = Path(spec["counts"][0])
        if not died.at and count.exists() and count.stat().st_size >= DIES_AFTER:
            died.note()
            spine.send_signal(signal.SIGKILL)

    with Watch(configs, say=heard):
        session.run_workers("sumwire_lab.experiments.failover_worker", path, _DEADLINE_SECONDS, tick, serving)
    if not died.at or not left_out.at:
        raise LabError(f"the spine died: {bool(died.at)}, it was left out: {bool(left_out.at)}")
    return left_out.at - died.at, [json.loads(Path(name).read_text()) for name in spec["results"]]


class _Moment:
    """The time at which something last happened; 0.0 before."""

    at = 0.0

    def note(self) -> None:
        self.at = time.monotonic()
