# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Verdicts of `make verify-see`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.faults import wrong_setups
from sumwire_lab.faults.cases import FaultCase, FaultOutcome
from sumwire_lab.options import verify_options
from sumwire_lab.verify import observability


def test_every_set_up_has_a_case_and_a_line() -> None:
    made = {case.variant for switch in verify_options.SWITCHES for case in wrong_setups.doctor_cases(switch, 1)}
    assert made == {*wrong_setups.SETUPS, wrong_setups.RIGHT, wrong_setups.RIGHT_TREE}
    assert observability._LINES.keys() == wrong_setups.SETUPS.keys()


def test_a_case_that_was_killed_has_one_more_try_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases, asked = wrong_setups.doctor_cases("soft", 1)[:3], list[tuple[list[str], int]]()

    def carry_out(left: list[FaultCase], _: Any, folder: Path, parallel: int, say: Any) -> list[FaultOutcome]:
        asked.append(([case.name for case in left], parallel))
        return [FaultOutcome(case, 120.0, error="not done after 9 s", killed=case == cases[1]) for case in left]

    monkeypatch.setattr(observability, "carry_out", carry_out)
    found = observability._outcomes(cases, tmp_path, lambda _: None)
    assert [outcome.case for outcome in found] == cases
    assert asked[1] == ([cases[1].name], 1) and len(asked) == 2
    assert [outcome.again for outcome in found] == [False, True, False]
    wrong, _ = observability.doctors("soft", found)
    assert [cases[1].name] in wrong.value.values()


def finding(name: str, state: str, text: str = "", cure: str = "") -> dict[str, str]:
    return {"name": name, "state": state, "text": text, "cure": cure}


def record(*found: dict[str, str], seconds: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"examined": [{"findings": [finding("clock", "good"), *found], "seconds": seconds}], **more}


GOOD = finding("mtu", "bad", "its MTU is 600 bytes", "ip link set dev DEVICE mtu 1084")


def test_a_wrong_set_up() -> None:
    assert observability.doctor_problems("small-mtu", "soft", record(GOOD)) == []
    assert observability.doctor_problems("small-mtu", "soft", record(GOOD, finding("width", "bad", "x"))) == []
    assert observability.doctor_problems("small-mtu", "soft", record()), "nothing found"
    assert observability.doctor_problems("small-mtu", "soft", record(finding("switch", "bad", "x"), GOOD)), (
        "another thing first"
    )
    assert observability.doctor_problems("small-mtu", "soft", record({**GOOD, "text": "too narrow"})), "no cause"
    assert observability.doctor_problems("small-mtu", "soft", record({**GOOD, "cure": "?"})), "no cure"
    assert observability.doctor_problems("small-mtu", "soft", record(GOOD, seconds=6.0)), "late"


def test_a_run_that_is_disturbed() -> None:
    busy = finding("port", "bad", "UDP port 21335 is in use by process 7", "end that process first")
    assert observability.doctor_problems("second-run", "soft", record(busy, undisturbed=True)) == []
    assert observability.doctor_problems("second-run", "soft", record(busy, undisturbed=False))


def test_a_right_set_up() -> None:
    assert observability.doctor_problems("right", "soft", record(finding("generation", "unknown", "not told"))) == []
    assert observability.doctor_problems("right", "soft", record(GOOD))
    assert observability.doctor_problems("right-tree", "soft", record(finding("offloads", "note", "off")))
    assert observability.doctor_problems("right", "bmv2", record(finding("offloads", "note", "off"))) == []
    assert observability.doctor_problems("right", "bmv2", record(finding("buffers", "note", "small")))


def test_checks_count_cases() -> None:
    def outcome(variant: str, *found: dict[str, str], error: str | None = None) -> FaultOutcome:
        return FaultOutcome(FaultCase("doctor", "soft", 1, 1.0, variant), 1.0, {} if error else record(*found), error)

    wrong, right = observability.doctors("soft", [outcome("small-mtu", GOOD), outcome("right")])
    assert (wrong.holds, right.holds) == (True, True)
    assert wrong.value == {"right": "1 of 1", "slowest, s": 1.0}
    wrong, right = observability.doctors("soft", [outcome("small-mtu", error="it died"), outcome("right", GOOD)])
    assert (wrong.holds, right.holds) == (False, False) and "it died" in wrong.why
    assert [check.holds for check in observability.doctors("soft", [])] == [False, False]
