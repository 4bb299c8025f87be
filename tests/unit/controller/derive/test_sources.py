# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The source guard's rows: frames of every host pass wherever the routes lead them, and nowhere else."""

from __future__ import annotations

from collections import defaultdict
from itertools import permutations
from typing import Any

import pytest
from helpers.controller.config_texts import text
from helpers.controller.topology_texts import host, leaf_spine, link, switch, three_level, tree_job
from sumwire_controller.derive.desired import desired_entries
from sumwire_controller.derive.entries import TableEntry
from sumwire_controller.derive.topology import configs_of
from sumwire_controller.model import Topology, mac_number
from sumwire_controller.parse.files import parse_topology

Rows = dict[str, set[tuple[int, ...]]]


def there_and_back() -> dict[str, Any]:
    """From h1 to h2 the way leads over `east`, and back over `west`, since the order of switches decides."""
    names = ["top1", "top2", "top3", "top4", "a", "east", "west", "d"]
    return {
        "switches": [switch(name, k) for k, name in enumerate(names, 1)],
        "links": [
            link("a", 101, "top1", 1), link("a", 102, "top2", 1),
            link("west", 101, "top1", 2), link("west", 102, "top3", 2),
            link("east", 101, "top1", 3), link("east", 102, "top4", 3),
            link("d", 101, "top3", 4), link("d", 102, "top4", 4),
        ],
        "hosts": [host(1, "a", 1), host(2, "d", 1)],
        "jobs": [tree_job("m", 1, [1], 0, 8)],
    }  # fmt: skip


def rows_of(topology: Topology, table: str) -> Rows:
    """Switch -> keys of a table's rows; with the port behind them for routes."""
    found: Rows = {}
    for config in configs_of(topology):
        entries = desired_entries(config, {job.id: 1 for job in config.jobs}, 0)
        rows = [entry for entry in entries if isinstance(entry, TableEntry) and entry.table == table]
        found[config.switch.name] = {(*row.key, *row.args) for row in rows}
    return found


def arrivals(topology: Topology) -> Rows:
    """Switch -> (port, MAC, address) of all frames that hosts send each other."""
    wires: dict[tuple[str, int], tuple[str, int]] = {}
    for cable in topology.links:
        lower, upper = cable.ends
        wires |= {lower: upper, upper: lower}
    routes = {name: {row[0]: row[2] for row in rows} for name, rows in rows_of(topology, "forward").items()}
    found: Rows = defaultdict(set)
    for source, target in permutations(topology.hosts, 2):
        at = source.switch, source.port
        while True:
            found[at[0]].add((at[1], mac_number(source.mac), int(source.ip)))
            if at[0] == target.switch:
                break
            at = wires[at[0], routes[at[0]][int(target.ip)]]
    return found


@pytest.mark.parametrize(
    "data",
    [leaf_spine(), leaf_spine(3, 2, 2), leaf_spine(2, 2, 4), three_level(), there_and_back()],
    ids=["a spine", "two spines", "four spines", "three levels", "there and back"],
)
def test_every_host_passes_where_its_frames_come(data: dict[str, Any]) -> None:
    topology = parse_topology(text(data))
    allowed, come = rows_of(topology, "source"), arrivals(topology)
    addresses = {int(node.aggregator.ip): node.name for node in topology.switches}
    host_ports = {(one.switch, one.port) for one in topology.hosts}
    for name, rows in allowed.items():
        assert come[name] <= rows
        for port, _, ip in rows - come[name]:
            # Of a lower switch; or of a host by the port that leads to it, which no frame to a host of ours takes.
            assert ip in addresses or (name, port) not in host_ports
        # No switch's address comes in where a host is.
        assert not [row for row in rows if row[2] in addresses and (name, row[0]) in host_ports]


def test_the_way_back_may_be_another() -> None:
    top1 = next(config for config in configs_of(parse_topology(text(there_and_back()))) if config.switch.name == "top1")
    h2 = top1.worker("h2")
    assert (h2.port, h2.other_ports_in, h2.ports_in) == (3, (2,), (3, 2))
    assert top1.worker("h1").other_ports_in == ()
