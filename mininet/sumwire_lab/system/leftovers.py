# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a run makes on the machine, written down, so that a later run can remove what a crashed one left.

Every run has a token that begins the names of its interfaces. A ledger file per run lists its processes
(with their start time, because a pid alone may meanwhile belong to somebody else). Only what a ledger of a
dead owner lists, and interfaces that begin with that ledger's token, are ever removed.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

LEDGER_DIR: Final = Path("/run/sumwire-lab")
_TOKEN_PREFIX: Final = "sw"
_NET: Final = Path("/sys/class/net")
_TOKEN_CHARS: Final = 6
_SOCKET_SUFFIX: Final = ".ipc"


def new_token() -> str:
    """The beginning of all interface names of one run: `sw` and four hex digits."""
    return _TOKEN_PREFIX + secrets.token_hex(2)


def is_token(text: str) -> bool:
    """Whether `text` has the shape that :func:`new_token` gives."""
    if len(text) != _TOKEN_CHARS or not text.startswith(_TOKEN_PREFIX):
        return False
    return all(c in "0123456789abcdef" for c in text[len(_TOKEN_PREFIX) :])


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None where there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field, the program's name, may hold spaces and brackets: count from the last bracket.
    after_name = stat.rpartition(")")[2].split()
    return None if after_name[0] == "Z" else int(after_name[19])


@dataclass
class Ledger:
    """The list of one run, rewritten whenever something is added."""

    token: str
    path: Path
    owner: int
    processes: dict[int, int] = field(default_factory=dict)
    """pid -> start time"""

    @classmethod
    def create(cls, directory: Path = LEDGER_DIR) -> Ledger:
        """A ledger with a fresh token, owned by this process."""
        directory.mkdir(parents=True, exist_ok=True)
        token = new_token()
        ledger = cls(token, directory / f"{token}.json", os.getpid())
        ledger.save()
        return ledger

    def socket(self, name: str) -> Path:
        """A file name for a socket of this run, removed with the ledger."""
        return self.path.with_name(f"{self.token}-{name}{_SOCKET_SUFFIX}")

    def add_process(self, pid: int) -> None:
        """Note a process of this run; one that is already gone is left out."""
        started = start_time(pid)
        if started is not None:
            self.processes[pid] = started
            self.save()

    def save(self) -> None:
        record = {
            "token": self.token,
            "owner": self.owner,
            "owner_started": start_time(self.owner),
            "processes": {str(pid): started for pid, started in self.processes.items()},
        }
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(record))
        partial.replace(self.path)

    def remove(self) -> list[str]:
        """End what is still there of this run, then forget it. Returns what was removed."""
        removed = _remove(self.token, self.processes)
        _forget(self.path)
        return removed


def clean(directory: Path = LEDGER_DIR) -> list[str]:
    """Remove what runs with a dead owner left. Returns a line for each thing removed."""
    removed: list[str] = []
    for path in sorted(directory.glob("*.json")):
        try:
            record = json.loads(path.read_text())
            token, owner = str(record["token"]), int(record["owner"])
            owner_started = record["owner_started"]
            processes = {int(pid): int(started) for pid, started in record["processes"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            removed.append(f"{path} (unreadable)")
            path.unlink(missing_ok=True)
            continue
        if start_time(owner) == owner_started and owner_started is not None:
            continue  # a run that goes on
        removed += _remove(token, processes)
        _forget(path)
    return removed


def _forget(ledger: Path) -> None:
    for socket in ledger.parent.glob(f"{ledger.stem}-*{_SOCKET_SUFFIX}"):
        socket.unlink(missing_ok=True)
    ledger.unlink(missing_ok=True)


def interfaces_of(token: str, net: Path = _NET) -> list[str]:
    """Interfaces in this network namespace whose name says that they belong to the run."""
    if not is_token(token):
        return []
    return sorted(path.name for path in net.iterdir() if path.name.startswith(f"{token}-"))


def _remove(token: str, processes: dict[int, int]) -> list[str]:
    removed = []
    for pid, started in processes.items():
        if start_time(pid) != started:
            continue
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # it ended by itself just now, as a host's shell does when its run is gone
        removed.append(f"process {pid}")
    for name in interfaces_of(token):
        # The peer of a pair goes with it, so a name may be gone by the time its turn comes.
        done = subprocess.run(["ip", "link", "delete", name], capture_output=True, check=False)
        if done.returncode == 0:
            removed.append(f"interface {name}")
    return removed
