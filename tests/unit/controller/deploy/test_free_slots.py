# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs that take the slots that are free: what they get, what they keep, and when they are refused."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.controller.config_texts import job, star, text
from helpers.controller.fake_switch import FakeSwitch
from helpers.controller.topology_texts import leaf_spine, tree_job
from hypothesis import given, settings
from hypothesis import strategies as st
from sumwire_controller.deploy.operations import bring_about, bring_all_about
from sumwire_controller.deploy.p4info import Program
from sumwire_controller.derive.desired import upper_first
from sumwire_controller.derive.entries import admissions
from sumwire_controller.derive.free_slots import with_admitted
from sumwire_controller.derive.jobs import job_description
from sumwire_controller.derive.topology import configs_of
from sumwire_controller.errors import ConfigError, NoFreeSlotsError, NotAdmittedError
from sumwire_controller.model import Config
from sumwire_controller.parse.files import parse_config, parse_topology
from sumwire_protocol.constants import JUMBO_SLOTS, SLOTS_TOTAL

NOW = 1_800_000_000
PROGRAM = Program.load()


def wish(number: int, most: int, ops: str = "sum32", **more: Any) -> dict[str, Any]:
    return {**job(f"j{number}", number, 2, 0, 2, ops), "slots": {"most": most}, **more}


def config(*jobs: dict[str, Any]) -> Config:
    return parse_config(text(star(4, jobs=list(jobs))))


def held(switch: FakeSwitch) -> dict[int, tuple[int, int]]:
    """The first slot and their number, by job."""
    rows = admissions(switch.entries(PROGRAM))
    return {number: (row.arg("slot_base"), row.arg("job_slots")) for number, row in rows.items()}


def bring(switch: FakeSwitch, *jobs: dict[str, Any], force: bool = False) -> dict[int, tuple[int, int]]:
    bring_about(config(*jobs), switch, PROGRAM, (), NOW, force=force)
    return held(switch)


def test_the_first_get_what_they_ask_for_and_keep_it() -> None:
    """The example of `derive/free_slots.py`."""
    switch = FakeSwitch()
    assert bring(switch, wish(1, 3000)) == {1: (0, 3000)}
    assert bring(switch, wish(1, 3000), wish(2, 3000)) == {1: (0, 3000), 2: (3000, 1096)}
    three = (wish(1, 3000), wish(2, 3000), wish(3, 3000))
    with pytest.raises(NoFreeSlotsError, match=r"job j3: 0 slots are free, and it needs 2: give other jobs fewer"):
        bring(switch, *three)
    assert held(switch) == {1: (0, 3000), 2: (3000, 1096)}
    # A job that has a part keeps it also when more is free.
    assert bring(switch, *three[1:]) == {2: (3000, 1096), 3: (0, 3000)}
    assert str(bring_about(config(*three[1:]), switch, PROGRAM, (), NOW)) == "s1: nothing to change"


def test_a_job_goes_around_slots_that_others_have_by_the_file() -> None:
    switch = FakeSwitch()
    fixed = job("f", 9, 2, 1000, 2000)
    assert bring(switch, wish(1, SLOTS_TOTAL), fixed) == {1: (3000, 1096), 9: (1000, 2000)}
    # The file gives the job's slots to another: it moves, as a job does whose slots are changed in the file.
    moved = bring(switch, wish(1, SLOTS_TOTAL), fixed, job("g", 8, 2, 3000, 1096))
    assert moved == {1: (0, 1000), 8: (3000, 1096), 9: (1000, 2000)}


def test_lanes_and_long_packets() -> None:
    """Lanes have equally many slots, and long packets have the first ones of a switch alone."""
    switch = FakeSwitch()
    found = bring(switch, wish(1, 4092, lanes=4), job("f", 9, 2, 0, 7))
    assert [found[number] for number in (1, 2, 3, 4)] == [(7, 1022), (1029, 1022), (2051, 1022), (3073, 1022)]
    assert bring(switch, wish(1, 4092, lanes=4), job("f", 9, 2, 0, 7)) == found
    jumbo = bring(FakeSwitch(), job("f", 9, 2, 0, 7), wish(1, SLOTS_TOTAL, "thc max32 jumbo"))
    assert jumbo[1] == (7, JUMBO_SLOTS - 7)


def test_a_job_of_several_switches_gets_what_is_free_at_all_of_them() -> None:
    tree = leaf_spine(spines=2)
    tree["jobs"][0]["slots"] = {"most": 300}
    # It has its leaf alone, and the slots that the other could have there but for it.
    tree["jobs"].append(tree_job("local", 7, [1, 2], 101, SLOTS_TOTAL - 201))
    switches: dict[str, FakeSwitch] = {}
    configs = upper_first(configs_of(parse_topology(text(tree))))
    targets = [(one, switches.setdefault(one.switch.name, FakeSwitch())) for one in configs]
    bring_all_about(targets, PROGRAM, (), NOW)
    # Of 101 free ones as many as two roots can share.
    assert {name: held(switch)[1] for name, switch in switches.items()} == dict.fromkeys(switches, (0, 100))
    tree["jobs"].pop()
    tree["jobs"][0]["id"] = 2
    configs = upper_first(configs_of(parse_topology(text(tree))))
    bring_all_about([(one, switches[one.switch.name]) for one in configs], PROGRAM, (), NOW)
    assert {name: held(switch)[2] for name, switch in switches.items()} == dict.fromkeys(switches, (0, 300))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(2, 1365), st.integers(1, 3)), max_size=12))
def test_jobs_that_come_and_go_never_share_a_slot(moves: list[tuple[int, int, int]]) -> None:
    switch, there = FakeSwitch(), dict[int, dict[str, Any]]()
    for which, most, lanes in moves:
        number, before = 10 * which, held(switch)
        without = {one: made for one, made in there.items() if one != number}
        there = without if number in there else {**there, number: wish(number, most * lanes, lanes=lanes)}
        try:
            now = bring(switch, *there.values())
        except NoFreeSlotsError:
            assert held(switch) == before
            there = without
            continue
        assert all(now[job] == slots for job, slots in before.items() if job in now)
        taken = [slot for base, count in now.values() for slot in range(base, base + count)]
        assert len(taken) == len(set(taken)) and max(taken, default=0) < SLOTS_TOTAL
        if number in there:
            others = [slots for job, slots in now.items() if job not in range(number, number + lanes)]
            got = sum(now[number + lane][1] for lane in range(lanes))
            assert got == min(most * lanes, largest_gap(others) // lanes * lanes)


def largest_gap(taken: list[tuple[int, int]]) -> int:
    """Of the slots that none of these has."""
    starts = [0, *(base + count for base, count in sorted(taken))]
    ends = [*(base for base, _ in sorted(taken)), SLOTS_TOTAL]
    return max(end - start for start, end in zip(starts, ends, strict=True))


def test_the_job_file_has_what_the_job_got() -> None:
    source, switch = config(wish(1, 300), wish(2, SLOTS_TOTAL)), FakeSwitch()
    with pytest.raises(NotAdmittedError, match="job 'j2': it takes the slots that are free, and its switches have not"):
        job_description(source, "j2")
    bring_about(source, switch, PROGRAM, (), NOW)
    (settled,) = with_admitted([source], [switch.entries(PROGRAM)])
    assert job_description(settled, "j2")["slots"] == SLOTS_TOTAL - 300


@pytest.mark.parametrize(
    ("slots", "said"),
    [
        ({"most": 1}, "most = 1: must be at least 2"),
        ({"most": 5000}, "most = 5000: slots 0..4999 end beyond the switch's 4096"),
        ({"most": 8, "base": 3}, "base"),
        ({"most": "all"}, "most"),
    ],
)
def test_wrong_wishes(slots: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config({**job("a", 1, 2, 0, 2), "slots": slots})
