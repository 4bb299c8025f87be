# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Carries out cases side by side, each with a network, processes and mounts of its own (`unshare`).

The first process of a case is the first of its process namespace: when it ends, or is killed, the kernel kills every
other one and removes every interface. So nothing of a case can outlive it, or meet another case.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sumwire_lab.life.case import RECORD, Case, Outcome
from sumwire_lab.system.processes import last_lines

LOG: Final = "case.log"
_TICK_SECONDS: Final = 1.0
# Of the log, in an error.
_LINES: Final = 3
_NAMESPACES: Final = ("unshare", "--net", "--pid", "--mount-proc", "--fork", "--kill-child=SIGKILL", "--")


@dataclass
class _Running:
    case: Case
    folder: Path
    process: subprocess.Popen[bytes]
    began: float
    watch: int

    def outcome(self) -> Outcome:
        """After its end."""
        seconds = time.monotonic() - self.began
        record = self.folder / RECORD
        if self.process.returncode == 0 and record.exists():
            return Outcome(self.case, seconds, json.loads(record.read_text()))
        killed = seconds >= self.case.limit_s
        ended = "killed after its limit" if killed else f"ended with {self.process.returncode}"
        last = " / ".join(last_lines(self.folder / LOG, _LINES).splitlines())
        return Outcome(self.case, seconds, error=f"{ended}: {last} ({self.folder})", killed=killed)


def carry_out(
    cases: Sequence[Case],
    folder: Path,
    parallel: int,
    command: Callable[[Path], list[str]] = lambda folder: [sys.executable, "-m", "sumwire_lab.life", str(folder)],
) -> Generator[Outcome, None, None]:
    """Outcomes in the order in which cases end; at most `parallel` run at a time.

    Every case has a folder below `folder`, with its logs. Closing the iterator kills those that run.
    """
    waiting, running = deque(cases), list[_Running]()
    try:
        while waiting or running:
            while waiting and len(running) < parallel:
                running.append(_start(waiting.popleft(), folder, command))
            select.select([one.watch for one in running], [], [], _TICK_SECONDS)
            for one in list(running):
                if time.monotonic() - one.began >= one.case.limit_s:
                    one.process.kill()
                    one.process.wait()
                if one.process.poll() is not None:
                    running.remove(one)
                    os.close(one.watch)
                    yield one.outcome()
    finally:
        for one in running:
            one.process.kill()
            one.process.wait()
            os.close(one.watch)


def _start(case: Case, parent: Path, command: Callable[[Path], list[str]]) -> _Running:
    folder = parent / case.name
    folder.mkdir(parents=True)
    case.save(folder)
    with (folder / LOG).open("wb") as log:
        # A session of its own, so that Ctrl-C in the terminal reaches only the command, which then kills the cases.
        process = subprocess.Popen(
            [*_NAMESPACES, *command(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return _Running(case, folder, process, time.monotonic(), os.pidfd_open(process.pid))
