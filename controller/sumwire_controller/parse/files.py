# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads a configuration or a topology file: parse, then all rules. All problems of a file come in one ConfigError."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from sumwire_protocol.constants import SUMWIRE_PORT

from sumwire_controller.model import Config, Host, QueueAt, Switch, SwitchLink, SwitchNode, Topology
from sumwire_controller.parse.sections import (
    QUEUE_KEYS,
    each,
    names_in,
    queue_of,
    read_aggregator,
    read_job,
    read_queue,
    read_switch,
    read_tree_job,
    read_worker,
)
from sumwire_controller.parse.yaml_reader import Log, MappingReader, YamlNode, load_tree, read_file
from sumwire_controller.rules.drafts import Draft, TopologyDraft
from sumwire_controller.rules.switch_config import validate_draft
from sumwire_controller.rules.topology import topology_problems

_CONFIG_KEYS: Final = ("switch", "aggregator", "ports", "workers", "jobs", "queues")
_TOPOLOGY_KEYS: Final = ("switches", "links", "hosts", "jobs", "queues")
_NODE_KEYS: Final = ("name", "grpc", "device_id", "aggregator")
_LINK_KEYS: Final = ("from", "from_port", "to", "to_port")
_HOST_KEYS: Final = ("name", "ip", "mac", "switch", "port", "udp_port")


def load_config(path: Path | str) -> Config:
    """Reads and checks a configuration file.

    :raises ConfigError: with every broken rule, or because the file cannot be read.
    """
    return parse_config(read_file(path), source=str(path))


def parse_config(text: str, source: str = "config") -> Config:
    """Parses and checks a configuration text. `source` names it in messages.

    :raises ConfigError: with every broken rule.
    """
    tree, repeated = load_tree(text, source)
    return config_of(tree, Log(problems=repeated), source)


def config_of(tree: YamlNode, log: Log, source: str) -> Config:
    """`parse_config` for a tree. `log` has the problems found so far."""
    draft = _config_draft(tree, log)
    for problem in validate_draft(draft):
        log.add(problem.path, problem.field, problem.value, problem.rule)
    if log.problems or draft.switch is None or draft.aggregator is None:
        raise log.error(source)
    return Config(
        switch=draft.switch,
        aggregator=draft.aggregator,
        ports=draft.ports or (),
        workers=tuple(worker for worker in draft.workers if worker),
        jobs=tuple(job for job in draft.jobs if job),
        queues=tuple(queue for queue in draft.queues if queue),
    )


def _config_draft(tree: YamlNode, log: Log) -> Draft:
    root = MappingReader(tree, "", log)
    switch, aggregator = root.node("switch"), root.node("aggregator")
    ports = root.integers("ports")
    workers, jobs = root.items("workers"), root.items("jobs")
    queues = root.items("queues") if root.has("queues") else None
    root.finish(_CONFIG_KEYS)
    known = each(workers, "workers", log, read_worker)
    weights = {worker.name: worker.weight for worker in known if worker}
    return Draft(
        switch=read_switch(switch, "switch", log) if switch else None,
        aggregator=read_aggregator(aggregator, "aggregator", log) if aggregator else None,
        ports=ports,
        workers=known,
        jobs=each(jobs, "jobs", log, partial(read_job, weights=weights)),
        names_unparsed=names_in(workers),
        queues=each(queues, "queues", log, read_queue),
    )


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


def topology_of(tree: YamlNode, log: Log, source: str) -> Topology:
    """`parse_topology` for a tree. `log` has the problems found so far."""
    draft = _topology_draft(tree, log)
    for problem in topology_problems(draft, shape_is_good=not log.problems):
        log.add(problem.path, problem.field, problem.value, problem.rule)
    if log.problems:
        raise log.error(source)
    return draft.topology()


def _topology_draft(tree: YamlNode, log: Log) -> TopologyDraft:
    root = MappingReader(tree, "", log)
    switches, links = root.items("switches"), root.items("links")
    hosts, jobs = root.items("hosts"), root.items("jobs")
    queues = root.items("queues") if root.has("queues") else None
    root.finish(_TOPOLOGY_KEYS)
    return TopologyDraft(
        switches=each(switches, "switches", log, _node),
        links=each(links, "links", log, _link),
        hosts=each(hosts, "hosts", log, _host),
        jobs=each(jobs, "jobs", log, read_tree_job),
        switches_unparsed=names_in(switches),
        hosts_unparsed=names_in(hosts),
        queues=each(queues, "queues", log, _queue),
    )


def _node(node: YamlNode, path: str, log: Log) -> SwitchNode | None:
    read = MappingReader(node, path, log)
    name, grpc, device_id = read.text("name"), read.text("grpc"), read.integer("device_id")
    below = read.node("aggregator")
    aggregator = read_aggregator(below, f"{path}.aggregator", log) if below else None
    read.finish(_NODE_KEYS)
    if name is None or grpc is None or device_id is None or aggregator is None:
        return None
    return SwitchNode(Switch(name, grpc, device_id), aggregator)


def _link(node: YamlNode, path: str, log: Log) -> SwitchLink | None:
    read = MappingReader(node, path, log)
    lower, lower_port = read.text("from"), read.integer("from_port")
    upper, upper_port = read.text("to"), read.integer("to_port")
    read.finish(_LINK_KEYS)
    if lower is None or lower_port is None or upper is None or upper_port is None:
        return None
    return SwitchLink(lower, lower_port, upper, upper_port)


def _host(node: YamlNode, path: str, log: Log) -> Host | None:
    read = MappingReader(node, path, log)
    name, ip, mac = read.text("name"), read.ipv4("ip"), read.mac("mac")
    switch, port = read.text("switch"), read.integer("port")
    udp_port = read.integer("udp_port") if read.has("udp_port") else SUMWIRE_PORT
    read.finish(_HOST_KEYS)
    if name is None or ip is None or mac is None or switch is None or port is None or udp_port is None:
        return None
    return Host(name, ip, mac, switch, port, udp_port)


def _queue(node: YamlNode, path: str, log: Log) -> QueueAt | None:
    read = MappingReader(node, path, log)
    switch, queue = read.text("switch"), queue_of(read)
    read.finish(("switch", *QUEUE_KEYS))
    return None if switch is None or queue is None else QueueAt(switch, queue)


def load_any(path: Path | str) -> Config | Topology:
    """Reads and checks a file of either kind.

    :raises ConfigError: with every broken rule, or because the file cannot be read.
    """
    return parse_any(read_file(path), source=str(path))


def parse_any(text: str, source: str = "config") -> Config | Topology:
    """Parses and checks a text of either kind. `source` names it in messages.

    :raises ConfigError: with every broken rule.
    """
    tree, repeated = load_tree(text, source)
    log = Log(problems=repeated)
    is_topology = isinstance(tree.value, dict) and "switches" in tree.value
    return topology_of(tree, log, source) if is_topology else config_of(tree, log, source)
