# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rows of verify-life, each in a few seconds: a software aggregator in Mininet, and short disturbances."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from helpers.gloo.ranks import fork_context
from sumwire_lab.faults.programs import wait_ended
from sumwire_lab.life.case import Case, Outcome
from sumwire_lab.life.rows import checkpoint, doctor, outage, overflow, repeated, setups, stopped
from sumwire_lab.life.rows.account import account
from sumwire_lab.life.world import World, open_world
from sumwire_lab.verify.rows import life, see

pytestmark = [pytest.mark.mininet, pytest.mark.root]

SWITCH = "aggregator"
WORKERS = 2
PATIENCE_S = 60.0
# A switch counts as lost after 3 s.
OUTAGE_S = 4.0


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    fork_context()
    with open_world(Case("any", SWITCH, 1, PATIENCE_S), tmp_path_factory.mktemp("life"), workers=WORKERS) as there:
        yield there


@pytest.fixture(autouse=True)
def nothing_goes_on(world: World) -> Iterator[None]:
    yield
    world.programs.kill_all()


def problems(row: str, record: dict[str, Any], variant: str = "") -> list[str]:
    return life.problems_of(Outcome(Case(row, SWITCH, 1, PATIENCE_S, variant), 1.0, record), [])


def test_a_run_after_a_killed_one_and_among_the_packets_of_another(world: World) -> None:
    runs = repeated.Runs(count=3, killed=(1,), recorded=2, disturbed=3, rounds=4, disturbed_rounds=75)
    record = repeated.repeat(world, runs)
    assert [worker["wrong"] for run in record["runs"].values() for worker in run] == [{}] * 2 * WORKERS
    assert list(record["runs"]) == ["2", "3"]
    met = [sum(worker["stats"][name] for name in ("duplicates", "stale", "ignored")) for worker in record["runs"]["3"]]
    assert min(met) >= 100, "packets of the second run have arrived"


@pytest.mark.long
def test_a_rank_is_stopped_and_then_the_aggregator_is_lost_for_a_while(world: World) -> None:
    training = world.train_on("thc")
    training.wait_steps(3, PATIENCE_S)
    stopped.stop(training, 1, 1.0)
    assert problems("stopped", {**account(training), "ends": [{"digest": ""}] * WORKERS}) == []
    lost_at = time.time()
    outage.lose_switch(world, OUTAGE_S, OUTAGE_S)
    back_at = time.time()
    outage.wait_returned(training)
    training.end_soon()
    wait_ended(training.programs, PATIENCE_S)
    assert problems("switch", {"lost_at": lost_at, "back_at": back_at, **account(training)}) == []


def test_a_training_is_resumed(world: World) -> None:
    assert problems("checkpoint", checkpoint.halves(world, "thc", steps=4), "thc") == []


def test_an_overflow_on_one_rank_is_skipped_on_all(world: World) -> None:
    record = overflow.train(world, "thc", [1], steps=8, at=[3])
    assert [one["skipped"] and one["factor"] == 0.5 for one in record["overflows"]] == [True] * WORKERS
    assert record["unequal"] == []


@pytest.mark.parametrize("name", ["unknown-job", "wrong-address", "wrong-worker", "second-run", "other-version"])
def test_a_wrong_set_up_says_what_it_is(world: World, name: str) -> None:
    assert problems("setups", setups.attempt(world, setups.SETUPS[name].make(world)), name) == []


@pytest.mark.parametrize("name", ["unknown-job", "wrong-address", "second-run", "small-mtu"])
def test_the_doctor_names_a_wrong_set_up(world: World, name: str) -> None:
    mistake = setups.SETUPS[name].make(world)
    try:
        found = doctor.examined(world, 0, mistake)
    finally:
        host = world.session.fabric.hosts[0]
        world.session.network.run(host, ["ip", "link", "set", host.host_interface, "mtu", "1500"])
    assert see.examined(name, SWITCH, {"examined": [{**found, "seconds": 0.0}]}) == []


def test_the_doctor_reports_nothing_on_a_right_set_up(world: World) -> None:
    found = [doctor.examined(world, rank, setups.Mistake()) for rank in range(WORKERS)]
    # Another test here ends the offloads; then the hosts are like those of bmv2, and the doctor says so.
    hosts_of = SWITCH if world.session.network.offloads else "bmv2"
    assert see.examined("right", hosts_of, {"examined": [{**one, "seconds": 0.0} for one in found]}) == []
