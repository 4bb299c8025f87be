# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trains through the packet loop in C, on veth pairs whose offloads are on."""

from __future__ import annotations

import errno
import logging
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
from commonlib.events import ProgramEvent
from helpers.logs import events_of
from helpers.softswitch.faults import FaultyLibrary
from helpers.softswitch.reflector import ReflectingSwitch, Reflector
from helpers.softswitch.trains import PACKET_VNET_HDR, PLAIN, UDP_L4, Told, segment, train_of
from helpers.softswitch.veths import SOL_PACKET, TIMEOUT_S, Host, ip, veth_pairs
from helpers.waiting import until
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw
from softswitch.events import SwitchEvent
from softswitch.native import ports as native_ports
from softswitch.native.ports import NativePortRunner, ProgramLock
from softswitch.runtime import interface as train_rules
from softswitch.runtime.engine import PortsSpec
from softswitch.runtime.impair import Impairment, ImpairmentSpec
from softswitch.runtime.interface import DEFAULT_TRAINS, PortCounters, TrainSpec

pytestmark = [pytest.mark.root, pytest.mark.cc]

ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
V4 = IP(src="10.9.0.1", dst="10.9.0.2", id=9, flags="DF")
DATAGRAM = UDP(sport=4000, dport=21335)
FLOWS: dict[str, Packet] = {
    "udp4": ETHER / V4 / DATAGRAM,
    "udp6": ETHER / IPv6(src="fd00::1", dst="fd00::2") / DATAGRAM,
    "tcp4": ETHER / V4 / TCP(sport=1, dport=2, flags="PA", options=[("Timestamp", (5, 6))]),
    "tcp6": ETHER / IPv6(src="fd00::1", dst="fd00::2") / TCP(sport=1, dport=2, flags="FA"),
}


def flow(name: str, payload: int, number: int = 0) -> Packet:
    return FLOWS[name] / Raw(number.to_bytes(4) + bytes(k * 7 % 256 for k in range(payload - 4)))


class TrainHost(Host):
    """A host that sends and receives trains."""

    def __init__(self, interface: str) -> None:
        super().__init__(interface)
        self.socket.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)

    def send(self, told: Told, frame: bytes) -> None:
        assert self.socket.send(told.pack() + frame) == len(told.pack()) + len(frame)

    def send_packets(self, packets: Sequence[bytes]) -> None:
        for packet in packets:
            self.send(Told(), packet)

    def receive(self) -> tuple[Told, bytes]:
        """A frame, and what is told of it but the length of its headers, in which the kernel counts what it likes."""
        told, frame = Told.split(self.socket.recv(70000))
        return replace(told, head_bytes=0), frame

    def receive_packets(self, count: int) -> list[bytes]:
        """Packets, also those of trains, until there are ``count``."""
        packets: list[bytes] = []
        while len(packets) < count:
            told, frame = self.receive()
            packets += segment(Ether(frame), told.size) if told.kind != PLAIN else [frame]
        return packets


class Rig:
    """A running reflector on ``wires``, and a host at each end."""

    def __init__(self, wires: dict[int, str], runner: NativePortRunner, lock: ProgramLock) -> None:
        self.wires, self.runner, self.lock = wires, runner, lock
        self.hosts: dict[int, TrainHost] = {}

    def counted(self, port: int, *names: str) -> tuple[int, ...]:
        counters: PortCounters = self.runner.counters[port]
        return tuple(getattr(counters, name) for name in names)


@contextmanager
def rig(
    wires: dict[int, str], impairment: ImpairmentSpec | None = None, trains: TrainSpec = DEFAULT_TRAINS
) -> Iterator[Rig]:
    with ExitStack() as stack:
        lock, machine = ProgramLock(), stack.enter_context(Reflector(mark=0))
        hosts = {number: stack.enter_context(TrainHost(name)) for number, name in wires.items()}
        lock.run(machine.address)
        runner = NativePortRunner(ReflectingSwitch(), lock, PortsSpec(wires, impairment, trains=trains))
        made = Rig(wires, runner, lock)
        made.hosts = hosts
        stack.enter_context(runner)
        yield made


def received_as(whole: Packet, size: int) -> tuple[Told, bytes]:
    """What :meth:`TrainHost.receive` returns of a train."""
    told, frame = train_of(whole, size)
    return replace(told, head_bytes=0), frame


# -- whole trains ------------------------------------------------------------


@pytest.mark.parametrize("name", FLOWS)
@pytest.mark.parametrize(("payload", "size"), [(64 * 536, 536), (5001, 1000), (900, 300), (62 * 1048, 1048)])
def test_a_train_passes_as_a_train(wires: dict[int, str], name: str, payload: int, size: int) -> None:
    packets = segment(flow(name, payload), size)
    with rig(wires) as made:
        made.hosts[1].send(*train_of(flow(name, payload), size))
        assert made.hosts[2].receive() == received_as(flow(name, payload), size)
        assert made.counted(1, "rx_frames", "rx_bytes", "rx_trains") == (len(packets), sum(map(len, packets)), 1)
        assert made.counted(2, "tx_frames", "tx_bytes", "tx_trains") == (len(packets), sum(map(len, packets)), 1)


def test_a_train_with_a_vlan_tag_is_cut(wires: dict[int, str]) -> None:
    """The tag says to the reflector: one copy to port 2."""
    whole = ETHER / Dot1Q(vlan=0x0201) / V4 / DATAGRAM / Raw(bytes(range(250)) * 8)
    told, frame = train_of(whole, 500)
    with rig(wires) as made:
        made.hosts[1].send(told, frame)
        until(lambda: made.counted(2, "tx_frames") == (4,))
        # The host's kernel takes the tag off again.
        expected = [packet[:12] + packet[16:] for packet in segment(whole, 500)]
        assert made.hosts[2].receive_packets(4) == expected
        assert made.counted(1, "rx_bytes") == (sum(len(packet) + 4 for packet in expected),)


def test_a_packet_without_its_checksum_is_finished(wires: dict[int, str]) -> None:
    told, frame = train_of(flow("udp4", 700), 1472)
    with rig(wires) as made:
        made.hosts[1].send(told, frame)
        assert made.hosts[2].receive() == (Told(), segment(flow("udp4", 700), 1472)[0])
        assert made.counted(1, "rx_trains") == (0,)


def test_packets_one_by_one_leave_joined(wires: dict[int, str]) -> None:
    whole = flow("udp4", 20 * 500)
    with rig(wires) as made:
        with made.lock:
            made.hosts[1].send_packets(segment(whole, 500))
        assert made.hosts[2].receive() == received_as(whole, 500)
        assert made.counted(1, "rx_frames", "rx_trains") == (20, 0)
        assert made.counted(2, "tx_frames", "tx_trains") == (20, 1)


def test_the_order_of_a_port_is_kept(wires: dict[int, str]) -> None:
    trains = [(flow(name, payload, number), size) for number, (name, payload, size) in enumerate(
        [("udp4", 9000, 900), ("tcp4", 3000, 1000), ("udp4", 300, 900), ("udp6", 5000, 1), ("udp4", 9001, 900)] * 4
    ) if size > 1]  # fmt: skip
    expected = [packet for whole, size in trains for packet in segment(whole, size)]
    with rig(wires) as made:
        with made.lock:
            for number, (whole, size) in enumerate(trains):
                if number % 3 == 1:
                    made.hosts[1].send_packets(segment(whole, size))
                else:
                    made.hosts[1].send(*train_of(whole, size))
        assert made.hosts[2].receive_packets(len(expected)) == expected
        assert made.counted(2, "tx_frames", "tx_bytes") == (len(expected), sum(map(len, expected)))


@pytest.mark.long
def test_bursts_from_16_ports_lose_nothing() -> None:
    """From each port eight trains of 64 packets and 64 single ones, while the loop does not run."""
    whole = flow("udp4", 62 * 1048)
    singles = segment(flow("udp4", 64 * 1000), 1000)
    with veth_pairs(16) as wires, rig(wires) as made:
        with made.lock:
            for host in made.hosts.values():
                for _ in range(8):
                    host.send(*train_of(whole, 1048))
                host.send_packets(singles)
        for host in made.hosts.values():
            assert len(host.receive_packets(8 * 62 + 64)) == 8 * 62 + 64
        for number in wires:
            assert made.counted(number, "rx_frames", "rx_dropped", "tx_dropped") == (560, 0, 0)


def test_a_train_that_finds_no_room_is_counted_by_packets(
    wires: dict[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_ports, "RING_BYTES", 1 << 18)
    told, frame = train_of(flow("udp4", 64 * 1000), 1000)
    with rig(wires) as made:
        with made.lock:
            for _ in range(40):
                made.hosts[1].send(told, frame)
        until(lambda: sum(made.counted(1, "rx_frames", "rx_dropped")) == 40 * 64)
        received, dropped = made.counted(1, "rx_frames", "rx_dropped")
        assert 0 < dropped < 40 * 64
        assert len(made.hosts[2].receive_packets(received)) == received
        # The queue goes on where it was.
        made.hosts[1].send(*train_of(flow("udp4", 5000, 7), 1000))
        assert made.hosts[2].receive() == received_as(flow("udp4", 5000, 7), 1000)


# -- limits ------------------------------------------------------------------


@pytest.mark.parametrize(("mbit", "counts"), [(100.0, [11, 11, 11, 7]), (10.0, [1] * 40), (None, [40])])
def test_a_trains_length_follows_the_links_rate(wires: dict[int, str], mbit: float | None, counts: list[int]) -> None:
    whole = flow("udp4", 40 * 536)
    with rig(wires, trains=TrainSpec(mbit)) as made:
        made.hosts[1].send(*train_of(whole, 536))
        received = [made.hosts[2].receive() for _ in counts]
    assert [-(-(len(frame) - 42) // 536) for _, frame in received] == counts


def test_the_interfaces_speed_counts_where_it_is_lower(wires: dict[int, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train_rules, "UNKNOWN_MBIT", 10.0)
    monkeypatch.setattr(train_rules, "_SPEED", "/nothing/{}")
    with rig(wires) as made:
        made.hosts[1].send(*train_of(flow("udp4", 1000), 500))
        assert [len(made.hosts[2].receive()[1]) for _ in range(2)] == [542, 542]


def test_packets_beyond_the_mtu_are_refused_one_by_one(wires: dict[int, str]) -> None:
    ip("link", "set", wires[2], "mtu", "500")
    with rig(wires) as made:
        made.hosts[1].send(*train_of(flow("udp4", 4200), 1000))
        made.hosts[1].send(*train_of(flow("udp4", 800), 400))
        assert len(made.hosts[2].receive()[1]) == 242  # the short end of the first train
        assert made.hosts[2].receive() == received_as(flow("udp4", 800), 400)
        assert made.counted(2, "tx_refused", "tx_frames", "tx_trains") == (4, 3, 1)


def test_an_interface_that_is_down_loses_packets_not_trains(wires: dict[int, str]) -> None:
    with rig(wires) as made:
        ip("link", "set", wires[2], "down")
        made.hosts[1].send(*train_of(flow("udp4", 5000), 500))
        until(lambda: made.counted(2, "tx_dropped") == (10,))
        assert made.counted(2, "tx_frames", "tx_trains") == (0, 0)


def told_once(caplog: pytest.LogCaptureFixture) -> str:
    (record,) = caplog.records
    return record.getMessage()


def test_what_cannot_be_cut_is_counted_and_told_once(wires: dict[int, str], caplog: pytest.LogCaptureFixture) -> None:
    fragment = ETHER / IP(src="10.9.0.1", dst="10.9.0.2", flags="MF") / TCP(sport=1, dport=2) / Raw(bytes(3000))
    with rig(wires) as made, caplog.at_level(logging.WARNING, "softswitch.ports"):
        for _ in range(3):
            made.hosts[1].send(*train_of(fragment, 1000))
        made.hosts[1].send(*train_of(flow("udp4", 700), 1472))
        assert made.hosts[2].receive_packets(1) == segment(flow("udp4", 700), 1472)
        assert made.counted(1, "rx_refused", "rx_frames") == (3, 1)
        until(lambda: len(caplog.records) == 1)
    assert f"port 1 on {wires[1]}" in told_once(caplog)
    assert "ethtool -K IFACE tx off" in told_once(caplog)
    assert events_of(caplog.records) == [SwitchEvent.FRAMES_DROPPED]


# -- without trains ----------------------------------------------------------


def test_ports_that_want_no_trains(wires: dict[int, str], caplog: pytest.LogCaptureFixture) -> None:
    """Only finished packets are right then: the rest is as the sender left it, or too long."""
    packets = segment(flow("udp4", 5000), 1000)
    with rig(wires, trains=TrainSpec(allowed=False)) as made, caplog.at_level(logging.WARNING, "softswitch.ports"):
        made.hosts[1].send(*train_of(flow("udp4", 5000), 1000))
        with made.lock:
            made.hosts[1].send_packets(packets)
        assert [made.hosts[2].receive() for _ in packets] == [(Told(), packet) for packet in packets]
        assert made.counted(1, "rx_cut", "rx_frames") == (1, 5)
        assert made.counted(2, "tx_frames", "tx_trains") == (5, 0)
        until(lambda: len(caplog.records) == 1)
    assert "rx_cut" in told_once(caplog)


def test_a_kernel_that_passes_no_trains(
    wires: dict[int, str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = FaultyLibrary(native_ports.port_library())
    monkeypatch.setattr(native_ports, "port_library", lambda: library)
    library.refuse_unfinished(errno.ENOPROTOOPT)
    packets = segment(flow("udp4", 5000), 1000)
    with caplog.at_level(logging.WARNING, "softswitch.ports"), rig(wires) as made:
        with made.lock:
            made.hosts[1].send_packets(packets)
        assert [made.hosts[2].receive() for _ in packets] == [(Told(), packet) for packet in packets]
    assert "the kernel passes no trains" in told_once(caplog)


def test_an_interface_that_takes_no_trains(
    wires: dict[int, str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with UDP before Linux 6.2: nothing is lost, and from then on packets leave one by one."""
    monkeypatch.setattr(native_ports, "port_library", FaultyLibrary.without_trains(UDP_L4, errno.EINVAL))
    whole = flow("udp4", 5000)
    packets = [*segment(whole, 1000), *segment(flow("tcp4", 3000), 1000)]
    with caplog.at_level(logging.WARNING, "softswitch.ports"), rig(wires) as made:
        for _ in range(2):
            made.hosts[1].send(*train_of(whole, 1000))
            made.hosts[1].send(*train_of(flow("tcp4", 3000), 1000))
            assert made.hosts[2].receive_packets(8) == packets
        until(lambda: len(caplog.records) == 1)
        assert made.counted(2, "tx_frames", "tx_refused", "tx_dropped") == (16, 0, 0)
    assert f"port 2 on {wires[2]}: the interface takes no trains" in told_once(caplog)
    assert events_of(caplog.records) == [ProgramEvent.TRAINS_MISSING]


# -- impairments -------------------------------------------------------------


def test_packets_of_trains_are_hit_like_others(wires: dict[int, str]) -> None:
    spec = ImpairmentSpec(drop=0.2, dup=0.2, seed=11)
    inbound, outbound = Impairment(spec, "1 rx"), Impairment(spec, "2 tx")
    wholes = [flow("udp4", 40 * 500, number) for number in range(10)]
    packets = [packet for whole in wholes for packet in segment(whole, 500)]
    expected = [two for packet in packets for one in inbound.push(packet, 0) for two in outbound.push(one, 0)]
    with rig(wires, spec) as made:
        for whole in wholes:
            made.hosts[1].send(*train_of(whole, 500))
        assert made.hosts[2].receive_packets(len(expected)) == expected
        assert made.counted(1, "rx_frames") == (400,)
        assert made.counted(2, "tx_frames", "tx_trains") == (len(expected), 0)


# -- real hosts --------------------------------------------------------------


@contextmanager
def namespaces(wires: dict[int, str]) -> Iterator[list[str]]:
    """The peers of ports 1 and 2 in namespaces, with the addresses 10.9.0.1 and 10.9.0.2. Offloads are as they are."""
    names: list[str] = []
    try:
        for number in (1, 2):
            name = f"{wires[number]}n"
            ip("netns", "add", name)
            names.append(name)
            ip("link", "set", f"{wires[number]}p", "netns", name)
            ip("-n", name, "address", "add", f"10.9.0.{number}/24", "dev", f"{wires[number]}p")
            ip("-n", name, "link", "set", f"{wires[number]}p", "up")
            ip("link", "set", wires[number], "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def start(namespace: str, program: str, *arguments: object) -> subprocess.Popen[str]:
    command = ["ip", "netns", "exec", namespace, sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


_RECEIVE = """
import hashlib, socket, sys
kind, size = sys.argv[1], int(sys.argv[2])
got, largest = bytearray(), 0
if kind == "tcp":
    server = socket.create_server(("10.9.0.2", 5201))
    print("ready", flush=True)
    link = server.accept()[0]
else:
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.setsockopt(socket.IPPROTO_UDP, 104, 1)  # UDP_GRO
    link.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)
    link.bind(("10.9.0.2", 5201))
    link.settimeout(10)
    print("ready", flush=True)
while len(got) < size:
    part, sender = link.recvfrom(1 << 20)
    if not part:
        break
    largest = max(largest, len(part))
    got += part
    if kind == "udp" and (len(got) % 60000 == 0 or len(got) == size):
        link.sendto(b"+", sender)
print(hashlib.sha256(got).hexdigest(), largest)
"""
_SEND = """
import hashlib, random, socket, sys
kind, size = sys.argv[1], int(sys.argv[2])
data = random.Random(1).randbytes(size)
if kind == "tcp":
    socket.create_connection(("10.9.0.2", 5201)).sendall(data)
else:
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.setsockopt(socket.IPPROTO_UDP, 103, 1000)  # UDP_SEGMENT
    link.connect(("10.9.0.2", 5201))
    for start in range(0, size, 60000):
        link.send(data[start : start + 60000])
        link.recv(1)  # The receiver has it: no buffer on the way overflows.
print(hashlib.sha256(data).hexdigest())
"""


@pytest.mark.parametrize(("kind", "size"), [("tcp", 20 << 20), ("udp", 3_000_000)])
def test_hosts_keep_their_offloads(kind: str, size: int) -> None:
    with veth_pairs(2) as wires, ExitStack() as stack:
        lock, machine = ProgramLock(), stack.enter_context(Reflector(mark=0))
        lock.run(machine.address)
        one, two = stack.enter_context(namespaces(wires))
        runner = stack.enter_context(NativePortRunner(ReflectingSwitch(), lock, PortsSpec(wires)))
        with start(two, _RECEIVE, kind, size) as receiver:
            assert receiver.stdout is not None
            assert receiver.stdout.readline() == "ready\n"
            with start(one, _SEND, kind, size) as sender:
                sent, _ = sender.communicate(timeout=3 * TIMEOUT_S)
            received, _ = receiver.communicate(timeout=3 * TIMEOUT_S)
        counters = runner.counters
        assert received.split()[0] == sent.strip()
        assert int(received.split()[1]) > 1500, "the socket got trains"
        assert counters[1].rx_trains >= size // 65536
        assert counters[2].tx_trains >= size // 65536
        assert counters[1].rx_frames == counters[2].tx_frames
        assert (counters[1].rx_dropped, counters[1].rx_refused, counters[2].tx_dropped) == (0, 0, 0)
