# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One port of the Python engine: an AF_PACKET raw socket on a Linux network interface."""

from __future__ import annotations

import errno
import logging
import socket
import struct
import sys

from commonlib.events import ProgramEvent, Told

from softswitch.events import SwitchEvent
from softswitch.runtime.interface import FINISH, SOL_PACKET, PortCounters, mtu_of, open_interface

_log = logging.getLogger("softswitch.ports")

PACKET_STATISTICS = 6
PACKET_AUXDATA = 8
TP_STATUS_CSUMNOTREADY = 1 << 3
TP_STATUS_VLAN_VALID = 1 << 4
TP_STATUS_VLAN_TPID_VALID = 1 << 6
ETH_P_8021Q = 0x8100
PACKET_OUTGOING = 4

MAX_FRAME_BYTES = 65536
LINK_BYTES = 18  # in front of what the MTU counts: Ethernet header and a VLAN tag

_AUXDATA = struct.Struct("IIIHHHH")  # struct tpacket_auxdata: status, len, snaplen, mac, net, vlan_tci, vlan_tpid
_STATISTICS = struct.Struct("II")  # struct tpacket_stats: packets, drops
AUXDATA_SPACE = socket.CMSG_SPACE(_AUXDATA.size)
_STATUS_BYTE = 0 if sys.byteorder == "little" else 3  # of the status word, the byte with these bits

_FULL = frozenset([errno.ENOBUFS, errno.EAGAIN])
_GONE = frozenset([errno.ENETDOWN, errno.ENXIO, errno.ENODEV])


def _with_tag(frame: bytes, auxdata: bytes) -> bytes:
    """Put back the outer VLAN tag, which Linux passes apart from the frame."""
    status, _, _, _, _, tag, kind = _AUXDATA.unpack(auxdata)
    if not status & TP_STATUS_VLAN_TPID_VALID:
        kind = ETH_P_8021Q
    return b"".join((frame[:12], struct.pack(">HH", kind, tag), frame[12:]))


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
        """The next frame; None if there is none. Frames that the machine itself sent are skipped, and so are trains."""
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
        status = extra[0][2][_STATUS_BYTE] if extra else 0
        if status & TP_STATUS_VLAN_VALID:
            frame = _with_tag(frame, extra[0][2])
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
        """Send without blocking; a frame that the interface does not take is counted and lost."""
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
            # Reading the kernel's counter resets it.
            _, drops = _STATISTICS.unpack(self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, _STATISTICS.size))
            self.counters.rx_dropped += drops
        return self.counters

    def close(self) -> None:
        self.counters_now()
        self.socket.close()
