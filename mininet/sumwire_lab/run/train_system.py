# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trains one system once, with a worker process on every host of a session."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from sumwire_lab.options.recipes import parse
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.run.progress import Progress
from sumwire_lab.run.records import Follower, WorkerRecord
from sumwire_lab.run.session import Session
from sumwire_lab.run.summary import SystemResult
from sumwire_lab.run.traces import join_traces
from sumwire_lab.study.experiment import Say
from sumwire_lab.system.barrier import Barrier
from sumwire_lab.training.worker import WorkerSpec

BARRIER: Final = "steps"
"""Name of the socket at which the workers wait for each other."""
_WORKER: Final = "sumwire_lab.training.worker"


def train(
    session: Session,
    system: str,
    options: RunOptions,
    *,
    deadline_s: float,
    say: Say,
    on_first_step: Callable[[], None] = lambda: None,
    on_tick: Callable[[Sequence[WorkerRecord]], None] = lambda _: None,
) -> SystemResult:
    """Train on the session's hosts. `on_first_step` is called after the first step, `on_tick` a few times a second with
    the workers' records so far. Raises what `wait_all` raises."""
    fabric, folder = session.fabric, session.folder
    followers = [Follower(folder / f"worker{rank}.jsonl") for rank in range(len(fabric.hosts))]
    recipe = parse(system).recipe
    spec = WorkerSpec(
        system=system,
        workers=len(fabric.hosts),
        train=options.train,
        master=fabric.hosts[0].ip,
        interfaces=[host.host_interface for host in fabric.hosts],
        results=[str(follower.path) for follower in followers],
        job_file=None if session.job_file is None else str(session.job_file),
        barrier=str(session.ledger.socket(BARRIER)) if options.needs_barrier else None,
        laned=options.laned if recipe.laned or recipe.bounded else None,
        slowness=[options.conditions.slowness(rank) for rank in range(len(fabric.hosts))],
    )
    spec_path = folder / "spec.json"
    spec.save(spec_path)
    progress = Progress(system, followers, say, on_first_step)

    def tick() -> None:
        progress.tick()
        on_tick([follower.record for follower in followers])

    began = time.monotonic()
    with ExitStack() as stack:
        if spec.barrier is not None:
            stack.enter_context(Barrier(Path(spec.barrier), spec.workers))
        session.run_workers(_WORKER, spec_path, deadline_s, tick)
    progress.tick()
    if session.trace is not None:
        join_traces(folder)
    records = tuple(follower.record for follower in followers)
    return SystemResult(system, records, wall_s=time.monotonic() - began)
