# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Hosts, switches and links between them: every packet is a frame that the P4 program, or an aggregator, processes.

Links lose, duplicate, delay and hold back frames. Switches and links are down at times.
"""

from __future__ import annotations

import functools
import socket
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from golden import model
from golden.model import Host, udp_frame
from sumwire.config import JobConfig, parse_job
from sumwire.config.job_config import Branch
from sumwire_controller.derive.jobs import job_description
from sumwire_controller.derive.topology import configs_of
from sumwire_controller.model import Config, Topology
from sumwire_controller.parse.files import parse_any

from simulate.adversary import Adversary, turned
from simulate.machine import Address, Machine
from simulate.switches import Frames, History, Switch, cleared, install
from simulate.world import World

TABLE: Final = (0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30)
JOB: Final = "train"
KEY: Final = bytes(range(7, 39))
OPS: Final = ("thc", "max32", "min32", "sum32", "sign", "vote")
_FIRST_UPLINK: Final = 100
_SPARE_PORT: Final = 90
# Ethernet, IPv4 and UDP headers.
_UDP_END: Final = 42
Place = tuple[str, int]


@dataclass(frozen=True)
class Shape:
    """``leaves``: hosts of each lowest switch. ``above``: the switches above a switch."""

    leaves: Mapping[str, int]
    above: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def switches(self) -> list[str]:
        uppers = [name for names in self.above.values() for name in names]
        return list(dict.fromkeys([*reversed(uppers), *self.leaves]))

    @property
    def workers(self) -> int:
        return sum(self.leaves.values())

    def wires(self) -> list[tuple[Place, Place]]:
        """(lower switch, port), (upper switch, port)."""
        used: dict[str, int] = {}
        found = []
        for lower, uppers in self.above.items():
            for k, upper in enumerate(uppers):
                used[upper] = used.get(upper, 0) + 1
                found.append(((lower, _FIRST_UPLINK + k), (upper, used[upper])))
        return found


SHAPES: Final[dict[str, Shape]] = {
    **{f"star{workers}": Shape({"s1": workers}) for workers in (1, 2, 3, 4, 5)},
    "tree11": Shape({"leaf1": 1, "leaf2": 1}, {"leaf1": ("spine",), "leaf2": ("spine",)}),
    "tree21": Shape({"leaf1": 2, "leaf2": 1}, {"leaf1": ("spine",), "leaf2": ("spine",)}),
    "tree22": Shape({"leaf1": 2, "leaf2": 2}, {"leaf1": ("spine",), "leaf2": ("spine",)}),
    "spines21": Shape({"leaf1": 2, "leaf2": 1}, dict.fromkeys(("leaf1", "leaf2"), ("spine1", "spine2"))),
    "three": Shape(
        {"leaf1": 1, "leaf2": 1, "leaf3": 1},
        {"leaf1": ("mid1",), "leaf2": ("mid1",), "leaf3": ("mid2",), "mid1": ("root",), "mid2": ("root",)},
    ),
}


@dataclass(frozen=True)
class Terms:
    """What the configuration says of the job. ``keyed``: its packets have authentication tags. ``blind``: workers mask
    what they send. ``long_packets``: those of THC have 8192 values. ``slots``: of each lane. ``branches``: the switches
    of its tree are software aggregators. ``queue``: of :data:`QUEUES`, in front of every host and switch. ``degrade``:
    what the switch does to THC packets on purpose."""

    shape: str
    slots: int
    quorum: int
    spray: bool = False
    keyed: bool = False
    blind: bool = False
    lanes: int = 1
    branches: bool = False
    queue: str = ""
    degrade: str = ""
    long_packets: bool = False

    @property
    def cuts(self) -> bool:
        """Whether packets may lose their low planes on the way: workers do not know what their sums lack then."""
        return "trim: true" in QUEUES.get(self.queue, "") or "trim" in self.degrade


# Virtual queues: their rates are far below what a job sends, so they are long at once.
QUEUES: Final[dict[str, str]] = {
    "marks": "rate_mbit: 20, mark_bytes: 2000, drop_bytes: [40000, 40000, 60000, 60000], drop_all_bytes: 60000",
    "drops": "rate_mbit: 20, mark_bytes: 4000, drop_bytes: [3000, 4000, 8000, 12000], drop_all_bytes: 16000",
    "trims": "rate_mbit: 5, mark_bytes: 4000, drop_bytes: [2000, 2000, 4000, 8000], drop_all_bytes: 16000, trim: true",
}


@functools.cache
def _key_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder with a file of the key; it is there as long as this process."""
    folder = tempfile.TemporaryDirectory(prefix="simulate-")
    file = Path(folder.name, "job.key")
    file.touch(0o600)
    file.write_text(KEY.hex())
    return folder


@functools.cache
def topology_of(terms: Terms) -> Topology:
    shape = SHAPES[terms.shape]
    lines = ["switches:"]
    for number, name in enumerate(shape.switches):
        aggregator = f'{{ip: 10.0.1.{number + 1}, mac: "02:53:57:00:01:{number + 1:02x}"}}'
        lines.append(f'  - {{name: {name}, grpc: "127.0.0.1:1", device_id: {number + 1}, aggregator: {aggregator}}}')
    lines.append("links:" if shape.above else "links: []")
    lines += [f"  - {{from: {a}, from_port: {p}, to: {b}, to_port: {q}}}" for (a, p), (b, q) in shape.wires()]
    lines.append("hosts:")
    number = 0
    for leaf, hosts in shape.leaves.items():
        for seat in range(hosts):
            number += 1
            mac = f"00:00:00:00:00:{number:02x}"
            lines.append(
                f'  - {{name: h{number}, ip: 10.0.0.{number}, mac: "{mac}", switch: {leaf}, port: {seat + 1}}}'
            )
    names = ", ".join(f"h{k + 1}" for k in range(shape.workers))
    lines += [
        "jobs:",
        f"  - name: {JOB}",
        "    id: 7",
        f"    ops: [{', '.join((*OPS, *(('jumbo',) if terms.long_packets else ())))}]",
        f"    workers: [{names}]",
        f"    slots: {{base: 32, count: {terms.slots * terms.lanes}}}",
        f"    thc: {{bits: 4, p: 0.03125, table: {list(TABLE)}}}",
        *([f"    quorum: {terms.quorum}"] if terms.quorum < shape.workers else []),
        *(["    spray: hash"] if terms.spray else []),
        *([f"    lanes: {terms.lanes}"] if terms.lanes > 1 else []),
        *(["    blind: true"] if terms.blind else []),
        *([f"    key: {_key_folder().name}/job.key"] if terms.keyed else []),
    ]
    if terms.degrade:
        lines.append(f"    degrade: {{seed: 1, share: 0.1, mode: {terms.degrade}}}")
    if terms.queue:
        ports: list[Place] = [(leaf, seat + 1) for leaf, hosts in shape.leaves.items() for seat in range(hosts)]
        ports += [end for wire in shape.wires() for end in wire]
        lines.append("queues:")
        lines += [f"  - {{switch: {name}, port: {port}, {QUEUES[terms.queue]}}}" for name, port in ports]
    found = parse_any("\n".join(lines) + "\n")
    assert isinstance(found, Topology)
    return found


@functools.cache
def _configs(terms: Terms) -> tuple[Config, ...]:
    return tuple(configs_of(topology_of(terms)))


@functools.cache
def job_of(terms: Terms, worker: int) -> JobConfig:
    """What a worker reads in the job file that the controller writes."""
    config = parse_job(job_description(topology_of(terms), JOB), worker)
    return replace(config, tree=_branches(terms)) if terms.branches else config


def _branches(terms: Terms) -> tuple[Branch, ...]:
    """The tree of a job's aggregators. A lower one has the seat of its wire at the upper one."""
    ips = {node.name: str(node.aggregator.ip) for node in topology_of(terms).switches}
    wires = SHAPES[terms.shape].wires()
    return tuple(Branch(ips[lower], ips[upper], port - 1) for (lower, _), (upper, port) in wires)


@dataclass(frozen=True)
class Weather:
    """Shares of frames on each link in each direction. A held back one comes up to ``late_s`` later.

    ``flip``: one bit behind the UDP header is another one, and no checksum has seen it.
    """

    drop: float = 0.0
    duplicate: float = 0.0
    late: float = 0.0
    late_s: float = 0.05
    delay_s: tuple[float, float] = (0.0001, 0.0003)
    flip: float = 0.0


@dataclass
class HostPort:
    """A worker's machine."""

    host: Host
    leaf: str


class Way(NamedTuple):
    """To an address: the port, and the MAC address there."""

    port: int
    mac: bytes


class Node(Protocol):
    """A switch, or what stands in for one."""

    def process(self, port: int, frame: bytes) -> Frames: ...

    def clear(self, seed: int) -> None: ...


class Network:
    """All of it. ``down``: the links that carry nothing now, by either end's place; ``dead``: switches that are down.

    ``on_frame``: told of every frame that a switch gets and what leaves it because of it. ``on_wire``: told of every
    frame on a link: from which end to which, and after how many seconds each copy arrives; none does where it is lost.
    """

    def __init__(self, world: World, terms: Terms, weather: Weather) -> None:
        self.world = world
        self.terms = terms
        self.weather = weather
        self.shape = SHAPES[terms.shape]
        self.trains = False
        self.fills = 0.0
        self.native = self.fast = False
        self.machine: Machine
        self.down: set[Place] = set()
        self.dead: set[str] = set()
        self.on_frame: Callable[[str, int, bytes, Frames], None] | None = None
        self.on_wire: Callable[[str, str, bytes, list[float]], None] | None = None
        self.adversary: Adversary | None = None
        self.frames = 0
        self.generation = 0
        self.on_count: dict[int, list[Callable[[], None]]] = {}
        self.configs = _configs(terms)
        names = [config.switch.name for config in self.configs]
        switches = cleared(len(names), world.rng.randrange(1 << 62), lambda: int(world.now * 1e6) + 1_000_000)
        self.switches: dict[str, Node] = dict(zip(names, switches, strict=True))
        wires = self.shape.wires()
        self._across = {**dict(wires), **{upper: lower for lower, upper in wires}}
        self._hosts: dict[str, HostPort] = {}
        self._at: dict[Place, HostPort] = {}
        for node in topology_of(terms).hosts:
            host = Host(node.port, _mac(str(node.mac)), socket.inet_aton(str(node.ip)), node.udp_port)
            self._hosts[str(node.ip)] = self._at[node.switch, node.port] = HostPort(host, node.switch)
        self.aggregators = {
            node.name: Host(0, _mac(str(node.aggregator.mac)), socket.inet_aton(str(node.aggregator.ip)))
            for node in topology_of(terms).switches
        }
        self._ips = {socket.inet_ntoa(host.ip): host for host in self.aggregators.values()}
        self._history: History = ()
        self._install(switches, ())

    # -- what happens to switches ------------------------------------------------------------------------

    def apply(self, *, renew: bool = False) -> None:
        """The controller brings the entries to all switches that are up, and renews the job's generation if asked."""
        if self.dead:
            return
        switches = [node for node in self.switches.values() if isinstance(node, Switch)]
        if switches and self._install(switches, (JOB,) if renew else ()):
            self.generation += 1

    def _install(self, switches: Sequence[Switch], renew: Sequence[str]) -> bool:
        self._history += ("apply", *renew)
        return install(self.configs, switches, renew, self._history)

    def fail(self, name: str) -> None:
        self.dead.add(name)

    def recover(self, name: str, *, empty: bool) -> None:
        """A switch is up again. An empty one has no entries until the controller applies them."""
        self.dead.discard(name)
        if empty:
            self.switches[name].clear(self.world.rng.randrange(1 << 62))
            self._history += (f"new {name}",)
            self.generation += 1

    # -- frames ------------------------------------------------------------------------------------------

    def place_of(self, worker: int) -> Place:
        host = self._hosts[f"10.0.0.{worker + 1}"]
        return host.leaf, host.host.port

    def ways(self, name: str) -> dict[str, Way]:
        """From a switch to all addresses."""
        first = {name: 0}
        upcoming = deque([name])
        while upcoming:
            at = upcoming.popleft()
            for (switch, port), (other, _) in self._across.items():
                if switch == at and other not in first:
                    first[other] = port if at == name else first[at]
                    upcoming.append(other)
        found = {
            ip: Way(each.host.port if each.leaf == name else first[each.leaf], each.host.mac)
            for ip, each in self._hosts.items()
        }
        for switch, host in self.aggregators.items():
            found[socket.inet_ntoa(host.ip)] = Way(first[switch], host.mac)
        return found

    def send(self, source: Address, target: Address, data: bytes, tos: int) -> None:
        """A process sends a datagram."""
        sender = self._hosts[source[0]]
        receiver = self._ips.get(target[0]) or self._hosts[target[0]].host
        frame = udp_frame(
            Host(0, sender.host.mac, sender.host.ip, source[1]),
            Host(0, receiver.mac, receiver.ip, target[1]),
            data,
            dscp_ecn=tos,
        )
        place = sender.leaf, sender.host.port
        delays = self._carry(place, frame, partial(self.enter, *place))
        if self.on_wire is not None:
            self.on_wire(source[0], _end(place), frame, delays)

    def _carry(self, link: Place, frame: bytes, arrive: Callable[[bytes], None]) -> list[float]:
        """A frame crosses a link, or does not. Returns after how many seconds each copy arrives."""
        weather, rng, world = self.weather, self.world.rng, self.world
        if link in self.down or rng.random() < weather.drop:
            return []
        delays = []
        for _ in range(2 if rng.random() < weather.duplicate else 1):
            seconds = rng.uniform(*weather.delay_s)
            if weather.late and rng.random() < weather.late:
                seconds += rng.uniform(0, weather.late_s)
            world.after(seconds, partial(arrive, self._flipped(frame)))
            delays.append(seconds)
        return delays

    def _flipped(self, frame: bytes) -> bytes:
        rng, flip = self.world.rng, self.weather.flip
        if not flip or rng.random() >= flip:
            return frame
        at, bit = rng.randrange(_UDP_END, len(frame)), rng.randrange(8)
        return frame[:at] + bytes([frame[at] ^ 1 << bit]) + frame[at + 1 :]

    def enter(self, name: str, port: int, frame: bytes) -> None:
        """A frame arrives at a switch."""
        self.frames += 1
        for action in self.on_count.pop(self.frames, ()):
            action()
        if name in self.dead:
            return
        arriving = [(port, frame)]
        leaving = [out for _, one in turned(self.adversary, arriving) for out in self.switches[name].process(port, one)]
        if self.world.trace is not None:
            self.world.note(f"{name}:{port} {describe(frame)} -> {[(out, describe(sent)) for out, sent in leaving]}")
        if self.on_frame is not None:
            self.on_frame(name, port, frame, leaving)
        self.leave(name, leaving)

    def leave(self, name: str, leaving: Frames) -> None:
        """Frames leave a switch."""
        for out, sent in turned(self.adversary, leaving):
            place = name, out
            across = self._across.get(place)
            if across is not None:
                delays = [] if across in self.down else self._carry(place, sent, partial(self.enter, *across))
                to = _end(across)
            elif place in self._at:
                delays = self._carry(place, sent, partial(self._arrive, self._at[place]))
                to = socket.inet_ntoa(self._at[place].host.ip)
            else:
                continue
            if self.on_wire is not None:
                self.on_wire(_end(place), to, sent, delays)

    def _arrive(self, host: HostPort, frame: bytes) -> None:
        if frame[30:34] != host.host.ip or frame[12:14] != b"\x08\x00" or frame[23] != 17:
            return
        source = socket.inet_ntoa(frame[26:30]), int.from_bytes(frame[34:36])
        target = socket.inet_ntoa(frame[30:34]), int.from_bytes(frame[36:38])
        self.machine.deliver(target, frame[42 : 34 + int.from_bytes(frame[38:40])], source, frame[15])


def _end(place: Place) -> str:
    """A switch's end of a link, as tcpdump would be told it."""
    return f"{place[0]}-eth{place[1]}"


def describe(frame: bytes) -> str:
    """A frame in a trace."""
    if len(frame) < model.BARE or model.UDP_PORT not in (int.from_bytes(frame[34:36]), int.from_bytes(frame[36:38])):
        return f"{len(frame)} bytes"
    packet = model.decode(frame[42:])
    payload = f"{crc32(packet.payload):08x}" if packet.payload else ""
    return (
        f"kind{packet.kind} op{packet.op} w{packet.worker} slot{packet.slot} round{packet.round} count{packet.count}"
        f" of {packet.contributors:b} flags{packet.flags:x} bucket{packet.bucket} chunk{packet.chunk} {payload}"
    )


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))
