# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One system of a run: its network, its workers, its records."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from sumwire_lab import control, switches
from sumwire_lab.leftovers import Ledger
from sumwire_lab.options import RunOptions
from sumwire_lab.processes import wait_all
from sumwire_lab.progress import Progress
from sumwire_lab.records import Follower
from sumwire_lab.summary import SystemResult
from sumwire_lab.topology import HostPlan, Network, Star, plan
from sumwire_lab.train import WorkerSpec

Say = Callable[[str], None]


@dataclass
class Session:
    """A network that is up, with its switch ready and, for a P4 system, the job admitted."""

    star: Star
    network: Network
    ledger: Ledger
    folder: Path
    job_file: Path | None
    """None on the kernel bridge."""
    grpc: str | None

    def start(self, name: str, host: HostPlan, command: list[str], **variables: str) -> subprocess.Popen[bytes]:
        """Start a program on a host; its output goes to `NAME.log`."""
        with self.log(name).open("wb") as log:
            return self.network.popen(host, command, stdout=log, env={**os.environ, **variables})

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def serving(self) -> dict[str, subprocess.Popen[bytes]]:
        """The processes that must live as long as the session."""
        process = getattr(self.network.switch, "process", None)
        return {} if process is None else {"switch": process}


@contextmanager
def open_session(options: RunOptions, kind: str | None, folder: Path) -> Iterator[Session]:
    """Network, switch and job for the time of the block. `kind` is `soft`, `bmv2`, or None for the kernel bridge."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        ledger = Ledger.create()
        stack.callback(ledger.remove)
        star = plan(options.workers, options.link, ledger.token)
        factory = switches.bridge()
        if kind is not None:
            factory = switches.p4(switches.P4Process(kind, folder / "switch.log", ledger, options.impair))
        network = stack.enter_context(Network(star, ledger, factory))
        job_file = grpc = None
        if kind is not None:
            grpc = network.switch.grpc
            job_file = control.install(star, grpc, switches.DEVICE_ID, folder, side_jobs=options.malformed > 0)
        yield Session(star, network, ledger, folder, job_file, grpc)


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
    star, folder = session.star, session.folder
    names = [f"worker{rank}" for rank in range(len(star.hosts))]
    followers = [Follower(folder / f"{name}.jsonl") for name in names]
    spec = WorkerSpec(
        system=system,
        workers=len(star.hosts),
        train=options.train,
        master=star.hosts[0].ip,
        interfaces=[host.host_interface for host in star.hosts],
        results=[str(follower.path) for follower in followers],
        job_file=None if session.job_file is None else str(session.job_file),
    )
    spec_path = folder / "spec.json"
    spec.save(spec_path)
    progress = Progress(system, followers, say, on_first_step)
    began = time.monotonic()
    working: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for rank, (name, host) in enumerate(zip(names, star.hosts, strict=True)):
            command = [sys.executable, "-m", "sumwire_lab.train", str(spec_path), str(rank)]
            working[name] = session.start(name, host, command)
        logs = {name: session.log(name) for name in [*names, "switch"]}
        wait_all(working, session.serving(), logs, deadline_s, progress.tick)
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
