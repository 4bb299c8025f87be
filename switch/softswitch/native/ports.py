# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ports of the native engine: C moves frames from interface to program to interface, without Python.

There are two threads. The packet loop runs in C and never takes the GIL. The other thread passes frames of the CPU port
to Python; if its queue is full, frames are lost and counted. The program lock protects the program against simultaneous
use by the packet loop and by threads that write to it.
"""

from __future__ import annotations

import errno
import functools
import logging
import math
import os
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from commonlib.events import ProgramEvent
from nativelib.declarations import Native

from softswitch.events import SwitchEvent
from softswitch.native.runtime_library import native_library
from softswitch.runtime.engine import PacketSwitch, PortRunner, PortsSpec
from softswitch.runtime.impair import HOLD_LIMIT_NS, MAX_HELD_FRAMES, ImpairmentSpec, initial_state
from softswitch.runtime.interface import (
    CURE,
    FINISH,
    SO_RCVBUFFORCE,
    SO_SNDBUFFORCE,
    PortCounters,
    PortError,
    TrainSpec,
    mtu_of,
    open_interface,
    speed_mbit,
    train_bytes,
)

SOURCES = ("program_lock.c", "impair.c", "layers.c", "cut.c", "join.c", "ring.c", "send.c", "ports.c")
STRUCTS = ("ss_impair_spec", "ss_impair_counters", "ss_port_counters", "ss_port_spec")


@functools.cache
def port_library() -> Native:
    """Return the ports' library; the first call builds and loads it. Raises nativelib.NativeError."""
    return native_library("softswitch-ports", SOURCES, STRUCTS, ["-D_GNU_SOURCE", "-pthread"])


class ProgramLock:
    """A re-entrant ticket lock, used like ``threading.RLock``, that also holds the running program.

    First come, first served: when another thread waits, the packet loop releases the lock after its current packet, so
    a write waits for about one packet. ``address`` is that of C's ``struct ss_lock``. ``start_ns``: the moment of the
    monotonic clock at which P4's timestamps are 0, now unless given. Raises nativelib.NativeError.
    """

    def __init__(self, start_ns: int | None = None) -> None:
        library = port_library()
        address = library.ss_lock_new(time.monotonic_ns() if start_ns is None else start_ns)
        if not address:
            raise MemoryError
        self.address: int = address
        # Not at exit: a daemon thread may still be inside.
        weakref.finalize(self, library.ss_lock_free, address).atexit = False
        self._enter, self._leave, self._run = library.ss_lock_enter, library.ss_lock_leave, library.ss_lock_run

    def __enter__(self) -> bool:
        self._enter(self.address)  # without the GIL while it waits
        return True

    def __exit__(self, *_: object) -> None:
        self._leave(self.address)

    def run(self, machine: int | None) -> None:
        """Run the ``struct ss_machine`` at this address from the next packet on; None drops every frame.

        When this returns, the previous machine is no longer used. The caller keeps the new one alive until then.
        """
        self._run(self.address, machine)


_log = logging.getLogger("softswitch.ports")

RING_BYTES = 8 << 20  # of one port; trains, which are longer than a slot of the ring, may take as much
ALL_RINGS_BYTES = 64 << 20  # of all ports together, unless that left less than a quarter of RING_BYTES to each
NO_PORT = 0xFFFFFFFF
RECEIVE, SEND = 0, 1
MAX_MAIL_BYTES = 1 << 20  # the largest frame that C can send
MAIL_BUFFER_BYTES = 16 << 20
_FRAME = ord("F")
_SINGLY = ord("S")
# What C tells once for each port.
_TOLD = {
    ord("C"): "frames are dropped that are longer than the interface's MTU was at the start, or than 64 KB (rx_cut)",
    ord("R"): "frames are dropped that their sender left for its network card to finish and that the switch cannot "
    f"finish, such as trains in tunnels (rx_refused); {FINISH}",
    _SINGLY: "the interface takes no trains, packets leave one by one (Linux before 6.2 takes none of UDP)",
}
# Errors of a kernel whose packet sockets do not tell what is left to do of a frame.
_NO_TRAINS = frozenset({errno.ENOPROTOOPT, errno.EINVAL, errno.EOPNOTSUPP})


@dataclass(frozen=True)
class _Counts:
    ports: dict[int, PortCounters]
    cpu_dropped: int


class NativePortRunner(PortRunner):
    """Runs ports for the program that ``lock`` holds. Raises PortError and nativelib.NativeError."""

    def __init__(self, switch: PacketSwitch, lock: ProgramLock, ports: PortsSpec) -> None:
        self._switch = switch
        self._lock = lock
        self._trains = ports.trains
        self._interfaces = dict(ports.interfaces)
        self._on_failure = ports.on_failure
        self._library = port_library()
        self._mail, self._outgoing_mail = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._outgoing_mail.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, MAIL_BUFFER_BYTES)
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        cpu_port = NO_PORT if switch.cpu_port is None else switch.cpu_port
        self._ports: int = self._library.ss_ports_new(
            lock.address, len(self._interfaces), cpu_port, self._outgoing_mail.fileno(), self._wake
        )
        if not self._ports:
            raise MemoryError
        self._last: _Counts | None = None
        self._sockets: list[socket.socket] = []
        try:
            for number, interface in self._interfaces.items():
                self._sockets.append(self._open(number, interface))
                self._impair(number, ports.impairment)
        except (PortError, OSError):
            self._close()
            raise
        self._loop = threading.Thread(target=self._guarded, args=[self._run], name="softswitch-ports", daemon=True)
        self._reader = threading.Thread(target=self._guarded, args=[self._read], name="softswitch-cpu", daemon=True)

    def _open(self, number: int, interface: str) -> socket.socket:
        ring_bytes = max(RING_BYTES // 4, min(RING_BYTES, ALL_RINGS_BYTES // len(self._interfaces)))
        rate = min(speed_mbit(interface), self._trains.link_mbit or math.inf)

        def add(opened: socket.socket) -> None:
            opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, ring_bytes // 2)  # the kernel doubles it
            spec = self._library.ss_port_spec(
                mtu_of(opened, interface), train_bytes(rate), self._trains.allowed, ring_bytes
            )
            error = self._library.ss_ports_add(self._ports, number, opened.fileno(), spec)
            if error in _NO_TRAINS and self._trains.allowed:
                self._trains = TrainSpec(allowed=False)
                _log.warning(
                    "port %d on %s: the kernel passes no trains; %s", number, interface, FINISH,
                    extra=ProgramEvent.TRAINS_MISSING(reason=f"port {number}: the kernel passes no trains"),
                )  # fmt: skip
                spec.unfinished = 0
                error = self._library.ss_ports_add(self._ports, number, opened.fileno(), spec)
            _check(error)

        return open_interface(number, interface, add)

    def _impair(self, number: int, spec: ImpairmentSpec | None) -> None:
        if spec is None or not spec.applies(number):
            return
        for direction, name, wanted in ((RECEIVE, "rx", spec.receive), (SEND, "tx", spec.send)):
            if wanted:
                struct = spec_struct(spec, f"{number} {name}")
                _check(self._library.ss_ports_impair(self._ports, number, direction, struct))

    # -- life ------------------------------------------------------------

    def start(self) -> None:
        self._switch.on_transmit(self._transmit)
        self._loop.start()
        self._reader.start()

    def stop(self) -> None:
        """End the threads and close the ports. Frames that already left by the CPU port are still delivered."""
        if self._last is not None:
            return
        self._library.ss_ports_stop(self._ports)
        if self._loop.is_alive():
            self._loop.join()
        self._switch.on_transmit(None)  # takes the lock: from here on no thread sends
        self._outgoing_mail.close()
        if self._reader.is_alive():
            self._reader.join()
        self._last = self._counts()
        self._close()

    def _close(self) -> None:
        self._library.ss_ports_free(self._ports)
        for opened in (*self._sockets, self._mail, self._outgoing_mail):
            opened.close()
        os.close(self._wake)

    # -- counters --------------------------------------------------------

    @property
    def counters(self) -> dict[int, PortCounters]:
        """The ports' counters at this moment, by port."""
        return (self._last or self._counts()).ports

    @property
    def cpu_dropped(self) -> int:
        """Return how many frames for the CPU port were lost because its queue was full."""
        return (self._last or self._counts()).cpu_dropped

    def _counts(self) -> _Counts:
        ports = {number: self._counters_of(number) for number in self._interfaces}
        return _Counts(ports, self._library.ss_ports_cpu_dropped(self._ports))

    def _counters_of(self, number: int) -> PortCounters:
        read = self._library.ss_port_counters()
        self._library.ss_ports_read_counters(self._ports, number, read)
        return PortCounters(**{name: getattr(read, name) for name, *_ in read._fields_})

    # -- threads ---------------------------------------------------------

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            _log.exception(
                "a port thread failed", extra=ProgramEvent.THREAD_FAILED(reason=f"{type(error).__name__}: {error}")
            )
            if self._on_failure is not None:
                self._on_failure(error)
            raise

    def _run(self) -> None:
        error = self._library.ss_ports_run(self._ports)  # without the GIL, until it is stopped
        if error:
            number = self._library.ss_ports_failed(self._ports)
            raise self._port_error(number, error)

    def _port_error(self, number: int, error: int) -> PortError:
        return PortError(f"port {number} on {self._interfaces.get(number)}: {os.strerror(error)}; {CURE}")

    def _read(self) -> None:
        buffer = memoryview(bytearray(MAX_MAIL_BYTES))
        while length := self._mail.recv_into(buffer):
            kind, content = buffer[0], bytes(buffer[1:length])
            if kind == _FRAME:
                self._switch.to_cpu(content)
            else:
                number = int.from_bytes(content, sys.byteorder)
                told = SwitchEvent.FRAMES_DROPPED(port=number, reason=_TOLD[kind])
                if kind == _SINGLY:
                    told = ProgramEvent.TRAINS_MISSING(reason=f"port {number}: {_TOLD[kind]}")
                _log.warning("port %d on %s: %s", number, self._interfaces[number], _TOLD[kind], extra=told)

    def _transmit(self, number: int, frame: bytes) -> None:
        """Send a packet-out; the switch holds the lock."""
        error = self._library.ss_ports_send(self._ports, number, frame, len(frame))
        if error:
            raise self._port_error(number, error)


def spec_struct(spec: ImpairmentSpec, direction: str) -> Any:
    """Return ``spec`` as a C structure. C then decides like ``Impairment(spec, direction)``."""
    state = initial_state(spec.seed, direction)
    struct = port_library().ss_impair_spec
    return struct(spec.drop, spec.dup, spec.reorder, state, HOLD_LIMIT_NS, MAX_HELD_FRAMES, spec.delay_ns)


def _check(error: int) -> None:
    if error:
        raise OSError(error, os.strerror(error))
