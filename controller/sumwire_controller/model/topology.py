# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A network of switches, hosts and jobs, as frozen data.

Its rules are in `rules/topology.py`; `derive/switch_configs.py` derives the configuration of each switch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import TypeVar

from sumwire_protocol.constants import SUMWIRE_PORT

from sumwire_controller.model.config import Aggregator, Job, Switch, VirtualQueue


@dataclass(frozen=True, slots=True)
class Node:
    """A switch of the network, with the address that its workers send to."""

    switch: Switch
    aggregator: Aggregator

    @property
    def name(self) -> str:
        return self.switch.name


@dataclass(frozen=True, slots=True)
class Link:
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


_Named = TypeVar("_Named", Node, Host)


@dataclass(frozen=True, slots=True)
class Topology:
    """The whole network. The workers of its jobs are names of hosts.

    Where several switches would do, the order of `switches` decides: the first of two spines carries ordinary traffic
    and has the even slots.
    """

    switches: tuple[Node, ...]
    links: tuple[Link, ...]
    hosts: tuple[Host, ...]
    jobs: tuple[Job, ...]
    queues: tuple[QueueAt, ...] = ()

    def node(self, name: str) -> Node:
        """:raises KeyError: no switch of that name."""
        return _named(self.switches, name)

    def host(self, name: str) -> Host:
        """:raises KeyError: no host of that name."""
        return _named(self.hosts, name)

    def link(self, lower: str, upper: str) -> Link:
        """:raises KeyError: these two have no link in this direction."""
        for link in self.links:
            if (link.lower, link.upper) == (lower, upper):
                return link
        raise KeyError((lower, upper))

    def uppers(self, name: str) -> tuple[str, ...]:
        """The names of the switches directly above, in the order of `switches`."""
        above = {link.upper for link in self.links if link.lower == name}
        return tuple(node.name for node in self.switches if node.name in above)

    def ports(self, name: str) -> Iterator[tuple[int, str]]:
        """(port, name of the neighbour) for each port in use: hosts first, then switches in order of `links`."""
        yield from ((host.port, host.name) for host in self.hosts if host.switch == name)
        for link in self.links:
            if link.lower == name:
                yield link.lower_port, link.upper
            elif link.upper == name:
                yield link.upper_port, link.lower

    def distances(self, start: str) -> dict[str, int]:
        """Name -> links on the shortest path from `start`, for every switch that can be reached, `start` included."""
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
