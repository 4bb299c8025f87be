# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a job of four workers beside hostile hosts, which forge its packets or send at the full rate of their link.

The fifth host has another job. The first run has no attacker; its frames are recorded, and its results are those that
an attacked run must have. The workers' sums are known.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
from nativelib import programs
from numpy.typing import NDArray

from sumwire_lab.bench.benchmark import network_experiment
from sumwire_lab.errors import DeadlineError, ProcessDiedError
from sumwire_lab.faults.frames import ForgeSpec
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.fabric import Fabric, HostPlan
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import Session, open_session
from sumwire_lab.study.experiment import Say
from sumwire_lab.study.workers import Rank, WorkerCall, answer_in, command_of, name_of
from sumwire_lab.system.processes import killed_after, stop_process


def contribution(values: int, rank: int, step: int) -> NDArray[np.int32]:
    """Return a worker's values for a step. Sums differ from place to place and from step to step."""
    return ((np.arange(values, dtype=np.int64) * 2654435761 + 7919 * step) % 100_003 * (rank + 1)).astype(np.int32)


def add(steps: int, rank: Rank) -> dict[str, Any]:
    """Worker: add values whose sums are known. Returns how many sums were wrong, and the seconds of every step."""
    factor = sum(range(1, rank.ranks + 1))
    wrong, seconds = 0, []
    with rank.job(fallback="never") as job:
        for step in range(steps):
            mine = contribution(VALUES, rank.number, step)
            began = time.monotonic()
            total = job.sum32(mine)
            seconds.append(time.monotonic() - began)
            wrong += not np.array_equal(total, contribution(VALUES, 0, step) * factor)
    return {"wrong": wrong, "seconds": seconds}


WORKERS: Final = 4
MBIT: Final = 100.0
VALUES: Final = 100_000
# Of each attacker: what two cores bear beside four workers and a switch.
PER_SECOND: Final = 1500.0
OTHER: Final = "other"
OTHER_ID: Final = 9
_OTHER_SLOTS: Final = 64
_DEADLINE_S: Final = 1200.0
# Steps of the run whose frames are recorded, and most of an attacked one.
_RECORDED: Final = 10
_STEPS_MAX: Final = 400
# Runs alone, and as many beside the hostile job, by turns.
_TURNS: Final = 4
_READY_S: Final = 30.0
_LOOK_S: Final = 0.02


@dataclass(frozen=True)
class HostileOutcome:
    """The records of one run's workers. `ended`: workers without a record, because their run was ended."""

    records: list[dict[str, Any]]
    ended: int

    @property
    def wrong(self) -> int:
        """Number of sums that differ from the sums of what the workers sent."""
        return sum(int(record["wrong"]) for record in self.records)

    @property
    def step_s(self) -> list[float]:
        """Seconds of the slowest worker in each step."""
        return [max(each) for each in zip(*(record["seconds"] for record in self.records), strict=True)]


def jobs(fabric: Fabric) -> list[dict[str, Any]]:
    """Return the job of four hosts, and that of the fifth host alone."""
    names = [host.name for host in fabric.hosts]
    good = control_plane.training_job(fabric)[0] | {"workers": names[:WORKERS]}
    other = control_plane.job(fabric, OTHER, OTHER_ID, ["sum32", "max32"], base=control_plane.SLOTS, count=_OTHER_SLOTS)
    return [good, other | {"workers": names[WORKERS:]}]


def run_forged(results: Path, say: Say, wanted: int) -> dict[str, int]:
    """Run beside three attackers until they have sent `wanted` frames: a neighbour, a user without rights on the first
    worker's host, and on that host also a replayer of an earlier run's frames.

    Returns frames forged and wanted, wrong sums, and workers that ended in another way than they should.
    """
    total = {"forged": 0, "wanted": wanted, "wrong": 0, "ended": 0}
    with _session(results) as session:
        worker, other = session.fabric.hosts[0], session.fabric.hosts[WORKERS]
        frames = _recorded(session)
        recordings, steps, run = [frames["worker"], frames["results"]], _RECORDED, 0
        while total["forged"] < wanted and not total["ended"]:
            run += 1
            attacks = [
                _attack(session, "neighbour", other, recordings, run),
                _attack(session, "user", worker, recordings, run),
                _attack(session, "replay", worker, recordings[:1], run),
            ]
            outcome = _run(session, steps, attacks)
            total["forged"] += sum(attack.told()["sent"] for attack in attacks)
            total["wrong"] += outcome.wrong
            total["ended"] += outcome.ended
            say(f"{steps} steps: {total['forged']} frames forged so far, {total['wrong']} sums wrong, "
                f"{total['ended']} workers ended")  # fmt: skip
            steps = min(_STEPS_MAX, 4 * steps)
    return total


def run_beside(results: Path, say: Say, steps: int) -> dict[str, float]:
    """Run `steps` steps alone, and beside a job whose host sends at the full rate of its link.

    Returns the seconds of a step in both cases, medians, and the share of its link that the other host used. Raises
    LabError.
    """
    with _session(results) as session:
        other = session.fabric.hosts[WORKERS]
        recording = _recorded(session)[OTHER]
        seconds: dict[bool, list[float]] = {False: [], True: []}
        shares = []
        for hostile in (False, True) * _TURNS:
            attacks = [_attack(session, "flood", other, [recording])] if hostile else []
            outcome = _run(session, steps, attacks)
            _require_good(session, outcome)
            seconds[hostile] += outcome.step_s
            shares += [told["bytes"] * 8 / told["seconds"] / MBIT / 1e6 for told in (one.told() for one in attacks)]
            say(f"{'beside the other job' if hostile else 'alone'}: {median(outcome.step_s):.4f} s a step")
    return {"alone_s": median(seconds[False]), "beside_s": median(seconds[True]), "link_share": min(shares)}


@contextmanager
def _session(results: Path) -> Iterator[Session]:
    options = RunOptions(workers=WORKERS + 1, link=LinkOptions(MBIT))
    with (
        network_experiment(results) as folder,
        open_session(options, switches.choose("soft"), folder, jobs) as session,
    ):
        # A train would be recorded as one frame, without checksums.
        session.network.end_offloads()
        yield session


def _recorded(session: Session) -> dict[str, str]:
    """A run of both jobs without attackers. Returns recordings: what the first worker sent, what the second one got,
    and what the other job's host sent."""
    first, second, *_, other = session.fabric.hosts
    ways = {"worker": (first, "SENT"), "results": (second, "RECEIVED"), OTHER: (other, "SENT")}
    files = {name: str(session.folder / f"{name}.frames") for name in ways}
    with killed_after() as recording:
        for name, (host, way) in ways.items():
            words = ["sumwire_lab.faults.frames", "record", host.host_interface, files[name], way]
            recording[name] = session.start(f"record-{name}", host, programs.module(*words))
        _await_files([Path(file) for file in files.values()])
        outcome = _run(session, _RECORDED, other=True)
    _require_good(session, outcome)
    return files


def _await_files(files: Sequence[Path]) -> None:
    """Return when the recorders listen: then they make their files."""
    end = time.monotonic() + _READY_S
    while not all(file.exists() for file in files):
        if time.monotonic() > end:
            raise DeadlineError(f"nothing is recorded after {_READY_S:g} s; see {files[0].parent}")
        time.sleep(_LOOK_S)


def _require_good(session: Session, outcome: HostileOutcome) -> None:
    if outcome.ended or outcome.wrong:
        text = f"{outcome.ended} workers ended, {outcome.wrong} sums are wrong"
        raise ProcessDiedError(f"{text}; see {session.folder}")


@dataclass(frozen=True)
class _Attack:
    """An attacker on a host."""

    how: str
    host: HostPlan
    spec: ForgeSpec

    def told(self) -> dict[str, Any]:
        """What it wrote at its end."""
        told: dict[str, Any] = json.loads(Path(self.spec.result).read_text())
        return told


def _attack(session: Session, how: str, host: HostPlan, recordings: Sequence[str], seed: int = 0) -> _Attack:
    switch = session.fabric.switches[0]
    workers = [(one.mac, one.ip) for one in session.fabric.hosts[:WORKERS]]
    addresses = [(host.mac, host.ip), (switch.aggregator_mac, switch.aggregator_ip), *workers]
    result = str(session.folder / f"{how}.json")
    return _Attack(how, host, ForgeSpec(host.host_interface, [*recordings], addresses, PER_SECOND, seed, result))


def _run(session: Session, steps: int, attacks: Sequence[_Attack] = (), *, other: bool = False) -> HostileOutcome:
    """The workers, and with `other` that of the other job, while the attackers send."""
    good = _workers(session, control_plane.JOB, session.fabric.hosts[:WORKERS], steps)
    beside = _workers(session, OTHER, session.fabric.hosts[WORKERS:], steps) if other else {}
    with killed_after() as processes:
        for attack in attacks:
            path = session.folder / f"{attack.how}.spec.json"
            attack.spec.save(path)
            command = programs.module("sumwire_lab.faults.frames", attack.how, str(path))
            processes[attack.how] = session.start(attack.how, attack.host, command)
        for name, (host, command) in {**good, **beside}.items():
            processes[name] = session.start(name, host, command)
        end = time.monotonic() + _DEADLINE_S
        statuses = [processes[name].wait(max(1.0, end - time.monotonic())) for name in (*good, *beside)]
        for attack in attacks:
            stop_process(processes[attack.how])
    if any(statuses):
        return HostileOutcome([], sum(status != 0 for status in statuses))
    return HostileOutcome([answer_in(session.folder / control_plane.JOB, rank) for rank in range(len(good))], 0)


def _workers(
    session: Session, job: str, hosts: Sequence[HostPlan], steps: int
) -> dict[str, tuple[HostPlan, list[str]]]:
    """Host and command of each worker of a job, by name."""
    interfaces = tuple(host.host_interface for host in hosts)
    call = WorkerCall(name_of(add), steps, str(session.folder / job), interfaces, job_file=str(session.job_files[job]))
    return {f"{job}{rank}": (host, command_of(call, rank)) for rank, host in enumerate(hosts)}
