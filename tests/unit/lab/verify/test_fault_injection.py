# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Verdicts of `make verify-life`: a good record of each row, and the ways in which it can be bad."""

from __future__ import annotations

from typing import Any

import pytest
from sumwire_lab.faults import disturbed, repeated_runs, resumed, wrong_setups
from sumwire_lab.faults.cases import FaultCase, FaultOutcome
from sumwire_lab.faults.rows import ROWS
from sumwire_lab.options import verify_options
from sumwire_lab.verify import fault_injection

SEEDS = 4


def end(digest: str = "d", accuracy: float = 0.97, state: str | None = "s") -> dict[str, Any]:
    return {"digest": digest, "accuracy": accuracy, "state": state}


def account(**changes: Any) -> dict[str, Any]:
    return {"compared": 9, "unequal": [], "changes": [[], [], []], "ends": [end(), end(), end()], **changes}


def change(step: int, at: float, *, fallen_back: bool) -> dict[str, Any]:
    return {"step": step, "at": at, "fallen_back": fallen_back}


def there_and_back(step: int = 5, back: float = 104.0) -> list[dict[str, Any]]:
    return [change(step, 93.0, fallen_back=True), change(50, back, fallen_back=False)]


def lost(**changes: Any) -> dict[str, Any]:
    return {"lost_at": 90.0, "back_at": 100.0, **account(changes=[there_and_back() for _ in range(3)]), **changes}


def outcome(row: str, record: dict[str, Any], variant: str = "") -> FaultOutcome:
    return FaultOutcome(FaultCase(row, "soft", 1, 60.0, variant), 1.0, record)


def problems(
    row: str, record: dict[str, Any], variant: str = "", others: list[FaultOutcome] | None = None
) -> list[str]:
    return fault_injection.problems_of(outcome(row, record, variant), others or [])


def test_every_row_has_cases_a_judge_and_words() -> None:
    assert (
        set(ROWS)
        == set(verify_options.TOPICS["life"].rows)
        == set(fault_injection.LABELS)
        == set(fault_injection.TARGETS)
    )
    for name, row in ROWS.items():
        cases = [case for switch in verify_options.SWITCHES for case in row.cases(switch, SEEDS)]
        assert cases and {case.row for case in cases} == {name}
        assert len({case.name for case in cases}) == len(cases), "each has a folder of its own"
        assert fault_injection.problems_of(FaultOutcome(cases[0], 1.0, error="it died"), []) == ["it died"]


def test_all_twelve_set_ups_are_made() -> None:
    made = {case.variant for switch in verify_options.SWITCHES for case in wrong_setups.setup_cases(switch, 1)}
    assert len(made) == 12


def adder(old: int = 1000, **wrong: list[str]) -> dict[str, Any]:
    return {"wrong": wrong, "stats": {"duplicates": 3, "stale": old, "ignored": 0}}


def runs(**changes: Any) -> dict[str, Any]:
    done = {str(n): [adder()] * 3 for n in range(1, repeated_runs.RUNS.count + 1) if n not in repeated_runs.RUNS.killed}
    return {"runs": done | changes}


def test_ten_runs() -> None:
    assert problems("runs", runs()) == []
    assert problems("runs", runs(**{"8": [adder(), adder(**{"3": ["thc"]})]}))
    assert problems("runs", runs(**{"9": []}))
    assert problems("runs", runs(**{"8": [adder(), adder(old=7)]})), "nothing was sent again"


@pytest.mark.parametrize(
    ("accuracy", "starts", "killed", "good"),
    [(0.966, [2, 2, 2], [17], True), (0.96, [2, 2, 2], [17], False), (0.97, [2, 1, 2], [17], False),
     (0.97, [2, 2, 2], [], False)],
)  # fmt: skip
def test_restarts(accuracy: float, starts: list[int], killed: list[int], good: bool) -> None:
    whole = outcome("torchrun", account(starts=[1, 1, 1], killed=[]), resumed.WHOLE)
    record = account(ends=[end(accuracy=accuracy)] * 3, starts=starts, killed=killed, unequal=[3])
    assert (problems("torchrun", record, "", [whole]) == []) is good
    assert problems("torchrun", record, "", []), "nothing to compare with"
    assert problems("torchrun", dict(whole.record), resumed.WHOLE) == []


def test_a_stopped_rank() -> None:
    assert problems("stopped", account()) == []
    assert problems("stopped", account(changes=[[], [change(7, 1.0, fallen_back=True)], []]))
    assert problems("stopped", account(unequal=[4]))
    assert problems("stopped", account(ends=[end(), None, end()]))
    assert problems("stopped", account(ends=[end(), end("other"), end()]))


@pytest.mark.parametrize("row", [disturbed.SWITCH_ROW, disturbed.LINK_ROW])
def test_the_network_is_lost_and_comes_back(row: str) -> None:
    assert problems(row, lost()) == []
    assert problems(row, lost(changes=[[], [], []])), "no fall-back"
    assert problems(row, lost(changes=[there_and_back()[:1] for _ in range(3)])), "no return"
    assert problems(row, lost(changes=[there_and_back(), there_and_back(), there_and_back(step=8)])), "not agreed"
    assert problems(row, lost(changes=[there_and_back(back=110.5) for _ in range(3)])), "late"
    assert problems(row, lost(unequal=[44])), "a split replica"


def overflowed(**changes: Any) -> dict[str, Any]:
    found = [{"rank": 0, "step": 20, "skipped": True, "factor": 0.5}]
    return {
        resumed.BASELINE: account(overflows=found),
        resumed.SYSTEM: {**account(overflows=found), **changes},
    }


def test_overflows() -> None:
    assert problems("overflow", overflowed()) == []
    assert problems("overflow", overflowed(overflows=[{"rank": 1, "step": 20, "skipped": False, "factor": 0.5}]))
    assert problems("overflow", overflowed(overflows=[{"rank": 1, "step": 20, "skipped": True, "factor": 1.0}]))
    assert problems("overflow", overflowed(ends=[end(accuracy=0.95)] * 3))


def halves(**second: Any) -> dict[str, Any]:
    starts = [{"state": "s", "first": 15}] * 3
    return {"half": 15, "whole": account(), "first": account(), "second": {**account(starts=starts), **second}}


def test_resumed_from_a_checkpoint() -> None:
    assert problems("checkpoint", halves(), "thc") == []
    other = halves(ends=[end("other")] * 3)
    assert problems("checkpoint", other, "thc")
    assert problems("checkpoint", other, "marsit") == [], "the switch draws its signs anew"
    assert problems("checkpoint", halves(starts=[{"state": "t", "first": 15}] * 3), "marsit")
    assert problems("checkpoint", halves(starts=[{"state": "s", "first": 0}] * 3), "thc")


def error(text: str, seconds: float = 3.0) -> dict[str, Any]:
    return {"error": "RefusedError", "text": text, "seconds": seconds}


def test_an_error_names_cause_and_cure_in_time() -> None:
    good = "job 23 is not on this switch: sumwire-controller apply CONFIG.yaml"
    assert problems("setups", error(good), "unknown-job") == []
    assert problems("setups", error(good, seconds=6.0), "unknown-job")
    assert problems("setups", error("job 23 is not on this switch"), "unknown-job"), "no cure"
    assert problems("setups", error("no answer: sumwire-controller apply"), "unknown-job"), "no cause"
    assert problems("setups", {"error": None, "text": None, "seconds": 0.1}, "small-mtu")


def test_a_row_holds_if_every_case_does() -> None:
    good, bad = outcome("stopped", account(), "5s"), outcome("stopped", account(unequal=[4]), "15s")
    assert fault_injection.row_check("stopped", "soft", [good]).holds is True
    row = fault_injection.row_check("stopped", "soft", [good, bad])
    assert (row.holds, row.value) == (False, "1 of 2")
    assert "stopped-soft-15s-1: replicas differ after steps [4]" in row.why
    assert fault_injection.row_check("stopped", "soft", []).holds is False


@pytest.mark.parametrize(("accuracy", "holds"), [(0.9, True), (0.966, False)])
def test_a_bad_training_must_not_be_taken_for_a_good_one(accuracy: float, holds: bool) -> None:
    whole = outcome(resumed.TORCHRUN_ROW, account(), resumed.WHOLE)
    forced = outcome(resumed.OVERFLOW_ROW, {resumed.BASELINE: account()}, resumed.ALL)
    for one in (whole, forced):
        assert fault_injection.known_bad_check(one.case.row, [one], accuracy).holds is holds
        assert not fault_injection.known_bad_check(one.case.row, [], accuracy).holds, "nothing to compare with"
