# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Soft switches in this process, connected as a topology says."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from golden import model
from helpers.controller.real_switches import soft_switch
from numpy.typing import NDArray
from softswitch.switch import SoftSwitch
from sumwire_controller import apply_topology
from sumwire_controller.derive.topology import job_tree
from sumwire_controller.model import Job, Topology


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
        topology = placed(topology, addresses)
        apply_topology(topology)
        yield Cables(topology, devices)


def wire_host(cables: Cables, name: str) -> model.Host:
    host = cables.topology.host(name)
    return model.Host(host.port, bytes.fromhex(host.mac.replace(":", "")), host.ip.packed, udp_port=host.udp_port)


def contribution(
    cables: Cables, job: Job, name: str, slot: int, values: NDArray[Any], *, lane: int = 0, round_: int = 0
) -> bytes:
    """A SUM32 packet of a host to its own switch."""
    topology = cables.topology
    node = topology.node(topology.host(name).switch)
    seat = job_tree(topology, job).seat(node.name, name)
    packet = model.Packet(
        model.CONTRIBUTE, model.SUM32, job.id + lane, slot, seat, 1, round_, 0, 0, 8, bucket=1, chunk=slot,
        payload=values.astype(">i4").tobytes(),
    )  # fmt: skip
    host = wire_host(cables, name)
    to = model.Host(0, bytes.fromhex(node.aggregator.mac.replace(":", "")), node.aggregator.ip.packed)
    return model.udp_frame(replace(host, udp_port=host.udp_port + lane), to, packet.encode())


def check_sum(cables: Cables, job: Job, slot: int, lane: int = 0, round_: int = 0) -> set[str]:
    """All hosts contribute, and each gets the sum at its lane's port. Returns the spines that forwarded packets."""
    values = np.random.default_rng(slot).integers(-(2**20), 2**20, (len(job.workers), 256))
    cables.visited.clear()
    arrived = [
        found
        for name, mine in zip(job.workers, values, strict=True)
        for found in cables.send(name, contribution(cables, job, name, slot, mine, lane=lane, round_=round_))
    ]
    assert sorted(name for name, _ in arrived) == sorted(job.workers)
    for name, frame in arrived:
        packet, host = model.decode(frame[42:]), wire_host(cables, name)
        assert (frame[:6], int.from_bytes(frame[36:38])) == (host.mac, host.udp_port + lane)
        told = (packet.kind, packet.job, packet.round, packet.count)
        assert told == (model.RESULT, job.id + lane, round_, len(job.workers))
        assert np.frombuffer(packet.payload, ">i4").tolist() == values.sum(0).tolist()
    return {name for name in cables.visited if name.startswith("spine")}
