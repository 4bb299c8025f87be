# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Applying a configuration: what is written, in which order, and which generations jobs get."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.controller.config_texts import job, star, text
from helpers.controller.fake_switch import FakeSwitch
from hypothesis import given, settings
from hypothesis import strategies as st
from sumwire_controller.deploy.operations import Report, bring_about
from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.reconcile import next_generation
from sumwire_controller.derive.entries import MulticastGroup, TableEntry
from sumwire_controller.errors import ReadBackError, SwitchRefusedError
from sumwire_controller.model import Config
from sumwire_controller.parse.files import parse_config

NOW = 1_800_000_000
PROGRAM = Program.load()


def config(*jobs: dict[str, Any], workers: int = 4) -> Config:
    return parse_config(text(star(workers, jobs=list(jobs))))


def bring(switch: FakeSwitch, wanted: Config, now: int = NOW, renew: tuple[str, ...] = ()) -> Report:
    return bring_about(wanted, switch, PROGRAM, renew, now)


A = job("a", 1, 4, 0, 256, "thc max32")
B = job("b", 2, 2, 256, 64)


def test_order_ledger_first_job_rows_last() -> None:
    switch = FakeSwitch()
    texts = [str(change) for change in bring(switch, config(A, B)).changes]
    assert texts[0] == f"insert replica[65535, 255] ledger: last generation {NOW + 1}"
    assert [line.split("]")[0] for line in texts[-2:]] == ["insert job[job=1", "insert job[job=2"]
    assert str(bring(switch, config(A, B))) == "s1: nothing to change"


def test_a_changed_job_leaves_first_and_comes_back_last() -> None:
    switch = FakeSwitch()
    bring(switch, config(A, B))
    report = bring(switch, config(A, {**B, "workers": ["h1", "h3"]}), NOW + 5)
    assert [str(change).split(" admit")[0].split(" address")[0] for change in report.changes] == [
        f"modify replica[65535, 255] ledger: last generation {NOW + 5}",
        "delete job[job=2]",
        "delete worker[job=2, worker=0]",
        "delete worker[job=2, worker=1]",
        "insert worker[job=2, worker=0]",
        "insert worker[job=2, worker=1]",
        "modify group 3: 1#1, 3#2",
        "modify replica[job=2, worker=1]",
        "insert job[job=2]",
    ]
    assert report.generations == {"a": NOW, "b": NOW + 5}


def test_a_job_that_leaves_takes_all_its_entries_along() -> None:
    switch = FakeSwitch()
    bring(switch, config(B))
    before = switch.entries(PROGRAM)
    bring(switch, config(A, B))
    bring(switch, config(B), NOW + 9)
    ledger = {entry for entry in switch.entries(PROGRAM) if "ledger" in str(entry)}
    assert {entry for entry in before if "ledger" not in str(entry)} == switch.entries(PROGRAM) - ledger
    assert [str(entry) for entry in ledger] == [f"replica[65535, 255] ledger: last generation {NOW + 1}"]


def test_renew_touches_only_the_ledger_and_the_rows_of_job_and_workers() -> None:
    switch = FakeSwitch()
    bring(switch, config(A, B))
    report = bring(switch, config(A, B), NOW, renew=("a",))
    assert [str(change).split("]")[0] for change in report.changes] == [
        "modify replica[65535, 255",
        "delete job[job=1",
        *(f"delete worker[job=1, worker={k}" for k in range(4)),
        *(f"insert worker[job=1, worker={k}" for k in range(4)),
        "insert job[job=1",
    ]
    assert report.generations == {"a": NOW + 2, "b": NOW + 1}


def test_a_generation_never_comes_twice_even_if_the_job_was_away_and_the_clock_stands_still() -> None:
    switch = FakeSwitch()
    for wanted in (config(A), config(), config(A), config(B), config(B, A), config(), config(B)):
        bring(switch, wanted)
    assert len(set(switch.generations_admitted)) == len(switch.generations_admitted) == 5


def test_a_new_name_or_order_of_ops_changes_nothing() -> None:
    switch = FakeSwitch()
    bring(switch, config(A))
    assert not bring(switch, config({**A, "name": "other", "ops": ["max32", "thc"]})).changed


def test_a_job_with_a_part_missing_is_made_whole_under_a_new_generation() -> None:
    for missing in [entry for entry in _held(config(A)) if "job=1" in str(entry) or isinstance(entry, MulticastGroup)]:
        switch = FakeSwitch()
        bring(switch, config(A))
        complete = set(switch.held)
        del switch.held[missing.identity]
        report = bring(switch, config(A))
        assert set(switch.held) == complete
        assert report.generations == {"a": NOW + 1}, missing


def _held(wanted: Config) -> frozenset[Any]:
    switch = FakeSwitch()
    bring(switch, wanted)
    return switch.entries(PROGRAM)


def test_foreign_entries_go() -> None:
    switch = FakeSwitch(
        frozenset(
            {
                TableEntry("forward", (0x0A000000, 24), (3,)),
                TableEntry("forward", (0x0A000001, 32), (3,)),
                TableEntry("worker", (9, 0), (1, 2, 1, 1, 0, 3, 4, 0, 0)),
                TableEntry("uplink", (9, 0, 1, 7), (1, 2, 3, 4, 16)),
                MulticastGroup(77, frozenset({(1, 1)})),
            }
        )
    )
    bring(switch, config(A))
    assert switch.entries(PROGRAM) == _held(config(A))


@given(fail_after=st.integers(0, 60), renew=st.booleans(), other=st.sampled_from([config(), config(B), config(A, B)]))
@settings(max_examples=60)
def test_an_apply_that_breaks_off_anywhere_can_be_repeated(fail_after: int, renew: bool, other: Config) -> None:
    switch = FakeSwitch()
    bring(switch, other)
    switch.fail_after = fail_after
    names = ("a",) if renew else ()
    try:
        bring(switch, config(A, {**B, "quorum": 1}), renew=names)
    except SwitchRefusedError:
        switch.fail_after = None
        bring(switch, config(A, {**B, "quorum": 1}), renew=names)
    switch.fail_after = None
    assert not bring(switch, config(A, {**B, "quorum": 1})).changed
    assert len(set(switch.generations_admitted)) == len(switch.generations_admitted)


def test_what_does_not_read_back_is_an_error() -> None:
    switch = FakeSwitch()
    switch.forgets = True
    with pytest.raises(ReadBackError, match=r"s1: reads back differently: missing: aggregator\[address=10.0.0.100\]"):
        bring(switch, config())


@pytest.mark.parametrize(
    ("last", "now", "expected"),
    [(0, 5, 5), (5, 5, 6), (9, 5, 10), (0, 0, 1), (2**32 - 1, 7, 1), (0, 2**32, 1), (0, 2**32 + 3, 3)],
)
def test_next_generation(last: int, now: int, expected: int) -> None:
    assert next_generation(last, now) == expected
