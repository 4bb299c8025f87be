# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Waits for processes and ends them. It never sleeps: a process's end is an event on a file descriptor."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

from sumwire_lab.errors import DeadlineError, ProcessDiedError

LOG_TAIL_LINES: Final = 20
_TICK_SECONDS: Final = 0.25
_PR_SET_PDEATHSIG: Final = 1
_STOP_SECONDS: Final = 5.0


def last_lines(path: Path, lines: int = LOG_TAIL_LINES) -> str:
    """Return the last lines of a text file, or in brackets the reason why there are none."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:]) or "(empty)"


@contextmanager
def watch_fd(pid: int) -> Iterator[int]:
    """Return a descriptor that becomes readable when the process ends."""
    fd = os.pidfd_open(pid)
    try:
        yield fd
    finally:
        os.close(fd)


def wait_all(
    working: Mapping[str, subprocess.Popen[bytes]],
    serving: Mapping[str, subprocess.Popen[bytes]],
    logs: Mapping[str, Path],
    deadline_s: float,
    tick: Callable[[], None],
) -> None:
    """Wait until every `working` process has ended with status 0, while every `serving` one keeps running.

    `tick` is called a few times a second. Raises ProcessDiedError with the last lines of its log when a process ends in
    any other way, and DeadlineError after `deadline_s` seconds. The caller must end remaining processes.
    """
    end = time.monotonic() + deadline_s
    left = set(working)

    def ended(name: str, code: int) -> None:
        if name in serving or code != 0:
            raise ProcessDiedError(f"{name} ended with {code}; {logs[name]} ends:\n{last_lines(logs[name])}")
        left.discard(name)

    poll = select.poll()
    names: dict[int, str] = {}
    try:
        for name, process in [*working.items(), *serving.items()]:
            code = process.poll()
            if code is not None:
                ended(name, code)
                continue
            fd = os.pidfd_open(process.pid)
            names[fd] = name
            poll.register(fd, select.POLLIN)
        while left:
            for fd, _ in poll.poll(_TICK_SECONDS * 1000):
                name = names[fd]
                poll.unregister(fd)
                ended(name, (working.get(name) or serving[name]).wait())
            tick()
            if left and time.monotonic() > end:
                raise DeadlineError(f"not done after {deadline_s:g} s, waiting for {', '.join(sorted(left))}")
    finally:
        for fd in names:
            os.close(fd)


def family(pid: int) -> list[int]:
    """Return a process and all its descendants that are alive."""
    own = [int(word) for task in Path(f"/proc/{pid}/task").glob("*/children") for word in task.read_text().split()]
    return [pid, *(one for child in own for one in family(child))]


def cpu_clock(pid: int) -> int:
    """Return the clock of a process's CPU time, all threads together. Raises OSError if there is no such process."""
    clock = ctypes.c_int()
    number = ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock))
    if number != 0:
        raise OSError(number, f"CPU clock of process {pid}: {os.strerror(number)}")
    return clock.value


def cpu_seconds(clocks: Sequence[int]) -> float:
    """Return the sum of these CPU clocks, in seconds."""
    return sum(time.clock_gettime(clock) for clock in clocks)


def end_with_parent() -> None:
    """Tell the kernel to kill this process when its parent dies, so that a killed run leaves no processes."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")


def leave() -> NoReturn:
    """End this process without shutting down the interpreter. Everything must have been written before.

    gloo's threads release the tensors of the last collective after it has returned, and need the interpreter to do so.
    If they are late, a shutdown of the interpreter aborts the process (about once in ten runs).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def kill_all(processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Kill every process and wait for its end. Does nothing for those that have ended already."""
    for process in processes.values():
        process.kill()
        process.wait()


@contextmanager
def killed_after() -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Yield an empty dictionary for processes by name. The processes in it are killed when the block ends."""
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        yield processes
    finally:
        kill_all(processes)


def stop_process(process: subprocess.Popen[bytes]) -> None:
    """End a process that has something to write or to clean up: SIGTERM, and SIGKILL after a few seconds."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# On a busy machine a switch needs many times the second that it takes else. A process that ends is seen at once.
READY_SECONDS: Final = 120.0
_PROBE_SECONDS: Final = 0.05


def wait_listening(process: subprocess.Popen[bytes], address: str, log: Path, seconds: float = READY_SECONDS) -> None:
    """Wait until `address`, "unix:PATH", accepts connections.

    Raises ProcessDiedError with the last lines of the log if the process ends first, DeadlineError after `seconds`.
    """
    deadline = time.monotonic() + seconds
    with watch_fd(process.pid) as fd:
        while time.monotonic() < deadline:
            try:
                with socket.socket(socket.AF_UNIX) as probe:
                    probe.connect(address.removeprefix("unix:"))
                    return
            except OSError:
                pass  # not ready: wait for the next probe, or for the process to end
            if select.select([fd], [], [], _PROBE_SECONDS)[0]:
                raise ProcessDiedError(f"the switch ended with {process.wait()}; {log} ends:\n{last_lines(log)}")
    raise DeadlineError(f"the switch does not listen on {address} after {seconds} s; {log} ends:\n{last_lines(log)}")


def wait_said(process: subprocess.Popen[bytes], beginning: str, log: Path, seconds: float = READY_SECONDS) -> None:
    """Wait until a line of `log` starts with `beginning`.

    Raises ProcessDiedError with the last lines of the log if the process ends first, DeadlineError after `seconds`.
    """
    deadline = time.monotonic() + seconds
    with watch_fd(process.pid) as fd:
        while not any(line.startswith(beginning) for line in log.read_text().splitlines()):
            if select.select([fd], [], [], _PROBE_SECONDS)[0]:
                raise ProcessDiedError(f"{log.stem} ended with {process.wait()}; {log} ends:\n{last_lines(log)}")
            if time.monotonic() > deadline:
                raise DeadlineError(f"{log.stem} is not ready after {seconds} s; {log} ends:\n{last_lines(log)}")
