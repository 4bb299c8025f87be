# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Job files of five fields: `format`, `name`, `job`, `aggregator` and `hosts`. All others have defaults.

Example: ``{"format": 3, "name": "digits", "job": 7, "aggregator": "10.0.0.9", "hosts": ["10.0.0.1", "10.0.0.2"]}``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sumwire_protocol import constants as p4

from sumwire.config.job_config import LANES_MAX
from sumwire.errors import ConfigError

DEFAULT_OPS: Final = ("thc", "max32", "sum32")
DEFAULT_SLOTS: Final = 512
_BRIEF: Final = frozenset({"aggregator", "hosts"})
_CURE: Final = "write both of `aggregator` and `hosts`, or `addresses` and `workers` in their place"


def completed(data: Mapping[str, Any], *, where: str) -> Mapping[str, Any]:
    """The job file with all its fields, if it is one of five; else as it is. Raises ConfigError.

    Ops are thc, max32 and sum32, there are 512 slots, and all workers make the quorum, unless the file says otherwise.
    """
    if "hosts" not in data:
        return data
    if "aggregator" not in data:
        raise ConfigError("aggregator", None, "is required", where=where, cure=_CURE)
    if "addresses" in data:
        raise ConfigError("addresses", data["addresses"], "must not be there with hosts", where=where, cure=_CURE)
    hosts = data["hosts"]
    if not isinstance(hosts, list) or not hosts or not all(isinstance(host, str) for host in hosts):
        rule = "must be a list of the workers' IPv4 addresses"
        raise ConfigError("hosts", hosts, rule, where=where, cure="write one for each worker")
    defaults = {"ops": list(DEFAULT_OPS), "workers": len(hosts), "quorum": len(hosts), "slots": DEFAULT_SLOTS}
    given = {name: value for name, value in data.items() if name not in _BRIEF}
    return {**defaults, **given, "addresses": addresses(hosts, data["aggregator"])}


def addresses(hosts: Sequence[str], aggregator: str, first: int = p4.SUMWIRE_PORT) -> list[dict[str, Any]]:
    """The workers' entries in a job file, in the order of their hosts.

    Everything at one address has UDP ports of its own, with room for all lanes: the aggregator the first ones, then
    each worker that many further on. ``first``: the first port of a worker on another server.
    """
    taken = Counter([aggregator])
    found = []
    for worker, ip in enumerate(hosts):
        port = first + LANES_MAX * taken[ip]
        found.append({"worker": worker, "ip": ip, "udp_port": port, "aggregator": aggregator, "seat": worker})
        taken[ip] += 1
    return found
