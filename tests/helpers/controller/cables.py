# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Soft switches in this process, connected as a topology says."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from golden import model
from helpers.controller.real_switches import soft_switch
from softswitch.switch import SoftSwitch
from sumwire_controller import apply_topology
from sumwire_controller.model import Topology


def placed(topology: Topology, addresses: dict[str, str]) -> Topology:
    """The topology with the addresses at which its switches really are."""
    return replace(
        topology,
        switches=tuple(
            replace(node, switch=replace(node.switch, grpc=addresses[node.name])) for node in topology.switches
        ),
    )


class Cables:
    """Soft switches connected as a topology says; `send` follows a frame until it has left the network."""

    def __init__(self, topology: Topology, devices: dict[str, SoftSwitch]) -> None:
        self.topology, self._devices = topology, devices
        self._ends = {end: other for link in topology.links for end, other in (link.ends, link.ends[::-1])}
        self._hosts = {(host.switch, host.port): host.name for host in topology.hosts}
        self.visited: set[str] = set()

    def send(self, host: str, frame: bytes) -> list[tuple[str, bytes]]:
        """(host, frame) of all that arrives."""
        start = self.topology.host(host)
        waiting, arrived = deque([(start.switch, start.port, frame)]), []
        while waiting:
            at, port, data = waiting.popleft()
            self.visited.add(at)
            for out_port, out in self._devices[at].process(port, data):
                if (at, out_port) in self._ends:
                    waiting.append((*self._ends[at, out_port], bytes(out)))
                else:
                    arrived.append((self._hosts[at, out_port], bytes(out)))
        return arrived


@contextmanager
def running(topology: Topology) -> Iterator[Cables]:
    """All switches of a topology in this process, with its entries."""
    with ExitStack() as stack:
        devices = {node.name: SoftSwitch(seed=1) for node in topology.switches}
        addresses = {
            node.name: stack.enter_context(soft_switch(devices[node.name], node.switch.device_id))
            for node in topology.switches
        }
        apply_topology(placed(topology, addresses))
        yield Cables(topology, devices)


def wire_host(cables: Cables, name: str) -> model.Host:
    host = cables.topology.host(name)
    return model.Host(host.port, bytes.fromhex(host.mac.replace(":", "")), host.ip.packed, udp_port=host.udp_port)
