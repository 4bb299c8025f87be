# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Cases side by side: none outlives its limit, the command, or meets another one."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.waiting import until
from sumwire_lab.faults import cases
from sumwire_lab.faults.cases import FaultCase, FaultOutcome, carry_out
from sumwire_lab.system.leftovers import start_time

pytestmark = pytest.mark.root

# A case of this test: what its first process does, as Python; FOLDER is the case's.
DONE = "(folder / 'record.json').write_text('{\"value\": 7}')"
FAILS = "sys.exit('it went wrong')"
# Known by its argument: other processes of tests have theirs.
SLEEP = ("sleep", f"1000.{os.getpid()}")
# A child in a session of its own, whose number outside is told by the kernel, and which never ends by itself.
HANGS = f"""
child = subprocess.Popen({list(SLEEP)}, start_new_session=True)
(folder / "began").write_text(str(child.pid))
child.wait()
"""


def run(cases: dict[str, str], tmp_path: Path, parallel: int) -> list[FaultOutcome]:
    def command(folder: Path) -> list[str]:
        code = cases[FaultCase.load(folder).variant]
        head = "import pathlib, subprocess, sys; folder = pathlib.Path(sys.argv[1])"
        return [sys.executable, "-c", f"{head}\n{code}", str(folder)]

    planned = [FaultCase("row", "soft", 1, 30.0, name) for name in cases]
    return list(carry_out(planned, tmp_path, parallel, command))


def sleepers() -> list[int]:
    """Processes of HANGS, as this machine numbers them."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cmdline").read_bytes() == "\0".join((*SLEEP, "")).encode() and start_time(int(path.name)):
                found.append(int(path.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def test_records_and_errors(tmp_path: Path) -> None:
    outcomes = {one.case.variant: one for one in run({"good": DONE, "bad": FAILS}, tmp_path, parallel=2)}
    assert outcomes["good"].record == {"value": 7} and outcomes["good"].error is None
    assert outcomes["bad"].error is not None
    assert "ended with 1" in outcomes["bad"].error and "it went wrong" in outcomes["bad"].error


def test_a_case_is_killed_after_its_limit_with_all_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time passes when it has begun."""
    began = tmp_path / "row-soft-hangs-1" / "began"
    monkeypatch.setattr(cases, "time", SimpleNamespace(monotonic=lambda: 30.0 * began.exists()))
    (outcome,) = run({"hangs": HANGS}, tmp_path, parallel=1)
    assert outcome.error is not None and "killed after its limit" in outcome.error
    until(lambda: not sleepers())


def test_no_case_outlives_the_one_who_asked(tmp_path: Path) -> None:
    began = [tmp_path / f"row-soft-{name}-1" / "began" for name in "ab"]
    cases = {"a": HANGS, "b": HANGS, "done": f"import time\nwhile not all(p.exists() for p in "
             f"[pathlib.Path(q) for q in {[str(path) for path in began]}]): time.sleep(0.01)\n{DONE}"}  # fmt: skip

    def command(folder: Path) -> list[str]:
        head = "import pathlib, subprocess, sys; folder = pathlib.Path(sys.argv[1])"
        return [sys.executable, "-c", f"{head}\n{cases[FaultCase.load(folder).variant]}", str(folder)]

    outcomes = carry_out([FaultCase("row", "soft", 1, 30.0, name) for name in cases], tmp_path, 3, command)
    assert next(outcomes).case.variant == "done"
    assert len(sleepers()) == 2, "both run"
    outcomes.close()
    until(lambda: not sleepers())


def test_cases_have_networks_of_their_own(tmp_path: Path) -> None:
    listen = "import socket\ns = socket.socket()\n"
    listen += (
        "subprocess.run(['ip', 'link', 'set', 'lo', 'up'], check=True)\ns.bind(('127.0.0.1', 47111))\ns.listen()\n"
    )
    wait = f"import time\nwhile len(list(folder.parent.glob('*/here'))) < 2: time.sleep(0.01)\n{DONE}"
    code = f"{listen}(folder / 'here').write_text('')\n{wait}"
    outcomes = run({"one": code, "two": code}, tmp_path, parallel=2)
    assert [one.error for one in outcomes] == [None, None], "both have the port at the same time"
