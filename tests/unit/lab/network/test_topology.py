# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The plans of networks, their shaping, the switches' command lines."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest
import sumwire_controller
import yaml
from sumwire_controller import parse_config
from sumwire_lab.errors import MissingToolError, OptionError
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.control_plane import virtual_queues
from sumwire_lab.network.fabric import plan
from sumwire_lab.network.topology import shaping_commands
from sumwire_lab.options.layout import SHAPES, TOPOLOGIES, leaves_of
from sumwire_lab.options.priority_lanes import LanedOptions
from sumwire_lab.options.recipes import RECIPES
from sumwire_lab.options.run_options import UNLIMITED, WORKERS_MAX, LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.training_run import _check_ops

# Linux allows 15 characters.
NAME_MAX = 15


@pytest.mark.parametrize("workers", [1, 4, 32])
def test_names_and_addresses_are_unique_and_fit(workers: int) -> None:
    star = plan(workers, LinkOptions(), "sw12af")
    names = [n for h in star.hosts for n in (h.host_interface, h.switch_interface)]
    assert len(set(names)) == 2 * workers
    assert all(len(name) <= NAME_MAX and name.startswith("sw12af-") for name in names)
    assert [h.port for h in star.hosts] == list(range(1, workers + 1))
    assert len({h.ip for h in star.hosts}) == len({h.mac for h in star.hosts}) == workers
    assert all(socket.inet_aton(h.ip) for h in star.hosts)


def test_the_first_and_the_last_host() -> None:
    hosts = plan(32, LinkOptions(), "sw12af").hosts
    assert (hosts[0].ip, hosts[0].mac) == ("10.0.0.1", "00:00:00:00:00:01")
    assert (hosts[31].ip, hosts[31].mac, hosts[31].port) == ("10.0.0.32", "00:00:00:00:00:20", 32)


@pytest.mark.parametrize(("workers", "topology"), [(0, "star"), (33, "star"), (-1, "star"), (1, "leaf-spine")])
def test_other_numbers_of_hosts_are_refused(workers: int, topology: str) -> None:
    with pytest.raises(OptionError, match=f"workers={workers}"):
        plan(workers, LinkOptions(), "sw12af", topology)


def test_an_unknown_topology_is_refused() -> None:
    with pytest.raises(OptionError, match="topology=ring"):
        plan(4, LinkOptions(), "sw12af", "ring")


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("workers", [4, 7, WORKERS_MAX])
def test_every_port_of_every_topology_has_one_link(topology: str, workers: int) -> None:
    fabric = plan(workers, LinkOptions(), "sw12af", topology)
    ends = [(host.switch, host.port) for host in fabric.hosts]
    ends += [(t.lower, t.lower_port) for t in fabric.trunks] + [(t.upper, t.upper_port) for t in fabric.trunks]
    assert len(set(ends)) == len(ends)
    for switch in fabric.switches:
        assert fabric.ports_of(switch.name) == tuple(range(1, 1 + sum(name == switch.name for name, _ in ends)))
    names = [n for h in fabric.hosts for n in (h.host_interface, h.switch_interface)]
    names += [n for t in fabric.trunks for n in (t.lower_interface, t.upper_interface)]
    assert len(set(names)) == len(names)
    assert all(len(name) <= NAME_MAX and name.startswith("sw12af-") for name in names)
    addresses = [h.ip for h in fabric.hosts] + [s.aggregator_ip for s in fabric.switches]
    assert len(set(addresses)) == len(addresses)
    assert len({s.device_id for s in fabric.switches}) == len(fabric.switches)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_without_the_spare_links_every_switch_is_reached_in_one_way(topology: str) -> None:
    """What the bridges of the baseline need, which know no loops."""
    fabric = plan(8, LinkOptions(), "sw12af", topology)
    trunks = [t for t in fabric.trunks if not t.spare]
    linked = {t.lower for t in trunks} | {t.upper for t in trunks} | {h.switch for h in fabric.hosts}
    group = {name: name for name in linked}
    for trunk in trunks:
        a, b = group[trunk.lower], group[trunk.upper]
        assert a != b, f"{trunk.lower} and {trunk.upper} are connected twice"
        group = {name: a if g == b else g for name, g in group.items()}
    assert len(set(group.values())) == 1


def test_hosts_are_spread_in_order_and_evenly() -> None:
    hosts = plan(7, LinkOptions(), "sw12af", "leaf-spine").hosts
    assert [h.switch for h in hosts] == ["leaf1"] * 4 + ["leaf2"] * 3
    assert [h.port for h in hosts] == [1, 2, 3, 4, 1, 2, 3]
    deep = plan(5, LinkOptions(), "sw12af", "three-level")
    assert [h.switch for h in deep.hosts] == ["leaf1", "leaf1", "leaf2", "leaf3", "leaf4"]
    assert leaves_of("three-level") == ["leaf1", "leaf2", "leaf3", "leaf4"]
    assert deep.label("leaf1") == "switch-leaf1"
    assert plan(2, LinkOptions(), "sw12af").label("s1") == "switch"


def test_two_spines_are_both_above_each_leaf() -> None:
    fabric = plan(4, LinkOptions(), "sw12af", "leaf-spine2")
    above = {leaf: {t.upper for t in fabric.trunks if t.lower == leaf} for leaf in SHAPES["leaf-spine2"]}
    assert above == {"spine1": set(), "spine2": set(), "leaf1": {"spine1", "spine2"}, "leaf2": {"spine1", "spine2"}}
    assert [t.upper for t in fabric.trunks if t.spare] == ["spine2", "spine2"]


def test_shaping_says_rate_and_queue() -> None:
    text = [" ".join(command) for command in shaping_commands("sw12af-h1", LinkOptions(2.5, 77))]
    assert "htb rate 2500000bit" in text[1]
    assert text[2].endswith("pfifo limit 77")
    assert all("dev sw12af-h1" in line for line in text)


def test_bursts_hold_two_frames_or_a_millisecond() -> None:
    assert "burst 3028 cburst 3028" in " ".join(shaping_commands("x", LinkOptions(10))[1])
    assert "burst 125000 cburst 125000" in " ".join(shaping_commands("x", LinkOptions(1000))[1])


def test_links_without_a_limit_are_not_shaped() -> None:
    assert shaping_commands("x", LinkOptions(UNLIMITED)) == []
    assert "--link-mbit" not in switches.soft_command([(1, "a")], "127.0.0.1:1234", None, link_mbit=UNLIMITED)


@pytest.mark.parametrize(("workers", "side_jobs"), [(1, False), (4, False), (4, True), (9, True), (32, True)])
def test_the_controller_takes_the_configuration(workers: int, side_jobs: bool) -> None:
    jobs = control_plane.side_jobs if side_jobs else control_plane.training_job
    star = plan(workers, LinkOptions(), "sw12af")
    text = yaml.safe_dump(control_plane.configuration(star, {"s1": "127.0.0.1:9559"}, jobs(star)))
    config = parse_config(text)
    assert [job.id for job in config.jobs] == ([1, 2, 3] if side_jobs else [1])
    for job in config.jobs:
        assert job.thc is not None
        assert job.thc.granularity * workers <= 255
        assert list(job.workers) == [f"h{k}" for k in range(1, workers + 1)]


@pytest.mark.parametrize("topology", [name for name in TOPOLOGIES if name != "star"])
@pytest.mark.parametrize("workers", [4, 9, 32])
def test_the_controller_takes_every_tree(topology: str, workers: int) -> None:
    fabric = plan(workers, LinkOptions(), "sw12af", topology)
    grpc = {s.name: f"127.0.0.1:{9000 + s.device_id}" for s in fabric.switches}
    config = sumwire_controller.parse_any(
        yaml.safe_dump(control_plane.configuration(fabric, grpc, control_plane.side_jobs(fabric)))
    )
    description = sumwire_controller.job_description(config, control_plane.JOB)
    seats = [(address["aggregator"], address["seat"]) for address in description["addresses"]]
    assert seats == [(fabric.leaf_of(host).aggregator_ip, host.port - 1) for host in fabric.hosts]


@pytest.mark.parametrize(
    ("topology", "workers", "more"),
    [
        ("star", 15, ["sign", "vote"]),
        ("star", 16, ["sign"]),
        ("star", 17, []),
        ("leaf-spine", 14, ["sign", "vote"]),
        ("leaf-spine", 15, ["sign"]),
        ("three-level", 13, ["sign", "vote"]),
        ("three-level", 14, ["sign"]),
    ],
)
def test_a_job_has_the_ops_that_its_workers_may_use(topology: str, workers: int, more: list[str]) -> None:
    assert control_plane.ops_for(plan(workers, LinkOptions(), "sw12af", topology)) == ["thc", "max32", "sum32", *more]


def test_a_system_without_room_is_refused_before_anything_runs() -> None:
    _check_ops(RunOptions(workers=14, topology="leaf-spine", systems=("vote",)))
    with pytest.raises(OptionError, match="systems=vote"):
        _check_ops(RunOptions(workers=15, topology="leaf-spine", systems=("gloo", "vote")))


def test_every_switch_impairs_with_a_seed_of_its_own() -> None:
    text = "drop=0.01,seed=7,dup=0.1"
    assert switches.seeded(text, 1) == "drop=0.01,dup=0.1,seed=7"
    assert len({switches.seeded(text, number) for number in range(1, 8)}) == 7
    assert switches.seeded("drop=0.01", 1) == "drop=0.01,seed=0"


def test_switch_command_lines_have_the_same_shape() -> None:
    ports = [(1, "sw12af-p1"), (2, "sw12af-p2")]
    soft = switches.soft_command(ports, "127.0.0.1:1234", "drop=0.1")
    bmv2 = switches.bmv2_command(ports, "127.0.0.1:1234", Path("/run/x.ipc"), ["--thrift-port", "9999"])
    for command in (soft, bmv2):
        text = " ".join(command)
        assert "-i 1@sw12af-p1 -i 2@sw12af-p2" in text
        assert text.endswith("-- --grpc-server-addr 127.0.0.1:1234 --cpu-port 510")
    assert "--thrift-port 9999" in " ".join(bmv2)
    assert ("--user" in soft, "--user" in bmv2, "--insecure" in soft) == (True, False, False)
    without = " ".join(switches.bmv2_command(ports, "127.0.0.1:1234", Path("/run/x.ipc"), []))
    assert "thrift" not in without
    assert "--notifications-addr ipc:///run/x.ipc" in without
    assert "--impair drop=0.1" in " ".join(soft)
    other = " ".join(switches.soft_command(ports, "127.0.0.1:1234", None, device_id=3, seed=9))
    assert "--device-id 3 --seed 9" in other
    plain = " ".join(switches.soft_command(ports, "127.0.0.1:1234", None))
    assert not any(option in plain for option in ("--impair", "--no-trains", "--link-mbit"))
    singles = " ".join(switches.soft_command(ports, "127.0.0.1:1234", None, trains=False, link_mbit=100.0))
    assert "--no-trains --link-mbit 100 --user" in singles
    assert [LinkOptions(100.0, trunk_mbit=rate).slowest_mbit() for rate in (None, 10.0, 1000.0)] == [100.0, 10.0, 100.0]


def test_auto_takes_bmv2_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert (switches.choose("auto"), switches.choose("soft")) == ("bmv2", "soft")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert (switches.choose("auto"), switches.choose("soft")) == ("soft", "soft")
    with pytest.raises(MissingToolError, match="switch=bmv2"):
        switches.choose("bmv2")


def test_the_software_aggregator_has_a_host_with_the_aggregators_address(tmp_path: Path) -> None:
    fabric = plan(3, LinkOptions(), "sw12af", server=True)
    assert fabric.server is not None
    assert (fabric.server.ip, fabric.server.mac) == (
        fabric.switches[0].aggregator_ip,
        fabric.switches[0].aggregator_mac,
    )
    assert fabric.server.port == 4 and len(fabric.server.switch_interface) <= NAME_MAX
    assert plan(3, LinkOptions(), "sw12af").server is None
    files = control_plane.describe(fabric, tmp_path, control_plane.training_job(fabric))
    described = json.loads(files[control_plane.JOB].read_text())
    assert {address["aggregator"] for address in described["addresses"]} == {fabric.server.ip}
    assert [address["ip"] for address in described["addresses"]] == [host.ip for host in fabric.hosts]


def test_a_server_behind_a_switch_is_a_host_whose_switch_has_no_job(tmp_path: Path) -> None:
    fabric = plan(3, LinkOptions(), "sw12af", server=True, server_behind=True)
    assert fabric.server is not None and fabric.limited_hosts == (*fabric.hosts, fabric.server)
    assert fabric.server.ip not in {fabric.switches[0].aggregator_ip, *(host.ip for host in fabric.hosts)}
    files = control_plane.describe(fabric, tmp_path, control_plane.training_job(fabric))
    described = json.loads(files[control_plane.JOB].read_text())
    assert {address["aggregator"] for address in described["addresses"]} == {fabric.server.ip}
    assert [address["ip"] for address in described["addresses"]] == [host.ip for host in fabric.hosts]
    switch = control_plane.configuration(fabric, {"s1": "127.0.0.1:1"}, [], virtual_queues(fabric))
    config = parse_config(yaml.safe_dump(switch))
    assert not config.jobs
    assert {worker.ip.exploded for worker in config.workers} == {host.ip for host in fabric.limited_hosts}
    assert [queue.port for queue in config.queues] == [1, 2, 3, 4]


def test_the_job_has_the_table_of_its_system() -> None:
    star = plan(4, LinkOptions(), "sw12af")
    solved, even = (control_plane.training_job(star, RECIPES[name])[0]["thc"] for name in ("thc", "thc-uniform"))
    assert (solved["table"], even["table"]) == ("auto", "uniform")
    train = TrainOptions.of("digits", bits=3, granularity=9, p=0.1)
    assert control_plane.training_job(star, train=train)[0]["thc"] == {
        "bits": 3, "p": 0.1, "table": "auto", "granularity": 9
    }  # fmt: skip
    bounded = control_plane.bounded_job(star, LanedOptions(quorum=3), RECIPES["thc-bounded"], TrainOptions())
    assert bounded == [control_plane.training_job(star)[0] | {"quorum": 3}]
    assert solved == control_plane.training_job(star)[0]["thc"]
    assert control_plane.training_job(star, RECIPES["marsit"]) == control_plane.training_job(star)
