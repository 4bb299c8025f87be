# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ports on Linux network interfaces: AF_PACKET raw sockets, and the thread that runs the pipeline.

Needs root (CAP_NET_RAW). Frames come without checksums computed by an offloading sender: turn off the
peers' transmit offloads (``ethtool -K IFACE tx off gso off tso off``), as for any packet-socket switch.
"""

from __future__ import annotations

import errno
import logging
import os
import selectors
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from softswitch.impair import Impairment, ImpairmentSpec
from softswitch.switch import SoftSwitch

_log = logging.getLogger("softswitch.ports")

ETH_P_ALL = 0x0003
SOL_PACKET = 263
PACKET_ADD_MEMBERSHIP = 1
PACKET_MR_PROMISC = 1
PACKET_AUXDATA = 8
PACKET_IGNORE_OUTGOING = 23  # Linux 4.20
TP_STATUS_VLAN_VALID = 1 << 4
TP_STATUS_VLAN_TPID_VALID = 1 << 6
ETH_P_8021Q = 0x8100
PACKET_OUTGOING = 4
SO_SNDBUFFORCE = 32
SO_RCVBUFFORCE = 33

BUFFER_BYTES = 16 << 20
MAX_FRAME_BYTES = 65536
BATCH_FRAMES = 64  # from one port before the others get their turn

_AUXDATA = struct.Struct("IIIHHHH")  # struct tpacket_auxdata: status, len, snaplen, mac, net, vlan_tci, vlan_tpid
AUXDATA_SPACE = socket.CMSG_SPACE(_AUXDATA.size)
_STATUS_BYTE = 0 if sys.byteorder == "little" else 3  # of the status word, the byte with the two VLAN bits

_FULL = frozenset([errno.ENOBUFS, errno.EAGAIN])
_GONE = frozenset([errno.ENETDOWN, errno.ENXIO, errno.ENODEV])


class PortError(Exception):
    """A port that cannot be opened; the message names port, interface and reason."""


@dataclass
class PortCounters:
    """``tx_dropped``: the interface's queue was full, or it is down. ``tx_refused``: longer than its MTU."""

    rx_frames: int = 0
    rx_bytes: int = 0
    tx_frames: int = 0
    tx_bytes: int = 0
    tx_dropped: int = 0
    tx_refused: int = 0


def _with_tag(frame: bytes, auxdata: bytes) -> bytes:
    """Linux hands the outer VLAN tag over apart from the frame: put it back where it was."""
    status, _, _, _, _, tag, kind = _AUXDATA.unpack(auxdata)
    if not status & TP_STATUS_VLAN_TPID_VALID:
        kind = ETH_P_8021Q
    return b"".join((frame[:12], struct.pack(">HH", kind, tag), frame[12:]))


class Port:
    """One interface."""

    def __init__(self, number: int, interface: str) -> None:
        self.number = number
        self.interface = interface
        self.counters = PortCounters()
        try:
            # Protocol 0 until it is bound: a socket made with ETH_P_ALL takes frames of every interface before bind.
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        except PermissionError as error:
            raise PortError(f"port {number} on {interface}: packet sockets need root (CAP_NET_RAW)") from error
        try:
            self._configure()
        except OSError as error:
            self.socket.close()
            raise PortError(f"port {number} on {interface}: {error.strerror or error}") from error

    def _configure(self) -> None:
        self.socket.setblocking(False)
        for option in (SO_RCVBUFFORCE, SO_SNDBUFFORCE):
            self.socket.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        with suppress(OSError):  # before Linux 4.20 receive() has to leave them out
            self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        index = socket.if_nametoindex(self.interface)
        membership = struct.pack("iHH8s", index, PACKET_MR_PROMISC, 0, b"")
        self.socket.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, membership)
        self.socket.bind((self.interface, ETH_P_ALL))

    def receive(self) -> bytes | None:
        """One frame; None when there is none. Frames that the machine itself sent are left out."""
        try:
            frame, extra, _, address = self.socket.recvmsg(MAX_FRAME_BYTES, AUXDATA_SPACE)
            while address[2] == PACKET_OUTGOING:
                frame, extra, _, address = self.socket.recvmsg(MAX_FRAME_BYTES, AUXDATA_SPACE)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _GONE:
                raise
            return None
        if extra and extra[0][2][_STATUS_BYTE] & TP_STATUS_VLAN_VALID:
            frame = _with_tag(frame, extra[0][2])
        self.counters.rx_frames += 1
        self.counters.rx_bytes += len(frame)
        return frame

    def send(self, frame: bytes) -> None:
        """Never blocks; what the interface does not take is counted and lost."""
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

    def close(self) -> None:
        self.socket.close()


class PortRunner:
    """Runs a switch on interfaces, in one thread of its own. Use as a context manager, or start and stop.

    ``interfaces`` maps port numbers to interface names. ``on_failure`` is called, in that thread, with the
    exception that ended it. Raises PortError.
    """

    def __init__(
        self,
        switch: SoftSwitch,
        interfaces: Mapping[int, str],
        impairment: ImpairmentSpec | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        self._switch = switch
        self._on_failure = on_failure
        self.ports: dict[int, Port] = {}
        try:
            for number, interface in interfaces.items():
                self.ports[number] = Port(number, interface)
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
        return {number: port.counters for number, port in self.ports.items()}

    def start(self) -> None:
        self._switch.on_transmit(self._transmit_impaired if self._outbound else self._transmit)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread and closes the ports."""
        self._stopping.set()
        self._wake()
        if self._thread.is_alive():
            self._thread.join()
        self._switch.on_transmit(None)
        self._close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def __enter__(self) -> PortRunner:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

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
            for passed in impairment.push(frame, time.monotonic()):
                self._transmit(number, passed)
            held = impairment.deadline is not None
        if held and threading.current_thread() is not self._thread:
            self._wake()  # a packet-out was held back: the waiting thread does not know its deadline

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # full: the thread is going to wake anyway
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
                        self._poll(time.monotonic())
        except BaseException as error:
            _log.exception("the port thread failed")
            if self._on_failure is not None:
                self._on_failure(error)
            raise

    def _drain(self, port: Port) -> None:
        impairment = self._inbound.get(port.number)
        number, receive, run = port.number, port.receive, self._switch.receive
        for _ in range(BATCH_FRAMES):
            frame = receive()
            if frame is None:
                return
            if impairment is None:
                run(number, frame)
                continue
            for passed in impairment.push(frame, time.monotonic()):
                run(number, passed)

    def _timeout(self) -> float | None:
        """Seconds until a held frame is due."""
        lanes = [*self._inbound.values(), *self._outbound.values()]
        deadlines = [deadline for lane in lanes if (deadline := lane.deadline) is not None]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _poll(self, now: float) -> None:
        for number, impairment in self._inbound.items():
            for frame in impairment.poll(now):
                self._switch.receive(number, frame)
        with self._send_lock:
            for number, impairment in self._outbound.items():
                for frame in impairment.poll(now):
                    self._transmit(number, frame)
