# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Cases side by side: none outlives its limit, the command, or meets another one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from helpers.lab.study_workers import fault
from helpers.waiting import until
from sumwire_lab.faults.cases import FaultCase, FaultOutcome, carry_out
from sumwire_lab.system.leftovers import start_time

pytestmark = pytest.mark.root

# Known by its argument: other processes of tests have theirs.
SLEEP = ("sleep", f"1000.{os.getpid()}")


def run(variants: Sequence[str], folder: Path, limit_s: float = 60.0) -> list[FaultOutcome]:
    (folder / "sleep").write_text(" ".join(SLEEP))
    cases = [FaultCase("row", "soft", 1, limit_s, name) for name in variants]
    return carry_out(cases, fault, folder, 3, lambda line: None)


def sleepers() -> list[int]:
    """Children of the cases that hang, as this machine numbers them."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "cmdline").read_bytes() == "\0".join((*SLEEP, "")).encode() and start_time(int(path.name)):
                found.append(int(path.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def test_records_errors_and_networks_of_their_own(tmp_path: Path) -> None:
    fails, *listen = run(["fails", "listens", "listens too"], tmp_path)
    assert [(one.record, one.error) for one in listen] == [({"value": 7}, None)] * 2, "both have one port at a time"
    assert fails.error is not None and not fails.killed
    assert "ended with 1" in fails.error and "it went wrong" in fails.error


def test_a_case_is_killed_after_its_limit_with_all_its_processes(tmp_path: Path) -> None:
    (outcome,) = run(["hangs"], tmp_path, limit_s=2.0)
    assert outcome.killed and outcome.error is not None and outcome.error.startswith("not done after 2 s")
    until(lambda: not sleepers())


def test_no_case_outlives_the_one_who_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after Ctrl-C, when both cases have their children."""

    def look(*_: object) -> None:
        if len(sleepers()) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("sumwire_lab.study.study.select.select", look)
    with pytest.raises(KeyboardInterrupt):
        run(["hangs", "hangs too"], tmp_path)
    until(lambda: not sleepers())
