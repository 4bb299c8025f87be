# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A topology on running switches: entries on the soft switch and on bmv2, frames through a tree of soft switches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from golden import model
from helpers.controller.cables import Cables, check_sum, placed, running, wire_host
from helpers.controller.config_texts import text
from helpers.controller.real_switches import bmv2, soft_switch
from helpers.controller.topology_texts import leaf_spine
from helpers.paths import ROOT
from softswitch.switch import SoftSwitch
from sumwire_controller import apply_topology, load_topology, parse_topology, read_topology_status
from sumwire_controller.cli import main
from sumwire_controller.errors import SwitchUnreachableError
from sumwire_controller.model import Topology

EXAMPLES = ROOT / "controller" / "examples"
NAMES = ("spine1", "spine2", "leaf1", "leaf2")


@pytest.fixture(scope="module", params=["soft", pytest.param("bmv2", marks=pytest.mark.bmv2)])
def addresses(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Four running switches of a kind. Tests do not depend on what an earlier one left in them."""
    folder = tmp_path_factory.mktemp("bmv2")
    with ExitStack() as stack:
        running = {}
        for k, name in enumerate(NAMES, 1):
            one = soft_switch(SoftSwitch(), k) if request.param == "soft" else bmv2(folder / f"{name}.log", k)
            running[name] = stack.enter_context(one)
        yield running


def network(addresses: dict[str, str], spines: int = 2) -> Topology:
    data = leaf_spine(2, 2, spines)
    for each in data["switches"]:
        each["device_id"] = NAMES.index(each["name"]) + 1
    return placed(parse_topology(text(data)), addresses)


def test_apply_twice_read_back_and_renew(addresses: dict[str, str]) -> None:
    wanted = network(addresses)
    first = apply_topology(wanted)
    assert [report.switch for report in first] == list(NAMES)
    again = apply_topology(wanted)
    assert not any(report.changed for report in again)
    assert [report.generations for report in again] == [report.generations for report in first]
    found = read_topology_status(wanted)
    assert [(status.switch, status.in_sync) for status in found] == [(name, True) for name in NAMES]
    uplinks = [[line for line in status.entries if line.startswith("uplink")] for status in found]
    assert list(map(len, uplinks)) == [0, 0, 2, 2]
    renewed = apply_topology(wanted, renew=["digits"])
    assert [len(report.changes) for report in renewed] == [7, 7, 7, 7]
    for before, after in zip(first, renewed, strict=True):
        assert after.generations["digits"] > before.generations["digits"]


def test_from_two_spines_to_one_and_back(addresses: dict[str, str]) -> None:
    for spines in (2, 1, 2):
        wanted = network(addresses, spines)
        apply_topology(wanted)
        assert all(status.in_sync for status in read_topology_status(wanted))
        assert not any(report.changed for report in apply_topology(wanted))


def test_upper_switches_come_first_in_whatever_order_they_are_named(addresses: dict[str, str]) -> None:
    wanted = network(addresses)
    wanted = replace(wanted, switches=wanted.switches[::-1])
    assert [report.switch for report in apply_topology(wanted)] == ["spine2", "spine1", "leaf2", "leaf1"]
    assert [status.switch for status in read_topology_status(wanted)] == ["spine2", "spine1", "leaf2", "leaf1"]


def test_nothing_is_written_if_one_switch_does_not_answer(addresses: dict[str, str]) -> None:
    apply_topology(network(addresses))
    wanted = network({**addresses, "leaf2": "127.0.0.1:1"}, 1)
    with pytest.raises(SwitchUnreachableError, match="switch leaf2"):
        apply_topology(wanted)
    assert all(status.in_sync for status in read_topology_status(network(addresses)))


def test_commands(addresses: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = leaf_spine(2, 2, 2)
    for each in data["switches"]:
        each["grpc"] = addresses[each["name"]]
    path = tmp_path / "net.yaml"
    path.write_text(text(data))
    assert main(["apply", str(path)]) == 0
    capsys.readouterr()
    assert main(["apply", str(path), "--renew", "digits"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert lines == [f"{name}: 7 entries written" for name in NAMES]
    assert main(["apply", str(path), "--json"]) == 0
    assert [(found["switch"], found["changed"]) for found in json.loads(capsys.readouterr().out)] == [
        (name, False) for name in NAMES
    ]
    assert main(["status", str(path)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.endswith(": as configured")]
    assert lines == [f"{name}: as configured" for name in NAMES]
    assert main(["status", str(path), "--json"]) == 0
    assert [found["in_sync"] for found in json.loads(capsys.readouterr().out)] == [True] * 4
    assert main(["apply", str(path), "--renew", "z"]) == 1
    assert "'z'" in capsys.readouterr().err


# -- frames through a tree of soft switches -------------------------------------------------------------


@pytest.fixture(scope="module", params=["leaf-spine8", "three-level"])
def cables(request: pytest.FixtureRequest) -> Iterator[Cables]:
    with running(load_topology(EXAMPLES / f"{request.param}.yaml")) as ready:
        yield ready


@pytest.mark.parametrize(("slot", "spines"), [(0, {"spine1"}), (1, {"spine2"}), (2, {"spine1"}), (255, {"spine2"})])
def test_every_host_gets_the_sum_of_all(cables: Cables, slot: int, spines: set[str]) -> None:
    (job,) = [job for job in cables.topology.jobs if job.name == "digits"]
    assert set(job.workers) == {host.name for host in cables.topology.hosts}
    assert check_sum(cables, job, slot) == (spines if cables.topology.switches[0].name == "spine1" else set())


def test_a_job_within_part_of_the_tree_stays_there(cables: Cables) -> None:
    job = cables.topology.jobs[1]
    check_sum(cables, job, 3)
    assert cables.visited == {"local": {"leaf2"}, "half": {"leaf1", "leaf2", "middle1"}}[job.name]


def test_ordinary_frames_reach_every_host_from_every_host(cables: Cables) -> None:
    hosts = [host.name for host in cables.topology.hosts]
    for sender in hosts:
        for receiver in hosts:
            to = wire_host(cables, receiver)
            frame = model.udp_frame(wire_host(cables, sender), model.Host(to.port, to.mac, to.ip, udp_port=9), b"hello")
            assert cables.send(sender, frame) == [(receiver, frame)]
