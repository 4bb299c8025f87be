# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reads and checks job files, which the controller writes (``sumwire-controller job-file``) or a user by hand.

A short form has five fields: `format`, `name`, `job`, `aggregator` and `hosts`. All others have defaults.

Example: ``{"format": 3, "name": "digits", "job": 7, "aggregator": "10.0.0.9", "hosts": ["10.0.0.1", "10.0.0.2"]}``.

With `leaves` instead of `hosts` there is a tree of two levels: `aggregator` is its root, and each leaf has its hosts.

Example: ``"aggregator": "10.0.0.9", "leaves": {"10.0.1.9": ["10.0.1.1"], "10.0.2.9": ["10.0.2.1", "10.0.2.2"]}``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from commonlib.untrusted import UntrustedInputError, bounded_text, escaped, json_of, shown
from sumwire_protocol import constants as p4
from sumwire_protocol import tables
from sumwire_protocol.authentication import read_key

from sumwire.config.job_config import (
    LANES_MAX,
    OP_CODES,
    OP_WORKERS_MAX,
    PATHS,
    SLOTS_MIN,
    WORKERS_MAX,
    Address,
    Branch,
    JobConfig,
    Lane,
    ThcParameters,
    TreeError,
    check_tree,
)
from sumwire.errors import ConfigError, UsageError

DEFAULT_OPS: Final = ("thc", "max32", "sum32")
DEFAULT_SLOTS: Final = 512
_BRIEF: Final = frozenset({"aggregator", "hosts", "leaves"})
_CURE: Final = (
    "write `aggregator` and one of `hosts` and `leaves`, or `addresses` and `workers` (and `tree`) in their place"
)
FORMAT: Final = 3
# Format 2 has neither lanes nor paths, and means one of each; its runs have all workers.
_FORMAT_MIN: Final = 2
_PORT_MAX: Final = 0xFFFF
_JOB_MAX: Final = 0xFFFF

# A job of as many workers and lanes as there can be has a tenth.
_BYTES_MOST: Final = 1 << 16
_WRITE: Final = "write the file again: sumwire-controller job-file CONFIG --job NAME -o FILE"

NAME_MOST: Final = 128
_FIELDS: Final = frozenset({"format", "name", "job", "ops", "workers", "quorum", "slots", "addresses", "thc"})
_FIELDS_OF_FORMAT_3: Final = frozenset({"lanes", "paths", "workers_min", "blind", "key", "tree"})


def complete(data: Mapping[str, Any], *, where: str) -> Mapping[str, Any]:
    """Return a job file in the short form with all its fields; any other one unchanged. Raises ConfigError.

    Defaults: ops thc, max32 and sum32; 512 slots; the quorum is all workers.
    """
    form = "hosts" if "hosts" in data else "leaves"
    if form not in data:
        return data
    if "aggregator" not in data:
        raise ConfigError("aggregator", None, "is required", where=where, cure=_CURE)
    if not isinstance(data["aggregator"], str):
        raise ConfigError("aggregator", data["aggregator"], "must be a non-empty string", where=where, cure=_CURE)
    for other in sorted({"hosts", "leaves", "addresses"} & data.keys() - {form}):
        raise ConfigError(other, data[other], f"must not be there with {form}", where=where, cure=_CURE)
    given = {name: value for name, value in data.items() if name not in _BRIEF}
    if form == "hosts":
        placed = {"addresses": addresses(_hosts(data["hosts"], "hosts", where), data["aggregator"])}
    else:
        placed = _of_leaves(data["leaves"], data["aggregator"], where)
    workers = len(placed["addresses"])
    return {"ops": list(DEFAULT_OPS), "workers": workers, "quorum": workers, "slots": DEFAULT_SLOTS, **given, **placed}


def _hosts(hosts: Any, field: str, where: str) -> list[str]:
    if not isinstance(hosts, list) or not hosts or not all(isinstance(host, str) for host in hosts):
        rule = "must be a list of the workers' IPv4 addresses"
        raise ConfigError(field, hosts, rule, where=where, cure="write one for each worker")
    return hosts


def _of_leaves(leaves: Any, root: str, where: str) -> dict[str, list[dict[str, Any]]]:
    if not isinstance(leaves, dict) or not leaves:
        rule = "must be an object: the address of each leaf, and the list of its workers' addresses"
        raise ConfigError("leaves", leaves, rule, where=where, cure='write {"10.0.1.9": ["10.0.1.1", "10.0.1.2"], ...}')
    return tree_of({leaf: _hosts(hosts, f"leaves[{leaf}]", where) for leaf, hosts in leaves.items()}, root)


def tree_of(
    leaves: Mapping[str, Sequence[str]], root: str, first: int = p4.SUMWIRE_PORT
) -> dict[str, list[dict[str, Any]]]:
    """Return `addresses` and `tree` of a job file. ``leaves``: hosts by leaf. ``first``: as in :func:`addresses`."""
    entries: list[dict[str, Any]] = []
    taken = Counter([root, *leaves])
    for leaf, hosts in leaves.items():
        for entry in _entries(hosts, leaf, first, taken):
            entries.append({**entry, "worker": len(entries)})
    tree = [{"aggregator": leaf, "above": root, "seat": seat} for seat, leaf in enumerate(leaves)]
    return {"addresses": entries, "tree": tree}


def addresses(hosts: Sequence[str], aggregator: str, first: int = p4.SUMWIRE_PORT) -> list[dict[str, Any]]:
    """Return the workers' entries in a job file, in the order of their hosts.

    Programs at one address have UDP ports of their own, with room for all lanes: the aggregator the first ones, then
    each worker the next ones. ``first``: the first port of a worker on another server.
    """
    return list(_entries(hosts, aggregator, first, Counter([aggregator])))


def _entries(hosts: Sequence[str], aggregator: str, first: int, taken: Counter[str]) -> Iterator[dict[str, Any]]:
    """``taken``: how many programs each address has already."""
    for worker, ip in enumerate(hosts):
        port = first + LANES_MAX * taken[ip]
        yield {"worker": worker, "ip": ip, "udp_port": port, "aggregator": aggregator, "seat": worker}
        taken[ip] += 1


def load_job(path: str | Path, worker: int, *, key_file: str | None = None) -> JobConfig:
    """Read a job file as worker ``worker`` (0..workers-1). ``key_file``: read in place of the one that a job with a key
    names.

    Raises ConfigError naming file, field, value and rule; JobFileError, an OSError, if the file cannot be read.
    """
    where = str(path)
    try:
        data = json_of(bounded_text(Path(path), _BYTES_MOST))
    except OSError as error:
        raise JobFileError(where, error) from error
    except UntrustedInputError as error:
        raise ConfigError("file", where, str(error), where=where, cure=_WRITE) from error
    if not isinstance(data, dict):
        raise ConfigError("file", type(data).__name__, "must hold one JSON object", where=where, cure=_WRITE)
    return parse_job(data, worker, where=where, key_file=key_file)


def parse_job(data: Mapping[str, Any], worker: int, *, where: str = "job", key_file: str | None = None) -> JobConfig:
    """Check the content of a job file. Raises ConfigError at the first broken rule; ``where`` begins its message.
    ``key_file``: as in :func:`load_job`.

    A file in the short form is completed first.
    """
    data = complete(data, where=where)
    fields = _Fields(data, where)
    newest = fields.integer("format", _FORMAT_MIN, FORMAT) == FORMAT
    fields.only(_FIELDS | _FIELDS_OF_FORMAT_3 if newest else _FIELDS)
    workers = fields.integer("workers", 1, WORKERS_MAX)
    ops = _ops(fields, workers)
    if not 0 <= worker < workers:
        cure = f"start {workers} processes, each with its own number: load_job(path, worker=RANK)"
        raise ConfigError("worker", worker, f"must be in 0..{workers - 1}", where=where, cure=cure)
    first = Lane(fields.integer("job", 0, _JOB_MAX), fields.integer("slots", SLOTS_MIN, p4.SLOTS_TOTAL))
    lanes = _lanes(fields, first) if "lanes" in data else (first,)
    addresses = _addresses(fields, workers, len(lanes))
    return JobConfig(
        name=fields.text("name", most=NAME_MOST),
        job=first.job,
        worker=worker,
        workers=workers,
        quorum=_quorum(fields, workers, addresses),
        slots=first.slots,
        ops=ops,
        addresses=addresses,
        thc=_thc(fields, workers) if "thc" in ops else None,
        lanes=lanes,
        paths=_paths(fields) if "paths" in data else 1,
        workers_min=_workers_min(fields, workers, addresses) if "workers_min" in data else workers,
        blind=fields.boolean("blind") if "blind" in data else False,
        key=_key(fields, key_file) if "key" in data else None,
        tree=_tree(fields, addresses, ops) if "tree" in data else (),
    )


class JobFileError(UsageError, OSError):
    """The job file cannot be read."""

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(error.errno, f"{path}: {error.strerror or error}: name a file that is there, or {_WRITE}")

    def __str__(self) -> str:
        return str(self.strerror)


class _Fields:
    """Typed access to a JSON object. ``where`` begins the message of every ConfigError."""

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        self._data = data
        self.where = where

    def only(self, known: frozenset[str]) -> None:
        for name in self._data:
            if name not in known:
                raise self.error(name, f"unknown field; known are {', '.join(sorted(known))}")

    def has(self, name: str) -> bool:
        return name in self._data

    def value(self, name: str) -> Any:
        if name not in self._data:
            raise self.error(name, "is required")
        return self._data[name]

    def integer(self, name: str, low: int, high: int) -> int:
        value = self.value(name)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise self.error(name, f"must be an integer in {low}..{high}")
        return value

    def boolean(self, name: str) -> bool:
        value = self.value(name)
        if not isinstance(value, bool):
            raise self.error(name, "must be true or false")
        return value

    def text(self, name: str, most: int | None = None) -> str:
        value = self.value(name)
        if isinstance(value, str) and most is not None and len(value) > most:
            raise self.error(name, f"must have at most {most} characters")
        if not isinstance(value, str) or not value or not value.isprintable():
            raise self.error(name, "must be a non-empty string without control characters")
        return value

    def ip(self, name: str) -> str:
        value = self.text(name)
        try:
            address = IPv4Address(value)
        except AddressValueError as error:
            raise self.error(name, "must be an IPv4 address") from error
        if address.is_multicast or address.is_reserved or address.is_unspecified:
            raise self.error(name, "must be the IPv4 address of one machine")
        return value

    def items(self, name: str) -> list[Any]:
        value = self.value(name)
        if not isinstance(value, list):
            raise self.error(name, "must be a list")
        return value

    def objects(self, name: str, *known: str) -> Iterator[_Fields]:
        """The entries of a list of objects that have these fields alone."""
        for number, entry in enumerate(self.items(name)):
            where = f"{self.where}: {name}[{number}]"
            if not isinstance(entry, dict):
                raise ConfigError("entry", entry, "must be an object", where=where, cure=_WRITE)
            one = _Fields(entry, where)
            one.only(frozenset(known))
            yield one

    def mapping(self, name: str) -> _Fields:
        value = self.value(name)
        if not isinstance(value, dict):
            raise self.error(name, "must be an object")
        return _Fields(value, f"{self.where}: {name}")

    def error(self, name: str, rule: str) -> ConfigError:
        cure = f"correct `{escaped(str(name))}` in the job file of all workers, or {_WRITE}"
        return ConfigError(name, self._data.get(name), rule, where=self.where, cure=cure)


def _ops(fields: _Fields, workers: int) -> tuple[str, ...]:
    ops = fields.items("ops")
    if not ops or not all(isinstance(op, str) and op in OP_CODES for op in ops) or len(set(ops)) != len(ops):
        raise fields.error("ops", f"must name each op once, out of {', '.join(OP_CODES)}")
    for op, most in OP_WORKERS_MAX.items():
        if op in ops and workers > most:
            raise fields.error("ops", f"{op} is for at most {most} workers, the job has {workers}")
    return tuple(ops)


def _lanes(fields: _Fields, first: Lane) -> tuple[Lane, ...]:
    if not 1 <= len(fields.items("lanes")) <= LANES_MAX:
        raise fields.error("lanes", f"must be a list of 1..{LANES_MAX} lanes")
    lanes = [
        Lane(one.integer("job", 0, _JOB_MAX), one.integer("slots", SLOTS_MIN, p4.SLOTS_TOTAL))
        for one in fields.objects("lanes", "job", "slots")
    ]
    if lanes[0] != first:
        raise fields.error("lanes", f"the first must have the job's own number {first.job} and {first.slots} slots")
    if len({lane.job for lane in lanes}) != len(lanes):
        raise fields.error("lanes", "two lanes must not share a job number")
    return tuple(lanes)


def _key(fields: _Fields, key_file: str | None) -> bytes:
    """The key in the file that is named, or in another one."""
    name = fields.text("key") if key_file is None else key_file
    try:
        return read_key(name)
    except UntrustedInputError as error:
        # A key that was written here by mistake must not appear in a log.
        shown = name if name.startswith("/") else "..."
        cure = f"correct `key` in the job file of all workers, or {_WRITE}"
        raise ConfigError("key", shown, str(error), where=fields.where, cure=cure) from error


def _paths(fields: _Fields) -> int:
    paths = fields.integer("paths", PATHS[0], PATHS[-1])
    if paths not in PATHS:
        raise fields.error("paths", f"must be one of {', '.join(map(str, PATHS))}")
    return paths


def _quorum(fields: _Fields, workers: int, addresses: tuple[Address, ...]) -> int:
    quorum = fields.integer("quorum", 1, workers)
    if quorum < workers and _in_tree(fields, addresses):
        rule = (
            f"must be {workers}, all workers: in a tree a lower switch sends its partial result once, when all are in"
        )
        raise fields.error("quorum", rule)
    return quorum


def _in_tree(fields: _Fields, addresses: tuple[Address, ...]) -> bool:
    return fields.has("tree") or len({address.aggregator for address in addresses}) > 1


def _workers_min(fields: _Fields, workers: int, addresses: tuple[Address, ...]) -> int:
    least = fields.integer("workers_min", 1, workers)
    if least < workers and _in_tree(fields, addresses):
        raise fields.error("workers_min", f"must be {workers}, all workers: fewer need one switch, not a tree")
    return least


def _addresses(fields: _Fields, workers: int, lanes: int) -> tuple[Address, ...]:
    """Check all addresses. Lane i of a worker uses port ``udp_port`` + i, so no two workers may overlap there."""
    if len(fields.items("addresses")) != workers:
        raise fields.error("addresses", f"must have one entry for each of {workers} workers")
    addresses = []
    for number, one in enumerate(fields.objects("addresses", "worker", "ip", "udp_port", "aggregator", "seat")):
        one.integer("worker", number, number)
        seat = one.integer("seat", 0, p4.JOB_WORKERS_MAX - 1)
        addresses.append(
            Address(one.ip("ip"), one.integer("udp_port", 1, _PORT_MAX + 1 - lanes), one.ip("aggregator"), seat)
        )
    if len({(a.ip, a.udp_port + lane) for a in addresses for lane in range(lanes)}) != workers * lanes:
        raise fields.error("addresses", "two workers must not share ip and udp_port, of any lane")
    if len({(a.aggregator, a.seat) for a in addresses}) != workers:
        raise fields.error("addresses", "two workers must not share aggregator and seat")
    return tuple(addresses)


def _tree(fields: _Fields, addresses: tuple[Address, ...], ops: tuple[str, ...]) -> tuple[Branch, ...]:
    branches = []
    for one in fields.objects("tree", "aggregator", "above", "seat"):
        seat = one.integer("seat", 0, p4.JOB_WORKERS_MAX - 1)
        branches.append(Branch(one.ip("aggregator"), one.ip("above"), seat))
    try:
        check_tree(branches, addresses, ops)
    except TreeError as error:
        cure = "correct `tree` in the job file of all workers and aggregators"
        raise ConfigError("tree", error.value, error.rule, where=fields.where, cure=cure) from error
    return tuple(branches)


def _thc(fields: _Fields, workers: int) -> ThcParameters:
    thc = fields.mapping("thc") if fields.has("thc") else _Fields({}, f"{fields.where}: thc")
    thc.only(frozenset({"bits", "p", "table", "granularity"}))
    bits = thc.integer("bits", 1, p4.THC_INDEX_PLANES) if thc.has("bits") else tables.DEFAULT_BITS
    p = thc.value("p") if thc.has("p") else tables.DEFAULT_P
    if not isinstance(p, float) or not tables.can_clip(p):
        raise thc.error("p", f"must be a share between 0 and 1, and no less than {tables.P_LEAST:g}")
    kind = thc.value("table") if thc.has("table") else tables.AUTO
    granularity = thc.integer("granularity", 1, tables.SUM_MAX // workers) if thc.has("granularity") else None
    if kind in tables.KINDS:
        return ThcParameters(bits, p, tables.made(kind, bits, p, workers, granularity))
    table = _table(thc, bits, workers)
    if granularity not in (None, table[-1]):
        raise thc.error("granularity", f"must be the last value of the table, {shown(table[-1])}")
    return ThcParameters(bits, p, table)


def _table(thc: _Fields, bits: int, workers: int) -> tuple[int, ...]:
    """Check a table that the file lists."""
    table = thc.items("table")
    if len(table) != 1 << bits or any(not isinstance(value, int) or isinstance(value, bool) for value in table):
        raise thc.error("table", f"must have {1 << bits} integers for bits = {bits}")
    if table[0] != 0 or table[-1] < 1 or any(low >= high for low, high in pairwise(table) if low != table[-1]):
        raise thc.error("table", "must start at 0 and rise strictly; only the last value may be repeated")
    if table[-1] * workers > tables.SUM_MAX:
        raise thc.error("table", f"granularity {shown(table[-1])} x {workers} workers must be <= {tables.SUM_MAX}")
    return tuple(table)
