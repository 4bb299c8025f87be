# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Soft switches in a tree: the compiled program, the real controller, frames in process, hosts on loopback."""

from __future__ import annotations

import random
import socket
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from golden import model
from helpers.transport.udp_bridge import (
    TABLE,
    FrameSwitch,
    Impairer,
    Impairment,
    LoopbackServer,
    addresses,
    host,
    in_frames,
    mac_of,
    on_loopback,
    send_tagged,
    to_loopback,
)
from simulate.network import Place, Shape
from softswitch.p4runtime.server import serve
from softswitch.switch import SoftSwitch
from sumwire_controller.deploy.operations import bring_about
from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.switch import P4Switch
from sumwire_controller.derive.jobs import job_description
from sumwire_controller.derive.topology import configs_of
from sumwire_controller.model import Topology
from sumwire_controller.parse.files import parse_any

HOST_PORT = 1
# Of a switch's first wire upward.
UPLINK_PORT = 100


STAR = Shape({"s1": 4})
LEAF_SPINE = Shape({"leaf1": 4, "leaf2": 4}, {"leaf1": ("spine1",), "leaf2": ("spine1",)})
TWO_SPINES = Shape({"leaf1": 2, "leaf2": 3}, dict.fromkeys(("leaf1", "leaf2"), ("spine1", "spine2")))
THREE_LEVELS = Shape(
    {"leaf1": 2, "leaf2": 1, "leaf3": 2},
    {"leaf1": ("mid1",), "leaf2": ("mid1",), "leaf3": ("mid2",), "mid1": ("root",), "mid2": ("root",)},
)


class InProcess:
    """Frames in, frames out."""

    def __init__(self, device: SoftSwitch) -> None:
        self._device = device

    def receive(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        return [(out, bytes(sent)) for out, sent in self._device.process(port, frame)]


def topology_yaml(shape: Shape, grpc: Mapping[str, str], jobs: Mapping[str, int], queues: str, ops: str) -> str:
    """`jobs`: name -> slots; every job has these ops and all hosts. `queues`: virtual queues, as in the file."""
    _, ips = addresses(shape.workers)
    prefix = ips[0].rsplit(".", 1)[0]
    lines = ["switches:"]
    for number, name in enumerate(shape.switches):
        mac, ip = f"02:53:57:00:01:{number:02x}", in_frames(f"{prefix}.{200 + number}")
        aggregator = f'aggregator: {{ip: {ip}, mac: "{mac}"}}'
        lines.append(f'  - {{name: {name}, grpc: "{grpc[name]}", device_id: {number + 1}, {aggregator}}}')
    lines.append("links:" if shape.above else "links: []")
    for (lower, lower_port), (upper, upper_port) in shape.wires():
        lines.append(f"  - {{from: {lower}, from_port: {lower_port}, to: {upper}, to_port: {upper_port}}}")
    lines.append("hosts:")
    number = 0
    for leaf, hosts in shape.leaves.items():
        for seat in range(hosts):
            port = HOST_PORT + seat
            mac = mac_of(socket.inet_aton(in_frames(ips[number]))).hex(":")
            where = f"switch: {leaf}, port: {port}"
            lines.append(f'  - {{name: h{number}, ip: {in_frames(ips[number])}, mac: "{mac}", {where}}}')
            number += 1
    lines.append("jobs:")
    hosts_text = ", ".join(f"h{k}" for k in range(shape.workers))
    for number, (name, slots) in enumerate(jobs.items(), 1):
        lines += [
            f"  - name: {name}",
            f"    id: {number}",
            f"    ops: [{ops}]",
            f"    workers: [{hosts_text}]",
            f"    slots: {{base: {200 * number}, count: {slots}}}",
            f"    thc: {{bits: 4, p: 0.03125, table: {list(TABLE)}}}",
        ]
    lines.append(f"queues: [{queues}]")
    return "\n".join(lines) + "\n"


@dataclass
class TreeRig:
    """The switches with their control planes."""

    shape: Shape
    topology: Topology
    switches: dict[str, FrameSwitch]
    controls: dict[str, P4Switch]
    program: Program = field(default_factory=lambda: Program.load(None))
    renewals: int = 0

    def fresh_job(self, name: str) -> dict[str, Any]:
        """A job of a new generation on every switch, as the controller describes it to hosts, on loopback."""
        self.renewals += 1
        for config in configs_of(self.topology):
            now = 1_700_000_000 + self.renewals
            bring_about(config, self.controls[config.switch.name], self.program, [name], now=now)
        return to_loopback(job_description(self.topology, name))

    def bridge(
        self, mapping: dict[str, Any], impairment: Impairment | None = None, dead: frozenset[Place] = frozenset()
    ) -> TreeBridge:
        """Carries frames for a job file; ``dead``: ends of wires into which nothing goes."""
        leaves = {on_loopback(str(node.aggregator.ip)): node.name for node in self.topology.switches}
        return TreeBridge(mapping, leaves, self.switches, dict(self.shape.wires()), impairment, dead)


@contextmanager
def soft_tree(
    shape: Shape, jobs: Mapping[str, int], queues: str = "", ops: str = "thc, max32, sum32, sign, vote"
) -> Iterator[TreeRig]:
    """Running soft switches with an empty pipeline each; see :func:`topology_yaml`."""
    with ExitStack() as stack:
        devices = {name: SoftSwitch(seed=1 + number) for number, name in enumerate(shape.switches)}
        grpc = {}
        for number, (name, device) in enumerate(devices.items()):
            server = serve(device, "127.0.0.1:0", number + 1)
            stack.callback(server.stop)
            grpc[name] = f"127.0.0.1:{server.port}"
        topology = parse_any(topology_yaml(shape, grpc, jobs, queues, ops))
        assert isinstance(topology, Topology)
        controls = {}
        for node in topology.switches:
            controls[node.name] = P4Switch(node.switch)
            stack.callback(controls[node.name].close)
        yield TreeRig(shape, topology, {n: InProcess(d) for n, d in devices.items()}, controls)


class TreeBridge(LoopbackServer):
    """Serves the leaves' addresses of a job file. Every link is impaired in each direction: host to leaf, and between
    switches."""

    def __init__(
        self,
        mapping: dict[str, Any],
        leaves: Mapping[str, str],
        switches: Mapping[str, FrameSwitch],
        wires: Mapping[Place, Place],
        impairment: Impairment | None = None,
        dead: frozenset[Place] = frozenset(),
    ) -> None:
        used = {leaves[entry["aggregator"]]: entry["aggregator"] for entry in mapping["addresses"]}
        super().__init__(used)
        self._switches = switches
        self._wires = {**wires, **{upper: lower for lower, upper in wires.items()}}
        self._dead = dead
        self._impairment = impairment or Impairment()
        self._rng = random.Random(self._impairment.seed)
        self._impairers: dict[tuple[str, Place], Impairer] = {}
        self._hosts = {
            entry["ip"]: (leaves[entry["aggregator"]], host(entry["ip"], HOST_PORT + entry["seat"], entry["udp_port"]))
            for entry in mapping["addresses"]
        }
        self._aggregators = {name: host(ip, 99, model.UDP_PORT) for name, ip in used.items()}
        self.crossed = 0

    def _impaired(self, way: str, place: Place, item: Any) -> list[Any]:
        if (way, place) not in self._impairers:
            self._impairers[way, place] = Impairer(self._impairment, random.Random(self._rng.random()))
        return self._impairers[way, place].pass_on(item)

    def _arrived(self, name: str, datagram: bytes, sender: tuple[str, int], tos: int) -> None:
        if sender[0] not in self._hosts:
            return
        place, sent_by = self._hosts[sender[0]]
        assert place == name, f"{sender[0]} of {place} sends to {name}"
        for data in self._impaired("up", (name, sent_by.port), datagram):
            self._carry(name, sent_by.port, model.udp_frame(sent_by, self._aggregators[name], data, dscp_ecn=tos))

    def _carry(self, switch: str, port: int, frame: bytes) -> None:
        """A frame into a switch, and all that follows from it."""
        waiting = deque([(switch, port, frame)])
        while waiting:
            at, in_port, data = waiting.popleft()
            for out_port, out in self._switches[at].receive(in_port, data):
                place = (at, out_port)
                if place in self._dead:
                    continue
                if place in self._wires:
                    self.crossed += 1
                    waiting.extend((*self._wires[place], late) for late in self._impaired("wire", place, out))
                else:
                    for late in self._impaired("down", place, out):
                        self._tell(at, out_port, late)

    def _tell(self, leaf: str, port: int, frame: bytes) -> None:
        ip, udp_port = on_loopback(socket.inet_ntoa(frame[30:34])), int.from_bytes(frame[36:38])
        place, receiver = self._hosts[ip]
        assert (place, receiver.port) == (leaf, port), f"frame to {ip} left {leaf} by port {port}"
        send_tagged(self._sockets[leaf], frame, (ip, udp_port))
