# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Applying a topology: the order of writes over all switches, and new generations on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from helpers.controller.config_texts import job, star, text
from helpers.controller.fake_switch import FakeSwitch
from helpers.controller.topology_texts import leaf_spine, three_level, tree_job
from hypothesis import given, settings
from hypothesis import strategies as st
from sumwire_controller.deploy.operations import (
    Report,
    apply_all,
    apply_topology,
    bring_all_about,
    read_all_status,
    read_topology_status,
)
from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.reconcile import EntryChange
from sumwire_controller.derive.desired import upper_first
from sumwire_controller.derive.topology import configs_of
from sumwire_controller.errors import ConfigError, SwitchRefusedError, UnknownJobError
from sumwire_controller.parse.files import parse_config, parse_topology

NOW = 1_800_000_000
PROGRAM = Program.load()


class Network:
    """A fake switch for each name, and a journal of the writes to all of them."""

    def __init__(self) -> None:
        self.switches: dict[str, FakeSwitch] = {}
        self.journal: list[tuple[str, str]] = []
        self.left: int | None = None

    def __getitem__(self, name: str) -> FakeSwitch:
        if name not in self.switches:
            self.switches[name] = _Recording(name, self)
        return self.switches[name]

    def bring(self, data: dict[str, Any], now: int = NOW, renew: Sequence[str] = ()) -> dict[str, Report]:
        self.journal.clear()
        configs = upper_first(configs_of(parse_topology(text(data))))
        targets = [(config, self[config.switch.name]) for config in configs]
        return {report.switch: report for report in bring_all_about(targets, PROGRAM, renew, now)}

    def job_rows(self) -> list[str]:
        """ "+leaf1" where a job was admitted, "-leaf1" where one was withdrawn, in the order of the journal."""
        rows = [(name, line) for name, line in self.journal if line.split("[")[0] in ("insert job", "delete job")]
        return [("+" if line.startswith("insert") else "-") + name for name, line in rows]


class _Recording(FakeSwitch):
    def __init__(self, name: str, network: Network) -> None:
        super().__init__()
        self._name, self._network = name, network

    def write(self, program: Program, change: EntryChange) -> None:
        if self._network.left is not None:
            if self._network.left == 0:
                raise SwitchRefusedError(f"{change}: told to refuse")
            self._network.left -= 1
        super().write(program, change)
        self._network.journal.append((self._name, str(change)))


def with_jobs(*jobs: dict[str, Any]) -> dict[str, Any]:
    return {**leaf_spine(2, 2, 2), "jobs": list(jobs)}


ALL = tree_job("all", 1, [1, 2, 3, 4], 0, 16, "thc max32")
LOCAL = tree_job("local", 2, [3, 4], 16, 8)


def test_empty_switches_get_everything_upper_first_and_the_second_time_nothing() -> None:
    network = Network()
    for name in ("root", "leaf2"):
        network[name].running = False
    first = network.bring(three_level())
    assert list(first) == ["root", "middle1", "middle2", "leaf1", "leaf2", "leaf3"]
    assert network.job_rows() == ["+root", "+middle1", "+middle2", "+leaf1", "+leaf2", "+leaf3"]
    assert {name: report.program_loaded for name, report in first.items()} == {
        "root": True, "middle1": False, "middle2": False, "leaf1": False, "leaf2": True, "leaf3": False
    }  # fmt: skip
    again = network.bring(three_level(), NOW + 9)
    assert network.journal == []
    assert not any(report.changed for report in again.values())
    assert [report.generations for report in again.values()] == [report.generations for report in first.values()]


def test_a_job_is_withdrawn_from_below_and_admitted_from_above() -> None:
    network = Network()
    network.bring(three_level())
    changed = three_level()
    changed["jobs"][0]["slots"]["count"] = 128
    network.bring(changed)
    up = ["root", "middle1", "middle2", "leaf1", "leaf2", "leaf3"]
    assert network.job_rows() == [f"-{name}" for name in reversed(up)] + [f"+{name}" for name in up]
    gone = {**changed, "jobs": []}
    network.bring(gone)
    assert network.job_rows() == [f"-{name}" for name in reversed(up)]


def test_the_ledger_is_written_before_anything_is_admitted() -> None:
    network = Network()
    network.bring(with_jobs(ALL))
    lines = [line for _, line in network.journal]
    ledgers = [i for i, line in enumerate(lines) if "ledger" in line]
    assert ledgers == [0, 1, 2, 3]


def test_renew_reaches_every_switch_of_the_jobs_tree_and_no_other_job() -> None:
    network = Network()
    before = network.bring(with_jobs(ALL, LOCAL))
    after = network.bring(with_jobs(ALL, LOCAL), NOW + 9, renew=["all"])
    assert {name: report.generations for name, report in after.items()} == {
        "spine1": {"all": NOW + 9},
        "spine2": {"all": NOW + 9},
        "leaf1": {"all": NOW + 9},
        "leaf2": {"all": NOW + 9, "local": before["leaf2"].generations["local"]},
    }
    local = network.bring(with_jobs(ALL, LOCAL), NOW + 20, renew=["local"])
    assert [report.switch for report in local.values() if report.changed] == ["leaf2"]


def test_a_jobs_generation_is_the_same_on_all_its_switches() -> None:
    """Workers learn it from the switch next to them, and the switches above go by it too."""
    network = Network()
    network.bring(with_jobs(LOCAL))
    found = network.bring(with_jobs(LOCAL, ALL))
    assert {name: report.generations["all"] for name, report in found.items()} == {
        "spine1": NOW + 1, "spine2": NOW + 1, "leaf1": NOW + 1, "leaf2": NOW + 1
    }  # fmt: skip
    assert {report.generations.get("local") for report in found.values()} == {None, NOW}


def test_a_change_that_only_one_switch_sees_renews_the_job_everywhere() -> None:
    network = Network()
    network.bring(with_jobs(ALL))
    other = with_jobs(ALL)
    other["hosts"][0]["mac"] = "00:00:00:00:00:77"
    report = network.bring(other, NOW + 9)
    assert {name: found.generations for name, found in report.items()} == {
        name: {"all": NOW + 9} for name in ("spine1", "spine2", "leaf1", "leaf2")
    }


@given(
    left=st.integers(0, 90),
    renew=st.booleans(),
    before=st.sampled_from([(), (ALL,), (LOCAL,), ({**ALL, "slots": {"base": 8, "count": 4}}, LOCAL)]),
)
@settings(max_examples=40)
def test_an_apply_that_breaks_off_anywhere_can_be_repeated(left: int, renew: bool, before: tuple[Any, ...]) -> None:
    network = Network()
    network.bring(with_jobs(*before))
    network.left = left
    names = ["all"] if renew else []
    try:
        network.bring(with_jobs(ALL, LOCAL), renew=names)
    except SwitchRefusedError:
        network.left = None
        network.bring(with_jobs(ALL, LOCAL), renew=names)
    network.left = None
    assert not any(report.changed for report in network.bring(with_jobs(ALL, LOCAL)).values())
    for switch in network.switches.values():
        assert len(set(switch.generations_admitted)) == len(switch.generations_admitted)


def test_whatever_breaks_off_no_lower_switch_has_a_job_that_its_upper_has_not() -> None:
    """After every single write: a job that a leaf admits has the same slots as on the spines."""
    changed = with_jobs({**ALL, "slots": {"base": 0, "count": 32}})
    for left in range(1000):
        network = Network()
        network.bring(with_jobs(ALL))
        network.left = left
        try:
            network.bring(changed, NOW + 9)
        except SwitchRefusedError:
            slots = {name: _slots(switch) for name, switch in network.switches.items()}
            for leaf in ("leaf1", "leaf2"):
                assert slots[leaf] in (None, slots["spine1"]), (left, slots)
                assert slots[leaf] in (None, slots["spine2"]), (left, slots)
        else:
            assert left == 28  # at each switch a ledger, and the rows of the job and of two workers go and come
            return
    raise AssertionError("never done")


def _slots(switch: FakeSwitch) -> int | None:
    row = switch.held.get(("job", (1,)))
    return None if row is None else int(row.args[2])  # type: ignore[union-attr]


def test_bad_calls_are_refused_before_any_switch_is_asked() -> None:
    topology = parse_topology(text(leaf_spine()))
    with pytest.raises(UnknownJobError, match="'z': not in the configuration, which has digits"):
        apply_topology(topology, renew=["z"])
    strangers = [
        parse_config(
            text({**star(2, jobs=[job("m", 1, 2, 0, 8)]), "switch": {"name": n, "grpc": f"{n}:1", "device_id": 1}})
        )
        for n in ("a", "b")
    ]
    for call in (apply_all, read_all_status):
        with pytest.raises(ConfigError, match="is in no tree"):
            call(strangers)
    broken = parse_topology(text(leaf_spine()))
    object.__setattr__(broken, "links", broken.links[:1])
    for ask in (apply_topology, read_topology_status):
        with pytest.raises(ConfigError, match="no links lead there"):
            ask(broken)
