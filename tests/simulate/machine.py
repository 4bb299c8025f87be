# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a process of a :class:`World` finds in place of the operating system: UDP sockets, poll, pipes, threads."""

from __future__ import annotations

import ctypes
import errno
import math
import os
import queue
import socket
import struct
import threading
from collections import deque
from typing import Any, Final, Protocol

from sumwire.wire.messages import UDP_GRO, UDP_SEGMENT

from simulate.locks import Condition, Event, Lock, SimpleQueue, WorldThread, running
from simulate.world import KilledError, Process, Thread, World

Address = tuple[str, int]
_FIRST_FILE: Final = 1 << 20
POLLIN: Final = 1
POLLOUT: Final = 4
# Offsets in C's struct mmsghdr, iovec and cmsghdr.
_VECTORS_AT, _CONTROL_AT, _CONTROL_LENGTH_AT, _LENGTH_AT, _MESSAGE_BYTES = 16, 32, 40, 56, 64
_VALUE_AT: Final = 16
_CONTROL_BYTES: Final = 24
# A socket holds so many datagrams; more are lost.
_QUEUE_MOST: Final = 4096
_TRAIN_MOST: Final = 40
_WAIT_S: Final = 0.003


class Wire(Protocol):
    """Where datagrams of a process go. ``trains``, ``fills``: what its kernel and its network card do. ``native``:
    whether it has a C compiler. ``fast``: whether its C makes exchanges alone."""

    trains: bool
    fills: float
    native: bool
    fast: bool

    def send(self, source: Address, target: Address, data: bytes, tos: int) -> None: ...


class File:
    """Something with a file descriptor."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.process = machine.world.process
        self.number = machine.open(self)
        self.closed = False
        self.waiters: list[Thread] = []
        self.process.files.append(self)

    def fileno(self) -> int:
        return -1 if self.closed else self.number

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.machine.files.pop(self.number, None)
            self.process.files.remove(self)

    @property
    def readable(self) -> bool:
        raise NotImplementedError

    @property
    def room_at(self) -> float:
        return -math.inf

    def changed(self) -> None:
        """Wake whoever waits for it."""
        waiters, self.waiters = self.waiters, []
        for thread in waiters:
            self.machine.world.wake(thread)


class Pipe(File):
    """The end of a pipe that is read."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.written = 0

    @property
    def readable(self) -> bool:
        return self.written > 0


class Udp(File):
    """A UDP socket."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.address: Address = ("0.0.0.0", 0)
        self.peer: Address | None = None
        self.queue: deque[tuple[bytes, Address, int]] = deque()
        self.segment = 0
        self.gro = self.tells_tos = False
        self._room_at = -math.inf

    @property
    def readable(self) -> bool:
        return bool(self.queue)

    @property
    def room_at(self) -> float:
        return self._room_at

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        trains = self.machine.wire.trains
        if level == socket.IPPROTO_UDP and option in (UDP_SEGMENT, UDP_GRO):
            if not trains:
                raise OSError(errno.ENOPROTOOPT, "no such option here")
            if option == UDP_SEGMENT:
                self.segment = int(value)
            else:
                self.gro = True
        elif (level, option) == (socket.IPPROTO_IP, socket.IP_RECVTOS):
            self.tells_tos = bool(value)

    def getsockopt(self, level: int, option: int) -> int:
        return 1500

    def setblocking(self, blocking: bool) -> None:
        """Only poll ever waits."""

    def bind(self, address: Address) -> None:
        ip, port = address
        port = port or self.machine.free_port()
        if (ip, port) in self.machine.bound:
            raise OSError(errno.EADDRINUSE, "the address is in use")
        self.address = ip, port
        self.machine.bound[self.address] = self

    def connect(self, address: Address) -> None:
        self.peer = address

    def close(self) -> None:
        if not self.closed and self.machine.bound.get(self.address) is self:
            del self.machine.bound[self.address]
        super().close()

    def sendmsg(self, buffers: list[Any], control: list[tuple[int, int, bytes]], flags: int) -> int:
        tos = control[0][2][0] if control else 0
        self._require_room()
        self.transmit(b"".join(bytes(buffer) for buffer in buffers), tos)
        return 1

    def sendto(self, data: bytes, target: Address) -> int:
        self._send(bytes(data), target, 0)
        return len(data)

    def recvfrom(self, size: int) -> tuple[bytes, Address]:
        if not self.queue:
            raise BlockingIOError(errno.EAGAIN, "nothing is there")
        data, sender, _ = self.queue.popleft()
        return data[:size], sender

    def recvfrom_into(self, buffer: Any) -> tuple[int, Address]:
        data, sender = self.recvfrom(len(buffer))
        buffer[: len(data)] = data
        return len(data), sender

    def transmit(self, data: bytes, tos: int) -> None:
        """A datagram to the peer, or a train of them."""
        assert self.peer is not None
        size = self.segment or len(data)
        for start in range(0, len(data), size):
            self._send(data[start : start + size], self.peer, tos)

    def _send(self, data: bytes, target: Address, tos: int) -> None:
        process = self.process
        if process.dead:
            raise KilledError
        if process.sends_left is not None:
            process.sends_left -= 1
            if process.sends_left < 0:
                process.kill()
                raise KilledError
        self.machine.wire.send(self.address, target, data, tos)

    def is_full(self) -> bool:
        """Whether there is no room now, drawn anew when there was."""
        world = self.machine.world
        if self._room_at > world.now:
            return True
        if self.machine.wire.fills and world.rng.random() < self.machine.wire.fills:
            self._room_at = world.now + 0.0005
            return True
        return False

    def _require_room(self) -> None:
        if self.is_full():
            raise BlockingIOError(errno.EAGAIN, "no room")

    def deliver(self, data: bytes, sender: Address, tos: int) -> None:
        """A datagram has arrived."""
        if (self.peer is None or sender == self.peer) and len(self.queue) < _QUEUE_MOST:
            self.queue.append((data, sender, tos))
            self.changed()


class Poll:
    """select.poll's object."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._events: dict[int, int] = {}

    def register(self, file: Any, events: int = POLLIN) -> None:
        self._events[file if isinstance(file, int) else file.fileno()] = events

    modify = register

    def poll(self, milliseconds: float | None = None) -> list[tuple[int, int]]:
        world = self._machine.world
        until = math.inf if milliseconds is None else world.now + milliseconds / 1000
        while True:
            ready, wake_at = [], until
            for number, events in self._events.items():
                file = self._machine.files[number]
                if (events & POLLIN and file.readable) or (events & POLLOUT and file.room_at <= world.now):
                    ready.append((number, POLLIN))
                elif events & POLLOUT:
                    wake_at = min(wake_at, file.room_at)
            if ready or world.now >= until:
                world.look()
                return ready
            assert world.current is not None
            for number in self._events:
                waiters = self._machine.files[number].waiters
                if world.current not in waiters:
                    waiters.append(world.current)
            world.sleep(wake_at)


class Machine:
    """All machines of a world: one table of files, as the processes do not see each other's."""

    def __init__(self, world: World, wire: Wire) -> None:
        self.world = world
        self.wire = wire
        # One object, which the product compares.
        self.clock = world.clock
        # What makes exchanges alone, where C does.
        self.fast_kernels: Any = None
        self.files: dict[int, File] = {}
        self.bound: dict[Address, Udp] = {}
        self._number = _FIRST_FILE
        self._port = 40_000

    def open(self, file: File) -> int:
        self._number += 1
        self.files[self._number] = file
        return self._number

    def free_port(self) -> int:
        self._port += 1
        return self._port

    def close_all(self, process: Process) -> None:
        """The process has ended: so have its files."""
        for file in list(process.files):
            file.close()

    def deliver(self, target: Address, data: bytes, sender: Address, tos: int) -> None:
        found = self.bound.get(target)
        if found is not None:
            found.deliver(data, sender, tos)

    def pipe(self) -> tuple[int, int]:
        reader = Pipe(self)
        return reader.number, -reader.number

    def write(self, number: int, data: bytes) -> int:
        reader = self.files[-number]
        assert isinstance(reader, Pipe)
        reader.written += len(data)
        reader.changed()
        return len(data)

    def close(self, number: int) -> None:
        if number > 0:
            self.files[number].close()

    def sendmmsg(self, number: int, address: int, count: int, flags: int) -> int:
        """As Linux's, for messages of one piece and at most one control message, which is their TOS."""
        udp = self.files[number]
        assert isinstance(udp, Udp)
        for index in range(count):
            if udp.is_full():
                ctypes.set_errno(errno.EAGAIN)
                return index or -1
            message = address + index * _MESSAGE_BYTES
            base, length = _vector(message)
            tos = _word32(_word64(message + _CONTROL_AT) + _VALUE_AT) if _word64(message + _CONTROL_LENGTH_AT) else 0
            udp.transmit(ctypes.string_at(base, length), tos)
        return count

    def recvmmsg(self, number: int, address: int, most: int, flags: int, timeout: int | None) -> int:
        """As Linux's; trains are made of datagrams of one size and TOS that lie behind each other."""
        udp, world = self.files[number], self.world
        assert isinstance(udp, Udp)
        if not flags:
            until = world.now + _WAIT_S
            while len(udp.queue) < most and world.now < until:
                assert world.current is not None
                udp.waiters.append(world.current)
                world.sleep(until)
        count = 0
        while udp.queue and count < most:
            message = address + count * _MESSAGE_BYTES
            data, size, tos = self._train(udp)
            base, room = _vector(message)
            ctypes.memmove(base, data, min(len(data), room))
            ctypes.c_uint32.from_address(message + _LENGTH_AT).value = min(len(data), room)
            told = [(socket.IPPROTO_UDP, UDP_GRO, struct.pack("@i", size))] if size else []
            if udp.tells_tos:
                told.append((socket.IPPROTO_IP, socket.IP_TOS, bytes([tos])))
            _tell(message, told)
            count += 1
        if not count:
            ctypes.set_errno(errno.EAGAIN)
            return -1
        return count

    @staticmethod
    def _train(udp: Udp) -> tuple[bytes, int, int]:
        """The next datagram or train: its bytes, those of each datagram in it (0 if it is a single one), the TOS."""
        data, _, tos = udp.queue.popleft()
        parts, size = [data], len(data)
        while udp.gro and udp.queue and len(parts) < _TRAIN_MOST:
            following, _, its_tos = udp.queue[0]
            if (len(following), its_tos) != (size, tos):
                break
            parts.append(following)
            udp.queue.popleft()
        return b"".join(parts), size if len(parts) > 1 else 0, tos


def _tell(message: int, told: list[tuple[int, int, bytes]]) -> None:
    """Write control messages, (level, type, value), behind each other, as far as there is room."""
    at, room = _word64(message + _CONTROL_AT), _word64(message + _CONTROL_LENGTH_AT) // _CONTROL_BYTES
    for index, (level, kind, value) in enumerate(told[:room]):
        octets = struct.pack("@Qii", _VALUE_AT + len(value), level, kind) + value
        ctypes.memmove(at + index * _CONTROL_BYTES, octets, len(octets))
    used = ctypes.c_uint64.from_address(message + _CONTROL_LENGTH_AT)
    used.value = min(len(told), room) * _CONTROL_BYTES


def _word64(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _word32(address: int) -> int:
    return ctypes.c_int32.from_address(address).value


def _vector(message: int) -> tuple[int, int]:
    vector = _word64(message + _VECTORS_AT)
    return _word64(vector), _word64(vector + 8)


# -- modules, as the product's code sees them -----------------------------------------------------------


class Instead:
    """A module of which some names are others."""

    def __init__(self, module: object, **others: Any) -> None:
        self.__dict__.update(others)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def modules(machine: Machine) -> dict[str, Any]:
    """The modules that stand in for socket, select, os, threading and queue."""
    world = machine.world
    return {
        "socket": Instead(socket, socket=lambda *_: Udp(machine)),
        "select": Instead(None, poll=lambda: Poll(machine), POLLIN=POLLIN, POLLOUT=POLLOUT),
        "os": Instead(os, pipe=machine.pipe, write=machine.write, close=machine.close),
        "threading": Instead(
            threading,
            Lock=lambda: Lock(world),
            RLock=lambda: Lock(world, again=True),
            Condition=lambda: Condition(world),
            Event=lambda: Event(world),
            Thread=lambda **options: WorldThread(world, **options),
            current_thread=lambda: running(world),
        ),
        "queue": Instead(queue, SimpleQueue=lambda: SimpleQueue(world)),
    }
