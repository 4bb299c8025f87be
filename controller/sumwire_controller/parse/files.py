# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads a configuration or a topology file: parse, then all rules. All problems of a file come in one ConfigError.

Each `read_*` returns the object of a YAML node, or None after reporting a problem to the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from commonlib.untrusted import UntrustedInputError
from sumwire_protocol import tables
from sumwire_protocol.authentication import read_key
from sumwire_protocol.constants import SUMWIRE_PORT, THC_INDEX_PLANES

from sumwire_controller.model import (
    SPRAYS,
    AggregatorAddress,
    Config,
    Degrade,
    Host,
    Job,
    Parent,
    QueueAt,
    SlotRange,
    Switch,
    SwitchLink,
    SwitchNode,
    Thc,
    Topology,
    VirtualQueue,
    Worker,
)
from sumwire_controller.parse.yaml_reader import Log, MappingReader, YamlNode, load_tree, read_file
from sumwire_controller.rules.switch_config import Draft, validate_draft
from sumwire_controller.rules.topology import TopologyDraft, topology_problems

T = TypeVar("T")

_CONFIG_KEYS: Final = ("switch", "aggregator", "ports", "workers", "jobs", "queues")
_TOPOLOGY_KEYS: Final = ("switches", "links", "hosts", "jobs", "queues")
_NODE_KEYS: Final = ("name", "grpc", "device_id", "aggregator")
_LINK_KEYS: Final = ("from", "from_port", "to", "to_port")
_HOST_KEYS: Final = ("name", "ip", "mac", "switch", "port", "udp_port")
_SWITCH_KEYS: Final = ("name", "grpc", "device_id")
_AGGREGATOR_KEYS: Final = ("ip", "mac")
_WORKER_KEYS: Final = ("name", "ip", "mac", "port", "udp_port", "stands_for")
_OPTIONAL_JOB_KEYS: Final = ("workers_min", "thc", "lanes", "spray", "degrade", "limit_mbit", "blind", "key")
_TREE_JOB_KEYS: Final = ("name", "id", "ops", "workers", "quorum", "slots", *_OPTIONAL_JOB_KEYS)
_JOB_KEYS: Final = (*_TREE_JOB_KEYS, "parents", "stands_for")
_PARENT_KEYS: Final = ("port", "ip", "mac", "worker")
_SLOT_KEYS: Final = ("base", "count")
_FREE_SLOT_KEYS: Final = ("most",)
_DEGRADE_KEYS: Final = ("seed", "share", "mode")
_QUEUE_KEYS: Final = ("port", "rate_mbit", "mark_bytes", "drop_bytes", "drop_all_bytes", "trim")
_THC_KEYS: Final = ("bits", "p", "table", "granularity")


def each(nodes: list[YamlNode] | None, path: str, log: Log, read: Callable[[YamlNode, str, Log], T]) -> tuple[T, ...]:
    """Read every element of the list at `path`."""
    return tuple(read(node, f"{path}[{i}]", log) for i, node in enumerate(nodes or []))


def names_in(nodes: list[YamlNode] | None) -> frozenset[str]:
    """Return the names as written. A worker with a mistake in another field still counts as a known name."""
    mappings = [node.value for node in nodes or [] if isinstance(node.value, dict)]
    names = [mapping["name"].value for mapping in mappings if "name" in mapping]
    return frozenset(name for name in names if isinstance(name, str))


def built(kind: Callable[..., T], *parts: object) -> T | None:
    """Return an object made of its parts; None if one of them could not be read."""
    return None if any(part is None for part in parts) else kind(*parts)


def read_switch(node: YamlNode, path: str, log: Log) -> Switch | None:
    read = MappingReader(node, path, log)
    switch = built(Switch, read.text("name"), read.text("grpc"), read.integer("device_id"))
    read.finish(_SWITCH_KEYS)
    return switch


def read_aggregator(node: YamlNode, path: str, log: Log) -> AggregatorAddress | None:
    read = MappingReader(node, path, log)
    aggregator = built(AggregatorAddress, read.ipv4("ip"), read.mac("mac"))
    read.finish(_AGGREGATOR_KEYS)
    return aggregator


def read_worker(node: YamlNode, path: str, log: Log) -> Worker | None:
    read = MappingReader(node, path, log)
    name, ip, mac, port = read.text("name"), read.ipv4("ip"), read.mac("mac"), read.integer("port")
    udp_port = read.integer("udp_port") if read.has("udp_port") else SUMWIRE_PORT
    is_switch = read.has("stands_for")
    stands_for = read.integer("stands_for") if is_switch else None
    read.finish(_WORKER_KEYS)
    worker = built(Worker, name, ip, mac, port, udp_port)
    if worker is None or (is_switch and stands_for is None):
        return None
    return replace(worker, stands_for=stands_for)


def read_tree_job(node: YamlNode, path: str, log: Log) -> Job | None:
    """Read a job of a topology. All its workers are hosts, and its parents follow from the links."""
    return read_job(node, path, log, _TREE_JOB_KEYS)


def read_job(
    node: YamlNode,
    path: str,
    log: Log,
    keys: tuple[str, ...] = _JOB_KEYS,
    weights: Mapping[str, int] | None = None,
) -> Job | None:
    """Read a job. `weights`: the hosts behind each worker, by name; default: every worker is a host."""
    read = MappingReader(node, path, log)
    given = read.keys(keys)
    name, number = read.text("name"), read.integer("id")
    ops, workers = read.texts("ops"), read.texts("workers")
    quorum = read.integer("quorum") if "quorum" in given else len(workers or ())
    workers_min = read.integer("workers_min") if "workers_min" in given else None
    lanes = read.integer("lanes") if "lanes" in given else 1
    blind = read.boolean("blind") if "blind" in given else False
    key_file = read.text("key") if "key" in given else None
    key = None if key_file is None else _key(key_file, path, log)
    limit = read.number("limit_mbit") if "limit_mbit" in given else None
    spray = read.text("spray") if "spray" in given else SPRAYS[0]
    slots_node = read.node("slots")
    slots, takes_free = _slots(slots_node, f"{path}.slots", log) if slots_node else (None, False)
    thc_node = read.node("thc") if "thc" in given else None
    wants_table = thc_node is not None or "thc" in (ops or ())
    degrade_node = read.node("degrade") if "degrade" in given else None
    degrade = _degrade(degrade_node, f"{path}.degrade", log) if degrade_node else None
    parents = each(read.items("parents"), f"{path}.parents", log, _parent) if "parents" in given else ()
    stands_for = read.integers("stands_for") if "stands_for" in given else ()
    read.finish(keys)
    hosts = sum(stands_for or ((weights or {}).get(worker, 1) for worker in workers or ()))
    thc = _thc(thc_node, path, log, None if parents else hosts) if wants_table else None
    if name is None or number is None or ops is None or workers is None or quorum is None or slots is None:
        return None
    if (wants_table and thc is None) or stands_for is None or None in parents:
        return None
    if (degrade_node is not None and degrade is None) or lanes is None or spray is None or blind is None:
        return None
    above = tuple(filter(None, parents))
    job = Job(name, number, ops, workers, quorum, slots, thc, above, stands_for, lanes, spray, degrade)
    return replace(
        job, takes_free=takes_free, workers_min=workers_min, blind=blind, limit_mbit=limit, key_file=key_file, key=key
    )


def _key(name: str, path: str, log: Log) -> bytes | None:
    try:
        return read_key(name)
    except UntrustedInputError as error:
        # Who has written the key itself shall not find it in a log.
        log.add(path, "key", name if name.startswith("/") else "...", str(error))
        return None


def _parent(node: YamlNode, path: str, log: Log) -> Parent | None:
    read = MappingReader(node, path, log)
    parent = built(Parent, read.integer("port"), read.ipv4("ip"), read.mac("mac"), read.integer("worker"))
    read.finish(_PARENT_KEYS)
    return parent


def _slots(node: YamlNode, path: str, log: Log) -> tuple[SlotRange | None, bool]:
    """The slots, and whether they are the most that the job takes of what is free."""
    read = MappingReader(node, path, log)
    takes_free = read.has("most")
    base = 0 if takes_free else read.integer("base")
    slots = built(SlotRange, base, read.integer("most" if takes_free else "count"))
    read.finish(_FREE_SLOT_KEYS if takes_free else _SLOT_KEYS)
    return slots, takes_free


def _thc(node: YamlNode | None, path: str, log: Log, hosts: int | None) -> Thc | None:
    """The table of a job with so many hosts; None if this switch knows only some of them. A job need not have `thc`."""
    if node is None:
        return _solved(path, "thc", log, _Asked(tables.AUTO, tables.DEFAULT_BITS, tables.DEFAULT_P), hosts)
    path = f"{path}.thc"
    read = MappingReader(node, path, log)
    bits = read.integer("bits") if read.has("bits") else tables.DEFAULT_BITS
    p = read.number("p") if read.has("p") else tables.DEFAULT_P
    kind = read.word("table", tables.KINDS) if read.has("table") else tables.AUTO
    table = read.integers("table") if kind is None else ()
    granularity = read.integer("granularity") if read.has("granularity") else None
    read.finish(_THC_KEYS)
    if bits is None or p is None or table is None:
        return None
    if kind is not None:
        return _solved(path, "table", log, _Asked(kind, bits, p, granularity), hosts)
    if granularity is not None and table and granularity != table[-1]:
        log.add(path, "granularity", granularity, f"must be the table's last value, {table[-1]}")
    return Thc(bits, p, table)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A table that is to be made: of a kind of `tables.KINDS`."""

    kind: str
    bits: int
    p: float
    granularity: int | None = None


def _solved(path: str, field: str, log: Log, asked: _Asked, hosts: int | None) -> Thc | None:
    """The table that is asked for. Where bits, p or hosts are out of range, `rules/parts.py` says so."""
    if hosts is None:
        rule = "a switch with others above does not know all hosts of the job: give its table as a list"
        log.add(path, field, asked.kind, rule)
        return None
    granularity = asked.granularity
    if granularity is not None and not 1 <= granularity <= tables.SUM_MAX:
        log.add(path, "granularity", granularity, f"must be 1..{tables.SUM_MAX}")
        return None
    bits, workers = min(max(asked.bits, 1), THC_INDEX_PLANES), min(max(hosts, 1), tables.SUM_MAX)
    kind = asked.kind if tables.can_clip(asked.p) else tables.UNIFORM
    return Thc(asked.bits, asked.p, tables.made(kind, bits, asked.p, workers, granularity))


def _degrade(node: YamlNode, path: str, log: Log) -> Degrade | None:
    read = MappingReader(node, path, log)
    degrade = built(Degrade, read.integer("seed"), read.number("share"), read.text("mode"))
    read.finish(_DEGRADE_KEYS)
    return degrade


def read_queue(node: YamlNode, path: str, log: Log) -> VirtualQueue | None:
    read = MappingReader(node, path, log)
    queue = queue_of(read)
    read.finish(_QUEUE_KEYS)
    return queue


def queue_of(read: MappingReader) -> VirtualQueue | None:
    """Return the virtual queue in a mapping that may have other keys too."""
    port, rate, mark = read.integer("port"), read.number("rate_mbit"), read.integer("mark_bytes")
    drop, drop_all = read.integers("drop_bytes"), read.integer("drop_all_bytes")
    trim = read.boolean("trim") if read.has("trim") else False
    return built(VirtualQueue, port, rate, mark, drop, drop_all, trim)


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
    workers, jobs = tuple(filter(None, draft.workers)), tuple(filter(None, draft.jobs))
    queues = tuple(filter(None, draft.queues))
    return Config(draft.switch, draft.aggregator, draft.ports or (), workers, jobs, queues)


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
    switch = built(Switch, read.text("name"), read.text("grpc"), read.integer("device_id"))
    below = read.node("aggregator")
    aggregator = read_aggregator(below, f"{path}.aggregator", log) if below else None
    read.finish(_NODE_KEYS)
    return built(SwitchNode, switch, aggregator)


def _link(node: YamlNode, path: str, log: Log) -> SwitchLink | None:
    read = MappingReader(node, path, log)
    lower = read.text("from"), read.integer("from_port")
    link = built(SwitchLink, *lower, read.text("to"), read.integer("to_port"))
    read.finish(_LINK_KEYS)
    return link


def _host(node: YamlNode, path: str, log: Log) -> Host | None:
    read = MappingReader(node, path, log)
    name, ip, mac = read.text("name"), read.ipv4("ip"), read.mac("mac")
    switch, port = read.text("switch"), read.integer("port")
    udp_port = read.integer("udp_port") if read.has("udp_port") else SUMWIRE_PORT
    read.finish(_HOST_KEYS)
    return built(Host, name, ip, mac, switch, port, udp_port)


def _queue(node: YamlNode, path: str, log: Log) -> QueueAt | None:
    read = MappingReader(node, path, log)
    at = built(QueueAt, read.text("switch"), queue_of(read))
    read.finish(("switch", *_QUEUE_KEYS))
    return at


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
