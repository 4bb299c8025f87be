# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of verify-thc: what holds, what does not, what cannot be decided."""

from __future__ import annotations

import pytest
from sumwire_lab.study.check import Check, absent, at_least, at_most, equal, failed, holds, reported, table
from sumwire_lab.verify import plan


def test_the_switch_rate_is_undecided_without_bmv2() -> None:
    alone = plan.switch_rate("x", {"native": 40_000.0}, "native", "bmv2", 8)
    assert alone.holds is None
    assert "simple_switch_grpc" in alone.why
    assert alone.as_dict()["holds"] is None
    assert "clang" in plan.switch_rate("x", {"python": 1.0, "bmv2": 1.0}, "native", "bmv2", 8).why
    rates = {"native": 80_000.0, "python": 10_001.0, "bmv2": 10_000.0}
    assert plan.switch_rate("x", rates, "native", "bmv2", 8).holds is True
    assert plan.switch_rate("x", rates, "native", "python", 8).holds is False


def test_records_have_the_promised_keys() -> None:
    assert set(Check("c", 1, ">= 1", True).as_dict()) == {"check", "value", "target", "holds"}
    assert failed("c", "t", ValueError("broke")).as_dict()["why"] == "broke"


def test_the_table_has_a_line_a_check() -> None:
    text = table([Check("a", 1.23456, ">= 1", True), Check("b", [0.5, 2], "x", False), absent("c", "t", "no")])
    lines = text.splitlines()
    assert lines[0] == "holds  a: 1.235 (target >= 1)"
    assert lines[1] == "FAILS  b: 0.5, 2 (target x)"
    assert lines[2].startswith("-      c: None")
    assert lines[3].strip() == "no"


@pytest.mark.parametrize(
    ("check", "target", "verdict"),
    [
        (at_least("x", 5.0, 5), ">= 5", True),
        (at_least("x", 4.9, 5), ">= 5", False),
        (at_least("x", None, 5), ">= 5", False),
        (at_most("x", 1e-10, 1e-10), "<= 1e-10", True),
        (at_most("x", 1.1, 1), "<= 1", False),
        (at_most("x", None, 1), "<= 1", False),
        (equal("x", 0, 0), "0", True),
        (equal("x", True, True), "true", True),
        (equal("x", [1, 2], [1, 3], "as sent"), "as sent", False),
        (holds("x", "anything", "in words", True), "in words", True),
        (reported("x", 3), "reported", True),
        (reported("x", None), "reported", False),
        (reported("x", {"a": None}, measured=False), "reported", False),
        (absent("x", ">= 1", "no bmv2"), ">= 1", None),
        (failed("x", "ends", ValueError("broke")), "ends", False),
    ],
)
def test_each_kind_of_check_has_its_target_and_verdict(check: Check, target: str, verdict: bool | None) -> None:
    assert (check.target, check.holds) == (target, verdict)
