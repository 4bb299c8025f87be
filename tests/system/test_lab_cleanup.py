# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a run leaves when a worker dies, when it is interrupted, and when it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import ledgers
from sumwire_lab.system import leftovers

pytestmark = [pytest.mark.mininet, pytest.mark.root]

PATIENCE_S = 300.0


def until(what: str, look: Callable[[], Any]) -> Any:
    """Look again and again until there is something; fail after a minute."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    pytest.fail(f"not within {PATIENCE_S} s: {what}")


class Run:
    """A run of two workers through the soft switch, as a process of its own."""

    def __init__(self, results: Path) -> None:
        command = [sys.executable, "-m", "sumwire_lab", "run", "--workers", "2", "--systems", "thc", "--switch", "soft"]
        command += ["--bw", "100", "--results", str(results)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self.ledger: Path = until("a ledger", self._find_ledger)
        self.token = self.ledger.stem

    def _find_ledger(self) -> Path | None:
        return next(iter(ledgers.of_process(self.process.pid)), None)

    def pids(self) -> list[int]:
        return [int(pid) for pid in json.loads(self.ledger.read_text())["processes"]]

    def named(self, *words: str) -> int | None:
        """The process of the run whose command line has all the words."""
        for pid in self.pids():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            except FileNotFoundError:
                continue
            if all(word in command for word in words):
                return pid
        return None

    def output(self) -> str:
        return self.process.communicate(timeout=PATIENCE_S)[0]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path)
    try:
        until(
            "both workers",
            lambda: run.named("sumwire_lab.study.call", "0") and run.named("sumwire_lab.study.call", "1"),
        )
        assert leftovers.interfaces_of(run.token)
        yield run
    finally:
        run.process.kill()
        run.process.wait()
        leftovers.clean()


def assert_nothing_is_left(run: Run, pids: list[int]) -> None:
    assert leftovers.interfaces_of(run.token) == []
    assert not run.ledger.exists()
    until("all processes are gone", lambda: not [pid for pid in pids if leftovers.start_time(pid)])


def test_a_dead_worker_ends_the_run_with_its_log(run: Run) -> None:
    pids = run.pids()
    victim = run.named("sumwire_lab.study.call", "1")
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    output = run.output()
    assert run.process.returncode == 1
    assert "worker1 ended with -9" in output
    assert "worker1.log ends:" in output
    assert_nothing_is_left(run, pids)


def test_a_dead_switch_ends_the_run(run: Run) -> None:
    victim = run.named("softswitch.cli")
    assert victim is not None
    pids = run.pids()
    os.kill(victim, signal.SIGKILL)
    assert "switch ended with -9" in run.output()
    assert run.process.returncode == 1
    assert_nothing_is_left(run, pids)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_an_interrupted_run_cleans_up(run: Run, number: signal.Signals) -> None:
    pids = run.pids()
    os.kill(run.process.pid, number)
    run.output()
    assert run.process.returncode == 130
    assert_nothing_is_left(run, pids)


def test_the_next_run_removes_what_a_killed_one_left(run: Run) -> None:
    pids = run.pids()
    switch = run.named("softswitch.cli")
    assert switch is not None
    bystander = subprocess.Popen(["sleep", "60"])
    # The hosts' shells may end with the run and take their links with them; this pair is sure to be left.
    pair = [f"{run.token}-{end}" for end in ("x", "y")]
    subprocess.run(["ip", "link", "add", pair[0], "type", "veth", "peer", "name", pair[1]], check=True)
    try:
        run.process.kill()
        run.process.wait()
        removed = leftovers.clean()
        assert f"process {switch}" in removed
        assert f"interface {pair[0]}" in removed
        assert_nothing_is_left(run, pids)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
