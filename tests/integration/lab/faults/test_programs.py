# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Programs that are killed, stopped and continued by their handle."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.gloo.ranks import PRELOAD
from helpers.waiting import until
from sumwire_lab.errors import DeadlineError, ProcessDiedError
from sumwire_lab.faults.programs import Programs, programs_in, wait_ended


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with programs_in(tmp_path, preload=PRELOAD) as running:
        yield running


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of this test, as modules."""
    (tmp_path / "counts.py").write_text(
        "import sys, time\n"
        "while True:\n"
        "    with open(sys.argv[1], 'ab') as file: file.write(b'.')\n"
        "    time.sleep(0.001)\n"
    )
    (tmp_path / "fails.py").write_text("import sys\nprint('this is why', flush=True)\nsys.exit(3)\n")
    (tmp_path / "tells.py").write_text("import os, sys\nprint(*sys.argv[1:], os.environ['TELL'])\n")
    monkeypatch.syspath_prepend(str(tmp_path))


def test_arguments_variables_and_log(programs: Programs) -> None:
    program = programs.start("teller", None, "tells", ["a", "b"], {"TELL": "c"})
    wait_ended([program], 30)
    assert program.log.read_text() == "a b c\n"


def test_a_failure_shows_the_end_of_the_log(programs: Programs) -> None:
    with pytest.raises(ProcessDiedError, match=r"failing ended with 3(.|\n)*this is why"):
        wait_ended([programs.start("failing", None, "fails", [])], 30)


def test_one_that_goes_on_is_named(programs: Programs, tmp_path: Path) -> None:
    program = programs.start("endless", None, "counts", [str(tmp_path / "count")])
    with pytest.raises(DeadlineError, match="endless"):
        wait_ended([program], 0.05)
    assert program.exit_code is None


def test_stopped_continued_and_killed(programs: Programs, tmp_path: Path) -> None:
    count = tmp_path / "count"
    program = programs.start("counter", None, "counts", [str(count)])
    until(lambda: count.exists() and count.stat().st_size > 5)
    program.stop()
    until(lambda: Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    before = count.stat().st_size
    program.go_on()
    until(lambda: count.stat().st_size > before)
    program.kill()
    program.join()
    assert program.exit_code == -signal.SIGKILL


def test_none_outlives_the_block(tmp_path: Path) -> None:
    with programs_in(tmp_path, preload=PRELOAD) as running:
        program = running.start("counter", None, "counts", [str(tmp_path / "count")])
        until((tmp_path / "count").exists)
    assert program.exit_code == -signal.SIGKILL
