# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The configuration of each switch of a topology: expected by hand for two networks, by invariants for random ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from helpers.controller.config_texts import queue, text
from helpers.controller.topology_texts import host, leaf_spine, link, switch, three_level, tree_job
from hypothesis import given, settings
from hypothesis import strategies as st
from sumwire_controller.derive.desired import desired_entries, digest_of, hosts_behind, upper_first
from sumwire_controller.derive.topology import configs_of
from sumwire_controller.model import Config, Degrade, Job
from sumwire_controller.parse.files import parse_topology
from sumwire_controller.rules.agreement import check_together
from sumwire_controller.rules.switch_config import validate
from sumwire_protocol.digest import NO_DIGEST, job_digest


def derived(data: object) -> dict[str, Config]:
    return {config.switch.name: config for config in configs_of(parse_topology(text(data)))}


def entries(config: Config, *tables: str) -> set[str]:
    """The entries of some tables, in short: generations are 1."""
    found = map(str, desired_entries(config, {job.id: 1 for job in config.jobs}, 0))
    return {line for line in found if line.split("[")[0].split(" ")[0] in tables}


def test_a_spine_and_two_leaves_by_hand() -> None:
    data = leaf_spine()
    data["jobs"] = [tree_job("m", 5, [3, 1, 2, 4], 16, 8, "sum32")]
    found = derived(data)
    digest = job_digest(5, ["sum32"], 4, 4, 8, None)  # of the whole job, at every switch
    assert list(found) == ["spine1", "leaf1", "leaf2"]
    assert [config.ports for config in found.values()] == [(1, 2), (1, 2, 101), (1, 2, 101)]
    spine = entries(found["spine1"], "job", "group", "worker", "replica", "uplink", "forward", "aggregator")
    assert spine == {
        "aggregator[address=10.0.1.1] serve(mac=02:53:57:00:01:01)",
        *(f"forward[dst=10.0.0.{k}, prefix=32] to_port(port={port})" for k, port in ((1, 1), (2, 1), (3, 2), (4, 2))),
        "forward[dst=10.0.1.2, prefix=32] to_port(port=1)",
        "forward[dst=10.0.1.3, prefix=32] to_port(port=2)",
        "job[job=5] admit_job(generation=1, slot_base=16, job_slots=8, quorum=2, group=6, job_ops=0x8, "
        f"spray=2, quorum_least=0, digest={digest:#x})",  # the root of a tree
        "group 6: 1#2, 2#1",  # worker 0 is leaf2, whose h3 comes first in the job
        "worker[job=5, worker=0] admit_worker(port=2, address=10.0.1.3, worker_bit=0x1, worker_weight=2, is_switch=1, "
        "mac=02:53:57:00:01:03, udp_port=21335, budget=0, budget_cell=0)",
        "worker[job=5, worker=1] admit_worker(port=1, address=10.0.1.2, worker_bit=0x2, worker_weight=2, is_switch=1, "
        "mac=02:53:57:00:01:02, udp_port=21335, budget=0, budget_cell=0)",
        "replica[job=5, worker=0] address(mac=02:53:57:00:01:03, ip=10.0.1.3, udp_port=21335)",
        "replica[job=5, worker=1] address(mac=02:53:57:00:01:02, ip=10.0.1.2, udp_port=21335)",
    }
    assert entries(found["leaf1"], "job", "group", "worker", "uplink", "forward") == {
        "forward[dst=10.0.0.1, prefix=32] to_port(port=1)",
        "forward[dst=10.0.0.2, prefix=32] to_port(port=2)",
        "forward[dst=10.0.0.3, prefix=32] to_port(port=101)",
        "forward[dst=10.0.0.4, prefix=32] to_port(port=101)",
        "job[job=5] admit_job(generation=1, slot_base=16, job_slots=8, quorum=2, group=6, job_ops=0x8, "
        f"spray=0, quorum_least=0, digest={digest:#x})",
        "group 6: 1#1, 2#2",
        "worker[job=5, worker=0] admit_worker(port=1, address=10.0.0.1, worker_bit=0x1, worker_weight=1, is_switch=0, "
        "mac=00:00:00:00:00:01, udp_port=21335, budget=0, budget_cell=0)",
        "worker[job=5, worker=1] admit_worker(port=2, address=10.0.0.2, worker_bit=0x2, worker_weight=1, is_switch=0, "
        "mac=00:00:00:00:00:02, udp_port=21335, budget=0, budget_cell=0)",
        "uplink[job=5, slot=0, mask=0, priority=1] to_parent(port=101, mac=02:53:57:00:01:01, address=10.0.1.1, "
        "worker=1, worker_bit=0x2)",
    }  # fmt: skip


def test_one_switchs_file_of_a_tree_does_not_know_the_digest() -> None:
    for config in derived(leaf_spine()).values():
        alone = replace(config, jobs=tuple(replace(job, whole=None) for job in config.jobs))
        assert {digest_of(alone, job) for job in alone.jobs} == {NO_DIGEST}
        assert {digest_of(config, job) for job in config.jobs} != {NO_DIGEST}


def test_a_job_at_one_switch_of_a_tree_has_the_digest_of_a_switch_alone() -> None:
    data = leaf_spine()
    data["jobs"] = [{**tree_job("m", 5, [3, 4], 0, 8), "workers_min": 1, "quorum": 1}]
    leaf = derived(data)["leaf2"]
    assert digest_of(leaf, leaf.jobs[0]) == job_digest(5, ["max32"], 2, 1, 8, None, 1)


def test_two_spines_divide_the_slots_and_the_first_carries_ordinary_traffic() -> None:
    found = derived(leaf_spine(2, 2, 2))
    above = "to_parent(port=10{0}, mac=02:53:57:00:01:0{0}, address=10.0.1.{0}, worker={1}, worker_bit={2})"
    for leaf, seat, bit in (("leaf1", 0, "0x1"), ("leaf2", 1, "0x2")):
        assert entries(found[leaf], "uplink") == {
            f"uplink[job=1, slot=0, mask=1, priority=1] {above.format(1, seat, bit)}",
            f"uplink[job=1, slot=1, mask=1, priority=1] {above.format(2, seat, bit)}",
        }
    assert "forward[dst=10.0.0.3, prefix=32] to_port(port=101)" in entries(found["leaf1"], "forward")
    for spine in ("spine1", "spine2"):
        assert entries(found[spine], "uplink") == set()
        assert [job.workers for job in found[spine].jobs] == [("leaf1", "leaf2")]


def test_a_leaf_uses_only_the_spines_that_all_of_the_job_have() -> None:
    data = leaf_spine(2, 2, 2)
    del data["links"][3]  # leaf2 and spine2
    data["jobs"][0]["slots"]["count"] = 255
    found = derived(data)
    assert [str(parent.ip) for parent in found["leaf1"].jobs[0].parents] == ["10.0.1.1"]
    assert (len(found["spine1"].jobs), found["spine2"].jobs) == (1, ())


def test_the_order_of_links_does_not_matter() -> None:
    data = leaf_spine(2, 2, 2)
    other = {**data, "links": data["links"][::-1]}
    assert derived(other) == derived(data)
    assert parse_topology(text(other)).uppers("leaf2") == ("spine1", "spine2")


def test_three_levels_by_hand() -> None:
    found = derived(three_level())
    parts = {name: [(job.workers, job.quorum, hosts_behind(config, job)) for job in config.jobs]
             for name, config in found.items()}  # fmt: skip
    assert parts == {
        "root": [(("middle1", "middle2"), 2, (3, 1))],
        "middle1": [(("leaf1", "leaf2"), 2, (2, 1))],
        "middle2": [(("leaf3",), 1, (1,))],
        "leaf1": [(("h1", "h2"), 2, (1, 1))],
        "leaf2": [(("h3",), 1, (1,))],
        "leaf3": [(("h4",), 1, (1,))],
    }
    above = {name: [(parent.port, str(parent.ip), parent.worker) for parent in config.jobs[0].parents]
             for name, config in found.items()}  # fmt: skip
    assert above == {
        "root": [],
        "middle1": [(9, "10.0.1.1", 0)],
        "middle2": [(9, "10.0.1.1", 1)],
        "leaf1": [(9, "10.0.1.2", 0)],
        "leaf2": [(9, "10.0.1.2", 1)],
        "leaf3": [(9, "10.0.1.3", 0)],
    }


def test_a_job_goes_up_no_further_than_it_must() -> None:
    data = three_level()
    data["jobs"] = [tree_job("leaf", 1, [2, 1], 0, 8), tree_job("half", 2, [1, 3], 8, 8), tree_job("one", 3, [4], 0, 8)]
    found = derived(data)
    assert {name: [job.name for job in config.jobs] for name, config in found.items()} == {
        "root": [], "middle1": ["half"], "middle2": [], "leaf1": ["leaf", "half"], "leaf2": ["half"], "leaf3": ["one"]
    }  # fmt: skip
    (leaf, half), (one,) = found["leaf1"].jobs, found["leaf3"].jobs
    assert (leaf.workers, leaf.parents, one.parents) == (("h2", "h1"), (), ())
    assert (half.workers, len(half.parents)) == (("h1",), 1)


def test_a_lower_switch_stands_for_the_hosts_of_each_job() -> None:
    data = leaf_spine(2, 3)
    data["jobs"] = [tree_job("all", 1, [1, 2, 3, 4, 5, 6], 0, 8), tree_job("some", 2, [1, 2, 5], 8, 8)]
    spine = derived(data)["spine1"]
    assert [(job.name, hosts_behind(spine, job)) for job in spine.jobs] == [("all", (3, 3)), ("some", (2, 1))]
    weights = {line.split("]")[0]: line.split("worker_weight=")[1][0] for line in entries(spine, "worker")}
    assert weights == {
        "worker[job=1, worker=0": "3", "worker[job=1, worker=1": "3",
        "worker[job=2, worker=0": "2", "worker[job=2, worker=1": "1",
    }  # fmt: skip


def test_hosts_and_lower_switches_side_by_side() -> None:
    data = leaf_spine()
    data["hosts"].append(host(9, "spine1", 9))
    data["jobs"] = [tree_job("m", 1, [1, 9, 2], 0, 8)]
    spine, leaf1, leaf2 = derived(data).values()
    assert (spine.jobs[0].workers, hosts_behind(spine, spine.jobs[0])) == (("leaf1", "h9"), (2, 1))
    assert (leaf1.jobs[0].workers, leaf2.jobs) == (("h1", "h2"), ())


# -- any network ----------------------------------------------------------------------------------------


@st.composite
def networks(draw: st.DrawFn) -> dict[str, Any]:
    """A random tree of switches under one, two or four roots, hosts anywhere, jobs of any of them."""
    roots = draw(st.sampled_from([1, 2, 4]))
    below = draw(st.integers(0 if roots == 1 else 1, 6))
    names = [f"s{k}" for k in range(1, roots + below + 1)]
    links = []
    for k in range(roots, len(names)):
        above = [list(range(roots)), [k - 1], [roots], [0], list(range(min(roots, 2)))]
        uppers = above[0] if k == roots else draw(st.sampled_from(above))
        links += [link(names[k], 200 + upper, names[upper], 300 + k) for upper in uppers]
    count = draw(st.integers(1, 8))
    places = draw(st.lists(st.sampled_from(names[roots:] or names), min_size=count, max_size=count))
    hosts = [host(k, place, k) for k, place in enumerate(places, 1)]
    members = st.lists(st.integers(1, count), min_size=1, unique=True)
    jobs = [tree_job(f"j{k}", k, draw(members), 8 * k, 8) for k in range(draw(st.integers(0, 3)))]
    switches = draw(st.permutations([switch(name, k) for k, name in enumerate(names, 1)]))
    return {"switches": switches, "links": links, "hosts": hosts, "jobs": jobs}


@given(networks())
@settings(max_examples=120)
def test_any_network(data: dict[str, Any]) -> None:
    found = derived(data)
    check_together(list(found.values()))
    for config in found.values():
        validate(config)
    cables = {}
    for each in data["links"]:
        low, high = (each["from"], each["from_port"]), (each["to"], each["to_port"])
        cables[low], cables[high] = high, low
    _every_host_is_reached(data, found, cables)
    for wanted in data["jobs"]:
        parts = {name: job for name, config in found.items() for job in config.jobs if job.id == wanted["id"]}
        _every_slot_has_one_tree(data, wanted, parts, found, cables)
    order = [config.switch.name for config in upper_first(list(found.values()))]
    above = {str(config.aggregator.ip): name for name, config in found.items()}
    for name, config in found.items():
        for parent in (parent for job in config.jobs for parent in job.parents):
            assert order.index(above[str(parent.ip)]) < order.index(name)


def _every_host_is_reached(
    data: dict[str, Any], found: dict[str, Config], cables: dict[tuple[str, int], tuple[str, int]]
) -> None:
    for target in data["hosts"]:
        for start in found:
            at = start
            for _ in range(len(found)):
                port = found[at].worker(target["name"]).port
                if (at, port) not in cables:
                    break
                at = cables[at, port][0]
            assert (at, port) == (target["switch"], target["port"])


def _every_slot_has_one_tree(
    data: dict[str, Any],
    wanted: dict[str, Any],
    parts: dict[str, Job],
    found: dict[str, Config],
    cables: dict[tuple[str, int], tuple[str, int]],
) -> None:
    """Every worker's path up ends at the same root, which counts every host once; every switch has a seat above."""
    places = {each["name"]: each["switch"] for each in data["hosts"]}
    for slot in range(4):
        ends, seats = set(), set()
        for worker in wanted["workers"]:
            at = places[worker]
            assert worker in parts[at].workers
            while parts[at].parents:
                parent = parts[at].parents[slot % len(parts[at].parents)]
                above, port = cables[at, parent.port]
                seat = found[above].worker(parts[above].workers[parent.worker])
                assert (seat.ip, seat.mac, seat.port) == (found[at].aggregator.ip, found[at].aggregator.mac, port)
                assert (parent.ip, parent.mac) == (found[above].aggregator.ip, found[above].aggregator.mac)
                seats.add((above, parent.worker))
                at = above
            ends.add(at)
        (root,) = ends
        assert sum(hosts_behind(found[root], parts[root])) == len(wanted["workers"])
        in_tree = {name for name, _ in seats} | {root}
        switches_below = {(name, k) for name in in_tree for k, worker in enumerate(parts[name].workers)
                          if worker not in places}  # fmt: skip
        assert switches_below == seats


@pytest.mark.parametrize("hosts", [1, 32])
def test_one_switch_alone(hosts: int) -> None:
    data = leaf_spine(1, hosts, 0)
    data["jobs"][0] = tree_job("m", 1, list(range(1, hosts + 1)), 0, 8)
    (config,) = derived(data).values()
    assert config.jobs[0].parents == ()
    assert config.jobs[0].quorum == hosts


def test_what_one_switch_alone_can_do_stays_with_its_job_and_a_tree_has_all_workers() -> None:
    data = leaf_spine(2, 2, 1)
    loss = {"seed": 3, "share": 0.25, "mode": "drop"}
    local = {**tree_job("local", 2, [3, 4], 256, 8, "thc"), "quorum": 1, "degrade": loss, "lanes": 2, "spray": "hash"}
    data["jobs"].append(local)
    spine, leaf1, leaf2 = configs_of(parse_topology(text(data)))
    assert [job.quorum for job in (*spine.jobs, *leaf1.jobs)] == [2, 2]
    found = leaf2.jobs[1]
    assert (found.quorum, found.degrade, found.lanes, found.spray) == (1, Degrade(3, 0.25, "drop"), 2, "hash")


def test_queues_go_to_their_switches() -> None:
    places = [("leaf1", 2), ("spine1", 1), ("leaf1", 101)]
    data = {**leaf_spine(2, 2, 1), "queues": [queue(port, switch=name) for name, port in places]}
    found = {config.switch.name: [at.port for at in config.queues] for config in configs_of(parse_topology(text(data)))}
    assert found == {"spine1": [1], "leaf1": [2, 101], "leaf2": []}
