# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""YAML text -> Topology. One error names everything that is wrong with the text.

The keys and their types are checked here, the values in `rules/topology.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sumwire_protocol.constants import SUMWIRE_PORT

from sumwire_controller.model.config import Switch
from sumwire_controller.model.topology import Host, Link, Node, QueueAt, Topology
from sumwire_controller.parse.reader import Log, MappingReader
from sumwire_controller.parse.sections import QUEUE_KEYS, each, names_in, queue_of, read_aggregator, read_tree_job
from sumwire_controller.parse.yamltree import Node as Tree
from sumwire_controller.parse.yamltree import load_tree, read_file
from sumwire_controller.rules.drafts import TopologyDraft
from sumwire_controller.rules.topology import topology_problems

_ROOT_KEYS: Final = ("switches", "links", "hosts", "jobs", "queues")
_NODE_KEYS: Final = ("name", "grpc", "device_id", "aggregator")
_LINK_KEYS: Final = ("from", "from_port", "to", "to_port")
_HOST_KEYS: Final = ("name", "ip", "mac", "switch", "port", "udp_port")


def load_topology(path: Path | str) -> Topology:
    """Reads and checks a topology file.

    :raises ConfigError: with every broken rule, or because the file cannot be read.
    """
    return parse_topology(read_file(path), source=str(path))


def parse_topology(text: str, source: str = "topology") -> Topology:
    """Parses and checks a topology text. `source` names it in messages.

    :raises ConfigError: with every broken rule.
    """
    tree, repeated = load_tree(text, source)
    return topology_of(tree, Log(problems=repeated), source)


def topology_of(tree: Tree, log: Log, source: str) -> Topology:
    """`parse_topology` for a tree. `log` has the problems found so far."""
    draft = _draft(tree, log)
    for problem in topology_problems(draft, shape_is_good=not log.problems):
        log.add(problem.path, problem.field, problem.value, problem.rule)
    if log.problems:
        raise log.error(source)
    return draft.topology()


def _draft(tree: Tree, log: Log) -> TopologyDraft:
    root = MappingReader(tree, "", log)
    switches, links = root.items("switches"), root.items("links")
    hosts, jobs = root.items("hosts"), root.items("jobs")
    queues = root.items("queues") if root.has("queues") else None
    root.finish(_ROOT_KEYS)
    return TopologyDraft(
        switches=each(switches, "switches", log, _node),
        links=each(links, "links", log, _link),
        hosts=each(hosts, "hosts", log, _host),
        jobs=each(jobs, "jobs", log, read_tree_job),
        switches_unparsed=names_in(switches),
        hosts_unparsed=names_in(hosts),
        queues=each(queues, "queues", log, _queue),
    )


def _node(node: Tree, path: str, log: Log) -> Node | None:
    read = MappingReader(node, path, log)
    name, grpc, device_id = read.text("name"), read.text("grpc"), read.integer("device_id")
    below = read.node("aggregator")
    aggregator = read_aggregator(below, f"{path}.aggregator", log) if below else None
    read.finish(_NODE_KEYS)
    if name is None or grpc is None or device_id is None or aggregator is None:
        return None
    return Node(Switch(name, grpc, device_id), aggregator)


def _link(node: Tree, path: str, log: Log) -> Link | None:
    read = MappingReader(node, path, log)
    lower, lower_port = read.text("from"), read.integer("from_port")
    upper, upper_port = read.text("to"), read.integer("to_port")
    read.finish(_LINK_KEYS)
    if lower is None or lower_port is None or upper is None or upper_port is None:
        return None
    return Link(lower, lower_port, upper, upper_port)


def _host(node: Tree, path: str, log: Log) -> Host | None:
    read = MappingReader(node, path, log)
    name, ip, mac = read.text("name"), read.ipv4("ip"), read.mac("mac")
    switch, port = read.text("switch"), read.integer("port")
    udp_port = read.integer("udp_port") if read.has("udp_port") else SUMWIRE_PORT
    read.finish(_HOST_KEYS)
    if name is None or ip is None or mac is None or switch is None or port is None or udp_port is None:
        return None
    return Host(name, ip, mac, switch, port, udp_port)


def _queue(node: Tree, path: str, log: Log) -> QueueAt | None:
    read = MappingReader(node, path, log)
    switch, queue = read.text("switch"), queue_of(read)
    read.finish(("switch", *QUEUE_KEYS))
    return None if switch is None or queue is None else QueueAt(switch, queue)
