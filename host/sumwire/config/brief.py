# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Job files of five fields: `format`, `name`, `job`, `aggregator` and `hosts`. All others have defaults.

Example: ``{"format": 3, "name": "digits", "job": 7, "aggregator": "10.0.0.9", "hosts": ["10.0.0.1", "10.0.0.2"]}``.

With `leaves` in the place of `hosts` there is a tree of two levels: `aggregator` is its root, and each leaf has its
hosts.

Example: ``"aggregator": "10.0.0.9", "leaves": {"10.0.1.9": ["10.0.1.1"], "10.0.2.9": ["10.0.2.1", "10.0.2.2"]}``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sumwire_protocol import constants as p4

from sumwire.config.job_config import LANES_MAX
from sumwire.errors import ConfigError

DEFAULT_OPS: Final = ("thc", "max32", "sum32")
DEFAULT_SLOTS: Final = 512
_BRIEF: Final = frozenset({"aggregator", "hosts", "leaves"})
_CURE: Final = (
    "write `aggregator` and one of `hosts` and `leaves`, or `addresses` and `workers` (and `tree`) in their place"
)


def completed(data: Mapping[str, Any], *, where: str) -> Mapping[str, Any]:
    """The job file with all its fields, if it is one of five; else as it is. Raises ConfigError.

    Ops are thc, max32 and sum32, there are 512 slots, and all workers make the quorum, unless the file says otherwise.
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
    """`addresses` and `tree` of a job file. ``leaves``: the hosts of each. ``first``: as of :func:`addresses`."""
    entries: list[dict[str, Any]] = []
    taken = Counter([root, *leaves])
    for leaf, hosts in leaves.items():
        for entry in _entries(hosts, leaf, first, taken):
            entries.append({**entry, "worker": len(entries)})
    tree = [{"aggregator": leaf, "above": root, "seat": seat} for seat, leaf in enumerate(leaves)]
    return {"addresses": entries, "tree": tree}


def addresses(hosts: Sequence[str], aggregator: str, first: int = p4.SUMWIRE_PORT) -> list[dict[str, Any]]:
    """The workers' entries in a job file, in the order of their hosts.

    Everything at one address has UDP ports of its own, with room for all lanes: the aggregator the first ones, then
    each worker that many further on. ``first``: the first port of a worker on another server.
    """
    return list(_entries(hosts, aggregator, first, Counter([aggregator])))


def _entries(hosts: Sequence[str], aggregator: str, first: int, taken: Counter[str]) -> Iterator[dict[str, Any]]:
    """``taken``: how many programs each address has already."""
    for worker, ip in enumerate(hosts):
        port = first + LANES_MAX * taken[ip]
        yield {"worker": worker, "ip": ip, "udp_port": port, "aggregator": aggregator, "seat": worker}
        taken[ip] += 1
