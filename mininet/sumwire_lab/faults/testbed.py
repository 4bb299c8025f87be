# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The testbed of a case: a session with one switch that can be killed, links that can be set down, a network for the
process group, and programs on the hosts.

A dead switch loses every packet. Training can then only go on if the ranks have another network, like a cluster's
management network: here one kernel bridge, and a second interface on every host.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sumwire_controller

from sumwire_lab.errors import DeadlineError, LabError, ProcessDiedError
from sumwire_lab.faults import training_worker
from sumwire_lab.faults.cases import FaultCase
from sumwire_lab.faults.programs import HostProgram, Programs, programs_in
from sumwire_lab.faults.training_worker import RankTrainingSpec
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.fabric import Fabric, HostPlan
from sumwire_lab.network.topology import MininetNetwork, no_ipv6_command
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import Session, open_session
from sumwire_lab.study.workers import CHILD, Worker, WorkerCall, name_of, saved
from sumwire_lab.system.processes import family, last_lines


class SwitchFault:
    """Kills and restores the switch or software aggregator of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._starts = 1

    @property
    def programmed(self) -> bool:
        """Whether it starts empty, and must be applied. A software aggregator gets its job files instead."""
        return self._session.aggregator is None

    def kill(self) -> None:
        """Kill the switch with all its processes, as a power failure would."""
        process = self._process()
        for pid in family(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()

    def start(self) -> None:
        """Start the switch again, and return when it accepts connections. A P4 switch then has no program yet."""
        session = self._session
        self._starts += 1
        if session.aggregator is None:
            (node,) = session.network.switches.values()
            node.start(None)
        else:
            session.start_aggregator(f"aggregator{self._starts}")

    def apply(self) -> None:
        """Load program and entries from the session's configuration, as `sumwire-controller apply` does."""
        if self.programmed:
            config = sumwire_controller.load_config(self._session.folder / control_plane.CONFIGURATION)
            sumwire_controller.apply(config)

    def _process(self) -> subprocess.Popen[bytes]:
        serving = list(self._session.serving().values())
        if len(serving) != 1:
            raise LabError(f"{len(serving)} switches serve this session, not one")
        return serving[0]


@contextmanager
def link_down(network: MininetNetwork, host: HostPlan, *, at_host: bool) -> Iterator[None]:
    """Context manager in which the host's link carries nothing. `at_host`: its own end is set down, otherwise the
    switch's."""
    _set(network, host, "down", at_host)
    try:
        yield
    finally:
        _set(network, host, "up", at_host)


def _set(network: MininetNetwork, host: HostPlan, state: str, at_host: bool) -> None:
    interface = host.host_interface if at_host else host.switch_interface
    command = ["ip", "link", "set", interface, state]
    if at_host:
        network.run(host, command)
    else:
        subprocess.run(command, check=True, capture_output=True)


_ADDRESS: Final = "10.1.0.{}"


class GroupNetwork:
    """A second network for the process group: addresses and interfaces by rank. Its interface names begin with the
    session's token, and are removed with the session's."""

    def __init__(self, session: Session) -> None:
        token, hosts = session.fabric.token, session.fabric.hosts
        bridge = f"{token}-grp"
        _ip("link", "add", bridge, "type", "bridge", "stp_state", "0", "mcast_snooping", "0")
        subprocess.run(no_ipv6_command(bridge), check=True)
        _ip("link", "set", bridge, "up")
        self.addresses = [_ADDRESS.format(rank + 1) for rank in range(len(hosts))]
        self.interfaces = [f"{token}-g{rank + 1}" for rank in range(len(hosts))]
        for host, address, interface in zip(hosts, self.addresses, self.interfaces, strict=True):
            here = interface.replace("-g", "-b")
            inside = ("netns", str(session.network.pid(host)))
            _ip("link", "add", here, "type", "veth", "peer", "name", interface, *inside)
            _ip("link", "set", here, "master", bridge, "up")
            session.network.run(host, no_ipv6_command(interface))
            session.network.run(host, ["ip", "address", "add", f"{address}/24", "dev", interface])
            session.network.run(host, ["ip", "link", "set", interface, "up"])


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


WORKERS: Final = 3
LINK: Final = LinkOptions(100.0)
PACE_S: Final = 0.1
_ENDLESS: Final = 100_000
_LOOK_SECONDS: Final = 0.02


@dataclass
class FaultTestbed:
    """Everything that a row may disturb."""

    case: FaultCase
    session: Session
    group: GroupNetwork
    programs: Programs
    switch: SwitchFault

    @property
    def folder(self) -> Path:
        return self.session.folder

    @property
    def workers(self) -> int:
        return len(self.session.fabric.hosts)

    def start(self, name: str, rank: int, module: str, *arguments: str) -> HostProgram:
        """Start a program on a rank's host."""
        host = self.session.fabric.hosts[rank]
        return self.programs.start(name, self.session.network.pid(host), module, arguments)

    def saved(self, name: str, function: Worker, argument: Any, job_file: Path | None = None) -> Path:
        """Save a call, and return its file, in a separate folder below the case's. ``job_file``: by default the
        session's."""
        call = WorkerCall(
            name_of(function),
            argument,
            str(self.folder / name),
            tuple(self.group.interfaces),
            self.group.addresses[0],
            str(job_file or self.session.job_file),
        )
        return saved(call)

    def call(
        self, name: str, function: Worker, argument: Any, *, ranks: Sequence[int] = (), job_file: Path | None = None
    ) -> list[HostProgram]:
        """Call a worker on the hosts of these ranks, by default on all. Its return values are written to the folder
        NAME."""
        path = str(self.saved(name, function, argument, job_file))
        return [
            self.start(f"{name}/worker{rank}", rank, CHILD, path, str(rank)) for rank in ranks or range(self.workers)
        ]

    def train_on(self, system: str) -> RunningTraining:
        """Start a training that runs until `Training.end_soon`, at a pace that leaves CPU time to other processes."""
        until = str(self.folder / "until")
        return self.train("train", RankTrainingSpec(system, pace_s=PACE_S, steps=_ENDLESS, until=until))

    def train(self, name: str, spec: RankTrainingSpec) -> RunningTraining:
        """Start a training on all hosts, in a folder of its own."""
        return RunningTraining(spec, self.folder / name, self.workers, self.call(name, training_worker.train, spec))


@dataclass
class RunningTraining:
    """A training that runs, and what its ranks have written."""

    spec: RankTrainingSpec
    folder: Path
    workers: int
    programs: list[HostProgram]

    def lines(self, rank: int) -> list[dict[str, Any]]:
        return lines_of(self.folder / f"rank{rank}.jsonl")

    def steps(self) -> list[int]:
        """Return the number of steps that each rank has completed."""
        return [_last_step(self.lines(rank)) for rank in range(self.workers)]

    def wait_steps(self, step: int, seconds: float) -> None:
        """Wait until every rank has done ``step`` steps. Raises the errors of `wait_until`."""
        self.wait_until(lambda: min(self.steps()) >= step, seconds, f"step {step}")

    def wait_until(self, there: Callable[[], bool], seconds: float, what: str) -> None:
        """Wait until `there()` is true. Raises ProcessDiedError if a rank has failed, DeadlineError after `seconds`."""
        end = time.monotonic() + seconds
        while not there():
            for program in self.programs:
                if program.exit_code not in (None, 0):
                    raise ProcessDiedError(f"{program.name} ended with {program.exit_code}:\n{last_lines(program.log)}")
            if time.monotonic() > end:
                raise DeadlineError(f"{what}: not within {seconds:g} s, ranks are at steps {self.steps()}")
            time.sleep(_LOOK_SECONDS)

    def end_soon(self, more: int = 10) -> None:
        """Let all ranks end ``more`` steps after the furthest step of any rank."""
        assert self.spec.until is not None
        partial = Path(self.spec.until).with_suffix(".partial")
        partial.write_text(str(max(self.steps()) + more))
        partial.replace(self.spec.until)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the complete lines of a rank's file."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _last_step(lines: Sequence[dict[str, Any]]) -> int:
    return next((line["step"] for line in reversed(lines) if line["kind"] == "step"), 0)


@contextmanager
def open_testbed(
    case: FaultCase,
    folder: Path,
    jobs: Callable[[Fabric], list[dict[str, Any]]] = control_plane.training_job,
    workers: int = WORKERS,
    topology: str = "star",
) -> Iterator[FaultTestbed]:
    """Open the testbed of a case for the time of the block."""
    options = RunOptions(workers=workers, switch=case.switch, link=LINK, topology=topology)
    kind = switches.choose(case.switch)
    with open_session(options, kind, folder, jobs) as session, programs_in(folder) as programs:
        yield FaultTestbed(case, session, GroupNetwork(session), programs, SwitchFault(session))


def account(training: RunningTraining) -> dict[str, Any]:
    """Return the account of a training. `unequal`: steps after which the replicas differ. `compared`: steps that were
    compared. `changes`: by rank, every change between network and fall-back, with its step and wall-clock time. `ends`:
    by rank, the last line."""
    ranks = [training.lines(rank) for rank in range(training.workers)]
    digests: dict[int, set[str]] = {}
    for lines in ranks:
        for line in lines:
            if line["kind"] == "step":
                digests.setdefault(line["step"], set()).add(line["digest"])
    return {
        "compared": len(digests),
        "unequal": sorted(step for step, found in digests.items() if len(found) > 1),
        "changes": [_changes(lines) for lines in ranks],
        "ends": [next((line for line in reversed(lines) if line["kind"] == "end"), None) for lines in ranks],
    }


def _changes(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    changes, before = [], False
    for line in lines:
        if line["kind"] == "step" and line["fallen_back"] != before:
            before = line["fallen_back"]
            changes.append({"step": line["step"], "at": line["at"], "fallen_back": before})
    return changes
