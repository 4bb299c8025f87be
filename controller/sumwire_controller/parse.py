# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""YAML text -> Config. Shape and types here, the rules on values in `validate.py`; all problems in one error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from sumwire_controller._p4 import SUMWIRE_PORT
from sumwire_controller.config import Aggregator, Config, Job, Parent, SlotRange, Switch, Thc, Worker
from sumwire_controller.errors import ConfigError, Problem
from sumwire_controller.reader import Log, MappingReader
from sumwire_controller.validate import Draft, validate_draft
from sumwire_controller.yamltree import Node, load_tree

T = TypeVar("T")

_ROOT_KEYS: Final = ("switch", "aggregator", "ports", "workers", "jobs")
_SWITCH_KEYS: Final = ("name", "grpc", "device_id")
_AGGREGATOR_KEYS: Final = ("ip", "mac")
_WORKER_KEYS: Final = ("name", "ip", "mac", "port", "udp_port", "stands_for")
_JOB_KEYS: Final = ("name", "id", "ops", "workers", "quorum", "slots", "thc", "parents", "stands_for")
_PARENT_KEYS: Final = ("port", "ip", "mac", "worker")
_SLOT_KEYS: Final = ("base", "count")
_THC_KEYS: Final = ("bits", "p", "table", "granularity")


def load_config(path: Path | str) -> Config:
    """Reads and checks a configuration file.

    :raises ConfigError: with every broken rule, or because the file cannot be read.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), [Problem("", "file", str(path), f"cannot be read: {error}")]) from error
    return parse_config(text, source=str(path))


def parse_config(text: str, source: str = "config") -> Config:
    """Parses and checks a configuration text. `source` names it in messages.

    :raises ConfigError: with every broken rule.
    """
    tree, repeated = load_tree(text, source)
    log = Log(problems=repeated)
    draft = _draft(tree, log)
    for problem in validate_draft(draft):
        log.add(problem.path, problem.field, problem.value, problem.rule)
    if log.problems or draft.switch is None or draft.aggregator is None:
        raise ConfigError(source, sorted(log.problems, key=lambda problem: problem.line or 0))
    return Config(
        switch=draft.switch,
        aggregator=draft.aggregator,
        ports=draft.ports or (),
        workers=tuple(worker for worker in draft.workers if worker),
        jobs=tuple(job for job in draft.jobs if job),
    )


def _draft(tree: Node, log: Log) -> Draft:
    root = MappingReader(tree, "", log)
    switch, aggregator = root.node("switch"), root.node("aggregator")
    ports = root.integers("ports")
    workers, jobs = root.items("workers"), root.items("jobs")
    root.finish(_ROOT_KEYS)
    return Draft(
        switch=_switch(switch, log) if switch else None,
        aggregator=_aggregator(aggregator, log) if aggregator else None,
        ports=ports,
        workers=_each(workers, "workers", log, _worker),
        jobs=_each(jobs, "jobs", log, _job),
        names_unparsed=_names(workers or []),
    )


def _each(nodes: list[Node] | None, path: str, log: Log, read: Callable[[Node, str, Log], T]) -> tuple[T, ...]:
    return tuple(read(node, f"{path}[{i}]", log) for i, node in enumerate(nodes or []))


def _names(workers: list[Node]) -> frozenset[str]:
    """Names as written, so that a worker with a typo elsewhere is not called unknown as well."""
    mappings = [node.value for node in workers if isinstance(node.value, dict)]
    names = [mapping["name"].value for mapping in mappings if "name" in mapping]
    return frozenset(name for name in names if isinstance(name, str))


def _switch(node: Node, log: Log) -> Switch | None:
    read = MappingReader(node, "switch", log)
    name, grpc, device_id = read.text("name"), read.text("grpc"), read.integer("device_id")
    read.finish(_SWITCH_KEYS)
    if name is None or grpc is None or device_id is None:
        return None
    return Switch(name, grpc, device_id)


def _aggregator(node: Node, log: Log) -> Aggregator | None:
    read = MappingReader(node, "aggregator", log)
    ip, mac = read.ipv4("ip"), read.mac("mac")
    read.finish(_AGGREGATOR_KEYS)
    return None if ip is None or mac is None else Aggregator(ip, mac)


def _worker(node: Node, path: str, log: Log) -> Worker | None:
    read = MappingReader(node, path, log)
    name, ip, mac, port = read.text("name"), read.ipv4("ip"), read.mac("mac"), read.integer("port")
    udp_port = read.integer("udp_port") if read.has("udp_port") else SUMWIRE_PORT
    is_switch = read.has("stands_for")
    stands_for = read.integer("stands_for") if is_switch else None
    read.finish(_WORKER_KEYS)
    if name is None or ip is None or mac is None or port is None or udp_port is None:
        return None
    if is_switch and stands_for is None:
        return None
    return Worker(name, ip, mac, port, udp_port, stands_for)


def _job(node: Node, path: str, log: Log) -> Job | None:
    read = MappingReader(node, path, log)
    name, number = read.text("name"), read.integer("id")
    ops, workers = read.texts("ops"), read.texts("workers")
    quorum = read.integer("quorum") if read.has("quorum") else len(workers or ())
    slots_node = read.node("slots")
    slots = _slots(slots_node, f"{path}.slots", log) if slots_node else None
    thc_node = read.node("thc") if read.has("thc") else None
    thc = _thc(thc_node, f"{path}.thc", log) if thc_node else None
    parents = _each(read.items("parents"), f"{path}.parents", log, _parent) if read.has("parents") else ()
    stands_for = read.integers("stands_for") if read.has("stands_for") else ()
    read.finish(_JOB_KEYS)
    if name is None or number is None or ops is None or workers is None or quorum is None or slots is None:
        return None
    if (thc_node is not None and thc is None) or stands_for is None or None in parents:
        return None
    return Job(name, number, ops, workers, quorum, slots, thc, tuple(filter(None, parents)), stands_for)


def _parent(node: Node, path: str, log: Log) -> Parent | None:
    read = MappingReader(node, path, log)
    port, ip, mac, worker = read.integer("port"), read.ipv4("ip"), read.mac("mac"), read.integer("worker")
    read.finish(_PARENT_KEYS)
    return None if port is None or ip is None or mac is None or worker is None else Parent(port, ip, mac, worker)


def _slots(node: Node, path: str, log: Log) -> SlotRange | None:
    read = MappingReader(node, path, log)
    base, count = read.integer("base"), read.integer("count")
    read.finish(_SLOT_KEYS)
    return None if base is None or count is None else SlotRange(base, count)


def _thc(node: Node, path: str, log: Log) -> Thc | None:
    read = MappingReader(node, path, log)
    bits, p, table = read.integer("bits"), read.number("p"), read.integers("table")
    granularity = read.integer("granularity") if read.has("granularity") else None
    read.finish(_THC_KEYS)
    if granularity is not None and table and granularity != table[-1]:
        log.add(path, "granularity", granularity, f"must be the table's last value, {table[-1]}")
    return None if bits is None or p is None or table is None else Thc(bits, p, table)
