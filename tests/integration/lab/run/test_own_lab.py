# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A process that stays behind with what it has made, and is asked to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from sumwire_lab.system import leftovers

# Makes a ledger as a lab does, and writes a file when it has been asked to end.
MAKES = """
import sys
from pathlib import Path
from sumwire_lab.run.own_lab import in_background
from sumwire_lab.system.leftovers import Ledger

folder, status = Path(sys.argv[1]), int(sys.argv[2])

def make(stays):
    print("made", flush=True)
    if status:
        return status
    ledger = Ledger.create(folder)
    ledger.keep(folder)
    stays.wait(folder)
    print("ends", flush=True)
    ledger.remove()
    return 0

sys.exit(in_background(make))
"""


def made(folder: Path, status: int) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", MAKES, str(folder), str(status)]
    return subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)


def test_it_stays_until_it_is_taken_down(tmp_path: Path) -> None:
    done = made(tmp_path, 0)
    assert (done.returncode, done.stdout) == (0, "made\n"), done.stderr
    (ledger,) = tmp_path.glob("*.json")
    owner = json.loads(ledger.read_text())["owner"]
    assert leftovers.start_time(owner) is not None
    assert os.getsid(owner) == owner, "it has left the terminal"
    assert leftovers.clean(tmp_path) == [], "its owner lives"
    assert leftovers.take_down(tmp_path) == [str(tmp_path)]
    assert leftovers.start_time(owner) is None
    assert not ledger.exists()
    assert (tmp_path / "kept.log").read_text() == "ends\n"
    assert leftovers.take_down(tmp_path) == []


def test_what_fails_leaves_nothing(tmp_path: Path) -> None:
    assert made(tmp_path, 3).returncode == 3


def test_a_run_of_somebody_else_s_is_not_taken_down(tmp_path: Path) -> None:
    ledger = leftovers.Ledger.create(tmp_path)
    (tmp_path / "broken.json").write_text("{")
    assert leftovers.take_down(tmp_path) == []
    assert ledger.path.exists()
