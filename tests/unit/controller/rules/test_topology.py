# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every rule on a topology, with one example that keeps it and one that breaks it."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from helpers.controller.config_texts import PUBLISHED_TABLE, Change, drop, put, queue, star, text
from helpers.controller.topology_texts import host, leaf_spine, link, switch, three_level, tree_job
from helpers.paths import ROOT
from sumwire_controller.derive.topology import configs_of
from sumwire_controller.errors import MISSING, ConfigError, Problem
from sumwire_controller.model import (
    AggregatorAddress,
    Config,
    Host,
    Job,
    SlotRange,
    Switch,
    SwitchLink,
    SwitchNode,
    Thc,
    Topology,
)
from sumwire_controller.parse.files import load_any, load_topology, parse_any, parse_topology
from sumwire_controller.rules.agreement import check_together
from sumwire_controller.rules.topology import validate_topology

EXAMPLES = ROOT / "controller" / "examples"


def problems_of(data: object) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        parse_topology(text(data) if not isinstance(data, str) else data)
    return caught.value.problems


def test_a_topology_is_what_its_text_says() -> None:
    data = leaf_spine()
    data["hosts"][2]["udp_port"] = 4000
    data["hosts"][2]["mac"] = "00:00:00:00:00:0A"
    found = parse_topology(text(data))
    assert found.switches[0] == SwitchNode(
        Switch("spine1", "127.0.0.1:9559", 1), AggregatorAddress(IPv4Address("10.0.1.1"), "02:53:57:00:01:01")
    )
    assert [node.name for node in found.switches] == ["spine1", "leaf1", "leaf2"]
    assert found.links == (SwitchLink("leaf1", 101, "spine1", 1), SwitchLink("leaf2", 101, "spine1", 2))
    assert found.hosts[2] == Host("h3", IPv4Address("10.0.0.3"), "00:00:00:00:00:0a", "leaf2", 1, 4000)
    assert found.hosts[3].udp_port == 21335
    thc = Thc(4, 0.03125, tuple(PUBLISHED_TABLE))
    assert found.jobs == (Job("digits", 1, ("thc", "max32"), ("h1", "h2", "h3", "h4"), 4, SlotRange(0, 256), thc),)


@pytest.mark.parametrize(
    ("name", "switches", "hosts"),
    [("star4", None, 4), ("lanes4", None, 4), ("leaf-spine8", 4, 8), ("three-level", 7, 8)],
)
def test_examples(name: str, switches: int | None, hosts: int) -> None:
    found = load_any(EXAMPLES / f"{name}.yaml")
    if isinstance(found, Config):
        assert (switches, len(found.workers)) == (None, hosts)
        return
    assert (len(found.switches), len(found.hosts)) == (switches, hosts)
    check_together(configs_of(found))


def test_no_example_is_left_out() -> None:
    names = {"star4.yaml", "lanes4.yaml", "leaf-spine8.yaml", "three-level.yaml"}
    assert {path.name for path in EXAMPLES.iterdir()} == names


def test_the_two_kinds_of_files_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text(leaf_spine()))
    assert load_any(path) == load_topology(str(path)) == parse_any(text(leaf_spine()))
    assert isinstance(load_any(path), Topology)
    assert isinstance(parse_any(text(star())), Config)
    for broken, words in (
        ("", "switch: is required"),
        ("switches: []", "links: is required"),
        ("[1]", "a mapping"),
        ("3", "a map"),
    ):
        path.write_text(broken)
        with pytest.raises(ConfigError, match=words):
            load_any(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_any(tmp_path / "no.yaml")


def _add(what: str, *items: dict[str, Any]) -> Change:
    return lambda data: data[what].extend(items)


def _all(*changes: Change) -> Change:
    return lambda data: [change(data) for change in changes]


def _replaced(other: dict[str, Any], *changes: Change) -> Change:
    def change(data: dict[str, Any]) -> None:
        data.clear()
        data.update(other)
        _all(*changes)(data)

    return change


def _job_of(hosts: int, op: str) -> Change:
    """Two leaves with `hosts` hosts together, all of them in one job."""
    data = leaf_spine(2, (hosts + 1) // 2)
    return _replaced({**data, "jobs": [tree_job("many", 1, list(range(1, hosts + 1)), 0, 2, op)]})


MANY_SPINES = leaf_spine(2, 1, 4)
FIVE_SPINES = {
    **leaf_spine(2, 1, 4),
    "switches": [*leaf_spine(2, 1, 4)["switches"], switch("spine5", 7)],
    "links": [*leaf_spine(2, 1, 4)["links"][:7], link("leaf2", 105, "spine5", 2)],
}
APART = _all(_add("switches", switch("leaf3", 9)), _add("hosts", host(9, "leaf3", 1)))

ACCEPTED: dict[str, Change] = {
    "no jobs": put("jobs", to=[]),
    "one switch": _replaced(leaf_spine(1, 3, 0)),
    "two spines": _replaced(leaf_spine(2, 2, 2)),
    "a quorum on one switch": _replaced(leaf_spine(1, 3, 0), put("jobs", 0, "quorum", to=2)),
    "a quorum under a spine that is not needed": put("jobs", to=[{**tree_job("m", 1, [1, 2], 0, 8), "quorum": 1}]),
    "loss on one switch": _replaced(leaf_spine(1, 3, 0),
                                    put("jobs", 0, "degrade", to={"seed": 1, "share": 0.5, "mode": "trim"})),
    "lanes under two spines": _replaced(leaf_spine(2, 2, 2), put("jobs", 0, "slots", "count", to=16),
                                        put("jobs", 0, "lanes", to=4), put("jobs", 0, "spray", to="hash")),
    "queues": put("queues", to=[queue(1, switch="leaf1"), queue(101, switch="leaf1"), queue(2, switch="spine1")]),
    "four spines": _replaced(MANY_SPINES),
    "three levels": _replaced(three_level()),
    "a host at the spine": _all(_add("hosts", host(9, "spine1", 9)), put("jobs", 0, "workers", to=["h1", "h9"])),
    "two middles below two roots": _replaced(
        three_level(), _add("switches", switch("root2", 9)),
        _add("links", link("middle1", 8, "root2", 1), link("middle2", 8, "root2", 2)),
    ),
    "all on one leaf": put("jobs", 0, "workers", to=["h3", "h4"]),
    "one host": put("jobs", 0, "workers", to=["h3"]),
    "one interface, two addresses": put("hosts", 1, to={**host(2, "leaf1", 1), "mac": "00:00:00:00:00:01"}),
    "the same ports on other switches": put("links", 1, "from_port", to=101),
    "jobs on different leaves with the same slots": put("jobs", to=[
        tree_job("a", 1, [1, 2], 0, 16), tree_job("b", 2, [3, 4], 0, 16)
    ]),
    "adjacent slots": _add("jobs", tree_job("b", 2, [1, 3], 256, 16)),
    "two slots at two spines": _replaced(leaf_spine(2, 2, 2), put("jobs", 0, "slots", "count", to=2)),
    "odd slots at one spine of two": _replaced(
        leaf_spine(2, 2, 2), put("jobs", 0, "slots", "count", to=255), put("jobs", 0, "workers", to=["h1", "h2"])
    ),
    "sign of 16": _job_of(16, "sign"),
    "vote of 14, 7 below a switch": _job_of(14, "vote"),
    "vote of 15 at one switch": _replaced(
        leaf_spine(1, 15, 0), put("jobs", 0, to=tree_job("m", 1, [*range(1, 16)], 0, 2, "vote"))
    ),
    "fewer workers at one switch": put("jobs", 0, to={**tree_job("m", 1, [1, 2], 0, 2), "workers_min": 1}),
    "32 hosts on a leaf": _replaced(leaf_spine(1, 32, 0), put("jobs", 0, to=tree_job("m", 1, [*range(1, 33)], 0, 2))),
    "33 hosts on two leaves": _job_of(33, "max32"),
    "highest port": put("hosts", 0, "port", to=510),
    "one server, two devices": put("switches", 1, "grpc", to="127.0.0.1:9559"),
}  # fmt: skip

# what is changed -> (the change, path of the one problem, value, words of its rule)
REFUSED: dict[str, tuple[Change, str, object, str]] = {
    "unknown key": (put("ports", to=[1]), "ports", "[...]", "unknown key; known are switches, links, hosts, jobs"),
    "unknown key of a switch": (put("switches", 0, "port", to=1), "switches[0].port", 1, "unknown key"),
    "unknown key of a link": (put("links", 0, "mtu", to=1), "links[0].mtu", 1, "known are from, from_port, to"),
    "unknown key of a host": (put("hosts", 0, "vlan", to=1), "hosts[0].vlan", 1, "unknown key"),
    "a quorum in a tree": (put("jobs", 0, "quorum", to=3), "jobs[0].quorum", 3, "must be all 4 workers: spine1 has a"),
    "a quorum above": (put("jobs", 0, "quorum", to=5), "jobs[0].quorum", 5, "must be 1..4, the number of workers"),
    "loss in a tree": (put("jobs", 0, "degrade", to={"seed": 1, "share": 0.5, "mode": "drop"}),
                       "jobs[0].degrade", "{...}", "that one switch has alone; spine1 has a part in this one"),
    "lanes of two spines": (_replaced(leaf_spine(2, 2, 2), put("jobs", 0, "slots", "count", to=12),
                                      put("jobs", 0, "lanes", to=4)),
                            "jobs[0].slots.count", 12, "a multiple of 8 (4 lanes), so that spine1, spine2"),
    "no lane": (put("jobs", 0, "lanes", to=0), "jobs[0].lanes", 0, "must be 1..8, the priorities"),
    "a host's last port": (_all(put("jobs", 0, "lanes", to=4), put("hosts", 2, "udp_port", to=64533)),
                           "jobs[0].lanes", 4, "h3 has udp_port 64533: must be at most 64532, as 4 lanes"),
    "spraying": (put("jobs", 0, "spray", to="packet"), "jobs[0].spray", "packet", "must be slot or hash"),
    "ids of lanes": (_all(put("jobs", 0, "lanes", to=4), _add("jobs", tree_job("m", 4, [1], 256, 8))),
                     "jobs[1].id", 4, "ids 4 of its lanes overlap ids 1..4 of jobs[0] (digits)"),
    "a queue at no switch": (put("queues", to=[queue(1, switch="leaf9")]), "queues[0].switch", "leaf9", "no switch"),
    "a queue at no port": (put("queues", to=[queue(3, switch="leaf1")]), "queues[0].port", 3,
                           "no host or link at this port of leaf1, which has [1, 2, 101]"),
    "two queues at a port": (put("queues", to=[queue(1, switch="leaf1"), queue(1, switch="leaf2"),
                                                queue(1, switch="leaf1")]),
                             "queues[2].port", "leaf1 port 1", "port is already that of queues[0]"),
    "a queue's switch": (put("queues", to=[queue(1)]), "queues[0].switch", MISSING, "is required"),
    "parents": (put("jobs", 0, "parents", to=[]), "jobs[0].parents", "[...]", "unknown key"),
    "no links": (drop("links"), "links", MISSING, "is required"),
    "no aggregator": (drop("switches", 1, "aggregator"), "switches[1].aggregator", MISSING, "is required"),
    "no aggregator's mac": (drop("switches", 1, "aggregator", "mac"),
                            "switches[1].aggregator.mac", MISSING, "is required"),
    "no end": (drop("links", 0, "to"), "links[0].to", MISSING, "is required"),
    "no place": (drop("hosts", 0, "switch"), "hosts[0].switch", MISSING, "is required"),
    "no switches": (_replaced({"switches": [], "links": [], "hosts": [], "jobs": []}), "switches", [], "at least one"),
    "switches a mapping": (_replaced({"switches": {}, "links": [], "hosts": [], "jobs": []}),
                           "switches", "{...}", "must be a list"),
    "grpc": (put("switches", 1, "grpc", to="here"), "switches[1].grpc", "here", "must be host:port"),
    "aggregator's ip": (put("switches", 1, "aggregator", "ip", to="224.0.0.1"),
                        "switches[1].aggregator.ip", "224.0.0.1", "unicast"),
    "a host's ip": (put("hosts", 1, "ip", to="10.0.0"), "hosts[1].ip", "10.0.0", "must be an IPv4 address"),
    "a host's name": (_add("hosts", {**host(9, "leaf1", 9), "name": "h 9"}), "hosts[4].name", "h 9", "letters"),
    "a host's mac": (put("hosts", 1, "mac", to="00:00:00:00:00:00"), "hosts[1].mac", "00:00:00:00:00:00", "unicast"),
    "a host's udp port": (put("hosts", 1, "udp_port", to=0), "hosts[1].udp_port", 0, "must be 1..65535"),
    "a host's port": (put("hosts", 1, "port", to=0), "hosts[1].port", 0, "must be 1..510"),
    "a lower port": (put("links", 1, "from_port", to=511), "links[1].from_port", 511, "511 is the drop port"),
    "an upper port": (put("links", 1, "to_port", to=0), "links[1].to_port", 0, "must be 1..510"),
    "a host nowhere": (put("hosts", 1, "switch", to="leaf7"), "hosts[1].switch", "leaf7", "no switch of that name"),
    "a link from nowhere": (put("links", 0, "from", to="leaf7"), "links[0].from", "leaf7", "no switch of that name"),
    "a link to a host": (put("links", 0, "to", to="h1"), "links[0].to", "h1", "no switch of that name"),
    "a link to itself": (_add("links", link("leaf1", 7, "leaf1", 8)), "links[2].to", "leaf1", "must be another switch"),
    "a link twice": (_add("links", link("leaf1", 7, "spine1", 8)), "links[2].to", "leaf1 and spine1",
                     "pair of switches is already that of links[0]"),
    "a link back": (_add("links", link("spine1", 7, "leaf1", 8)), "links[2].to", "leaf1 and spine1", "already that of"),
    "a switch's name twice": (_add("switches", {**switch("leaf1", 9)}), "switches[3].name", "leaf1", "of switches[1]"),
    "a host named as a switch": (_add("hosts", {**host(9, "leaf1", 9), "name": "spine1"}),
                                 "hosts[4].name", "spine1", "already that of switches[0]"),
    "one device twice": (_all(put("switches", 1, "grpc", to="127.0.0.1:9559"), put("switches", 1, "device_id", to=1)),
                         "switches[1].grpc", "127.0.0.1:9559 device 1", "already that of switches[0]"),
    "an ip twice": (put("hosts", 3, "ip", to="10.0.0.1"), "hosts[3].ip", "10.0.0.1", "already that of hosts[0]"),
    "an aggregator's ip twice": (put("switches", 2, "aggregator", "ip", to="10.0.1.1"),
                                 "switches[2].aggregator.ip", "10.0.1.1", "already that of switches[0].aggregator"),
    "a host with an aggregator's ip": (put("hosts", 3, "ip", to="10.0.1.1"),
                                       "hosts[3].ip", "10.0.1.1", "already that of switches[0].aggregator"),
    "a mac in two places": (put("hosts", 3, "mac", to="00:00:00:00:00:01"),
                            "hosts[3].mac", "00:00:00:00:00:01", "already that of hosts[0]"),
    "a mac on the same port of two leaves": (put("hosts", 2, "mac", to="00:00:00:00:00:01"),
                                             "hosts[2].mac", "00:00:00:00:00:01", "already that of hosts[0]"),
    "an aggregator's mac twice": (put("switches", 1, "aggregator", "mac", to="02:53:57:00:01:01"),
                                  "switches[1].aggregator.mac", "02:53:57:00:01:01", "of switches[0].aggregator"),
    "a host with an aggregator's mac": (put("hosts", 0, "mac", to="02:53:57:00:01:01"),
                                        "hosts[0].mac", "02:53:57:00:01:01", "already that of switches[0].aggregator"),
    "two hosts on a port": (put("hosts", 1, "port", to=1), "hosts[1].port", 1, "already that of hosts[0]"),
    "a link on a host's port": (put("links", 0, "from_port", to=1), "links[0].from_port", 1, "already that of hosts"),
    "two links on a port": (put("links", 1, "to_port", to=1), "links[1].to_port", 1, "already that of links[0].to_"),
    "an unknown worker": (put("jobs", 0, "workers", 3, to="h9"), "jobs[0].workers[3]", "h9", "no host of that name"),
    "a switch as worker": (put("jobs", 0, "workers", 3, to="leaf2"), "jobs[0].workers[3]", "leaf2", "no host of that"),
    "a worker twice": (put("jobs", 0, "workers", 3, to="h1"), "jobs[0].workers[3]", "h1", "already that of"),
    "no workers": (put("jobs", 0, "workers", to=[]), "jobs[0].workers", [], "at least one host"),
    "an unknown op": (put("jobs", 0, "ops", 1, to="mean"), "jobs[0].ops[1]", "mean", "unknown op"),
    "a job's id": (put("jobs", 0, "id", to=32767), "jobs[0].id", 32767, "must be 0..32766"),
    "a job's name": (put("jobs", 0, "name", to="-"), "jobs[0].name", "-", "letters"),
    "an id twice": (_add("jobs", tree_job("b", 1, [1], 256, 2)), "jobs[1].id", 1, "already that of jobs[0]"),
    "a job's name twice": (_add("jobs", tree_job("digits", 2, [1], 256, 2)), "jobs[1].name", "digits", "of jobs[0]"),
    "slots beyond": (put("jobs", 0, "slots", "base", to=4000), "jobs[0].slots.count", 256, "end beyond"),
    "sign of 17": (_job_of(17, "sign"), "jobs[0].workers", "17 hosts", "at most 16 with op sign"),
    "vote of 16": (_job_of(16, "vote"), "jobs[0].workers", "16 hosts", "at most 15 with op vote"),
    "vote of 8 below a leaf": (_job_of(15, "vote"), "jobs[0].workers", "8 hosts", "at most 7 with op vote below leaf1"),
    "fewer workers in a tree": (put("jobs", 0, "workers_min", to=3), "jobs[0].workers_min", 3,
                                "must be all 4 workers, since spine1 has a part in this job too: leave"),
    "thc overflow over all leaves": (_job_of(9, "thc"), "jobs[0].thc.granularity", 30, "30 * 9 workers = 270"),
    "256 hosts": (_replaced({**leaf_spine(1, 0, 0),
                             "hosts": [{**host(1, "leaf1", k), "name": f"h{k}", "ip": f"10.1.{k // 256}.{k % 256}",
                                        "mac": f"00:00:00:00:{k // 256:02x}:{k % 256:02x}"} for k in range(1, 257)],
                             "jobs": [tree_job("m", 1, list(range(1, 257)), 0, 2)]}),
                  "jobs[0].workers", "256 hosts", "at most 255, the largest count"),
    "33 hosts on a leaf": (_replaced(leaf_spine(1, 33, 0), put("jobs", 0, to=tree_job("m", 1, [*range(1, 34)], 0, 2))),
                           "jobs[0].workers", "33 workers at leaf1", "at most 32, the width of the contributors"),
    "33 leaves": (_replaced({**leaf_spine(33, 1), "jobs": [tree_job("m", 1, list(range(1, 34)), 0, 2)]}),
                  "jobs[0].workers", "33 workers at spine1", "at most 32"),
    "a circle": (_replaced(three_level(), _add("links", link("root", 8, "leaf1", 8))),
                 "links", "root -> leaf1 -> middle1 -> root", "in a circle"),
    "apart": (APART, "links", "leaf3", "no links lead there from spine1"),
    "three above": (_replaced({**leaf_spine(2, 1, 3)}, drop("links", 5)), "switches[3].name", "leaf1",
                    "has 3 switches above it: must be 1, 2 or 4"),
    "several above, not at the top": (_replaced(three_level(), _add("links", link("leaf2", 8, "middle2", 8))),
                                      "switches[4].name", "leaf2", "must be at the top, but middle1 is not"),
    "no common switch above": (_replaced(leaf_spine(3, 1, 2), drop("links", 3), drop("links", 0),
                                         put("jobs", 0, "workers", to=["h1", "h2"])),
                               "jobs[0].workers", ["h1", "h2"], "no switch is above all of them"),
    "three common switches": (_replaced(FIVE_SPINES), "jobs[0].workers", ["h1", "h2"],
                              "3 switches (spine1, spine2, spine3) are above all of them"),
    "odd slots at two spines": (_replaced(leaf_spine(2, 2, 2), put("jobs", 0, "slots", "count", to=255)),
                                "jobs[0].slots.count", 255, "so that spine1, spine2 have equally many slots"),
    "slots that four cannot divide": (_replaced(MANY_SPINES, put("jobs", 0, "slots", "count", to=258)),
                                     "jobs[0].slots.count", 258, "a multiple of 4"),
    "overlap": (_add("jobs", tree_job("b", 2, [3], 255, 2)),
                "jobs[1].slots", "255..256", "overlaps slots 0..255 of jobs[0] (digits) at leaf2"),
    "overlap above": (put("jobs", to=[tree_job("a", 1, [1, 3], 0, 8), tree_job("b", 2, [2, 4], 4, 8)]),
                      "jobs[1].slots", "4..11", "overlaps slots 0..7 of jobs[0] (a) at leaf1"),
    "too many jobs at a switch": (put("jobs", to=[tree_job(f"j{k}", k, [1], 2 * k, 2) for k in range(65)]),
                                  "switches[1].jobs", "65 jobs", "at most 64"),
    "too many uplinks": (_replaced(leaf_spine(2, 1, 2),
                                   put("jobs", to=[tree_job(f"j{k}", k, [1, 2], 2 * k, 2) for k in range(33)])),
                         "switches[2].jobs", "66 parents in all jobs", "at most 64"),
}  # fmt: skip

# mistakes that are two, one on each leaf
TWICE = ("three above", "too many uplinks")


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    data = leaf_spine()
    ACCEPTED[name](data)
    found = parse_topology(text(data))
    validate_topology(found)
    check_together(configs_of(found))


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    change, path, value, words = REFUSED[name]
    data = leaf_spine()
    change(data)
    problems = problems_of(data)
    found = [problem for problem in problems if problem.full_path == path and words in problem.rule]
    assert found, problems
    assert repr(found[0].value) == repr(value)
    assert found[0].line is not None
    assert len(problems) == 1 or name in TWICE, problems


def test_all_problems_at_once_in_the_order_of_the_text() -> None:
    problems = problems_of(
        """switches:
  - {name: leaf1, grpc: nowhere, device_id: 1, aggregator: {ip: 10.0.1.1, mac: "02:53:57:00:00:64"}}
links:
  - {from: leaf1, from_port: 1, to: spine1, to_port: 1}
hosts:
  - {name: h1, ip: 10.0.0.1, mac: "00:00:00:00:00:01", switch: leaf1, port: 1}
  - {name: h2, ip: 10.0.0.2, switch: leaf1, port: 2}
jobs:
  - name: a
    id: 1
    ops: [max32]
    workers: [h1, h2, h3]
    slots: {base: 0, count: 1}
"""
    )
    assert [(problem.line, problem.full_path) for problem in problems] == [
        (2, "switches[0].grpc"),
        (4, "links[0].to"),
        (4, "links[0].from_port"),
        (7, "hosts[1].mac"),
        (12, "jobs[0].workers[2]"),
        (13, "jobs[0].slots.count"),
    ]


def test_topologies_made_in_python_keep_the_same_rules() -> None:
    found = parse_topology(text(leaf_spine()))
    with pytest.raises(ConfigError) as caught:
        validate_topology(replace(found, hosts=(replace(found.hosts[0], port=0), *found.hosts[1:])))
    assert [problem.full_path for problem in caught.value.problems] == ["hosts[0].port"]
    with pytest.raises(ConfigError) as caught:
        validate_topology(replace(found, links=found.links[:1]))
    assert [problem.value for problem in caught.value.problems] == ["leaf2"]
