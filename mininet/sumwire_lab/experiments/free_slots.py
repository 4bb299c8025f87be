# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Three jobs come one after the other to a switch whose slots are scarce: with a third each, and with what is free when
they come.

Round trips of 80 ms make 96 slots scarce; another job has the rest. A job that finds none waits until one ends, as
somebody does who applies the configuration again then. What a job sends is known, so its sums are checked.
"""

from __future__ import annotations

import json
import math
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np
import sumwire
import sumwire_controller
from sumwire_protocol.constants import SLOTS_TOTAL

from sumwire_lab.bench.benchmark import network_experiment
from sumwire_lab.errors import LabError
from sumwire_lab.experiments.hostile_hosts import contribution
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.fabric import Fabric
from sumwire_lab.options.conditions import Conditions
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import Session, open_session
from sumwire_lab.study.experiment import Say
from sumwire_lab.study.workers import Rank, WorkerCall, answer_in, command_of, name_of
from sumwire_lab.system.processes import killed_after, wait_all

MBIT: Final = 10.0
DELAY_MS: Final = 20.0
SLOTS: Final = 96
"""With half of them under way a job alone has half of its links' rate."""
JOBS: Final = ("first", "second", "third")
_WORKERS: Final = 2
ARRIVE_S: Final = (0.0, 3.0, 6.0)
"""Seconds from the first job's arrival. A job that is alone takes about five."""
STEPS: Final = 4
VALUES: Final = 300_000
_LOOK_S: Final = 0.02
_DEADLINE_S: Final = 300.0

RULES: Final[dict[str, Callable[[int], dict[str, int]]]] = {
    "static": lambda number: {"base": number * SLOTS // len(JOBS), "count": SLOTS // len(JOBS)},
    "free": lambda _: {"most": SLOTS},
}
"""The section `slots` of a job, by its number in JOBS."""


def train(_: None, rank: Rank) -> dict[str, float]:
    """Worker: wait for the job's file, and add values whose sums are known. Returns how many sums were wrong, and when
    the last one was there (the machine's clock)."""
    assert rank.job_file is not None
    _ready(rank.folder, rank.number).touch()
    while not rank.job_file.exists():
        time.sleep(_LOOK_S)
    factor, wrong = sum(range(1, rank.ranks + 1)), 0
    with sumwire.Job(rank.config(), fallback="never") as job:
        for step in range(STEPS):
            total = job.sum32(contribution(VALUES, rank.number, step))
            wrong += not np.array_equal(total, contribution(VALUES, 0, step) * factor)
        ended = time.monotonic()
    return {"wrong": wrong, "ended_s": ended}


def _ready(folder: Path, rank: int) -> Path:
    """The file by which a worker says that it has imported everything, which takes seconds."""
    return folder / f"ready{rank}"


def run_free_slots(results: Path, say: Say) -> dict[str, float]:
    """Return the mean completion time in seconds by rule, from a job's arrival to its last sum. Raises LabError."""
    found = {}
    options = RunOptions(workers=_WORKERS * len(JOBS), link=LinkOptions(MBIT), conditions=Conditions(delay_ms=DELAY_MS))
    with network_experiment(results) as folder:
        for rule, slots in RULES.items():
            with open_session(options, switches.choose("soft"), folder / rule, _others) as session:
                times = _Play(session, slots).completions()
            found[rule] = fmean(times)
            say(f"{rule}: {', '.join(f'{one:.2f}' for one in times)} s from arrival to end")
    return found


def _others(fabric: Fabric) -> list[dict[str, Any]]:
    """The job that has the slots that are not scarce."""
    return [control_plane.job(fabric, "others", len(JOBS) + 1, ["sum32"], base=SLOTS, count=SLOTS_TOTAL - SLOTS)]


class _Play:
    """The three jobs on a switch, and somebody who applies the configuration when one comes or ends. ``slots``: the
    section of each job."""

    def __init__(self, session: Session, slots: Callable[[int], dict[str, int]]) -> None:
        self._session, self._slots = session, slots
        self._folders = [session.folder / name for name in JOBS]
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._began = math.inf
        self._waiting, self._there = list(range(len(JOBS))), list[int]()

    def completions(self) -> list[float]:
        """Return the seconds from arrival to the last sum, by job. Raises LabError, also for wrong sums."""
        session = self._session
        with killed_after() as self._processes:
            for number, folder in enumerate(self._folders):
                folder.mkdir()
                call = WorkerCall(
                    name_of(train), None, str(folder), ("",) * _WORKERS, job_file=str(folder / "job.json")
                )
                for rank in range(_WORKERS):
                    host = session.fabric.hosts[number * _WORKERS + rank]
                    name = f"{JOBS[number]}{rank}"
                    self._processes[name] = session.start(name, host, command_of(call, rank))
            logs = session.logs(self._processes)
            wait_all(self._processes, session.serving(), logs, _DEADLINE_S, self._look)
        answers = [[answer_in(folder, rank) for rank in range(_WORKERS)] for folder in self._folders]
        if any(answer["wrong"] for job in answers for answer in job):
            raise LabError(f"sums are wrong; see {session.folder}")
        ends = [max(answer["ended_s"] for answer in job) for job in answers]
        return [end - self._began - arrival for end, arrival in zip(ends, ARRIVE_S, strict=True)]

    def _look(self) -> None:
        """Admit jobs that have come, once all workers are ready."""
        if math.isinf(self._began):
            if not all(_ready(folder, rank).exists() for folder in self._folders for rank in range(_WORKERS)):
                return
            self._began = time.monotonic()
        self._there = [number for number in self._there if not self._has_ended(number)]
        now = time.monotonic() - self._began
        while self._waiting and now >= ARRIVE_S[self._waiting[0]] and self._admit([*self._there, self._waiting[0]]):
            self._there.append(self._waiting.pop(0))

    def _has_ended(self, number: int) -> bool:
        return all(self._processes[f"{JOBS[number]}{rank}"].poll() is not None for rank in range(_WORKERS))

    def _admit(self, numbers: Sequence[int]) -> bool:
        """Apply a configuration with these jobs, and write the last one's file. False if no slots are free for it."""
        fabric = self._session.fabric
        names = [host.name for host in fabric.hosts]
        jobs = _others(fabric)
        for number in numbers:
            workers = names[number * _WORKERS :][:_WORKERS]
            one = control_plane.job(fabric, JOBS[number], number + 1, ["sum32", "max32"], base=0, count=0)
            jobs.append(one | {"workers": workers, "slots": self._slots(number)})
        config = sumwire_controller.parse_config(
            json.dumps(control_plane.configuration(fabric, self._session.grpc, jobs))
        )
        try:
            # The jobs that have ended leave.
            sumwire_controller.apply(config, force=True)
        except sumwire_controller.NoFreeSlotsError:
            return False
        last = JOBS[numbers[-1]]
        settled = sumwire_controller.with_slots_of(last, config, [config])
        written = self._folders[numbers[-1]] / "job.json.new"
        written.write_text(sumwire_controller.job_json(settled, last))
        written.rename(written.with_suffix(""))
        return True
