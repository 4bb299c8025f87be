# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C during `make test` leaves no process of a test behind, also where the test is in the middle of something."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from helpers.paths import ROOT
from helpers.waiting import until

TESTS = """
import contextlib, pathlib, subprocess, pytest

@pytest.fixture(scope="session")
def switch():
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()

def test_one(switch):
    pathlib.Path("started").write_text(str(switch.pid))
    while True:
        with contextlib.suppress(BaseException):
            switch.wait()
"""


def test_a_process_of_a_fixture(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(TESTS)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-n", "1", "-p", "conftest", "-p", "no:cacheprovider", "test_one.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, env={**environment, "PYTHONPATH": str(ROOT / "tests")}, stdout=subprocess.DEVNULL
    ) as run:
        started = tmp_path / "started"
        until(lambda: started.exists() and started.read_text() != "")
        run.send_signal(signal.SIGINT)
        assert run.wait() == 2
    until(lambda: not Path("/proc", started.read_text()).exists())
