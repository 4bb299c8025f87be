# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Soft switches in this process, connected by function calls, as sources of merged signs.

Entries come from the real controller over real gRPC; frames go by hand. Several jobs, with different numbers of
workers, share the switches.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Final

import numpy as np
from golden.packets import Host, udp_frame
from softswitch.p4runtime.server import serve
from softswitch.switch import SoftSwitch
from sumwire.multihop.statistics import Signs
from sumwire.wire.packets import Header, pack, unpack
from sumwire_controller.deploy.operations import apply
from sumwire_controller.parse.files import parse_config
from sumwire_protocol import constants as p4

SLOTS: Final = 8
HOSTS_MAX: Final = 16
HOST_PORTS: Final = tuple(range(1, HOSTS_MAX + 1))
PORT_UP: Final = 101
PORT_DOWN: Final = 51
LOWER_BYTES: Final = p4.ETHERNET_BYTES + p4.IPV4_BYTES + p4.UDP_BYTES
PAYLOAD_AT: Final = LOWER_BYTES + p4.SUMWIRE_BYTES
SLOT_AT: Final = LOWER_BYTES + 4
ROUND_AT: Final = LOWER_BYTES + 8
VALUES: Final = p4.SLOT_WORDS * p4.WORD_BITS

Frames = list[tuple[int, bytes]]


@dataclass(frozen=True)
class Node:
    """One switch of a tree and what it does for a job: `hosts` of its own, then the switches below it."""

    name: str
    hosts: int = 0
    below: tuple[Node, ...] = ()

    @property
    def total(self) -> int:
        """Hosts here and below."""
        return self.hosts + sum(node.total for node in self.below)

    def walk(self) -> Iterator[Node]:
        """This one and all below."""
        yield self
        for node in self.below:
            yield from node.walk()


@dataclass(frozen=True)
class Seat:
    """A host's frame, to be given a slot and a round, and where it goes in."""

    switch: str
    port: int
    frame: bytearray

    def at(self, slot: int, round_: int) -> bytearray:
        """The frame of that slot and round; the same object each time."""
        struct.pack_into("!H", self.frame, SLOT_AT, slot)
        struct.pack_into("!I", self.frame, ROUND_AT, round_)
        return self.frame


@dataclass
class Network:
    """Running switches. `trees` are the jobs: job k + 1 is trees[k]."""

    trees: Sequence[Node]
    switches: Mapping[str, Callable[[int, bytes], Frames]]
    wires: Mapping[tuple[str, int], tuple[str, int]]
    sequence: dict[int, int] = field(default_factory=dict)

    def exchange(self, switch: str, port: int, frame: bytes) -> list[tuple[str, int, bytes]]:
        """Put a frame in at a port; all frames that reach a port without a switch behind it."""
        out: list[tuple[str, int, bytes]] = []
        waiting = [(switch, port, frame)]
        while waiting:
            at, entry, data = waiting.pop(0)
            for exit_, sent in self.switches[at](entry, bytes(data)):
                there = self.wires.get((at, exit_))
                if there is None:
                    out.append((at, exit_, sent))
                else:
                    waiting.append((*there, sent))
        return out

    def rounds(self, tree: int, signs: Signs, rounds: int) -> Signs:
        """A source: every round is one slot, all hosts in order. Checks that all hosts get equal results."""
        seats = seats_of(self.trees, tree, signs)
        first = self.sequence.get(tree, 0)
        self.sequence[tree] = first + rounds
        merged = np.empty((rounds, VALUES // 8), np.uint8)
        for k in range(rounds):
            round_, slot = divmod(first + k, SLOTS)
            for seat in seats:
                out = self.exchange(seat.switch, seat.port, seat.at(slot, round_))
            payloads = {frame[PAYLOAD_AT:] for _, _, frame in out}
            if len(payloads) != 1 or len(out) != len(seats):
                raise AssertionError(f"round {k}: {len(out)} results, {len(payloads)} different")
            merged[k] = np.frombuffer(payloads.pop(), np.uint8)
        header, _ = unpack(out[0][2][LOWER_BYTES:])
        if header.kind != p4.KIND_RESULT or header.count != len(seats):
            raise AssertionError(f"not the result of {len(seats)} workers: {header}")
        return np.unpackbits(merged, axis=1).astype(np.bool_)


def seats_of(trees: Sequence[Node], tree: int, signs: Signs) -> list[Seat]:
    """The hosts of a job with their signs, (hosts, VALUES), in their frames."""
    payloads = [np.packbits(row).tobytes() for row in signs]
    seats: list[Seat] = []
    for node in trees[tree].walk():
        for place in range(node.hosts):
            header = Header(p4.KIND_CONTRIBUTE, p4.OP_SIGN, tree + 1, 0, place, words=p4.SLOT_WORDS)
            data = pack(header, payloads[len(seats)])
            seats.append(Seat(node.name, place + 1, bytearray(_frame(node.name, place, data))))
    return seats


@contextlib.contextmanager
def soft_network(trees: Sequence[Node], *, seed: int) -> Iterator[Network]:
    """Soft switches for these jobs. A switch of one name is the same in all, always below the same one."""
    names = sorted({node.name for tree in trees for node in tree.walk()})
    above = {lower.name: node.name for tree in trees for node in tree.walk() for lower in node.below}
    with contextlib.ExitStack() as stack:
        devices = {name: SoftSwitch(seed=seed + k) for k, name in enumerate(names)}
        for name, device in devices.items():
            server = serve(device, "127.0.0.1:0", 1)
            stack.callback(server.stop)
            apply(parse_config(_config(name, trees, above, f"127.0.0.1:{server.port}")))
        wires = {}
        for lower, upper in above.items():
            up, down = (lower, PORT_UP), (upper, PORT_DOWN + names.index(lower))
            wires |= {up: down, down: up}
        yield Network(trees, {name: device.process for name, device in devices.items()}, wires)


def _number(name: str) -> int:
    """A number of its own for every switch: its place in the alphabet of one-letter names."""
    return ord(name) - ord("a") + 1


def _addresses(number: int, host: int) -> tuple[str, str]:
    """IP and MAC of a host (from 0) of switch `number`, or of its aggregator (host -1)."""
    return f"10.0.{number}.{host + 2}", f"02:00:00:00:{number:02x}:{host + 2:02x}"


def star_config(trees: Sequence[Node], grpc: str) -> str:
    """The file of a single switch whose hosts all share port 1."""
    (name,) = {node.name for tree in trees for node in tree.walk()}
    return _config(name, trees, {}, grpc, ports=[1] * HOSTS_MAX)


def _config(
    name: str, trees: Sequence[Node], above: Mapping[str, str], grpc: str, ports: Sequence[int] = HOST_PORTS
) -> str:
    """One switch's file: its own hosts on `ports`, lower switches from port 51, the one above on 101."""
    names = sorted({node.name for tree in trees for node in tree.walk()})
    lower = [other for other in names if above.get(other) == name]
    ip, mac = _addresses(_number(name), -1)
    lines = [
        f'switch: {{name: {name}, grpc: "{grpc}", device_id: 1}}',
        f'aggregator: {{ip: {ip}, mac: "{mac}"}}',
        f"ports: {[*sorted(set(ports)), *_ports_of(lower, names), PORT_UP]}",
        "workers:",
    ]
    for host in range(HOSTS_MAX):
        ip, mac = _addresses(_number(name), host)
        lines.append(f'  - {{name: h{host}, ip: {ip}, mac: "{mac}", port: {ports[host]}}}')
    for other, port in zip(lower, _ports_of(lower, names), strict=True):
        ip, mac = _addresses(_number(other), -1)
        line = f'{{name: {other}, ip: {ip}, mac: "{mac}", port: {port}, stands_for: {HOSTS_MAX}}}'
        lines.append(f"  - {line}")
    lines.append("jobs:")
    for k, tree in enumerate(trees):
        lines += _job(name, k, tree)
    return "\n".join(lines)


def _ports_of(lower: Sequence[str], names: Sequence[str]) -> list[int]:
    return [PORT_DOWN + names.index(other) for other in lower]


def _job(name: str, number: int, tree: Node) -> Iterator[str]:
    for node in tree.walk():
        if node.name != name:
            continue
        workers = [f"h{k}" for k in range(node.hosts)] + [lower.name for lower in node.below]
        weights = [1] * node.hosts + [lower.total for lower in node.below]
        yield f"  - name: job{number + 1}"
        yield f"    id: {number + 1}"
        yield "    ops: [sign]"
        yield f"    workers: [{', '.join(workers)}]"
        yield f"    slots: {{base: {number * SLOTS}, count: {SLOTS}}}"
        if node.below:
            yield f"    stands_for: {weights}"
        for parent in tree.walk():
            if node in parent.below:
                ip, mac = _addresses(_number(parent.name), -1)
                seat = parent.hosts + parent.below.index(node)
                yield f'    parents: [{{port: {PORT_UP}, ip: {ip}, mac: "{mac}", worker: {seat}}}]'


def _frame(switch: str, host: int, data: bytes) -> bytes:
    """Ethernet, IPv4 and UDP around a datagram from a host to its switch."""
    ends = (_addresses(_number(switch), one) for one in (host, -1))
    ours, theirs = (Host(0, bytes.fromhex(mac.replace(":", "")), IPv4Address(ip).packed) for ip, mac in ends)
    return udp_frame(ours, theirs, data)
