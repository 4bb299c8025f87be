# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Worker processes: call a function of a module in child processes, with JSON as input and output.

A worker is ``def work(given: Given) -> ...`` or ``def work(given: Given, rank: Rank) -> ...`` at the top level of a
module. ``given`` has the type of its annotation, a dataclass for example. The return value goes back as JSON
(:func:`sumwire_lab.options.plain.to_json`). Children are started on this machine (:func:`on_loopback`,
:func:`in_child`) or on the hosts of a network (:meth:`sumwire_lab.run.session.Session.call`). They die with their
parent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nativelib import programs

from sumwire_lab.errors import LabError
from sumwire_lab.options.plain import to_json
from sumwire_lab.system.barrier import WAIT_SECONDS
from sumwire_lab.system.processes import killed_after, wait_all, wait_said

if TYPE_CHECKING:
    import sumwire
    from sumwire.config import JobConfig

MASTER_PORT: Final = 29500
GROUP_TIMEOUT: Final = timedelta(seconds=WAIT_SECONDS)
AGGREGATOR: Final = "aggregator"
AGGREGATOR_READY: Final = "ready:"
"""Beginning of the line that the software aggregator prints once it listens."""
CHILD: Final = "sumwire_lab.study.call"
"""The module of a child: its arguments are the file of the call, and a rank, else that of torchrun."""
_SLOTS: Final = 512

Worker = Callable[..., Any]
Start = Callable[[str, int, list[str]], "subprocess.Popen[bytes]"]
"""Starts the command of a worker, by its name and rank, with its output in the log of that name."""


@dataclass(frozen=True)
class WorkerCall:
    """The input of the children of one call. ``master``: the address of the first rank; None on one machine, where
    ranks meet in a file."""

    function: str
    argument: Any
    folder: str
    interfaces: tuple[str, ...] = ("lo",)
    master: str | None = None
    job_file: str | None = None


@dataclass(frozen=True)
class Rank:
    """A worker's context: its rank, the number of ranks, and the job's file if there is a job."""

    number: int
    ranks: int
    folder: Path
    interface: str
    master: str | None
    job_file: Path | None

    def say(self, line: str) -> None:
        """Write a line to the worker's log."""
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    @property
    def answer(self) -> Path:
        """The file that holds what the worker returns."""
        return self.folder / f"answer{self.number}.json"

    @contextmanager
    def group(self, timeout: timedelta = GROUP_TIMEOUT) -> Iterator[None]:
        """Context manager: torch's gloo process group of all ranks, with one thread for computing."""
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        os.environ["GLOO_SOCKET_IFNAME"] = self.interface
        if self.master is not None:
            # For what looks for the way to the first rank by it.
            os.environ["MASTER_ADDR"] = self.master
        # Ranks of one machine meet in a file: a port found free may be another program's when the group opens it.
        method = f"file://{self.folder}/store" if self.master is None else f"tcp://{self.master}:{MASTER_PORT}"
        dist.init_process_group("gloo", init_method=method, rank=self.number, world_size=self.ranks, timeout=timeout)
        yield
        dist.destroy_process_group()

    def config(self) -> JobConfig:
        """Return the job as this rank's worker sees it. Raises LabError if there is no job."""
        from sumwire.config import load_job

        if self.job_file is None:
            raise LabError("a worker wants a job, but the network has none: name the ops when you start it")
        return load_job(self.job_file, worker=self.number)

    def job(self, **options: Any) -> sumwire.Job:
        """Join the job as this rank's worker. ``options``: those of :class:`sumwire.Job`.

        Raises LabError if there is no job.
        """
        import sumwire

        return sumwire.Job(self.config(), **options)


def at_place(call: WorkerCall, number: int) -> Rank:
    """Return the rank of the child process with this number."""
    job_file = None if call.job_file is None else Path(call.job_file)
    return Rank(number, len(call.interfaces), Path(call.folder), call.interfaces[number], call.master, job_file)


def name_of(function: Worker) -> str:
    """Return the name by which a child finds the function: `module:function`, or `file.py:function` for one outside of
    packages.

    Raises LabError for a function that has no name at its module's top level.
    """
    module, name = function.__module__, function.__qualname__
    if "<" in name or "." in name:
        raise LabError(f"{module}.{name}: a worker must be a function at the top level of its module")
    own = module.startswith(f"{__package__.partition('.')[0]}.")
    return f"{module if own else Path(function.__code__.co_filename).resolve()}:{name}"


def saved(call: WorkerCall) -> Path:
    """Write the call's file, and remove earlier answers in its folder."""
    path = Path(call.folder) / "call.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(to_json(call)))
    for answer in path.parent.glob("answer*.json"):
        answer.unlink()
    return path


def command_of(call: WorkerCall, rank: int = 0) -> list[str]:
    """Return the command of one child. Rank 0 must be started first, since it saves the call."""
    path = saved(call) if rank == 0 else Path(call.folder) / "call.json"
    return programs.module(CHILD, str(path), str(rank))


def answer_in(folder: Path, rank: int = 0) -> Any:
    """Return what the worker of a rank has returned."""
    return json.loads((folder / f"answer{rank}.json").read_text())


def call_ranks(
    call: WorkerCall,
    start: Start,
    deadline_s: float,
    *,
    serving: Mapping[str, subprocess.Popen[bytes]],
    logs: Callable[[Sequence[str]], Mapping[str, Path]],
    tick: Callable[[], None] = lambda: None,
) -> list[Any]:
    """Wait until all workers have ended, and return their return values by rank. No worker outlives the call.

    ``serving``: processes that must keep running. ``tick`` is called a few times a second. Raises ProcessDiedError with
    the end of a log, and DeadlineError.
    """
    ranks = len(call.interfaces)
    with killed_after() as working:
        for rank in range(ranks):
            name = f"worker{rank}"
            working[name] = start(name, rank, command_of(call, rank))
        wait_all(working, serving, logs(list(working)), deadline_s, tick)
    return [answer_in(Path(call.folder), rank) for rank in range(ranks)]


def on_loopback(
    function: Worker,
    argument: Any,
    ranks: int,
    *,
    ops: Sequence[str] = (),
    folder: Path | None = None,
    deadline_s: float = 900.0,
) -> list[Any]:
    """Call the function on ranks that are processes of this machine, and return the results by rank. Needs no root.

    ``ops``: those of a job at a software aggregator, which runs meanwhile; empty for no job. ``folder`` keeps logs and
    answers. Raises ProcessDiedError, DeadlineError.
    """
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory())) if folder is None else folder
        place.mkdir(parents=True, exist_ok=True)
        job_file = loopback_job(place, ranks, ops) if ops else None
        serving = {} if job_file is None else stack.enter_context(aggregator(job_file))
        told = None if job_file is None else str(job_file)
        call = WorkerCall(name_of(function), argument, str(place), ("lo",) * ranks, job_file=told)
        return call_ranks(
            call,
            lambda name, _rank, command: started(command, place / f"{name}.log"),
            deadline_s,
            serving=serving,
            logs=lambda names: {name: place / f"{name}.log" for name in (*names, *serving)},
        )


def loopback_job(folder: Path, ranks: int, ops: Sequence[str]) -> Path:
    """Write the file of a job whose workers and aggregator have this process's loopback addresses."""
    network = f"127.{6 + os.getpid() // 254 % 249}.{1 + os.getpid() % 254}"
    job = {
        "format": 3, "name": "loopback", "job": 1, "ops": [*ops], "slots": _SLOTS, "aggregator": f"{network}.250",
        "hosts": [f"{network}.{1 + rank}" for rank in range(ranks)],
    }  # fmt: skip
    path = folder / "job.json"
    path.write_text(json.dumps(job))
    return path


@contextmanager
def aggregator(job_file: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Context manager: a software aggregator that serves the job, by name. Its log is beside the job file."""
    log = job_file.parent / f"{AGGREGATOR}.log"
    with killed_after() as serving:
        command = programs.module("sumwire.aggregator.cli", str(job_file))
        serving[AGGREGATOR] = started(command, log)
        wait_said(serving[AGGREGATOR], AGGREGATOR_READY, log)
        yield serving


def in_child(function: Worker, argument: Any, deadline_s: float = 900.0) -> Any:
    """Call the function in a separate process, and return its result. Raises ProcessDiedError, DeadlineError."""
    return on_loopback(function, argument, 1, deadline_s=deadline_s)[0]


def started(command: Sequence[str], log: Path, **options: Any) -> subprocess.Popen[bytes]:
    """Start a command whose output goes to a log."""
    with log.open("wb") as out:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, **options)
