# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Cases of fault injection, and the scheduler that carries them out side by side.

A case is one experiment with one switch and one seed. It has a network, processes and mounts of its own (`unshare`):
its first process is the first of its process namespace. When that one ends, or is killed, the kernel kills every
other one and removes every interface. So nothing of a case can outlive it, or meet another case.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from nativelib import programs

from sumwire_lab.system.processes import last_lines

SPEC: Final = "case.json"
RECORD: Final = "record.json"


@dataclass(frozen=True)
class FaultCase:
    """One experiment. `variant`: which of the row's; `limit_s`: after so many seconds it is killed."""

    row: str
    switch: str
    seed: int
    limit_s: float
    variant: str = ""

    @property
    def name(self) -> str:
        """Also the name of its folder."""
        return "-".join(word for word in (self.row, self.switch, self.variant, str(self.seed)) if word)

    def save(self, folder: Path) -> None:
        (folder / SPEC).write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, folder: Path) -> FaultCase:
        return cls(**json.loads((folder / SPEC).read_text()))


@dataclass(frozen=True)
class FaultOutcome:
    """What came of a case: its record, or the error that ended it. `killed`: after its limit; `again`: it is that of a
    second try, since the first one was killed."""

    case: FaultCase
    seconds: float
    record: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    killed: bool = False
    again: bool = False


LOG: Final = "case.log"
_TICK_SECONDS: Final = 1.0
# Of the log, in an error.
_LINES: Final = 3
_NAMESPACES: Final = ("unshare", "--net", "--pid", "--mount-proc", "--fork", "--kill-child=SIGKILL", "--")


@dataclass
class _RunningCase:
    case: FaultCase
    folder: Path
    process: subprocess.Popen[bytes]
    began: float
    watch: int

    def outcome(self) -> FaultOutcome:
        """After its end."""
        seconds = time.monotonic() - self.began
        record = self.folder / RECORD
        if self.process.returncode == 0 and record.exists():
            return FaultOutcome(self.case, seconds, json.loads(record.read_text()))
        killed = seconds >= self.case.limit_s
        ended = "killed after its limit" if killed else f"ended with {self.process.returncode}"
        last = " / ".join(last_lines(self.folder / LOG, _LINES).splitlines())
        return FaultOutcome(self.case, seconds, error=f"{ended}: {last} ({self.folder})", killed=killed)


def carry_out(
    cases: Sequence[FaultCase],
    folder: Path,
    parallel: int,
    command: Callable[[Path], list[str]] = lambda folder: programs.module("sumwire_lab.faults", str(folder)),
) -> Generator[FaultOutcome, None, None]:
    """Outcomes in the order in which cases end; at most `parallel` run at a time.

    Every case has a folder below `folder`, with its logs. Closing the iterator kills those that run.
    """
    waiting, running = deque(cases), list[_RunningCase]()
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


def _start(case: FaultCase, parent: Path, command: Callable[[Path], list[str]]) -> _RunningCase:
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
    return _RunningCase(case, folder, process, time.monotonic(), os.pidfd_open(process.pid))
