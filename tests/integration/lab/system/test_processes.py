# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A process that ends before its time ends the waiting at once, with its log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sumwire_lab.errors import DeadlineError, ProcessDiedError
from sumwire_lab.system import processes
from sumwire_lab.system.processes import last_lines, wait_all

Processes = dict[str, subprocess.Popen[bytes]]


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def start(started: list[subprocess.Popen[bytes]], code: str) -> subprocess.Popen[bytes]:
    started.append(subprocess.Popen([sys.executable, "-c", code]))
    return started[-1]


SLEEP = "import time; time.sleep(60)"


def test_it_returns_when_all_have_done(started: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    working = {"a": start(started, ""), "b": start(started, "")}
    serving = {"switch": start(started, SLEEP)}
    ticks: list[int] = []
    wait_all(working, serving, dict.fromkeys([*working, *serving], tmp_path / "log"), 30, lambda: ticks.append(1))
    assert ticks


def test_processes_that_ended_before_count_too(started: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    good, bad = start(started, ""), start(started, "raise SystemExit(4)")
    for process in (good, bad):
        process.wait()
    wait_all({"good": good}, {}, {"good": tmp_path / "log"}, 30, lambda: None)
    with pytest.raises(ProcessDiedError, match="bad ended with 4"):
        wait_all({"bad": bad}, {}, {"bad": tmp_path / "log"}, 30, lambda: None)


def test_a_failure_shows_the_end_of_the_log(started: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("\n".join(f"line {k}" for k in range(100)))
    working = {"a": start(started, "raise SystemExit(3)"), "b": start(started, SLEEP)}
    began = time.monotonic()
    with pytest.raises(ProcessDiedError, match="a ended with 3") as death:
        wait_all(working, {}, {"a": log, "b": log}, 60, lambda: None)
    assert time.monotonic() - began < 50
    assert "line 99" in str(death.value)
    assert "line 79\n" not in str(death.value)


def test_a_switch_that_ends_well_is_a_failure_too(started: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    logs = {"a": tmp_path / "a.log", "switch": tmp_path / "s.log"}
    with pytest.raises(ProcessDiedError, match="switch ended with 0"):
        wait_all({"a": start(started, SLEEP)}, {"switch": start(started, "")}, logs, 60, lambda: None)


def test_the_deadline_names_who_is_late(started: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    working = {"fast": start(started, ""), "slow": start(started, SLEEP)}
    with pytest.raises(DeadlineError, match="waiting for slow"):
        wait_all(working, {}, dict.fromkeys(working, tmp_path / "log"), 1.0, lambda: None)


def test_the_end_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_lines(log) == "(no log)"
    log.write_text("")
    assert last_lines(log) == "(empty)"
    log.write_bytes(b"a\nb\xff\nc\n")
    assert last_lines(log, 2) == "b�\nc"


def test_a_family_has_children_and_theirs() -> None:
    nest = "import subprocess, sys; subprocess.run(['sh', '-c', 'sleep 60 & echo; wait'])"
    with subprocess.Popen([sys.executable, "-c", nest], stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        family = processes.family(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
    assert family[0] == process.pid
    assert len(family) == 3, "python, sh, sleep"
