# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of verify-trust."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.experiments.crowds import CONNECTS, UNGUARDED, Siege
from sumwire_lab.options.verify_options import VerifyOptions
from sumwire_lab.verify import plan, security
from sumwire_lab.verify.commands import verify
from sumwire_lab.verify.plan import Ended

QUICK = VerifyOptions("trust", quick=True)


def test_every_broken_rule_must_be_found() -> None:
    names = [f"rule{k}" for k in range(20)]
    assert security.mutation_check(names, names).holds
    assert not security.mutation_check(names[:19], names[:19]).holds
    missed = security.mutation_check(names, names[1:])
    assert (missed.holds, missed.why) == (False, "rule0")


@pytest.mark.parametrize(("listener", "slowest", "good"), [
    ("service", 1.0, True), ("service", 1.01, False), (UNGUARDED, 1.01, True), (UNGUARDED, 0.9, False),
])  # fmt: skip
def test_a_listener_answers_within_a_second_and_one_without_a_guard_does_not(
    listener: str, slowest: float, good: bool
) -> None:
    [check] = security.listener_checks([Siege(listener, CONNECTS, slowest, 9876.5)])
    assert check.holds is good
    assert check.value == {"s": slowest, "crowd's connects/s": 9876}
    assert check.check.startswith(f"{listener}, 10000 connects a second from another address: ")


def fuzzed(taken: int = 9, executions: int = 5, finding: str = "") -> dict[str, Any]:
    coverage = {} if finding else {"a.c": {"taken": 10, "branches": 10}, "b.c": {"taken": taken, "branches": 10}}
    return {"host": {"executions": executions, "finding": finding, "coverage": coverage}}


def test_fuzzers_find_nothing_and_take_nine_in_ten_branches_of_each_file() -> None:
    def both(record: dict[str, Any]) -> list[bool]:
        return [bool(check.holds) for check in security.fuzzers_checks(record, 18)]

    assert both(fuzzed()) == [True, True]
    assert both(fuzzed(taken=8)) == [True, False]
    assert both(fuzzed(executions=0)) == [False, True]
    found, branches = security.fuzzers_checks(fuzzed(finding="ERROR: AddressSanitizer: heap"), 18)
    assert (found.holds, found.why) == (False, "ERROR: AddressSanitizer: heap")
    assert not branches.holds


def test_no_race_is_found_but_those_that_were_planted() -> None:
    good: dict[str, Any] = {"passed": 9, "failed": "", "races": [], "planted": {"a": ["data race"], "b": ["data race"]}}

    def holding(**changed: object) -> list[bool]:
        return [bool(check.holds) for check in security.races_checks(good | changed)]

    assert holding() == [True, True, True]
    assert holding(failed="1 failed, 8 passed") == holding(passed=0) == [False, True, True]
    assert holding(races=["data race in f"]) == [True, False, True]
    assert holding(planted={"a": ["data race"], "b": []}) == holding(planted={}) == [True, True, False]


def test_every_row_has_its_experiment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All of them together, with what they run replaced."""
    ran: list[str] = []

    def module(words: Sequence[str]) -> Ended:
        ran.append(words[0])
        if "--load-test" in words:
            record = {"finding": None, "load_test": {"answers_s": {"1000 silent": 0.1}, "grown_mib": 1.0}}
            Path(words[-1]).write_text(json.dumps(record))
        if words[0] == "fuzz.libfuzzer":
            Path(words[-1]).write_text(json.dumps(fuzzed()))
        if words[0] == "fuzz.races":
            raced = {"passed": 1, "failed": "", "races": [], "planted": {"a": ["data race"]}}
            Path(words[-1]).write_text(json.dumps(raced))
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
    monkeypatch.setattr(security.crowds, "besieged", lambda: [Siege("metrics", CONNECTS, 0.1, 1e4)])
    checks = verify("trust", tmp_path, lambda _: None, QUICK)
    assert all(check.holds for check in checks)
    assert len([check for check in checks if check.check.startswith("attack ")]) == 10
    assert {"fuzz.programs", "fuzz.p4runtime", "fuzz.libfuzzer", "fuzz.races", "simulate", "sumwire_lab"} <= set(ran)
    assert json.loads((tmp_path / "verify-trust.json").read_text())
