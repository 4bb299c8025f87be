# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The lock of the running program: first come, first served, within about a packet; a program is swapped under it."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise

import pytest
from helpers.softswitch.reflector import MARK_BYTE, ReflectingSwitch, Reflector, frame
from helpers.softswitch.veths import TIMEOUT_S, Host
from helpers.waiting import until
from softswitch.native.ports import NativePortRunner, ProgramLock, port_library
from softswitch.runtime.engine import PortsSpec

pytestmark = pytest.mark.cc

FRAMES = 2000
PACKET_NS = 20_000


def waiting(lock: ProgramLock) -> int:
    """How many threads wait for the lock: tickets given out, less the thread inside."""
    tickets = (ctypes.c_uint64 * 2).from_address(lock.address)
    return int(tickets[0] - tickets[1]) - 1


def test_again_by_the_same_thread() -> None:
    lock = ProgramLock()
    entered: list[str] = []

    def other() -> None:
        with lock:
            entered.append("other")

    thread = threading.Thread(target=other)
    with lock:
        with lock, lock:
            thread.start()
            until(lambda: waiting(lock) == 1)
        entered.append("first")  # still inside
    thread.join(TIMEOUT_S)
    assert entered == ["first", "other"]


def test_first_come_first_served() -> None:
    lock = ProgramLock()
    order: list[int] = []
    threads = []

    def enter(number: int) -> None:
        with lock:
            order.append(number)

    with lock:
        for number in range(8):
            threads.append(threading.Thread(target=enter, args=[number]))
            threads[-1].start()
            until(lambda: waiting(lock) == len(threads))
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert order == list(range(8))


def test_who_yields_keeps_the_next_place() -> None:
    lock, order, rounds = ProgramLock(), [], 2000
    yields = port_library().ss_lock_yield
    ending = threading.Event()

    def hammer() -> None:
        os.sched_setaffinity(0, cpu)
        while not ending.is_set():
            with lock:
                order.append("writer")

    # On one CPU, so that the thread let in often runs before the one that yielded.
    everywhere, cpu = os.sched_getaffinity(0), {min(os.sched_getaffinity(0))}
    writer = threading.Thread(target=hammer)
    try:
        os.sched_setaffinity(0, cpu)
        with lock:
            writer.start()
            for _ in range(rounds):
                until(lambda: waiting(lock) == 1)
                yields(ctypes.c_void_p(lock.address))
                order.append("loop")
    finally:
        os.sched_setaffinity(0, everywhere)
        ending.set()
    writer.join(TIMEOUT_S)
    # One write for every yield.
    assert order[: 2 * rounds] == ["writer", "loop"] * rounds


def test_left_also_by_an_exception() -> None:
    lock = ProgramLock()
    with pytest.raises(KeyError), lock:
        raise KeyError
    thread = threading.Thread(target=lambda: lock.run(None))
    thread.start()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()


@contextmanager
def full_rate(lock: ProgramLock, machine: Reflector, wires: dict[int, str]) -> Iterator[Callable[[], None]]:
    """The loop has FRAMES frames to work off, one right after the other, and as many again at every call."""
    lock.run(machine.address)
    with NativePortRunner(ReflectingSwitch(), lock, PortsSpec(wires)), Host(wires[1]) as host:

        def more() -> None:
            for _ in range(FRAMES):
                host.socket.send(frame(2))

        with lock:
            more()
        yield more


@pytest.mark.root
def test_a_hammering_writer_gets_in_within_a_packet_and_starves_nobody(wires: dict[int, str]) -> None:
    lock = ProgramLock()
    sent = FRAMES
    waits: list[int] = []
    with Reflector(spin_ns=PACKET_NS) as machine, full_rate(lock, machine, wires) as more:
        # Not counted: writers that came while the loop was sending, without the lock.
        while len(waits) < 200:
            if wait := machine.packets_until_in(lock.address):
                waits.append(wait)
            elif machine.packets > sent - FRAMES // 2:
                more()
                sent += FRAMES
        until(lambda: machine.packets == sent)
    # A loop that kept the lock for its batch of 64 would be at about 32 here. The machine may take a writer's CPU away
    # between its question and its ticket, so not all of them.
    assert sorted(waits)[150] <= 2


@pytest.mark.root
def test_nothing_runs_while_a_writer_is_inside(wires: dict[int, str]) -> None:
    lock = ProgramLock()
    with Reflector(spin_ns=PACKET_NS) as machine, full_rate(lock, machine, wires):
        before = 0
        while before < FRAMES // 2:
            with lock:
                before = machine.packets
                assert not machine.is_busy
                for _ in range(20):
                    assert machine.packets == before


@pytest.mark.root
def test_a_program_is_replaced_while_traffic_runs(wires: dict[int, str]) -> None:
    lock = ProgramLock()
    with ExitStack() as stack:
        machines = [stack.enter_context(Reflector(mark=number, spin_ns=PACKET_NS)) for number in range(20)]
        settled = []
        with Host(wires[2]) as two, full_rate(lock, machines[0], wires):
            for old, new in pairwise(machines):
                until(lambda old=old: old.packets >= 3)  # type: ignore[misc]
                lock.run(new.address)
                settled.append(old.packets)
            until(lambda: sum(machine.packets for machine in machines) == FRAMES)
            # Every frame went through one program, and through none that was out of use.
            assert [machine.packets for machine in machines[:-1]] == settled
            marks = [two.socket.recv(2048)[MARK_BYTE] for _ in range(sum(settled[:3]))]
    assert marks == [number for number in range(3) for _ in range(settled[number])]
