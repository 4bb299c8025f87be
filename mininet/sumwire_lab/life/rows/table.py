# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""All rows by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sumwire_lab.life.case import Case
from sumwire_lab.life.rows import checkpoint, doctor, outage, overflow, repeated, restarts, setups, stopped


@dataclass(frozen=True)
class Row:
    """`cases`: (switch, seeds) -> its cases. `carry_out`: (case, folder) -> the case's record, to be run by itself."""

    cases: Callable[[str, int], list[Case]]
    carry_out: Callable[[Case, Path], dict[str, Any]]


ROWS: Final[Mapping[str, Row]] = {
    repeated.NAME: Row(repeated.cases, repeated.carry_out),
    restarts.NAME: Row(restarts.cases, restarts.carry_out),
    stopped.NAME: Row(stopped.cases, stopped.carry_out),
    outage.SWITCH: Row(outage.switch_cases, outage.carry_out),
    outage.LINK: Row(outage.link_cases, outage.carry_out),
    overflow.NAME: Row(overflow.cases, overflow.carry_out),
    checkpoint.NAME: Row(checkpoint.cases, checkpoint.carry_out),
    setups.NAME: Row(setups.cases, setups.carry_out),
}
"""Those of verify-life."""

EVERY: Final[Mapping[str, Row]] = {**ROWS, doctor.NAME: Row(doctor.cases, doctor.carry_out)}
