# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Worker processes of benchmarks and experiments: started on every host of a session, or over loopback.

Each worker is told in one JSON file what to do, and writes one record. `run_worker` is the worker's side of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from nativelib import programs

from sumwire_lab.bench.aggregator import job_mapping
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.run_options import AGGREGATOR
from sumwire_lab.run.session import Session
from sumwire_lab.study.experiment import interruptible, new_folder
from sumwire_lab.study.workers import AGGREGATOR_READY
from sumwire_lab.system.processes import end_with_parent, family, killed_after, wait_all, wait_said

REPEATS: Final = 3
_DEADLINE_SECONDS: Final = 900.0


def run_workers(
    session: Session,
    module: str,
    told: Mapping[str, Any],
    *,
    deadline_s: float = _DEADLINE_SECONDS,
    tick: Callable[[], None] = lambda: None,
    serving: Mapping[str, subprocess.Popen[bytes]] | None = None,
) -> list[dict[str, Any]]:
    """Run `python -m MODULE SPEC RANK` on every host. Returns the workers' records, by rank.

    The spec has `told`, and what all workers need: the job file, interfaces by rank, where the process group meets, the
    switches' processes, and a file for each record. The other parameters are those of `Session.run_workers`, which also
    says what this raises.
    """
    hosts = session.fabric.hosts
    where = {"master": hosts[0].ip, "job_file": None if session.job_file is None else str(session.job_file)}
    interfaces = [host.host_interface for host in hosts]
    spec = _spec(session.folder, interfaces, session.serving(), {**where, **told})
    session.run_workers(module, saved(spec, session.folder), deadline_s, tick, serving)
    return _records(spec)


def run_on_loopback(folder: Path, module: str, workers: int, told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """As `run_workers`, with all workers and a software aggregator as processes of this machine. Needs no root."""
    job_file = folder / "job.json"
    job_file.write_text(json.dumps(job_mapping(workers)))
    with _aggregator(job_file) as serving, killed_after() as working:
        where = {"store": str(folder / "store"), "job_file": str(job_file)}
        spec = _spec(folder, ["lo"] * workers, serving, {**where, **told})
        path = saved(spec, folder)
        for rank in range(workers):
            name = f"worker{rank}"
            working[name] = _started(folder / f"{name}.log", module, str(path), str(rank))
        logs = {name: folder / f"{name}.log" for name in (*working, *serving)}
        wait_all(working, serving, logs, _DEADLINE_SECONDS, lambda: None)
    return _records(spec)


@contextmanager
def network_experiment(results: Path) -> Iterator[Path]:
    """A new folder of `results`, for the time of an experiment that needs root and a network, and may be interrupted.

    Raises LabError if this machine lacks a tool.
    """
    require_tools()
    folder = new_folder(results, latest=False)
    with interruptible():
        yield folder


def saved(spec: Mapping[str, Any], folder: Path, name: str = "spec.json") -> Path:
    """The file with a spec."""
    path = folder / name
    path.write_text(json.dumps(spec))
    return path


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
        command = programs.module(module, *arguments)
        return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)


def _spec(
    folder: Path, interfaces: list[str], serving: Mapping[str, subprocess.Popen[bytes]], told: Mapping[str, Any]
) -> dict[str, Any]:
    results = [str(folder / f"worker{rank}.json") for rank in range(len(interfaces))]
    switches = [pid for process in serving.values() for pid in family(process.pid)]
    return {"repeats": REPEATS, "interfaces": interfaces, "results": results, "switches": switches, **told}


def _records(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(Path(result).read_text()) for result in spec["results"]]


def run_worker(work: Callable[[dict[str, Any], int], Any], arguments: list[str], *, group: bool = False) -> None:
    """The whole process of a worker: writes what `work(spec, rank)` returns. `arguments`: SPEC.json and RANK.

    With `group`, within a process group over gloo, after which the interpreter is not shut down (see `leave`). Torch,
    where the module of `work` has imported it, computes in one thread.
    """
    end_with_parent()
    spec, rank = json.loads(Path(arguments[0]).read_text()), int(arguments[1])
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(1)
    if group:
        join_group(spec, rank, len(spec["interfaces"]), spec["interfaces"][rank])
    Path(spec["results"][rank]).write_text(json.dumps(work(spec, rank)))
    if group:
        leave_group()


def join_group(spec: Mapping[str, Any], rank: int, world: int, interface: str) -> None:
    """Join the spec's process group, through an interface of this host."""
    import torch.distributed as dist

    from sumwire_lab.study.workers import GROUP_TIMEOUT, MASTER_PORT

    os.environ["GLOO_SOCKET_IFNAME"] = interface
    # Workers of one machine meet in a file: a port found free may be another program's when the group opens it.
    method = f"file://{spec['store']}" if "store" in spec else f"tcp://{spec['master']}:{MASTER_PORT}"
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=world, timeout=GROUP_TIMEOUT)


def leave_group() -> None:
    """Leave the process group, and end this process."""
    import torch.distributed as dist

    from sumwire_lab.system.processes import leave

    dist.destroy_process_group()
    leave()
