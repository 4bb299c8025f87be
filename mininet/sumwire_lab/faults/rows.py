# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""All rows of fault injection by name: their cases, and the function that carries out a case. `verify.fault_injection`
judges the records."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sumwire_lab.faults import disturbed, repeated_runs, resumed, wrong_setups
from sumwire_lab.faults.cases import FaultCase
from sumwire_lab.study.workers import Rank
from sumwire_lab.system.leftovers import LEDGER_DIR


@dataclass(frozen=True)
class FaultRow:
    """One row. `cases`: (switch, seeds) -> its cases. `carry_out`: (case, folder) -> the case's record; each runs
    separately."""

    cases: Callable[[str, int], list[FaultCase]]
    carry_out: Callable[[FaultCase, Path], dict[str, Any]]


ROWS: Final[Mapping[str, FaultRow]] = {
    repeated_runs.RUNS_ROW: FaultRow(repeated_runs.repeated_cases, repeated_runs.carry_out_repeated),
    resumed.TORCHRUN_ROW: FaultRow(resumed.restart_cases, resumed.carry_out_restart),
    disturbed.STOPPED_ROW: FaultRow(disturbed.stopped_cases, disturbed.carry_out_stopped),
    disturbed.SWITCH_ROW: FaultRow(disturbed.switch_cases, disturbed.carry_out_outage),
    disturbed.LINK_ROW: FaultRow(disturbed.link_cases, disturbed.carry_out_outage),
    resumed.OVERFLOW_ROW: FaultRow(resumed.overflow_cases, resumed.carry_out_overflow),
    resumed.CHECKPOINT_ROW: FaultRow(resumed.checkpoint_cases, resumed.carry_out_checkpoint),
    wrong_setups.SETUPS_ROW: FaultRow(wrong_setups.setup_cases, wrong_setups.carry_out_setup),
}
"""Those of verify-life."""

EVERY: Final[Mapping[str, FaultRow]] = {
    **ROWS,
    wrong_setups.DOCTOR_ROW: FaultRow(wrong_setups.doctor_cases, wrong_setups.carry_out_doctor),
}


def measure_case(case: FaultCase, rank: Rank) -> dict[str, Any]:
    """Carry out a case in namespaces of its own, and return its record."""
    # Process numbers in ledgers are those of this namespace, and mean nothing to other runs of the lab.
    LEDGER_DIR.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", str(LEDGER_DIR)], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    return EVERY[case.row].carry_out(case, rank.folder.absolute())
