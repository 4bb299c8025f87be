# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rows of verify-life, each in a few seconds: a software aggregator in Mininet, and short disturbances."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.gloo.ranks import fork_context
from sumwire_lab.faults import disturbed, repeated_runs, resumed, wrong_setups
from sumwire_lab.faults.cases import FaultCase, FaultOutcome
from sumwire_lab.faults.programs import wait_ended
from sumwire_lab.faults.testbed import FaultTestbed, account, open_testbed
from sumwire_lab.verify import fault_injection, observability

pytestmark = [pytest.mark.mininet, pytest.mark.root]

SWITCH = "aggregator"
WORKERS = 2
PATIENCE_S = 60.0
# A switch counts as lost after 3 s.
OUTAGE_S = 4.0


@pytest.fixture(scope="module")
def testbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultTestbed]:
    fork_context()
    with open_testbed(
        FaultCase("any", SWITCH, 1, PATIENCE_S), tmp_path_factory.mktemp("life"), workers=WORKERS
    ) as there:
        yield there


@pytest.fixture(autouse=True)
def nothing_goes_on(testbed: FaultTestbed) -> Iterator[None]:
    yield
    testbed.programs.kill_all()


def problems(row: str, record: dict[str, Any], variant: str = "") -> list[str]:
    return fault_injection.problems_of(FaultOutcome(FaultCase(row, SWITCH, 1, PATIENCE_S, variant), 1.0, record), [])


def test_a_run_after_a_killed_one_and_among_the_packets_of_another(testbed: FaultTestbed) -> None:
    runs = repeated_runs.RunSeries(count=3, killed=(1,), recorded=2, disturbed=3, rounds=4, disturbed_rounds=75)
    record = repeated_runs.repeat(testbed, runs)
    assert [worker["wrong"] for run in record["runs"].values() for worker in run] == [{}] * 2 * WORKERS
    assert list(record["runs"]) == ["2", "3"]
    met = [sum(worker["stats"][name] for name in ("duplicates", "stale", "ignored")) for worker in record["runs"]["3"]]
    assert min(met) >= 100, "packets of the second run have arrived"


@pytest.mark.long
def test_a_rank_is_stopped_and_then_the_aggregator_is_lost_for_a_while(testbed: FaultTestbed) -> None:
    training = testbed.train_on("thc")
    training.wait_steps(3, PATIENCE_S)
    disturbed.stop(training, 1, 1.0)
    assert problems("stopped", {**account(training), "ends": [{"digest": ""}] * WORKERS}) == []
    lost_at = time.time()
    disturbed.lose_switch(testbed, OUTAGE_S, OUTAGE_S)
    back_at = time.time()
    disturbed.wait_returned(training)
    training.end_soon()
    wait_ended(training.programs, PATIENCE_S)
    assert problems("switch", {"lost_at": lost_at, "back_at": back_at, **account(training)}) == []


def test_a_training_is_resumed(testbed: FaultTestbed) -> None:
    assert problems("checkpoint", resumed.halves(testbed, "thc", steps=4), "thc") == []


def test_an_overflow_on_one_rank_is_skipped_on_all(testbed: FaultTestbed) -> None:
    record = resumed.train_overflowing(testbed, "thc", [1], steps=8, at=[3])
    assert [one["skipped"] and one["factor"] == 0.5 for one in record["overflows"]] == [True] * WORKERS
    assert record["unequal"] == []


@pytest.mark.parametrize("name", ["unknown-job", "wrong-address", "wrong-worker", "second-run", "other-version"])
def test_a_wrong_set_up_says_what_it_is(testbed: FaultTestbed, name: str) -> None:
    assert problems("setups", wrong_setups.attempt(testbed, wrong_setups.SETUPS[name].make(testbed)), name) == []


@pytest.mark.parametrize("name", ["unknown-job", "wrong-address", "second-run", "small-mtu"])
def test_the_doctor_names_a_wrong_set_up(testbed: FaultTestbed, name: str) -> None:
    mistake = wrong_setups.SETUPS[name].make(testbed)
    try:
        found = wrong_setups.examined(testbed, 0, mistake)
    finally:
        host = testbed.session.fabric.hosts[0]
        testbed.session.network.run(host, ["ip", "link", "set", host.host_interface, "mtu", "1500"])
    assert observability.doctor_problems(name, SWITCH, {"examined": [{**found, "seconds": 0.0}]}) == []


def test_the_doctor_reports_nothing_on_a_right_set_up(testbed: FaultTestbed) -> None:
    found = [wrong_setups.examined(testbed, rank, wrong_setups.Mistake()) for rank in range(WORKERS)]
    # Another test here ends the offloads; then the hosts are like those of bmv2, and the doctor says so.
    hosts_of = SWITCH if testbed.session.network.offloads else "bmv2"
    assert (
        observability.doctor_problems("right", hosts_of, {"examined": [{**one, "seconds": 0.0} for one in found]}) == []
    )
