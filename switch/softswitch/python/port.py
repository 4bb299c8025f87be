# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One port of the Python engine: an AF_PACKET raw socket on a Linux network interface."""

from __future__ import annotations

import errno
import socket
import struct
import sys

from softswitch.runtime.interface import SOL_PACKET, PortCounters, open_interface

PACKET_STATISTICS = 6
PACKET_AUXDATA = 8
TP_STATUS_VLAN_VALID = 1 << 4
TP_STATUS_VLAN_TPID_VALID = 1 << 6
ETH_P_8021Q = 0x8100
PACKET_OUTGOING = 4

MAX_FRAME_BYTES = 65536

_AUXDATA = struct.Struct("IIIHHHH")  # struct tpacket_auxdata: status, len, snaplen, mac, net, vlan_tci, vlan_tpid
_STATISTICS = struct.Struct("II")  # struct tpacket_stats: packets, drops
AUXDATA_SPACE = socket.CMSG_SPACE(_AUXDATA.size)
_STATUS_BYTE = 0 if sys.byteorder == "little" else 3  # of the status word, the byte with the two VLAN bits

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
        self.socket = open_interface(number, interface, lambda opened: opened.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1))

    def receive(self) -> bytes | None:
        """The next frame; None if there is none. Frames that the machine itself sent are skipped."""
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
