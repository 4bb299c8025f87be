# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of verify-trust."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.options.verify_options import VerifyOptions
from sumwire_lab.verify import plan, security
from sumwire_lab.verify.commands import verify
from sumwire_lab.verify.plan import Ended

QUICK = VerifyOptions("trust", quick=True)


def test_a_row_of_tests_needs_one_that_ran_and_none_that_failed() -> None:
    def verdict(*outcomes: str) -> bool | None:
        return plan.tests_check("x", "y", {f"test{k}": one for k, one in enumerate(outcomes)}).holds

    assert verdict("passed", "skipped") is True
    assert (verdict("passed", "failed"), verdict("skipped"), verdict()) == (False, False, False)
    assert plan.tests_check("x", "y", {"t": "failed"}).why == "t"


def test_a_row_of_a_command() -> None:
    assert [plan.command_check("x", "y", Ended(status, "said")).holds for status in (0, 1, 139)] == [
        True,
        False,
        False,
    ]


def test_rows_of_the_network() -> None:
    good = {"forged": 1000, "wanted": 1000, "wrong": 0, "ended": 0}
    for change, holds in (({}, [True] * 3), ({"forged": 999}, [False, True, True]),
                          ({"wrong": 1}, [True, False, True]), ({"ended": 1}, [True, True, False])):  # fmt: skip
        assert [check.holds for check in security.network_checks(good | change)] == holds


def test_rows_of_the_hostile_job() -> None:
    record = {"alone_s": 1.0, "beside_s": 1.3, "link_share": 0.9}
    assert [check.holds for check in security.hostile_job_checks(record)] == [True, True]
    assert [check.holds for check in security.hostile_job_checks(record | {"beside_s": 1.31})] == [False, True]
    assert [check.holds for check in security.hostile_job_checks(record | {"link_share": 0.5})] == [True, False]


def test_rows_of_the_schedules() -> None:
    record: dict[str, Any] = {"seeds": 300, "seconds": 10.0, "violations": []}
    assert [check.holds for check in security.schedule_checks(record, 300)] == [True] * 3
    assert [check.holds for check in security.schedule_checks(record, 301)] == [False, True, True]
    assert [check.holds for check in security.schedule_checks(record | {"violations": [{}]}, 300)] == [
        True,
        False,
        True,
    ]
    assert [check.holds for check in security.schedule_checks(record | {"seconds": 10.1}, 300)] == [True, True, False]


def test_rows_of_two_worlds_and_byzantine_switches() -> None:
    record: dict[str, Any] = {"seeds": 9, "violations": [], "p_values": {"a": 1e-4, "b": 0.5}, "correlation": -0.01}
    assert [check.holds for check in security.flow_checks(record, 9, "honest")] == [True] * 4
    for worse, row in (
        ({"seeds": 8}, 0),
        ({"violations": [{}]}, 1),
        ({"p_values": {"a": 0.5, "b": 0.9e-4}}, 2),
        ({"correlation": -0.011}, 3),
    ):
        found = [check.holds for check in security.flow_checks(record | worse, 9, "honest")]
        assert found == [k != row for k in range(4)]
    assert security.byzantine_check(record, 9).holds
    assert not security.byzantine_check(record, 10).holds
    assert not security.byzantine_check(record | {"violations": [{}]}, 9).holds


def test_rows_of_a_load_test() -> None:
    record = {"answers_s": {"nothing": 9.0, "1000 silent": 1.0}, "grown_mib": 50.0}
    assert [check.holds for check in security.load_test_checks(record)] == [True, True]
    worse = {"answers_s": {"1000 silent": 1.1}, "grown_mib": 50.1}
    assert [check.holds for check in security.load_test_checks(worse)] == [False, False]
    assert [check.holds for check in security.load_test_checks(None)] == [False, False]
    assert security.fuzzed_check(9, {"finding": None, "updates": 9}).holds
    assert (
        security.fuzzed_check(9, {"finding": "a lie"}).holds,
        security.fuzzed_check(9, {"finding": "a lie"}).why,
    ) == (False, "a lie")


def test_every_broken_rule_must_be_found() -> None:
    names = [f"rule{k}" for k in range(20)]
    assert security.mutation_check(names, names).holds
    assert not security.mutation_check(names[:19], names[:19]).holds
    missed = security.mutation_check(names, names[1:])
    assert (missed.holds, missed.why) == (False, "rule0")


def test_rows_of_authentication_tags() -> None:
    times = {"plain": 2.0, "keyed": 3.0}
    good = {"forged": 9, "switch_us": times, "host_us": times, "switch_taken": 0, "host_taken": 0}
    assert [check.holds for check in security.keyed_checks(good)] == [True] * 4
    dear = {"plain": 2.0, "keyed": 3.01}
    assert [check.holds for check in security.keyed_checks(good | {"switch_us": dear})] == [False, True, True, True]
    assert [check.holds for check in security.keyed_checks(good | {"host_us": dear})] == [True, False, True, True]
    assert [check.holds for check in security.keyed_checks(good | {"switch_taken": 1})] == [True, True, False, True]
    assert [check.holds for check in security.keyed_checks(good | {"host_taken": 1})] == [True, True, True, False]


def test_every_row_has_its_experiment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All of them together, with what they run replaced."""
    ran: list[str] = []

    def module(words: Sequence[str]) -> Ended:
        ran.append(words[0])
        if "--load-test" in words:
            record = {"finding": None, "load_test": {"answers_s": {"1000 silent": 0.1}, "grown_mib": 1.0}}
            Path(words[-1]).write_text(json.dumps(record))
        if "--mutation" in words:
            return Ended(1, "found")
        if words[0] == "simulate":
            seen = {"p_values": {"a": 0.5}, "correlation": 0.0}
            played = {"seeds": int(words[2]), "seconds": 1.0, "violations": [], **seen}
            Path(words[-1]).write_text(json.dumps(played))
        return Ended(0, "done")

    def tests(paths: Sequence[str], environment: object = None) -> dict[str, str]:
        ran.extend(paths)
        return dict.fromkeys(paths, "passed")

    network = {"forged": 1, "wanted": 1, "wrong": 0, "ended": 0}
    beside = {"alone_s": 1.0, "beside_s": 1.0, "link_share": 1.0}
    for where in (security, plan):
        monkeypatch.setattr(where, "run_module", module)
        monkeypatch.setattr(where, "run_tests", tests)
    monkeypatch.setattr(security, "run_words", lambda _: Ended(0, " ".join(f"rule{k}" for k in range(20))))
    monkeypatch.setattr(security, "run_blind", lambda: {"codecs": {}})
    times = {"plain": 1.0, "keyed": 1.2}
    keyed = {"forged": 1, "switch_us": times, "host_us": times, "switch_taken": 0, "host_taken": 0}
    monkeypatch.setattr(security, "run_keyed", lambda *_: keyed)
    monkeypatch.setattr(security, "run_forged", lambda *_: network)
    monkeypatch.setattr(security, "run_beside", lambda *_: beside)
    checks = verify("trust", tmp_path, lambda _: None, QUICK)
    assert all(check.holds for check in checks)
    assert len([check for check in checks if check.check.startswith("attack ")]) == 10
    assert {"fuzz.programs", "fuzz.p4runtime", "simulate", "sumwire_lab"} <= set(ran)
    assert json.loads((tmp_path / "verify-trust.json").read_text())
