# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ports of the Python engine: AF_PACKET raw sockets, and the thread that runs packets.

Needs root (CAP_NET_RAW). These ports do not support packets whose checksum or segmentation a sender left to its network
card, and log a warning when one comes. Turn off transmit offloads of the hosts behind the ports (``ethtool -K IFACE tx
off gso off``).
"""

from __future__ import annotations

import errno
import logging
import os
import selectors
import socket
import threading
import time
from contextlib import suppress

from commonlib.events import ProgramEvent, Told

from softswitch.events import SwitchEvent
from softswitch.python.unix_port import UNIX, UnixPort
from softswitch.runtime.engine import PacketSwitch, PortRunner, PortsSpec
from softswitch.runtime.impair import Impairment
from softswitch.runtime.interface import (
    AUXDATA_SPACE,
    FINISH,
    PACKET_AUXDATA,
    PACKET_OUTGOING,
    SOL_PACKET,
    STATUS_BYTE,
    TP_STATUS_VLAN_VALID,
    PortCounters,
    PortError,
    kernel_drops,
    mtu_of,
    open_interface,
    with_tag,
)

_log = logging.getLogger("softswitch.ports")

TP_STATUS_CSUMNOTREADY = 1 << 3

MAX_FRAME_BYTES = 65536
LINK_BYTES = 18  # in front of what the MTU counts: Ethernet header and a VLAN tag

_FULL = frozenset([errno.ENOBUFS, errno.EAGAIN])
_GONE = frozenset([errno.ENETDOWN, errno.ENXIO, errno.ENODEV])


class Port:
    """One interface: its socket and its counters. Raises PortError."""

    def __init__(self, number: int, interface: str) -> None:
        self.number = number
        self.interface = interface
        self.counters = PortCounters()
        self._most_bytes = 0
        self._told_unfinished = False
        self.socket = open_interface(number, interface, self._prepare)

    def _prepare(self, opened: socket.socket) -> None:
        opened.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self._most_bytes = mtu_of(opened, self.interface) + LINK_BYTES

    def receive(self) -> bytes | None:
        """Return the next frame; None if there is none. Frames that the machine itself sent are skipped, and so are
        trains."""
        try:
            frame, extra, _, address = self.socket.recvmsg(MAX_FRAME_BYTES, AUXDATA_SPACE)
            while address[2] == PACKET_OUTGOING or len(frame) > self._most_bytes:
                if address[2] != PACKET_OUTGOING:
                    self._count_cut()
                frame, extra, _, address = self.socket.recvmsg(MAX_FRAME_BYTES, AUXDATA_SPACE)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _GONE:
                raise
            return None
        status = extra[0][2][STATUS_BYTE] if extra else 0
        if status & TP_STATUS_VLAN_VALID:
            frame = with_tag(frame, extra[0][2])
        if status & TP_STATUS_CSUMNOTREADY and not self._told_unfinished:
            self._told_unfinished = True
            what = "frames come without their checksums, and short trains as one packet"
            self._tell(what, ProgramEvent.TRAINS_MISSING(reason=f"port {self.number}: {what}"))
        self.counters.rx_frames += 1
        self.counters.rx_bytes += len(frame)
        return frame

    def _count_cut(self) -> None:
        self.counters.rx_cut += 1
        if self.counters.rx_cut == 1:
            what = "frames are dropped that are longer than the interface's MTU was at the start, or trains (rx_cut)"
            self._tell(what, SwitchEvent.FRAMES_DROPPED(port=self.number, reason=what))

    def _tell(self, what: str, extra: dict[str, Told]) -> None:
        _log.warning("port %d on %s: %s; %s", self.number, self.interface, what, FINISH, extra=extra)

    def send(self, frame: bytes) -> None:
        """Send without blocking. A frame that the interface does not accept is counted and dropped."""
        try:
            self.socket.send(frame)
        except OSError as error:
            if error.errno in _FULL or error.errno in _GONE:
                self.counters.tx_dropped += 1
                return
            if error.errno in (errno.EMSGSIZE, errno.EINVAL):
                self.counters.tx_refused += 1
                return
            raise
        self.counters.tx_frames += 1
        self.counters.tx_bytes += len(frame)

    def counters_now(self) -> PortCounters:
        if self.socket.fileno() >= 0:
            self.counters.rx_dropped += kernel_drops(self.socket)
        return self.counters

    def close(self) -> None:
        self.counters_now()
        self.socket.close()


BATCH_FRAMES = 64  # from one port before the others get their turn


class PythonPortRunner(PortRunner):
    """Ports with one thread. Raises PortError."""

    def __init__(self, switch: PacketSwitch, ports: PortsSpec) -> None:
        self._switch = switch
        self._on_failure, impairment = ports.on_failure, ports.impairment
        self.ports: dict[int, Port | UnixPort] = {}
        try:
            for number, interface in ports.interfaces.items():
                self.ports[number] = (UnixPort if interface.startswith(UNIX) else Port)(number, interface)
        except PortError:
            self._close()
            raise
        self._inbound: dict[int, Impairment] = {}
        self._outbound: dict[int, Impairment] = {}
        if impairment is not None:
            affected = [number for number in self.ports if impairment.applies(number)]
            if impairment.receive:
                self._inbound = {number: Impairment(impairment, f"{number} rx") for number in affected}
            if impairment.send:
                self._outbound = {number: Impairment(impairment, f"{number} tx") for number in affected}
        self._send_lock = threading.Lock()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="softswitch-ports", daemon=True)

    @property
    def counters(self) -> dict[int, PortCounters]:
        """The ports' counters at this moment, by port."""
        return {number: port.counters_now() for number, port in self.ports.items()}

    def start(self) -> None:
        self._switch.on_transmit(self._transmit_impaired if self._outbound else self._transmit)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and close the ports."""
        self._stopping.set()
        self._wake()
        if self._thread.is_alive():
            self._thread.join()
        self._switch.on_transmit(None)
        self._close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _close(self) -> None:
        for port in self.ports.values():
            port.close()

    # -- sending ---------------------------------------------------------

    def _transmit(self, number: int, frame: bytes) -> None:
        port = self.ports.get(number)
        if port is not None:
            port.send(frame)

    def _transmit_impaired(self, number: int, frame: bytes) -> None:
        impairment = self._outbound.get(number)
        if impairment is None:
            self._transmit(number, frame)
            return
        with self._send_lock:
            for passed in impairment.push(frame, time.monotonic_ns()):
                self._transmit(number, passed)
            held = impairment.deadline_ns is not None
        if held and threading.current_thread() is not self._thread:
            self._wake()  # a packet-out is held back: the waiting thread does not know its deadline

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # full: the thread wakes anyway
            os.write(self._wake_write, b"x")

    # -- receiving -------------------------------------------------------

    def _run(self) -> None:
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._wake_read, selectors.EVENT_READ, None)
                for port in self.ports.values():
                    selector.register(port.socket, selectors.EVENT_READ, port)
                while not self._stopping.is_set():
                    for key, _ in selector.select(self._timeout()):
                        if key.data is not None:
                            self._drain(key.data)
                        else:
                            os.read(self._wake_read, 4096)
                    if self._inbound or self._outbound:
                        self._poll(time.monotonic_ns())
        except BaseException as error:
            _log.exception(
                "the port thread failed", extra=ProgramEvent.THREAD_FAILED(reason=f"{type(error).__name__}: {error}")
            )
            if self._on_failure is not None:
                self._on_failure(error)
            raise

    def _drain(self, port: Port | UnixPort) -> None:
        impairment = self._inbound.get(port.number)
        number, receive, run = port.number, port.receive, self._switch.receive
        for _ in range(BATCH_FRAMES):
            frame = receive()
            if frame is None:
                return
            if impairment is None:
                run(number, frame)
                continue
            for passed in impairment.push(frame, time.monotonic_ns()):
                run(number, passed)

    def _timeout(self) -> float | None:
        """Seconds until a held frame is due."""
        impairments = [*self._inbound.values(), *self._outbound.values()]
        deadlines = [deadline for each in impairments if (deadline := each.deadline_ns) is not None]
        return max(0.0, (min(deadlines) - time.monotonic_ns()) / 1e9) if deadlines else None

    def _poll(self, now_ns: int) -> None:
        for number, impairment in self._inbound.items():
            for frame in impairment.poll(now_ns):
                self._switch.receive(number, frame)
        with self._send_lock:
            for number, impairment in self._outbound.items():
                for frame in impairment.poll(now_ns):
                    self._transmit(number, frame)
