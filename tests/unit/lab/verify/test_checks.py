# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of verify-thc: what holds, what does not, what cannot be decided."""

from __future__ import annotations

from typing import Any

import pytest
from sumwire_lab.study.check import Check, absent, at_least, at_most, equal, failed, holds, reported, table
from sumwire_lab.verify import plan, thc


def system(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "accuracy": 0.97,
        "comm_s_per_step": 1.0,
        "time_to_target_s": 10.0,
        "replicas_equal": True,
        "fallbacks": 0,
        "retransmissions": 3,
        "fingerprints": ["a", "a"],
    }
    return {**base, **changes}


@pytest.mark.parametrize(("comm", "time", "verdicts"), [(5.0, 40.0, [True, True]), (4.9, 39.0, [False, False])])
def test_speed(comm: float, time: float, verdicts: list[bool]) -> None:
    summary = {"systems": {"gloo": system(comm_s_per_step=comm, time_to_target_s=time), "thc": system()}}
    assert [check.holds for check in plan.speed(summary, "x")] == verdicts


def test_a_target_never_reached_does_not_hold() -> None:
    summary = {"systems": {"gloo": system(), "thc": system(time_to_target_s=None)}}
    assert [check.holds for check in plan.speed(summary, "x")] == [False, False]


@pytest.mark.parametrize(
    ("thc", "gloo", "holds"),
    [
        (system(accuracy=0.975), system(accuracy=0.970), True),
        (system(accuracy=0.970), system(accuracy=0.9751), False),
        (system(accuracy=0.959), system(accuracy=0.961), False),
        (system(replicas_equal=False), system(), False),
    ],
)
def test_accuracy(thc: dict[str, Any], gloo: dict[str, Any], holds: bool) -> None:
    assert plan.accuracy("x", thc, gloo).holds is holds


def test_an_impaired_run_must_have_lost_something_and_not_fallen_back() -> None:
    good = thc.impaired_checks(system(), system(), "drop=0.01")
    assert all(check.holds for check in good)
    assert not all(check.holds for check in thc.impaired_checks(system(fallbacks=1), system(), "drop=0.01"))
    assert not all(check.holds for check in thc.impaired_checks(system(retransmissions=0), system(), "drop=0.01"))


def flooded(**changes: Any) -> dict[str, Any]:
    base = {"sent": {"length": 6, "op": 4}, "counted": {"length": 6, "op": 4, "job": 0}}
    return system(malformed={**base, "all_sent_during_training": True, **changes})


@pytest.mark.parametrize(
    ("run", "verdicts"),
    [
        (flooded(), [True, True, True]),
        (flooded(all_sent_during_training=False), [False, True, True]),
        (flooded(counted={"length": 5, "op": 4}), [True, False, True]),
        (flooded(counted={"length": 6, "op": 4, "job": 1}), [True, False, True]),
        ({**flooded(), "fingerprints": ["a", "b"]}, [True, True, False]),
        ({**flooded(), "fallbacks": 1}, [True, True, False]),
    ],
)
def test_malformed(run: dict[str, Any], verdicts: list[bool]) -> None:
    assert [check.holds for check in thc.malformed_checks(run, system(), 10)] == verdicts


def test_oracles_hold_within_three_percent() -> None:
    rows = [("a", 1.029, 1.0), ("b", 0.96, 1.0), ("c", 2.0, 2.0)]
    assert [check.holds for check in thc.oracle_checks(rows)] == [True, False, True]


def test_the_switch_rate_is_undecided_without_bmv2() -> None:
    alone = plan.switch_rate("x", {"native": 40_000.0}, "native", "bmv2", 8)
    assert alone.holds is None
    assert "simple_switch_grpc" in alone.why
    assert alone.as_dict()["holds"] is None
    assert "clang" in plan.switch_rate("x", {"python": 1.0, "bmv2": 1.0}, "native", "bmv2", 8).why
    rates = {"native": 80_000.0, "python": 10_001.0, "bmv2": 10_000.0}
    assert plan.switch_rate("x", rates, "native", "bmv2", 8).holds is True
    assert plan.switch_rate("x", rates, "native", "python", 8).holds is False


def test_codec() -> None:
    """Each form has a target of its own; a machine without a compiler has the slower one."""

    def of(form: str, *times: float) -> list[bool | None]:
        return [plan.codec({"form": form, "cpu_median_ms": ms}).holds for ms in times]

    assert of("native", 2.0, 2.01) == [True, False]
    assert of("torch", 40.0, 40.1) == [True, False]
    assert "torch form" in plan.codec({"form": "torch", "cpu_median_ms": 3.0}).check


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
