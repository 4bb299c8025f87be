# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A job's lanes: their entries on the switch, their generations, and their part of the job file."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.controller.config_texts import job, star, text
from helpers.controller.fake_switch import FakeSwitch
from helpers.controller.topology_texts import leaf_spine, tree_job
from sumwire_controller.deploy.operations import Report, bring_about
from sumwire_controller.deploy.p4info import Program
from sumwire_controller.derive.entries import TableEntry
from sumwire_controller.derive.jobs import job_description, lane_jobs, with_lanes
from sumwire_controller.derive.topology import configs_of
from sumwire_controller.model import Config, SlotRange
from sumwire_controller.parse.files import parse_config, parse_topology

NOW = 1_800_000_000
PROGRAM = Program.load()
LANED = {**job("a", 5, 2, 64, 32), "lanes": 4}
PLAIN = job("b", 9, 2, 0, 8)


def config(*jobs: dict[str, Any], workers: int = 2) -> Config:
    return parse_config(text(star(workers, jobs=list(jobs))))


def bring(switch: FakeSwitch, wanted: Config, renew: tuple[str, ...] = ()) -> Report:
    return bring_about(wanted, switch, PROGRAM, renew, NOW)


def rows(switch: FakeSwitch, table: str) -> dict[tuple[int, ...], TableEntry]:
    return {e.key: e for e in switch.entries(PROGRAM) if isinstance(e, TableEntry) and e.table == table}


def test_lanes_by_hand() -> None:
    (written,) = config(LANED).jobs
    assert [(lane.name, lane.id, lane.slots, lane.lane, lane.lanes) for lane in lane_jobs(written)] == [
        ("a/0", 5, SlotRange(64, 8), 0, 1),
        ("a/1", 6, SlotRange(72, 8), 1, 1),
        ("a/2", 7, SlotRange(80, 8), 2, 1),
        ("a/3", 8, SlotRange(88, 8), 3, 1),
    ]


def test_a_job_of_one_lane_is_itself_and_lanes_have_none() -> None:
    (written,) = config({**PLAIN, "lanes": 1}).jobs
    assert lane_jobs(written) == (written,) == config(PLAIN).jobs
    laned = with_lanes(config(LANED, PLAIN))
    assert with_lanes(laned) == laned


def test_every_lane_is_a_job_on_the_switch() -> None:
    data = star(2, jobs=[LANED, PLAIN])
    data["workers"][1]["udp_port"] = 4000
    switch = FakeSwitch()
    report = bring(switch, parse_config(text(data)))
    assert report.generations == {"a/0": NOW, "a/1": NOW + 1, "a/2": NOW + 2, "a/3": NOW + 3, "b": NOW + 4}
    assert {key[0]: (row.arg("slot_base"), row.arg("job_slots")) for key, row in rows(switch, "job").items()} == {
        5: (64, 8), 6: (72, 8), 7: (80, 8), 8: (88, 8), 9: (0, 8)
    }  # fmt: skip
    ports = {key: row.arg("udp_port") for key, row in rows(switch, "replica").items() if key[0] < 100}
    assert ports == {
        (5, 0): 21335, (6, 0): 21336, (7, 0): 21337, (8, 0): 21338, (9, 0): 21335,
        (5, 1): 4000, (6, 1): 4001, (7, 1): 4002, (8, 1): 4003, (9, 1): 4000,
    }  # fmt: skip
    assert not bring(switch, parse_config(text(data))).changed


def test_lanes_lose_different_slots() -> None:
    laned = {**LANED, "ops": ["thc"], "thc": job("x", 1, 2, 0, 2, "thc")["thc"]}
    laned["degrade"] = {"seed": 2**32 - 2, "share": 0.25, "mode": "drop"}
    switch = FakeSwitch()
    bring(switch, config(laned))
    found = {key[0]: row.args for key, row in rows(switch, "degrade").items()}
    assert found == {5: (2**32 - 2, 16384, 2), 6: (2**32 - 1, 16384, 2), 7: (0, 16384, 2), 8: (1, 16384, 2)}


def test_a_change_of_one_lane_alone_leaves_the_others() -> None:
    switch = FakeSwitch()
    before = bring(switch, config(LANED, PLAIN)).generations
    del switch.held["multicast group", 8]
    after = bring(switch, config(LANED, PLAIN)).generations
    assert after == {**before, "a/2": NOW + 5}


def test_other_lanes_are_another_job() -> None:
    switch = FakeSwitch()
    bring(switch, config(LANED, PLAIN))
    bring(switch, config({**LANED, "lanes": 2}, PLAIN))
    assert set(rows(switch, "job")) == {(5,), (6,), (9,)}
    assert not bring(switch, config({**LANED, "lanes": 2}, PLAIN)).changed


def test_what_hosts_are_told() -> None:
    found = job_description(config(LANED, PLAIN), "a")
    assert (found["name"], found["job"], found["slots"], found["paths"]) == ("a", 5, 8, 1)
    assert found["lanes"] == [{"job": number, "slots": 8} for number in (5, 6, 7, 8)]
    assert [address["udp_port"] for address in found["addresses"]] == [21335, 21335]


@pytest.mark.parametrize(("spines", "spray"), [(1, "slot"), (2, "hash"), (4, "slot")])
def test_lanes_in_a_tree(spines: int, spray: str) -> None:
    data = {**leaf_spine(2, 2, spines), "jobs": [{**tree_job("a", 5, [1, 2, 3, 4], 0, 32), "lanes": 2, "spray": spray}]}
    topology = parse_topology(text(data))
    description = job_description(topology, "a")
    assert (description["paths"], description["lanes"]) == (spines, [{"job": 5, "slots": 16}, {"job": 6, "slots": 16}])
    for at in configs_of(topology):
        switch = FakeSwitch()
        bring(switch, at)
        assert set(rows(switch, "job")) == {(5,), (6,)}
        uplinks = sorted(key[:3] for key in rows(switch, "uplink"))
        above = [] if at.switch.name.startswith("spine") else [
            (number, low_bits, spines - 1) for number in (5, 6) for low_bits in range(spines)
        ]  # fmt: skip
        assert uplinks == above
        # Partial results go between switches at the port of all switches, whatever the lane.
        to_switches = {
            row.arg("udp_port") for row in rows(switch, "replica").values() if row.arg("mac") >> 24 == 0x025357
        }
        assert to_switches == ({21335} if at.switch.name.startswith("spine") else set())
