# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-life`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from sumwire_lab.life import scheduler
from sumwire_lab.life.case import Case, Outcome
from sumwire_lab.life.rows.table import ROWS
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.life_options import LifeOptions, present
from sumwire_lab.study.check import Check, absent
from sumwire_lab.study.experiment import Say, interruptible, new_folder
from sumwire_lab.verify.plan import Plan
from sumwire_lab.verify.rows import life as rows
from sumwire_lab.verify.rows.shared import WHY_ABSENT


def plan(results: Path, say: Say, options: LifeOptions) -> Plan:
    """Runs that survive real life: one experiment for each row, with all its switches and seeds side by side."""
    return Plan("life", {row: partial(_row, row, results, say, options) for row in options.rows})


def _row(row: str, results: Path, say: Say, options: LifeOptions) -> list[Check]:
    require_tools()
    there = [switch for switch in options.switches if switch in present()]
    cases = [case for switch in there for case in ROWS[row].cases(switch, options.seeds_of(switch))]
    with _folder(results) as folder:
        outcomes = _outcomes(cases, folder, say, options.parallel)
        return [
            _check(row, switch, [one for one in outcomes if one.case.switch == switch], folder, there)
            for switch in options.switches
        ]


def _check(row: str, switch: str, outcomes: list[Outcome], folder: Path, there: list[str]) -> Check:
    """The row's check with one switch. Folders of cases that are as they must be are removed."""
    if switch not in there:
        return absent(f"{rows.LABELS[row]}; {switch}", rows.TARGETS[row], WHY_ABSENT[switch])
    for outcome in outcomes:
        if not rows.problems_of(outcome, outcomes):
            shutil.rmtree(folder / outcome.case.name)
    return rows.check(row, switch, outcomes)


def _outcomes(cases: list[Case], folder: Path, say: Say, parallel: int) -> list[Outcome]:
    """All outcomes, and a line for each as it comes."""
    seeds = sorted({case.seed for case in cases})
    say(f"{len(cases)} cases, {parallel} side by side; seeds {seeds[0]} to {seeds[-1]}; {folder}")
    done: list[Outcome] = []
    began = time.monotonic()
    with interruptible(), closing(scheduler.carry_out(cases, folder, parallel)) as outcomes:
        for outcome in outcomes:
            done.append(outcome)
            ended = "ended" if outcome.error is None else "FAILED"
            passed = time.monotonic() - began
            say(f"{len(done)}/{len(cases)} after {passed:.0f} s: {outcome.case.name} {ended} ({outcome.seconds:.0f} s)")
    return done


@contextmanager
def _folder(results: Path) -> Iterator[Path]:
    """A folder for the cases of a row, which is removed again if nothing is left in it."""
    folder = new_folder(results, latest=False)
    try:
        yield folder
    finally:
        if not any(folder.iterdir()):
            folder.rmdir()
