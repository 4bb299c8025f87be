# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a benchmark's worker on every host of a session, or in processes over loopback, and collects what each wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sumwire_lab.bench.aggregator_load import job_mapping
from sumwire_lab.options.run_options import AGGREGATOR
from sumwire_lab.run.session import Session
from sumwire_lab.study.workers import AGGREGATOR_READY
from sumwire_lab.system.processes import family, killed_after, wait_all
from sumwire_lab.system.readiness import wait_said

REPEATS: Final = 3
_DEADLINE_SECONDS: Final = 900.0


def run_workers(session: Session, module: str, system: str, sizes: Sequence[int], **more: Any) -> list[dict[str, Any]]:
    """Run `python -m MODULE SPEC RANK` on every host. Returns the workers' records, by rank.

    The spec says which system exchanges which sizes (numbers of values) and how often; `more` is added to it.
    """
    hosts = session.fabric.hosts
    spec = _spec(
        session.folder,
        system,
        sizes,
        master=hosts[0].ip,
        interfaces=[host.host_interface for host in hosts],
        switches=[pid for process in session.serving().values() for pid in family(process.pid)],
        job_file=None if session.job_file is None else str(session.job_file),
        **more,
    )
    session.run_workers(module, _saved(spec, session.folder), _DEADLINE_SECONDS)
    return _records(spec)


def run_on_loopback(
    folder: Path, module: str, system: str, sizes: Sequence[int], *, workers: int, **more: Any
) -> list[dict[str, Any]]:
    """As `run_workers`, with all workers and a software aggregator as processes of this machine. Needs no root."""
    job = job_mapping(workers)
    job_file = folder / "job.json"
    job_file.write_text(json.dumps(job))
    with _aggregator(job_file) as serving, killed_after() as working:
        spec = _spec(
            folder,
            system,
            sizes,
            store=str(folder / "store"),
            interfaces=["lo"] * workers,
            switches=[pid for process in serving.values() for pid in family(process.pid)],
            job_file=str(job_file),
            **more,
        )
        path = _saved(spec, folder)
        for rank in range(workers):
            name = f"worker{rank}"
            working[name] = _started(folder / f"{name}.log", module, str(path), str(rank))
        logs = {name: folder / f"{name}.log" for name in (*working, *serving)}
        wait_all(working, serving, logs, _DEADLINE_SECONDS, lambda: None)
    return _records(spec)


@contextmanager
def _aggregator(job_file: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """A software aggregator that serves the job for the time of the block, by name."""
    log = job_file.parent / f"{AGGREGATOR}.log"
    with killed_after() as serving:
        serving[AGGREGATOR] = _started(log, "sumwire.aggregator.cli", str(job_file))
        wait_said(serving[AGGREGATOR], AGGREGATOR_READY, log)
        yield serving


def _started(log: Path, module: str, *arguments: str) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen([sys.executable, "-m", module, *arguments], stdout=out, stderr=subprocess.STDOUT)


def _spec(folder: Path, system: str, sizes: Sequence[int], *, interfaces: list[str], **more: Any) -> dict[str, Any]:
    results = [str(folder / f"worker{rank}.json") for rank in range(len(interfaces))]
    given = {"system": system, "sizes": list(sizes), "repeats": REPEATS, "interfaces": interfaces, "results": results}
    return given | more


def _saved(spec: dict[str, Any], folder: Path) -> Path:
    path = folder / "spec.json"
    path.write_text(json.dumps(spec))
    return path


def _records(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(Path(result).read_text()) for result in spec["results"]]
