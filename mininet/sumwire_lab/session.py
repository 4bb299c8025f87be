# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One system of a run: its network, its workers, its records."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from sumwire_lab import control, switches
from sumwire_lab.fabric import Fabric, HostPlan, plan
from sumwire_lab.leftovers import Ledger
from sumwire_lab.options import RunOptions
from sumwire_lab.processes import wait_all
from sumwire_lab.progress import Progress
from sumwire_lab.records import Follower
from sumwire_lab.summary import SystemResult
from sumwire_lab.topology import Network
from sumwire_lab.train import WorkerSpec

Say = Callable[[str], None]


@dataclass
class Session:
    """A network that is up, with its switches ready and, for a P4 system, the job admitted."""

    fabric: Fabric
    network: Network
    ledger: Ledger
    folder: Path
    job_files: dict[str, Path]
    """By the job's name; none on kernel bridges."""

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
        processes = {name: getattr(node, "process", None) for name, node in self.network.switches.items()}
        return {self.fabric.label(name): process for name, process in processes.items() if process is not None}

    def logs(self, names: Iterable[str]) -> dict[str, Path]:
        """Log of each of these programs, and of the switches."""
        return {name: self.log(name) for name in [*names, *self.serving()]}


@contextmanager
def open_session(
    options: RunOptions,
    kind: str | None,
    folder: Path,
    jobs: Callable[[Fabric], list[dict[str, Any]]] = control.training_job,
) -> Iterator[Session]:
    """Network, switches and jobs for the time of the block. `kind` is `soft`, `bmv2`, or None for kernel bridges."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        ledger = Ledger.create()
        stack.callback(ledger.remove)
        fabric = plan(options.workers, options.link, ledger.token, options.topology)
        processes: dict[str, switches.P4Process] = {}
        if kind is not None:
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
        job_files = {}
        if processes:
            grpc = {name: process.grpc for name, process in processes.items()}
            job_files = control.install(fabric, grpc, folder, jobs(fabric))
        yield Session(fabric, network, ledger, folder, job_files)


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
    )
    spec_path = folder / "spec.json"
    spec.save(spec_path)
    progress = Progress(system, followers, say, on_first_step)
    began = time.monotonic()
    working: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for rank, (name, host) in enumerate(zip(names, fabric.hosts, strict=True)):
            command = [sys.executable, "-m", "sumwire_lab.train", str(spec_path), str(rank)]
            working[name] = session.start(name, host, command)
        wait_all(working, session.serving(), session.logs(names), deadline_s, progress.tick)
    finally:
        for process in working.values():
            process.kill()
            process.wait()
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
