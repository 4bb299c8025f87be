# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Topologies for the controller's tests, as plain data that a test changes before it is written as YAML."""

from __future__ import annotations

from typing import Any

from helpers.controller.config_texts import job


def switch(name: str, k: int) -> dict[str, Any]:
    """Switch number k, from 1."""
    aggregator = {"ip": f"10.0.1.{k}", "mac": f"02:53:57:00:01:{k:02x}"}
    return {"name": name, "grpc": f"127.0.0.1:{9558 + k}", "device_id": k, "aggregator": aggregator}


def host(k: int, at: str, port: int) -> dict[str, Any]:
    """Host number k, from 1."""
    return {"name": f"h{k}", "ip": f"10.0.0.{k}", "mac": f"00:00:00:00:00:{k:02x}", "switch": at, "port": port}


def link(lower: str, lower_port: int, upper: str, upper_port: int) -> dict[str, Any]:
    return {"from": lower, "from_port": lower_port, "to": upper, "to_port": upper_port}


def tree_job(name: str, number: int, hosts: list[int], base: int, count: int, ops: str = "max32") -> dict[str, Any]:
    """A job of hosts by number; `ops` is a list separated by spaces."""
    return {**job(name, number, 0, base, count, ops), "workers": [f"h{k}" for k in hosts]}


def leaf_spine(leaves: int = 2, hosts: int = 2, spines: int = 1) -> dict[str, Any]:
    """Leaves with `hosts` each on ports 1.., spine k on port 100 + k, leaf l on port l of each spine. One job."""
    names = [f"spine{k}" for k in range(1, spines + 1)] + [f"leaf{k}" for k in range(1, leaves + 1)]
    placed = [(leaf, port) for leaf in range(1, leaves + 1) for port in range(1, hosts + 1)]
    return {
        "switches": [switch(name, k) for k, name in enumerate(names, 1)],
        "links": [
            link(f"leaf{leaf}", 100 + spine, f"spine{spine}", leaf)
            for leaf in range(1, leaves + 1)
            for spine in range(1, spines + 1)
        ],
        "hosts": [host(k, f"leaf{leaf}", port) for k, (leaf, port) in enumerate(placed, 1)],
        "jobs": [tree_job("digits", 1, list(range(1, len(placed) + 1)), 0, 256, "thc max32")],
    }


def three_level() -> dict[str, Any]:
    """root - middle1 - leaf1 (h1, h2), leaf2 (h3); root - middle2 - leaf3 (h4). One job over all."""
    names = ["root", "middle1", "middle2", "leaf1", "leaf2", "leaf3"]
    return {
        "switches": [switch(name, k) for k, name in enumerate(names, 1)],
        "links": [
            link("middle1", 9, "root", 1),
            link("middle2", 9, "root", 2),
            link("leaf1", 9, "middle1", 1),
            link("leaf2", 9, "middle1", 2),
            link("leaf3", 9, "middle2", 1),
        ],
        "hosts": [host(1, "leaf1", 1), host(2, "leaf1", 2), host(3, "leaf2", 1), host(4, "leaf3", 1)],
        "jobs": [tree_job("digits", 1, [1, 2, 3, 4], 0, 256, "thc max32")],
    }
