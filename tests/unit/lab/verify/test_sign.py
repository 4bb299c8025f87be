# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of verify-sign and their order, with the experiments replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sumwire.multihop.statistics import SignStatistics, lone_signs, measure, signs_of
from sumwire_lab.errors import LabError
from sumwire_lab.experiments import closed_forms, signs_alone
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.study.check import Check
from sumwire_lab.verify import plan, security, sign
from sumwire_lab.verify.commands import verify


def entry(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "accuracy": 0.975,
        "comm_s_per_step": 0.04,
        "payload_bits_per_value_up": 1.317,
        "payload_bits_per_value_down": 1.318,
        "replicas_equal": True,
        "fallbacks": 0,
    }
    return {**base, **changes}


def summary(**systems: dict[str, Any]) -> dict[str, Any]:
    gloo = entry(accuracy=0.98, comm_s_per_step=1.6)
    del gloo["fallbacks"]
    return {"systems": {"gloo": gloo, "marsit": entry(), "marsit100": entry(), "vote": entry(), **systems}}


def verdicts(known_bad: float = 0.9, **systems: dict[str, Any]) -> list[bool | None]:
    return [check.holds for check in sign.digits_checks(summary(**systems), "x", known_bad)]


def test_rows_of_the_digits() -> None:
    assert verdicts() == [True] * 5
    assert verdicts(known_bad=0.9701) == [True, True, False, True, True], "the row could not tell"
    assert verdicts(marsit=entry(comm_s_per_step=0.06)) == [False, True, True, True, True]
    assert verdicts(marsit100=entry(accuracy=0.9699)) == [True, False, True, True, True]
    assert verdicts(marsit100=entry(accuracy=0.97)) == [True] * 5, "a point is allowed"
    assert verdicts(marsit100=entry(payload_bits_per_value_down=1.35)) == [True, True, True, False, True]
    assert verdicts(vote=entry(replicas_equal=False)) == [True, True, True, True, False]
    assert verdicts(vote=entry(fallbacks=1)) == [True, True, True, True, False]


@pytest.mark.parametrize(("momentum", "every"), closed_forms.CASES)
def test_marsit_keeps_the_identity(momentum: float, every: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closed_forms, "ROUNDS", 25)
    assert closed_forms.deviation(momentum, every) < 1e-12


def test_a_local_residual_breaks_the_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """The known wrong form: every worker compensates with its own sign instead of the result."""

    def local(self: Any, g: Any) -> Any:
        self._collective.sign_merge(g >= 0)
        return (g >= 0).to(g.dtype).mul_(2).sub_(1).mul_(0.01)

    monkeypatch.setattr(closed_forms, "ROUNDS", 25)
    monkeypatch.setattr(closed_forms.Marsit, "_signs", local)
    assert closed_forms.deviation(0.0, None) > 1e-3


def record(**changes: Any) -> dict[str, Any]:
    good = {"right": True, "equal": True}
    base: dict[str, Any] = {
        "workers": 8,
        "topology": "leaf-spine",
        "switch": "soft",
        "impair": "drop=0.01",
        "chunks": 100,
        "sign_values": 8192,
        "retransmissions": 7,
        "ops": {"thc": good, "sum32": good, "vote": good, "sign": {**good, "worst_share_error": 0.001}},
    }
    return {**base, **changes}


def test_rows_of_the_ops() -> None:
    def verdicts_of(**changes: Any) -> list[bool | None]:
        return [check.holds for check in sign.ops_checks(record(**changes))]

    assert verdicts_of() == [True] * 4
    assert verdicts_of(impair=None) == [True] * 3
    assert verdicts_of(retransmissions=0) == [True, True, True, False]
    wrong = {**record()["ops"], "sum32": {"right": False, "equal": True}}
    assert verdicts_of(ops=wrong) == [False, True, True, True]
    split = {**record()["ops"], "sign": {"right": True, "equal": False, "worst_share_error": 0.02}}
    assert verdicts_of(ops=split) == [True, False, False, True]


def outcome(merged: Any, workers: int) -> SignStatistics:
    return measure(merged(signs_of(workers, 1024), 4096), merged(lone_signs(workers, 1024), 256), workers)


def test_rows_of_the_bias() -> None:
    rng = np.random.default_rng(1)

    def fair(signs: Any, rounds: int) -> Any:
        chosen = rng.integers(0, len(signs), (rounds, signs.shape[1]))
        return signs[chosen, np.arange(signs.shape[1])]

    def once_a_packet(signs: Any, rounds: int) -> Any:
        return signs[rng.integers(0, len(signs), rounds)]

    assert [check.holds for check in sign.bias_checks("x", [outcome(fair, 3), outcome(fair, 4)])] == [True, True]
    rows = sign.bias_checks("x", [outcome(fair, 3), outcome(once_a_packet, 4)])
    assert (rows[1].value, rows[1].holds) == ([4], False)
    assert "n=4" in rows[1].why
    one_sided = sign.bias_checks("x", [outcome(lambda signs, rounds: np.tile(signs[0], (rounds, 1)), 2)])
    assert one_sided[0].holds is False


JUNIT = """<testsuites><testsuite>
<testcase classname="tests.a" name="test_ring[2]"/>
<testcase classname="tests.a" name="test_ring[3]"><failure message="AssertionError: 3&#10;  is not 2"/></testcase>
<testcase classname="tests.a" name="test_torus[x]"><skipped/></testcase><testcase classname="b" name="test_more"/>
</testsuite></testsuites>"""


def test_outcomes_of_tests() -> None:
    found = plan.outcomes(JUNIT)
    assert found.said == {"tests.a::test_ring[3]": "AssertionError: 3 is not 2"}
    row = security.tests_check("x", "y", found)
    assert (row.holds, row.why) == (False, "tests.a::test_ring[3]: AssertionError: 3 is not 2")
    assert found == {
        "tests.a::test_ring[2]": "passed",
        "tests.a::test_ring[3]": "failed",
        "tests.a::test_torus[x]": "skipped",
        "b::test_more": "passed",
    }


def test_tests_become_a_row_each_and_none_may_be_gone() -> None:
    found = {f"t::{name}[{k}]": "passed" for name in sign._SHOWS for k in range(3)} | {"t::test_more": "passed"}
    assert all(check.holds for check in sign.statistics_checks(found))
    found["t::test_ring[1]"] = "failed"
    found["t::test_torus[1]"] = "skipped"
    rows = {check.check: check.holds for check in sign.statistics_checks(found) if not check.holds}
    assert rows == {sign._SHOWS["test_ring"]: False, sign._SHOWS["test_torus"]: None}
    with pytest.raises(LabError, match="test_leaf_spine"):
        sign.statistics_checks({name: "passed" for name in found if "leaf_spine" not in name})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[RunOptions]:
    """Experiments that all succeed, on a machine without bmv2; the options that were asked for."""
    options: list[RunOptions] = []

    def run(wanted: RunOptions, results: Path, say: Any) -> tuple[dict[str, Any], Path]:
        options.append(wanted)
        return summary(), results

    def run_ops(wanted: RunOptions, results: Path, say: Any) -> dict[str, Any]:
        options.append(wanted)
        return record(topology=wanted.topology, switch=wanted.switch, impair=wanted.impair)

    monkeypatch.setattr(plan, "run", run)
    monkeypatch.setattr(signs_alone, "accuracy", lambda train: 0.9)
    monkeypatch.setattr(sign, "run_ops", run_ops)
    monkeypatch.setattr(sign, "run_bias", lambda *_: [])
    passed = {f"t::{name}": "passed" for name in [*sign._SHOWS, "test_more"]}
    monkeypatch.setattr(sign, "run_tests", lambda _: passed)
    monkeypatch.setitem(sign.EXPERIMENTS, "packet tests on bmv2", lambda _: [Check("packets", "ok", "green", True)])
    monkeypatch.setattr(sign.closed_forms, "largest_deviation", lambda: 0.0)
    monkeypatch.setattr(plan.shutil, "which", lambda name: None)
    return options


def test_all_rows_are_made_and_written(asked: list[RunOptions], tmp_path: Path) -> None:
    done = verify("sign", tmp_path, lambda line: None)
    rows = json.loads((tmp_path / "verify-sign.json").read_text())
    assert rows == [check.as_dict() for check in done]
    assert [(o.topology, o.workers, o.impair is not None) for o in asked] == [
        ("star", 4, False),
        ("leaf-spine", 8, True),
        ("leaf-spine2", 8, True),
        ("three-level", 8, True),
    ]
    assert asked[0].systems == ("gloo", "marsit", "marsit100", "vote")
    assert {row["holds"] for row in rows if "bmv2" in row["check"]} == {None}
    assert all("simple_switch_grpc" in row["why"] for row in rows if row["holds"] is None)
