# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The configuration of one switch, as frozen data. `parse.py` reads it, `validate.py` knows its rules."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from sumwire_protocol import constants as _p4
from sumwire_protocol.constants import SUMWIRE_PORT

OP_CODES: Final[dict[str, int]] = {
    name.removeprefix("OP_").lower(): code for name, code in vars(_p4).items() if name.startswith("OP_")
}
"""Every op of the wire format by its name in the configuration, with its code."""

SPRAYS: Final = ("slot", "hash")
"""How a job's slots are shared out among several roots: by the slot's number, or anew in each round by a hash."""
DEGRADE_MODES: Final = {"trim": _p4.DEGRADE_TRIM, "drop": _p4.DEGRADE_DROP, "trim-results": _p4.DEGRADE_RESULTS}
"""What `degrade` does to the packets it hits, with the number the program knows it by."""

MAC_PATTERN: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
MAC_RULE: Final = 'must be a MAC address in quotes, like "02:00:00:00:00:01"'


@dataclass(frozen=True, slots=True)
class Switch:
    """How to reach the switch. `grpc` is "host:port" of its P4Runtime server."""

    name: str
    grpc: str
    device_id: int


@dataclass(frozen=True, slots=True)
class Aggregator:
    """The virtual address the workers send to; the switch answers ARP for it. `mac` is "aa:bb:cc:dd:ee:ff"."""

    ip: IPv4Address
    mac: str


@dataclass(frozen=True, slots=True)
class Worker:
    """A host: its addresses, the switch port it is behind, the UDP port it receives results at.

    With `stands_for` it is no host but a lower switch: its aggregator's addresses, and the number of hosts whose
    partial results it sends.
    """

    name: str
    ip: IPv4Address
    mac: str
    port: int
    udp_port: int = SUMWIRE_PORT
    stands_for: int | None = None

    @property
    def is_switch(self) -> bool:
        return self.stands_for is not None

    @property
    def weight(self) -> int:
        """Hosts in what it sends: a host's packet holds its own contribution only."""
        return 1 if self.stands_for is None else self.stands_for


@dataclass(frozen=True, slots=True)
class Parent:
    """A switch above: the port to it, its aggregator's addresses, and our worker number there."""

    port: int
    ip: IPv4Address
    mac: str
    worker: int


@dataclass(frozen=True, slots=True)
class SlotRange:
    """The switch's slots `base` to `base + count - 1`."""

    base: int
    count: int

    @property
    def end(self) -> int:
        """First slot behind the range."""
        return self.base + self.count


@dataclass(frozen=True, slots=True)
class Thc:
    """THC's table of a job: 2^bits increasing values, and the share p of values outside the truncation range."""

    bits: int
    p: float
    table: tuple[int, ...]

    @property
    def granularity(self) -> int:
        """The largest value of the table."""
        return self.table[-1]


@dataclass(frozen=True, slots=True)
class Degrade:
    """Loss made on purpose, for experiments: the same `share` (0..1) of a job's THC packets for the same `seed`.

    `mode` is one of DEGRADE_MODES.
    """

    seed: int
    share: float
    mode: str


@dataclass(frozen=True, slots=True)
class VirtualQueue:
    """What the switch makes of a backlog at a port. Thresholds in bytes: above `mark_bytes` protected packets are
    marked; above `drop_bytes`, for drop classes 3, 2, 1, 0 in this order, droppable ones are lost or, with `trim`, cut;
    above `drop_all_bytes` everything is lost. `rate_mbit` is what drains it.
    """

    port: int
    rate_mbit: float
    mark_bytes: int
    drop_bytes: tuple[int, ...]
    drop_all_bytes: int
    trim: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """One training run, as one switch sees it. The order of `workers` (names) gives the worker numbers, from 0.

    `parents` are the switches above, none for the root; slot s goes to `parents[s mod len(parents)]`, or where `spray`
    (one of SPRAYS) says so. `stands_for`, if not empty, has the hosts of this job behind each worker, where that is
    not all that the worker stands for. `lanes` is the number of its priority classes: `lanes.py` makes a job of each,
    of which `lane` is the number.
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

    @property
    def ids(self) -> range:
        """The ids of its lanes."""
        return range(self.id, self.id + self.lanes)


@dataclass(frozen=True, slots=True)
class Config:
    """Everything the control plane of one switch wants to be true."""

    switch: Switch
    aggregator: Aggregator
    ports: tuple[int, ...]
    workers: tuple[Worker, ...]
    jobs: tuple[Job, ...]
    queues: tuple[VirtualQueue, ...] = ()

    def worker(self, name: str) -> Worker:
        """:raises KeyError: no worker of that name."""
        for worker in self.workers:
            if worker.name == name:
                return worker
        raise KeyError(name)


def mac_number(mac: str) -> int:
    """The 48-bit number of "aa:bb:cc:dd:ee:ff"."""
    return int(mac.replace(":", ""), 16)


def mac_text(number: int) -> str:
    """ "aa:bb:cc:dd:ee:ff" of a 48-bit number."""
    return number.to_bytes(6, "big").hex(":")
