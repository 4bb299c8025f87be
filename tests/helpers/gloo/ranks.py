# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Real gloo ranks for tests: one process each, kept over many cases, with a process group over loopback.

They are forked by multiprocessing's fork server, which has loaded torch once and started no threads. A process has only
one such server, which keeps what it is told to load when it starts: so it is started here, for all that use it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sumwire_lab.faults import programs

Case = Callable[..., Any]
PRELOAD = [
    *programs.PRELOAD, "sumwire.training.ddp",
    "helpers.gloo.backend_cases", "helpers.gloo.blind_cases", "helpers.gloo.control_cases", "helpers.gloo.ddp_cases",
    "helpers.gloo.lowrank_cases", "helpers.gloo.multihop_cases", "helpers.gloo.nonfinite_cases",
    "helpers.gloo.path_cases", "helpers.gloo.sharded_cases", "helpers.gloo.start_cases", "helpers.gloo.state_cases",
    "helpers.gloo.systems_cases", "helpers.frozen",
]  # fmt: skip


def fork_context() -> ForkServerContext:
    """Processes of it are forked by one server, which has loaded what they need and started no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    forkserver.ensure_running()
    return context


def _serve(rank: int, ranks: int, store: str, pipe: Connection, backend: str) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    if backend:
        dist.init_process_group(
            backend, init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=timedelta(seconds=30)
        )
    while (request := pipe.recv()) is not None:
        case, arguments = request
        try:
            pipe.send((True, case(rank, *arguments)))
        except Exception as error:  # noqa: BLE001 - travels to the test process
            pipe.send((False, f"rank {rank}: {type(error).__name__}: {error}\n{traceback.format_exc()}"))
    if backend:
        dist.destroy_process_group()


class Ranks:
    """``ranks`` processes in one default group of gloo, or of another ``backend``; with "" they have no group.
    :meth:`run` runs a module-level function on all of them."""

    def __init__(self, ranks: int, directory: Path, backend: str = "gloo") -> None:
        self.count = ranks
        # Whether a case has failed: it may have left the group in any state.
        self.spoiled = False
        context = fork_context()
        self._pipes: list[Connection] = []
        self._processes = []
        for rank in range(ranks):
            ours, theirs = context.Pipe()
            arguments = (rank, ranks, str(directory / "store"), theirs, backend)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes."""
        for pipe in self._pipes:
            # Some test kills a rank.
            with contextlib.suppress(BrokenPipeError):
                pipe.send(None)
        for process in self._processes:
            process.join(10)
            if process.is_alive():
                process.kill()
                process.join()

    def run(self, case: Case, *arguments: Any, timeout_s: float = 300.0) -> list[Any]:
        """Results by rank. Fails with the text of every rank's error, or if a rank does not answer in time."""
        self.begin(case, *arguments)
        return self.outcomes(timeout_s=timeout_s)

    def begin(self, case: Case, *arguments: Any) -> None:
        """Like :meth:`run`, which returns before the ranks have finished: :meth:`outcomes` must follow."""
        for rank in range(self.count):
            self.begin_on(rank, case, *arguments)

    def begin_on(self, rank: int, case: Case, *arguments: Any) -> None:
        """Like :meth:`begin`, of one rank: each has arguments of its own."""
        try:
            self._pipes[rank].send((case, arguments))
        except BrokenPipeError as error:
            self._processes[rank].join(10)
            raise AssertionError(f"rank {rank} has ended: exit code {self._processes[rank].exitcode}") from error

    def outcomes(self, *, without: int | None = None, timeout_s: float = 300.0) -> list[Any]:
        """Results by rank, of all but one that was killed."""
        outcomes: list[Any] = []
        failures: list[str] = []
        for rank, pipe in enumerate(self._pipes):
            if rank == without:
                continue
            if not pipe.poll(timeout_s):
                failures.append(f"rank {rank} hangs")
                self._processes[rank].kill()
                continue
            good, outcome = pipe.recv()
            (outcomes if good else failures).append(outcome)
        self.spoiled = self.spoiled or bool(failures)
        assert not failures, "\n".join(failures)
        return outcomes

    def signal(self, rank: int, number: int) -> None:
        """Send a signal to one rank's process."""
        process = self._processes[rank]
        assert process.pid is not None
        os.kill(process.pid, number)
