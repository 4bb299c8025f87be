# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Removes processes and interfaces that a crashed run left on the machine.

Every run has a token, with which the names of its interfaces begin, and a ledger file that lists its processes. A
process is identified by pid and start time, because the pid alone may be in use again. Only processes in the ledger of
a dead owner, and interfaces with that ledger's token, are ever removed.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

LEDGER_DIR: Final = Path("/run/sumwire-lab")
_TOKEN_PREFIX: Final = "sw"
_NET: Final = Path("/sys/class/net")
_TOKEN_CHARS: Final = 6
_SOCKET_SUFFIX: Final = ".ipc"


def new_token() -> str:
    """Return a new token, with which all interface names of one run begin: `sw` and four hex digits."""
    return _TOKEN_PREFIX + secrets.token_hex(2)


def is_token(text: str) -> bool:
    """Return whether `text` has the shape that :func:`new_token` gives."""
    if len(text) != _TOKEN_CHARS or not text.startswith(_TOKEN_PREFIX):
        return False
    return all(c in "0123456789abcdef" for c in text[len(_TOKEN_PREFIX) :])


def start_time(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot; None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field, the program's name, may contain spaces and brackets, so count fields from the last bracket.
    after_name = stat.rpartition(")")[2].split()
    return None if after_name[0] == "Z" else int(after_name[19])


@dataclass
class Ledger:
    """The ledger of one run. Its file is rewritten whenever something is added."""

    token: str
    path: Path
    owner: int
    processes: dict[int, int] = field(default_factory=dict)
    """pid -> start time"""
    kept: str = ""
    """The folder of a lab that its owner leaves standing; empty for any other run."""

    @classmethod
    def create(cls, directory: Path = LEDGER_DIR) -> Ledger:
        """Return a ledger with a fresh token, owned by this process."""
        directory.mkdir(parents=True, exist_ok=True)
        token = new_token()
        ledger = cls(token, directory / f"{token}.json", os.getpid())
        ledger.save()
        return ledger

    def socket(self, name: str) -> Path:
        """Return a file name for a socket of this run, which is removed with the ledger."""
        return self.path.with_name(f"{self.token}-{name}{_SOCKET_SUFFIX}")

    def add_process(self, pid: int) -> None:
        """Add a process of this run, unless it has ended already."""
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
            "kept": self.kept,
        }
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(record))
        partial.replace(self.path)

    def keep(self, folder: Path) -> None:
        """Mark the run as kept: this process keeps it up until :func:`take_down` asks it to end."""
        self.owner, self.kept = os.getpid(), str(folder)
        self.save()

    def remove(self) -> list[str]:
        """Remove the ledger, and everything of this run that still exists. Returns what was removed."""
        removed = _remove(self.token, self.processes)
        _forget(self.path)
        return removed


def texts(directory: Path = LEDGER_DIR) -> Iterator[tuple[Path, str]]:
    """Yield every ledger and its text. A ledger whose run ends meanwhile is skipped."""
    for path in sorted(directory.glob("*.json")):
        try:
            text = path.read_text()
        except FileNotFoundError:
            continue  # its run has just ended
        yield path, text


def take_down(directory: Path = LEDGER_DIR) -> list[str]:
    """End every lab that was kept, and return when they are gone. Returns the folder of each."""
    ended: list[str] = []
    for _, text in texts(directory):
        try:
            record = json.loads(text)
            owner, started, folder = int(record["owner"]), record["owner_started"], str(record.get("kept", ""))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # `clean` removes it
        if folder and started is not None and start_time(owner) == started and _end(owner):
            ended.append(folder)
    return ended


def _end(pid: int) -> bool:
    """Ask a process to end, and wait for it. Whether it was there."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        os.kill(pid, signal.SIGTERM)
        select.select([watched], [], [])
    finally:
        os.close(watched)
    return True


def clean(directory: Path = LEDGER_DIR) -> list[str]:
    """Remove everything of runs whose owner is dead. Returns one line for each thing removed."""
    removed: list[str] = []
    for path, text in texts(directory):
        try:
            record = json.loads(text)
            token, owner = str(record["token"]), int(record["owner"])
            owner_started = record["owner_started"]
            processes = {int(pid): int(started) for pid, started in record["processes"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):
            removed.append(f"{path} (unreadable)")
            path.unlink(missing_ok=True)
            continue
        if start_time(owner) == owner_started and owner_started is not None:
            continue  # its owner is alive
        removed += _remove(token, processes)
        _forget(path)
    return removed


def _forget(ledger: Path) -> None:
    for socket in ledger.parent.glob(f"{ledger.stem}-*{_SOCKET_SUFFIX}"):
        socket.unlink(missing_ok=True)
    ledger.unlink(missing_ok=True)


def interfaces_of(token: str, net: Path = _NET) -> list[str]:
    """Return the interfaces in this network namespace whose names begin with the token."""
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
            continue  # it has just ended by itself, as a host's shell does when its run is gone
        removed.append(f"process {pid}")
    for name in interfaces_of(token):
        # Deleting one end of a pair deletes the other, so a name may be gone already.
        done = subprocess.run(["ip", "link", "delete", name], capture_output=True, check=False)
        if done.returncode == 0:
            removed.append(f"interface {name}")
    return removed
