# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Programs on hosts that can be killed, stopped and continued by their handle.

A server that has imported torch forks them, so that a program starts in a tenth of a second instead of several. Each
has its own process, session, network namespace and log, as if it had been started on its host.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import runpy
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Final

from sumwire_lab.errors import DeadlineError, ProcessDiedError
from sumwire_lab.system.processes import end_with_parent, last_lines

# torch._dynamo: an optimizer's first call imports it, for longer than all else takes.
PRELOAD: Final = (
    "torch",
    "torch.distributed",
    "torch.nn.parallel",
    "torch._dynamo",
    "torch.distributed.checkpoint",
    "sklearn.datasets",
    "sklearn.model_selection",
    "sumwire.systems",
    "sumwire.dlcp",
    "sumwire_lab.training.trainer",
    "sumwire_lab.training.digits_data",
    "sumwire_lab.run.session",
    __name__,
)
_CLONE_NEWNET: Final = 0x40000000


class HostProgram:
    """One running program."""

    def __init__(self, name: str, process: ForkServerProcess, log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Exit code; None while the program runs; negative: the signal that ended it."""
        return self._process.exitcode

    @property
    def sentinel(self) -> int:
        """A descriptor that is ready when the program has ended."""
        return self._process.sentinel

    def kill(self) -> None:
        """End the program at once, with SIGKILL. Does nothing if it has already ended."""
        self._process.kill()

    def stop(self) -> None:
        """Stop the program where it is, with SIGSTOP."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue the program after `stop`."""
        os.kill(self.pid, signal.SIGCONT)

    def interrupt(self) -> None:
        """Interrupt the program as Ctrl-C does, with SIGINT."""
        os.kill(self.pid, signal.SIGINT)

    def terminate(self) -> None:
        """End the program with SIGTERM."""
        self._process.terminate()

    def join(self) -> None:
        """Wait for the program's end."""
        self._process.join()


class Programs:
    """The programs of one experiment. `preload`: modules that the server imports before it forks them."""

    def __init__(self, folder: Path, preload: Sequence[str]) -> None:
        self._folder = folder
        context = multiprocessing.get_context("forkserver")
        assert isinstance(context, ForkServerContext)
        context.set_forkserver_preload(list(preload))
        self._context = context
        self._running: list[HostProgram] = []

    def start(
        self, name: str, host: int | None, module: str, arguments: Sequence[str], variables: Mapping[str, str] = {}
    ) -> HostProgram:
        """Run `python -m MODULE ARGUMENTS` in the network namespace of process `host`, or in this one's if None.

        Its output goes to `NAME.log`.
        """
        log = self._folder / f"{name}.log"
        given = (host, module, tuple(arguments), str(log), dict(variables))
        process = self._context.Process(target=_become, args=given, name=name)
        process.start()
        self._running.append(HostProgram(name, process, log))
        return self._running[-1]

    def kill_all(self) -> None:
        """Kill every program that runs, and wait for its end."""
        for program in self._running:
            program.kill()
        for program in self._running:
            program.join()
        self._running.clear()


@contextmanager
def programs_in(folder: Path, preload: Sequence[str] = PRELOAD) -> Iterator[Programs]:
    """Context manager: programs that write their logs to `folder`. All are killed at the end of the block."""
    programs = Programs(folder, preload)
    try:
        yield programs
    finally:
        programs.kill_all()


def wait_ended(programs: Sequence[HostProgram], seconds: float) -> None:
    """Wait until all programs have ended with status 0.

    Raises ProcessDiedError with the last lines of the log for a program that ends in another way, DeadlineError after
    `seconds`.
    """
    end = time.monotonic() + seconds
    left = list(programs)
    while left:
        ready = wait([program.sentinel for program in left], max(0.0, end - time.monotonic()))
        for program in [one for one in left if one.sentinel in ready]:
            program.join()
            left.remove(program)
            if program.exit_code != 0:
                text = f"{program.name} ended with {program.exit_code}; {program.log} ends:"
                raise ProcessDiedError(f"{text}\n{last_lines(program.log)}")
        if not ready:
            names = ", ".join(program.name for program in left)
            raise DeadlineError(
                f"not done after {seconds:g} s: {names}; {left[0].log} ends:\n{last_lines(left[0].log)}"
            )


def _become(host: int | None, module: str, arguments: tuple[str, ...], log: str, variables: Mapping[str, str]) -> None:
    """The forked process: it becomes `python -m MODULE ARGUMENTS`."""
    os.setsid()
    end_with_parent()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    if host is not None:
        _enter(host)
    os.environ.update(variables)
    # The server ignores SIGINT, as multiprocessing's servers do.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _enter(pid: int) -> None:
    with Path(f"/proc/{pid}/ns/net").open("rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"network namespace of process {pid}")
