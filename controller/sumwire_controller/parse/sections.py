# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the objects of YAML files. Each `read_*` returns a dataclass, or None after reporting a problem to the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from commonlib.untrusted import UntrustedInputError
from sumwire_protocol import tables
from sumwire_protocol.authentication import read_key
from sumwire_protocol.constants import SUMWIRE_PORT, THC_INDEX_PLANES

from sumwire_controller.model import (
    SPRAYS,
    AggregatorAddress,
    Degrade,
    Job,
    Parent,
    SlotRange,
    Switch,
    Thc,
    VirtualQueue,
    Worker,
)
from sumwire_controller.parse.yaml_reader import Log, MappingReader, YamlNode

T = TypeVar("T")

_SWITCH_KEYS: Final = ("name", "grpc", "device_id")
_AGGREGATOR_KEYS: Final = ("ip", "mac")
_WORKER_KEYS: Final = ("name", "ip", "mac", "port", "udp_port", "stands_for")
_OPTIONAL_JOB_KEYS: Final = ("workers_min", "thc", "lanes", "spray", "degrade", "limit_mbit", "blind", "key")
_TREE_JOB_KEYS: Final = ("name", "id", "ops", "workers", "quorum", "slots", *_OPTIONAL_JOB_KEYS)
_JOB_KEYS: Final = (*_TREE_JOB_KEYS, "parents", "stands_for")
_PARENT_KEYS: Final = ("port", "ip", "mac", "worker")
_SLOT_KEYS: Final = ("base", "count")
_DEGRADE_KEYS: Final = ("seed", "share", "mode")
QUEUE_KEYS: Final = ("port", "rate_mbit", "mark_bytes", "drop_bytes", "drop_all_bytes", "trim")
_THC_KEYS: Final = ("bits", "p", "table", "granularity")


def each(nodes: list[YamlNode] | None, path: str, log: Log, read: Callable[[YamlNode, str, Log], T]) -> tuple[T, ...]:
    """Read every element of the list at `path`."""
    return tuple(read(node, f"{path}[{i}]", log) for i, node in enumerate(nodes or []))


def names_in(nodes: list[YamlNode] | None) -> frozenset[str]:
    """The names as written. A worker with a mistake in another field still counts as a known name."""
    mappings = [node.value for node in nodes or [] if isinstance(node.value, dict)]
    names = [mapping["name"].value for mapping in mappings if "name" in mapping]
    return frozenset(name for name in names if isinstance(name, str))


def read_switch(node: YamlNode, path: str, log: Log) -> Switch | None:
    read = MappingReader(node, path, log)
    name, grpc, device_id = read.text("name"), read.text("grpc"), read.integer("device_id")
    read.finish(_SWITCH_KEYS)
    if name is None or grpc is None or device_id is None:
        return None
    return Switch(name, grpc, device_id)


def read_aggregator(node: YamlNode, path: str, log: Log) -> AggregatorAddress | None:
    read = MappingReader(node, path, log)
    ip, mac = read.ipv4("ip"), read.mac("mac")
    read.finish(_AGGREGATOR_KEYS)
    return None if ip is None or mac is None else AggregatorAddress(ip, mac)


def read_worker(node: YamlNode, path: str, log: Log) -> Worker | None:
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

    def has(name: str) -> bool:
        return name in keys and read.has(name)

    name, number = read.text("name"), read.integer("id")
    ops, workers = read.texts("ops"), read.texts("workers")
    quorum = read.integer("quorum") if has("quorum") else len(workers or ())
    workers_min = read.integer("workers_min") if has("workers_min") else None
    lanes = read.integer("lanes") if has("lanes") else 1
    blind = read.boolean("blind") if has("blind") else False
    key_file = read.text("key") if has("key") else None
    key = None if key_file is None else _key(key_file, path, log)
    limit = read.number("limit_mbit") if has("limit_mbit") else None
    spray = read.text("spray") if has("spray") else SPRAYS[0]
    slots_node = read.node("slots")
    slots = _slots(slots_node, f"{path}.slots", log) if slots_node else None
    thc_node = read.node("thc") if has("thc") else None
    wants_table = thc_node is not None or "thc" in (ops or ())
    degrade_node = read.node("degrade") if has("degrade") else None
    degrade = _degrade(degrade_node, f"{path}.degrade", log) if degrade_node else None
    parents = each(read.items("parents"), f"{path}.parents", log, _parent) if has("parents") else ()
    stands_for = read.integers("stands_for") if has("stands_for") else ()
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
    return replace(job, workers_min=workers_min, blind=blind, limit_mbit=limit, key_file=key_file, key=key)


def _key(name: str, path: str, log: Log) -> bytes | None:
    try:
        return read_key(name)
    except UntrustedInputError as error:
        # Who has written the key itself shall not find it in a log.
        log.add(path, "key", name if name.startswith("/") else "...", str(error))
        return None


def _parent(node: YamlNode, path: str, log: Log) -> Parent | None:
    read = MappingReader(node, path, log)
    port, ip, mac, worker = read.integer("port"), read.ipv4("ip"), read.mac("mac"), read.integer("worker")
    read.finish(_PARENT_KEYS)
    return None if port is None or ip is None or mac is None or worker is None else Parent(port, ip, mac, worker)


def _slots(node: YamlNode, path: str, log: Log) -> SlotRange | None:
    read = MappingReader(node, path, log)
    base, count = read.integer("base"), read.integer("count")
    read.finish(_SLOT_KEYS)
    return None if base is None or count is None else SlotRange(base, count)


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
    """The table that is asked for. Where bits, p or hosts are out of range, `rules/job.py` says so."""
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
    seed, share, mode = read.integer("seed"), read.number("share"), read.text("mode")
    read.finish(_DEGRADE_KEYS)
    return None if seed is None or share is None or mode is None else Degrade(seed, share, mode)


def read_queue(node: YamlNode, path: str, log: Log) -> VirtualQueue | None:
    read = MappingReader(node, path, log)
    queue = queue_of(read)
    read.finish(QUEUE_KEYS)
    return queue


def queue_of(read: MappingReader) -> VirtualQueue | None:
    """The virtual queue in a mapping that may have other keys too."""
    port, rate, mark = read.integer("port"), read.number("rate_mbit"), read.integer("mark_bytes")
    drop, drop_all = read.integers("drop_bytes"), read.integer("drop_all_bytes")
    trim = read.boolean("trim") if read.has("trim") else False
    if port is None or rate is None or mark is None or drop is None or drop_all is None or trim is None:
        return None
    return VirtualQueue(port, rate, mark, drop, drop_all, trim)
