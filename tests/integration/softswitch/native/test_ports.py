# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The packet loop in C on veth pairs, below any P4 program. What the ports of both engines have in
common is in ../test_ports.py."""

from __future__ import annotations

import logging
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers.softswitch.reflector import MARK_BYTE, ReflectingSwitch, Reflector, frame
from helpers.softswitch.veths import SOL_PACKET, TIMEOUT_S, Host, ip, veth_pairs
from helpers.waiting import until
from softswitch.native import ports as native_ports
from softswitch.native.ports import NativePortRunner, ProgramLock
from softswitch.runtime.engine import PortsSpec
from softswitch.runtime.impair import Impairment, ImpairmentSpec
from softswitch.runtime.interface import AUXDATA_SPACE, DEFAULT_TRAINS, PACKET_AUXDATA, PortError, TrainSpec

pytestmark = [pytest.mark.root, pytest.mark.cc]

CPU_PORT = 510
SPIN_NS = 1_000_000


@dataclass
class Rig:
    lock: ProgramLock
    machine: Reflector
    switch: ReflectingSwitch
    runner: NativePortRunner
    hosts: dict[int, Host]

    def send(self, port: int, data: bytes) -> None:
        self.hosts[port].socket.send(data)

    def receive(self, port: int) -> bytes:
        return self.hosts[port].socket.recv(65536)


@contextmanager
def rig(
    wires: dict[int, str],
    impairment: ImpairmentSpec | None = None,
    on_failure: Callable[[BaseException], None] | None = None,
    spin_ns: int = 0,
    switch: ReflectingSwitch | None = None,
    trains: TrainSpec = DEFAULT_TRAINS,
) -> Iterator[Rig]:
    """A running reflector on ``wires``, and a host at each end."""
    lock, switch = ProgramLock(), switch or ReflectingSwitch(CPU_PORT)
    hosts = {number: Host(name) for number, name in wires.items()}
    try:
        with Reflector(spin_ns=spin_ns) as machine:
            lock.run(machine.address)
            with NativePortRunner(switch, lock, PortsSpec(wires, impairment, on_failure, trains)) as runner:
                yield Rig(lock, machine, switch, runner, hosts)
    finally:
        for host in hosts.values():
            host.socket.close()


def numbered(number: int, port: int, copies: int = 1, length: int = 60) -> bytes:
    made = frame(port, copies, length=length)
    return made[:20] + struct.pack(">I", number) + made[24:]


def number_of(data: bytes) -> int:
    return int.from_bytes(data[20:24])


# -- sending -----------------------------------------------------------------


def test_every_port_gets_its_frames_in_order(wires: dict[int, str]) -> None:
    with rig(wires) as made:
        with made.lock:  # so that the ring holds more than a batch when the loop comes in
            for number in range(1000):
                made.send(1, numbered(number, *((1, 2) if number % 3 == 0 else (2, 1))))
        assert [number_of(made.receive(2)) for _ in range(1000)] == list(range(1000))
        assert [number_of(made.receive(1)) for _ in range(334)] == list(range(0, 1000, 3))
    counters = made.runner.counters
    assert (counters[1].rx_frames, counters[1].rx_bytes) == (1000, 60000)
    assert [(counters[port].tx_frames, counters[port].tx_bytes) for port in (1, 2)] == [(334, 20040), (1000, 60000)]


def test_more_frames_than_the_loop_collects(wires: dict[int, str]) -> None:
    with rig(wires) as made:
        with made.lock:
            for number in range(60):
                made.send(1, numbered(number, 1, copies=200))  # 12000, most for ports that are not there
        for port in (1, 2):
            assert [number_of(made.receive(port)) for _ in range(60)] == list(range(60))


def test_more_bytes_than_the_loop_collects(wires: dict[int, str]) -> None:
    for name in wires.values():
        for end in (name, f"{name}p"):
            ip("link", "set", end, "mtu", "60000")
    with rig(wires) as made:
        with made.lock:
            for number in range(30):
                made.send(1, numbered(number, 1, copies=2, length=60000))
        for port in (1, 2):
            received = [made.receive(port) for _ in range(30)]
            assert [number_of(data) for data in received] == list(range(30))
            assert {len(data) for data in received} == {60000}


def test_a_frame_that_is_refused_does_not_stop_those_behind_it(wires: dict[int, str]) -> None:
    ip("link", "set", wires[2], "mtu", "500")
    with rig(wires) as made:
        with made.lock:
            for number in range(40):
                made.send(1, numbered(number, 2, length=1000 if number % 4 < 2 else 100))
        assert [number_of(made.receive(2)) for _ in range(20)] == [n for n in range(40) if n % 4 >= 2]
    assert (made.runner.counters[2].tx_frames, made.runner.counters[2].tx_refused) == (20, 20)


def test_a_packet_out_leaves_by_its_port_alone(wires: dict[int, str]) -> None:
    with rig(wires) as made:
        assert made.switch.transmit is not None
        with made.lock:  # as the switch does
            made.switch.transmit(7, frame(7))
            made.switch.transmit(2, frame(2, mark=9))
        assert made.receive(2)[MARK_BYTE] == 9
        assert [counters.tx_frames for counters in made.runner.counters.values()] == [0, 1]
    assert made.switch.transmit is None


# -- receiving ---------------------------------------------------------------


@pytest.mark.parametrize(("kind", "length"), [(0x8100, 1500), (0x88A8, 1496)])
def test_a_vlan_tag_is_put_back_up_to_the_mtu(wires: dict[int, str], kind: int, length: int) -> None:
    # Linux sends four bytes more than the MTU for the first kind only. The tag's own bytes tell the reflector what to
    # do: one copy to port 2.
    addresses, tag, payload = bytes(range(1, 13)), 0x0201, (bytes(range(250)) * 6)[:length]
    with rig(wires) as made:
        taker = made.hosts[2].socket
        taker.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        made.send(1, addresses + struct.pack(">HHH", kind, tag, 0x0800) + payload)
        # The host's own kernel takes the tag off again.
        data, [(_, _, auxdata)], *_ = taker.recvmsg(65536, AUXDATA_SPACE)
        assert data == addresses + b"\x09\x00" + payload
        assert struct.unpack("IIIHHHH", auxdata)[5:] == (tag, kind)
    assert made.runner.counters[1].rx_bytes == made.runner.counters[2].tx_bytes == 14 + 4 + length


def test_longer_frames_than_the_mtu_was_are_counted_and_told_once(
    wires: dict[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    with rig(wires, trains=TrainSpec(allowed=False)) as made, caplog.at_level(logging.WARNING, "softswitch.ports"):
        for end in (wires[1], f"{wires[1]}p"):
            ip("link", "set", end, "mtu", "4000")
        for _ in range(5):
            made.send(1, frame(2, length=3000))
        made.send(1, frame(2))
        assert len(made.receive(2)) == 60
        counters = made.runner.counters[1]
        until(lambda: len(caplog.records) > 0)
    assert (counters.rx_cut, counters.rx_frames) == (5, 1)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1
    assert f"port 1 on {wires[1]}" in told[0]


def test_longer_frames_than_the_mtu_was_come_as_trains_do(wires: dict[int, str]) -> None:
    with rig(wires) as made:
        for name in wires.values():
            for end in (name, f"{name}p"):
                ip("link", "set", end, "mtu", "4000")
        for number, length in enumerate((3000, 60, 3000)):
            made.send(1, numbered(number, 2, length=length))
        assert [(number_of(data), len(data)) for data in (made.receive(2) for _ in range(3))] == [
            (0, 3000), (1, 60), (2, 3000),
        ]  # fmt: skip
        assert (made.runner.counters[1].rx_cut, made.runner.counters[1].rx_frames) == (0, 3)


def test_what_the_ring_cannot_hold_is_counted(wires: dict[int, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_ports, "RING_BYTES", 1 << 18)
    with rig(wires) as made:
        with made.lock:
            for number in range(1000):
                made.send(1, numbered(number, 2))
        numbers = [number_of(made.receive(2)) for _ in range(100)]
        # By now the ring has room again, and goes on where it was.
        made.send(1, numbered(5000, 2))
        numbers += iter(lambda: number_of(made.receive(2)), 5000)
    received = len(numbers)
    assert numbers == list(range(received))
    counters = made.runner.counters[1]
    assert 100 < received < 1000
    assert received + counters.rx_dropped == 1000


def test_the_ring_goes_round(wires: dict[int, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_ports, "RING_BYTES", 1 << 19)
    with rig(wires) as made:
        for start in range(0, 3000, 50):
            for number in range(start, start + 50):
                made.send(1, numbered(number, 2))
            assert [number_of(made.receive(2)) for _ in range(50)] == list(range(start, start + 50))


def test_without_a_program_frames_are_dropped(wires: dict[int, str]) -> None:
    with rig(wires) as made:
        made.lock.run(None)
        made.send(1, frame(2))
        until(lambda: made.runner.counters[1].rx_frames == 1)
        made.lock.run(made.machine.address)
        made.send(1, frame(2, mark=3))
        assert made.receive(2)[MARK_BYTE] == 4


def test_timestamps_count_from_the_gates_start(wires: dict[int, str]) -> None:
    start_ns = time.monotonic_ns()
    switch = ReflectingSwitch()
    with Reflector() as machine, Host(wires[1]) as one, Host(wires[2]) as two:
        lock = ProgramLock(start_ns)
        lock.run(machine.address)
        with NativePortRunner(switch, lock, PortsSpec(wires)):
            before_us = (time.monotonic_ns() - start_ns) // 1000
            one.socket.send(frame(2))
            two.socket.recv(2048)
            assert before_us <= machine.last_us <= (time.monotonic_ns() - start_ns) // 1000


# -- the CPU port ------------------------------------------------------------


def test_frames_of_the_cpu_port_go_to_python(wires: dict[int, str]) -> None:
    with rig(wires) as made:
        for number in range(300):
            made.send(1, numbered(number, CPU_PORT))
        until(lambda: made.runner.counters[1].rx_frames == 300)
    # Stopped: all of them were delivered.
    made.runner.stop()  # nothing more to do
    assert [number_of(data) for data in made.switch.cpu_frames] == list(range(300))
    assert made.runner.cpu_dropped == 0


class SlowSwitch(ReflectingSwitch):
    """Takes no frame of the CPU port until the test allows it."""

    def __init__(self) -> None:
        super().__init__(CPU_PORT)
        self.may = threading.Event()

    def to_cpu(self, frame: bytes) -> None:
        assert self.may.wait(TIMEOUT_S)
        super().to_cpu(frame)


def test_a_slow_taker_of_packet_ins_does_not_hold_up_the_others(
    wires: dict[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_ports, "MAIL_BUFFER_BYTES", 1 << 16)
    switch = SlowSwitch()
    with rig(wires, switch=switch) as made:
        for number in range(2000):
            made.send(1, numbered(number, CPU_PORT))
        made.send(1, numbered(2000, 2))
        assert number_of(made.receive(2)) == 2000
        dropped = made.runner.cpu_dropped
        switch.may.set()
    assert 0 < dropped < 2000
    taken = [number_of(data) for data in switch.cpu_frames]
    assert len(taken) == 2000 - dropped
    assert taken == sorted(set(taken))
    assert made.runner.cpu_dropped == dropped


# -- impairments -------------------------------------------------------------


def test_the_same_frames_are_hit_as_in_python(wires: dict[int, str]) -> None:
    spec = ImpairmentSpec(drop=0.2, dup=0.2, seed=11)
    inbound, outbound = Impairment(spec, "1 rx"), Impairment(spec, "2 tx")
    with rig(wires, spec) as made:
        frames = [numbered(number, 2) for number in range(1500)]
        expected = [two for data in frames for one in inbound.push(data, 0) for two in outbound.push(one, 0)]
        with made.lock:
            for data in frames:
                made.send(1, data)
        received = [number_of(made.receive(2)) for _ in expected]
    assert received == [number_of(data) for data in expected]
    assert made.runner.counters[1].rx_frames == 1500
    assert made.runner.counters[2].tx_frames == len(expected)


# -- life --------------------------------------------------------------------


def loop_cpu_ns() -> int:
    """CPU time of the packet loop."""
    loop = next(thread for thread in threading.enumerate() if thread.name == "softswitch-ports")
    return int(Path(f"/proc/self/task/{loop.native_id}/schedstat").read_text().split()[0])


def test_an_idle_loop_and_one_without_an_interface_sleep() -> None:
    with veth_pairs(2) as wires, rig(wires) as made:
        made.send(1, frame(1))
        made.receive(1)
        for happens in ("idle", "down", "gone"):
            if happens == "down":
                ip("link", "set", wires[2], "down")
            if happens == "gone":
                ip("link", "del", wires[2])
            made.send(1, frame(1, copies=2))  # still works, and the other is counted as lost
            made.receive(1)
            before = loop_cpu_ns()
            threading.Event().wait(0.2)
            assert loop_cpu_ns() - before < 20_000_000, happens
    assert made.runner.counters[2].tx_dropped == 2


def test_stop_does_not_wait_for_what_is_queued(wires: dict[int, str]) -> None:
    lock = ProgramLock()
    with Reflector(spin_ns=SPIN_NS) as machine, Host(wires[1]) as one:
        lock.run(machine.address)
        with NativePortRunner(ReflectingSwitch(), lock, PortsSpec(wires)), lock:
            for _ in range(1000):
                one.socket.send(frame(2))
        assert machine.packets < 500


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_that_ends_the_loop_is_told(wires: dict[int, str]) -> None:
    told: list[BaseException] = []
    with rig(wires, on_failure=told.append) as made, Path(os.devnull).open("wb") as other:
        # Not a socket any more: no interface can do that.
        os.dup2(other.fileno(), made.runner._sockets[1].fileno())
        made.send(1, frame(2))
        until(lambda: len(told) == 1)
    assert isinstance(told[0], PortError)
    assert f"port 2 on {wires[2]}" in str(told[0])


def test_a_port_that_cannot_be_opened_leaves_nothing_behind(wires: dict[int, str]) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(PortError, match="port 3 on nothere0: no interface"):
        NativePortRunner(ReflectingSwitch(), ProgramLock(), PortsSpec({**wires, 3: "nothere0"}))
    # What earlier tests left may be closed meanwhile.
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
