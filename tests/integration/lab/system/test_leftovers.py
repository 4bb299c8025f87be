# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Only what a dead run's ledger lists is removed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sumwire_lab.system import leftovers
from sumwire_lab.system.leftovers import Ledger


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def write_ledger(folder: Path, *, owner: int, owner_started: int | None, processes: dict[int, int | None]) -> Path:
    path = folder / "sw0000.json"
    record = {"token": "sw0000", "owner": owner, "owner_started": owner_started}
    record["processes"] = {str(pid): started for pid, started in processes.items()}  # type: ignore[assignment]
    path.write_text(json.dumps(record))
    return path


def gone_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_processes_of_a_dead_run_end(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    started = leftovers.start_time(sleeper.pid)
    path = write_ledger(tmp_path, owner=gone_pid(), owner_started=5, processes={sleeper.pid: started})
    assert leftovers.clean(tmp_path) == [f"process {sleeper.pid}"]
    assert sleeper.wait(60) == -9
    assert not path.exists()


def test_a_run_that_goes_on_is_left_alone(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    own = os.getpid()
    path = write_ledger(
        tmp_path,
        owner=own,
        owner_started=leftovers.start_time(own),
        processes={sleeper.pid: leftovers.start_time(sleeper.pid)},
    )
    assert leftovers.clean(tmp_path) == []
    assert sleeper.poll() is None
    assert path.exists()


def test_a_pid_that_was_given_to_somebody_else_is_left_alone(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    started = leftovers.start_time(sleeper.pid)
    assert started is not None
    write_ledger(tmp_path, owner=gone_pid(), owner_started=5, processes={sleeper.pid: started - 1})
    assert leftovers.clean(tmp_path) == []
    assert sleeper.poll() is None


def test_an_owner_pid_that_was_given_to_somebody_else_counts_as_dead(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    own_start = leftovers.start_time(os.getpid())
    assert own_start is not None
    started = leftovers.start_time(sleeper.pid)
    write_ledger(tmp_path, owner=os.getpid(), owner_started=own_start - 1, processes={sleeper.pid: started})
    assert leftovers.clean(tmp_path) == [f"process {sleeper.pid}"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"token": "sw0000"}', '{"token": 1, "owner": "x"}'])
def test_a_ledger_that_cannot_be_read_goes(tmp_path: Path, text: str) -> None:
    path = tmp_path / "sw1111.json"
    path.write_text(text)
    assert leftovers.clean(tmp_path) == [f"{path} (unreadable)"]
    assert not path.exists()


def test_a_ledger_of_this_run_ends_its_processes(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    ledger = Ledger.create(tmp_path)
    ledger.add_process(sleeper.pid)
    ledger.add_process(gone_pid())
    assert list(json.loads(ledger.path.read_text())["processes"]) == [str(sleeper.pid)]
    ledger.socket("1").touch()
    ledger.socket("2").touch()
    assert ledger.remove() == [f"process {sleeper.pid}"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "good"),
    [("sw12af", True), ("sw", False), ("", False), ("eth0", False), ("sw12aff", False), ("swxyza", False)],
)
def test_only_the_right_shape_is_a_token(text: str, good: bool) -> None:
    assert leftovers.is_token(text) is good


def test_interfaces_are_those_with_the_token_and_a_dash(tmp_path: Path) -> None:
    for name in ["sw12af-h1", "sw12af-p1", "sw12af", "sw12b0-h1", "eth0", "xsw12af-h1"]:
        (tmp_path / name).mkdir()
    assert leftovers.interfaces_of("sw12af", tmp_path) == ["sw12af-h1", "sw12af-p1"]
    assert leftovers.interfaces_of("", tmp_path) == []


def test_new_tokens_have_the_shape() -> None:
    assert all(leftovers.is_token(leftovers.new_token()) for _ in range(50))


def test_a_zombie_counts_as_gone() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert leftovers.start_time(process.pid) is None
    process.wait()


def test_a_ledger_that_goes_once_it_is_listed_is_passed_over(tmp_path: Path) -> None:
    # A link to nothing is listed and cannot be read, as a ledger is whose run ends in between.
    (tmp_path / "sw0001.json").symlink_to(tmp_path / "gone")
    path = write_ledger(tmp_path, owner=gone_pid(), owner_started=5, processes={})
    assert leftovers.take_down(tmp_path) == []
    assert leftovers.clean(tmp_path) == []
    assert not path.exists()
