# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One system of a run: its network, its workers, its records."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

from sumwire_lab.network import control_plane as control
from sumwire_lab.network import switches
from sumwire_lab.network.fabric import Fabric, HostPlan, plan
from sumwire_lab.network.topology import Network
from sumwire_lab.options.recipes import parse
from sumwire_lab.options.run_options import AGGREGATOR, RunOptions
from sumwire_lab.run.progress import Progress
from sumwire_lab.run.records import Follower
from sumwire_lab.run.summary import SystemResult
from sumwire_lab.system import drop_counters as losses
from sumwire_lab.system.barrier import Meeting
from sumwire_lab.system.drop_counters import Counted
from sumwire_lab.system.leftovers import Ledger
from sumwire_lab.system.processes import kill_all, wait_all
from sumwire_lab.training.train import WorkerSpec

Say = Callable[[str], None]
# The line that the software aggregator begins with once it listens.
AGGREGATOR_READY: Final = "ready:"
MEETING: Final = "steps"
"""Where the workers of a run meet, as its socket's name says."""


@dataclass
class Session:
    """A network that is up, with its switches ready and, for a P4 system, the job admitted."""

    fabric: Fabric
    network: Network
    ledger: Ledger
    folder: Path
    job_files: dict[str, Path]
    """By the job's name; none on kernel bridges."""
    aggregator: subprocess.Popen[bytes] | None = None
    """The software one, where it takes the switch's place."""

    @property
    def job_file(self) -> Path | None:
        """The training job's."""
        return self.job_files.get(control.JOB)

    def start(self, name: str, host: HostPlan, command: list[str], **variables: str) -> subprocess.Popen[bytes]:
        """Start a program on a host; its output goes to `NAME.log`."""
        with self.log(name).open("wb") as log:
            return self.network.popen(host, command, stdout=log, env={**os.environ, **variables})

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def serving(self) -> dict[str, subprocess.Popen[bytes]]:
        """The processes that must live as long as the session."""
        processes = {
            self.fabric.label(name): getattr(node, "process", None) for name, node in self.network.switches.items()
        }
        processes[AGGREGATOR] = self.aggregator
        return {name: process for name, process in processes.items() if process is not None}

    def counted(self) -> Counted:
        """Packets lost so far, as far as the network can be asked while it is up."""
        logs = [self.log(name) for name in self.serving()]
        sockets = None if self.aggregator is None else losses.host_sockets(self.aggregator.pid)
        return Counted(self.network.queue_drops(), logs, sockets)

    def logs(self, names: Iterable[str]) -> dict[str, Path]:
        """Log of each of these programs, and of the switches."""
        return {name: self.log(name) for name in [*names, *self.serving()]}


@contextmanager
def open_session(
    options: RunOptions,
    kind: str | None,
    folder: Path,
    jobs: Callable[[Fabric], list[dict[str, Any]]] = control.training_job,
    queues: Callable[[Fabric], Sequence[dict[str, Any]]] = lambda _: (),
) -> Iterator[Session]:
    """Network, switches and jobs for the time of the block. `kind` is `soft`, `bmv2`, `aggregator`, or None for kernel
    bridges alone; `queues` are the P4 switches' virtual ones."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        ledger = Ledger.create()
        stack.callback(ledger.remove)
        fabric = plan(options.workers, options.link, ledger.token, options.topology, server=kind == AGGREGATOR)
        processes: dict[str, switches.P4Process] = {}
        if kind is not None and kind != AGGREGATOR:
            processes = {
                s.name: switches.P4Process(
                    kind,
                    folder / f"{fabric.label(s.name)}.log",
                    ledger,
                    engine=options.engine,
                    impair=options.impair,
                    device_id=s.device_id,
                    seed=options.train.seed,
                )
                for s in fabric.switches
            }
        factory = switches.p4(processes) if processes else switches.bridge()
        network = stack.enter_context(Network(fabric, ledger, factory))
        session = Session(fabric, network, ledger, folder, {})
        if processes:
            grpc = {name: process.grpc for name, process in processes.items()}
            session.job_files = control.install(fabric, grpc, folder, jobs(fabric), queues(fabric))
        if fabric.server is not None:
            session.job_files = control.describe(fabric, folder, jobs(fabric))
            session.aggregator = stack.enter_context(_aggregator(session, fabric.server))
        yield session


@contextmanager
def _aggregator(session: Session, server: HostPlan) -> Iterator[subprocess.Popen[bytes]]:
    """The software aggregator on its host, ready, for the time of the block."""
    command = [sys.executable, "-m", "sumwire.aggregator.cli", *map(str, session.job_files.values())]
    process = session.start(AGGREGATOR, server, command)
    try:
        switches.wait_said(process, AGGREGATOR_READY, session.log(AGGREGATOR))
        yield process
    finally:
        switches.stop_process(process)


def train(
    session: Session,
    system: str,
    options: RunOptions,
    *,
    deadline_s: float,
    say: Say,
    on_first_step: Callable[[], None] = lambda: None,
) -> SystemResult:
    """Train once on the session's hosts. Raises what `wait_all` raises; no worker outlives the call."""
    fabric, folder = session.fabric, session.folder
    names = [f"worker{rank}" for rank in range(len(fabric.hosts))]
    followers = [Follower(folder / f"{name}.jsonl") for name in names]
    spec = WorkerSpec(
        system=system,
        workers=len(fabric.hosts),
        train=options.train,
        master=fabric.hosts[0].ip,
        interfaces=[host.host_interface for host in fabric.hosts],
        results=[str(follower.path) for follower in followers],
        job_file=None if session.job_file is None else str(session.job_file),
        meeting=str(session.ledger.socket(MEETING)) if options.meets else None,
        laned=options.laned if parse(system).recipe.laned else None,
        slowness=[options.conditions.slowness(rank) for rank in range(len(fabric.hosts))],
    )
    spec_path = folder / "spec.json"
    spec.save(spec_path)
    progress = Progress(system, followers, say, on_first_step)
    began = time.monotonic()
    working: dict[str, subprocess.Popen[bytes]] = {}
    with ExitStack() as stack:
        if spec.meeting is not None:
            stack.enter_context(Meeting(Path(spec.meeting), spec.workers))
        stack.callback(kill_all, working)
        for rank, (name, host) in enumerate(zip(names, fabric.hosts, strict=True)):
            command = [sys.executable, "-m", "sumwire_lab.training.train", str(spec_path), str(rank)]
            working[name] = session.start(name, host, command)
        wait_all(working, session.serving(), session.logs(names), deadline_s, progress.tick)
    progress.tick()
    records = tuple(follower.record for follower in followers)
    return SystemResult(system, records, wall_s=time.monotonic() - began)


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does; while the run cleans up, further ones are ignored."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    before: dict[int, Any] = {s: signal.signal(s, interrupt) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
