# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The data of one switch's configuration, and of a topology of switches, frozen. `parse` creates it, `rules` checks
it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import Final, TypeVar

from sumwire_protocol import constants as _p4
from sumwire_protocol.constants import SUMWIRE_PORT
from sumwire_protocol.ops import CODES

OP_CODES: Final = CODES
"""Name in the configuration -> code on the wire, for every op."""

SPRAYS: Final = ("slot", "hash")
"""How a chunk finds its root where a job has several: by the slot's number, or by a hash of slot and round."""
DEGRADE_MODES: Final = {"trim": _p4.DEGRADE_TRIM, "drop": _p4.DEGRADE_DROP, "trim-results": _p4.DEGRADE_RESULTS}
"""Name in the configuration -> number in the program, for everything that `degrade` can do to a packet."""

MAC_PATTERN: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
MAC_RULE: Final = 'must be a MAC address in quotes, like "02:00:00:00:00:01"'


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS files in PEM: the authority that signs the switches' certificates, and the controller's own certificate with
    its key."""

    ca: Path
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch and its P4Runtime server. `grpc` is the server's address, "host:port" or "unix:/path".

    `tls` has no effect for a Unix socket. If it is None, the environment may still ask for TLS.
    """

    name: str
    grpc: str
    device_id: int
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class AggregatorAddress:
    """The address that workers send to. No host has it; the switch answers ARP requests for it."""

    ip: IPv4Address
    mac: str


@dataclass(frozen=True, slots=True)
class Worker:
    """A host or a lower switch that sends contributions.

    `port` is the switch port that leads to it, `udp_port` the UDP port from which it sends and at which it receives
    results. `stands_for` is None for a host. For a lower switch it is the number of hosts summed in its partial
    results, and `ip` and `mac` belong to its aggregator. `other_ports_in`: for a host behind other switches, further
    ports at which its frames come in.
    """

    name: str
    ip: IPv4Address
    mac: str
    port: int
    udp_port: int = SUMWIRE_PORT
    stands_for: int | None = None
    other_ports_in: tuple[int, ...] = ()

    @property
    def ports_in(self) -> tuple[int, ...]:
        """Every port at which its frames may come in."""
        return (self.port, *self.other_ports_in)

    @property
    def is_switch(self) -> bool:
        return self.stands_for is not None

    @property
    def weight(self) -> int:
        """The number of hosts whose contributions are in one of its packets; 1 for a host."""
        return 1 if self.stands_for is None else self.stands_for


@dataclass(frozen=True, slots=True)
class Parent:
    """A switch above: the port to it, its aggregator's addresses, and this switch's seat there (`worker`)."""

    port: int
    ip: IPv4Address
    mac: str
    worker: int


SLOTS_MIN: Final = 2
"""A worker keeps half of its slots in flight, so it needs at least two."""


@dataclass(frozen=True, slots=True)
class SlotRange:
    """The slots from `base` to `base + count - 1` of a switch."""

    base: int
    count: int

    @property
    def end(self) -> int:
        """The first slot after the range."""
        return self.base + self.count


@dataclass(frozen=True, slots=True)
class Thc:
    """A job's THC table: 2^bits increasing values. `p` is the share of values outside the truncation range, 0..1."""

    bits: int
    p: float
    table: tuple[int, ...]

    @property
    def granularity(self) -> int:
        """The table's largest value."""
        return self.table[-1]


@dataclass(frozen=True, slots=True)
class Degrade:
    """Deliberate loss, for experiments. `share` (0..1) of a job's THC packets are lost or cut; `seed` decides which.

    `mode` is one of DEGRADE_MODES.
    """

    seed: int
    share: float
    mode: str


@dataclass(frozen=True, slots=True)
class VirtualQueue:
    """A model of the queue at a port, which drains at `rate_mbit` (Mbit/s).

    Thresholds are in bytes. Above `mark_bytes` protected packets are marked. Above `drop_bytes[3 - c]`, droppable
    packets of drop class c are dropped or, with `trim`, cut. Above `drop_all_bytes` every packet is dropped.
    """

    port: int
    rate_mbit: float
    mark_bytes: int
    drop_bytes: tuple[int, ...]
    drop_all_bytes: int
    trim: bool = False


@dataclass(frozen=True, slots=True)
class WholeJob:
    """Workers (hosts) and quorum of a job at all its switches together."""

    workers: int
    quorum: int


@dataclass(frozen=True, slots=True)
class Job:
    """One training run, as one switch sees it.

    `workers` are names, in the order of their seats. `takes_free`: the job gets as many slots as are free when it
    is admitted, and keeps them; `slots.count` is then the most that it may get (`derive/free_slots.py`). `parents`
    are the switches above; a root has none. `spray` (one of SPRAYS) decides to which parent a chunk goes: with
    "slot", slot s goes to `parents[s mod len(parents)]`. `stands_for` is empty unless a worker has fewer hosts in
    this job than it stands for; then it has the number of hosts behind each worker. `lanes` is the number of the
    job's lanes. `derive/jobs.py` makes a separate job of each lane, whose number is `lane`. `workers_min` is the
    fewest workers that a run may have; None means all. `whole` is for a job with several switches; it is None where
    only one switch's configuration is known. `blind`: hosts mask what they send. `limit_mbit` is the most that its
    workers may send into one switch, in Mbit/s; None is any rate. `key`: the 32 bytes from the file `key_file` with
    which packets get authentication tags; None for none.
    """

    name: str
    id: int
    ops: tuple[str, ...]
    workers: tuple[str, ...]
    quorum: int
    slots: SlotRange
    thc: Thc | None = None
    parents: tuple[Parent, ...] = ()
    stands_for: tuple[int, ...] = ()
    lanes: int = 1
    spray: str = SPRAYS[0]
    degrade: Degrade | None = None
    lane: int = 0
    workers_min: int | None = None
    blind: bool = False
    limit_mbit: float | None = None
    whole: WholeJob | None = None
    takes_free: bool = False
    key_file: str | None = None
    key: bytes | None = field(default=None, repr=False)

    @property
    def quorum_least(self) -> int:
        """The smallest quorum that a run may ask for; 0 if every run has all workers."""
        return 0 if self.workers_min in (None, len(self.workers)) else self.workers_min or 0

    @property
    def ids(self) -> range:
        """The ids of the job's lanes."""
        return range(self.id, self.id + self.lanes)


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that the control plane brings to one switch."""

    switch: Switch
    aggregator: AggregatorAddress
    ports: tuple[int, ...]
    workers: tuple[Worker, ...]
    jobs: tuple[Job, ...]
    queues: tuple[VirtualQueue, ...] = ()

    def worker(self, name: str) -> Worker:
        """Return the worker of that name. Raises KeyError."""
        for worker in self.workers:
            if worker.name == name:
                return worker
        raise KeyError(name)


def mac_number(mac: str) -> int:
    """Return the 48-bit number of "aa:bb:cc:dd:ee:ff"."""
    return int(mac.replace(":", ""), 16)


def mac_text(number: int) -> str:
    """Return a 48-bit number as "aa:bb:cc:dd:ee:ff"."""
    return number.to_bytes(6, "big").hex(":")


@dataclass(frozen=True, slots=True)
class SwitchNode:
    """A switch of the network, with the address that its workers send to."""

    switch: Switch
    aggregator: AggregatorAddress

    @property
    def name(self) -> str:
        return self.switch.name


@dataclass(frozen=True, slots=True)
class SwitchLink:
    """A cable between two switches. `lower` sends partial results over it, `upper` sends results."""

    lower: str
    lower_port: int
    upper: str
    upper_port: int

    @property
    def ends(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """(switch, port) of both ends, the lower one first."""
        return (self.lower, self.lower_port), (self.upper, self.upper_port)


@dataclass(frozen=True, slots=True)
class Host:
    """A training host, the switch and port it is on, and the UDP port at which it receives results."""

    name: str
    ip: IPv4Address
    mac: str
    switch: str
    port: int
    udp_port: int = SUMWIRE_PORT


@dataclass(frozen=True, slots=True)
class QueueAt:
    """A virtual queue at a port of a switch."""

    switch: str
    queue: VirtualQueue


_Named = TypeVar("_Named", SwitchNode, Host)


@dataclass(frozen=True, slots=True)
class Topology:
    """The whole network. The workers of its jobs are names of hosts.

    If several switches are possible, the order of `switches` decides: the first of two spines carries ordinary traffic
    and has the even slots.
    """

    switches: tuple[SwitchNode, ...]
    links: tuple[SwitchLink, ...]
    hosts: tuple[Host, ...]
    jobs: tuple[Job, ...]
    queues: tuple[QueueAt, ...] = ()

    def node(self, name: str) -> SwitchNode:
        """Return the switch of that name. Raises KeyError."""
        return _named(self.switches, name)

    def host(self, name: str) -> Host:
        """Return the host of that name. Raises KeyError."""
        return _named(self.hosts, name)

    def link(self, lower: str, upper: str) -> SwitchLink:
        """Return the link from `lower` up to `upper`. Raises KeyError."""
        for link in self.links:
            if (link.lower, link.upper) == (lower, upper):
                return link
        raise KeyError((lower, upper))

    def uppers(self, name: str) -> tuple[str, ...]:
        """Return the names of the switches directly above, in the order of `switches`."""
        above = {link.upper for link in self.links if link.lower == name}
        return tuple(node.name for node in self.switches if node.name in above)

    def ports(self, name: str) -> Iterator[tuple[int, str]]:
        """Yield (port, name of the neighbour) for each port in use: hosts first, then switches in order of `links`."""
        yield from ((host.port, host.name) for host in self.hosts if host.switch == name)
        for link in self.links:
            if link.lower == name:
                yield link.lower_port, link.upper
            elif link.upper == name:
                yield link.upper_port, link.lower

    def distances(self, start: str) -> dict[str, int]:
        """Return the number of links on the shortest path from `start`, by name, for every reachable switch including
        `start`."""
        found, waiting = {start: 0}, [start]
        for at in waiting:
            for _, name in self.ports(at):
                if name not in found and any(name == node.name for node in self.switches):
                    found[name] = found[at] + 1
                    waiting.append(name)
        return found


def _named(items: tuple[_Named, ...], name: str) -> _Named:
    for item in items:
        if item.name == name:
            return item
    raise KeyError(name)
