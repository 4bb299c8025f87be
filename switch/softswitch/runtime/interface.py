# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packet sockets on Linux network interfaces, the counters of ports, and trains of packets.

A train is packets of one flow that cross an interface as one frame (Linux: GSO, GRO).
"""

from __future__ import annotations

import fcntl
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ETH_P_ALL = 0x0003
SOL_PACKET = 263
PACKET_ADD_MEMBERSHIP = 1
PACKET_MR_PROMISC = 1
PACKET_OUTGOING = 4
PACKET_STATISTICS = 6
PACKET_AUXDATA = 8
PACKET_IGNORE_OUTGOING = 23  # Linux 4.20
SO_SNDBUFFORCE = 32
SO_RCVBUFFORCE = 33
SIOCGIFMTU = 0x8921
TP_STATUS_VLAN_VALID = 1 << 4
TP_STATUS_VLAN_TPID_VALID = 1 << 6
ETH_P_8021Q = 0x8100

BUFFER_BYTES = 16 << 20

# What mends a port that cannot be opened.
CURE = "see `ip link`, and give interfaces that are there and up: -i PORT@INTERFACE"
# What mends frames that their sender left for its network card to finish.
FINISH = "turn offloads off on the hosts behind the ports: ethtool -K IFACE tx off gso off tso off"
_AUXDATA = struct.Struct("IIIHHHH")  # struct tpacket_auxdata: status, len, snaplen, mac, net, vlan_tci, vlan_tpid
_STATISTICS = struct.Struct("II")  # struct tpacket_stats: packets, drops
AUXDATA_SPACE = socket.CMSG_SPACE(_AUXDATA.size)
STATUS_BYTE = 0 if sys.byteorder == "little" else 3  # of the status word, the byte with the bits that are used here
_NAMED_NUMBER = struct.Struct("16si20x")  # struct ifreq


class PortError(Exception):
    """A port that cannot be opened or used; the message names port, interface and reason."""


@dataclass
class PortCounters:
    """Counters of one port. The packets of a train count one by one.

    ``tx_dropped``: the interface's queue was full, or the interface was down. ``tx_refused``: frames longer than its
    MTU. ``rx_dropped``: frames lost because the switch did not keep up. ``rx_cut``: frames that are too long for a
    packet, and that the port cannot split. ``rx_refused``: frames whose checksum or segmentation the sender left to its
    network card, and that the port cannot complete. ``rx_trains``, ``tx_trains``: frames that were trains.
    """

    rx_frames: int = 0
    rx_bytes: int = 0
    tx_frames: int = 0
    tx_bytes: int = 0
    tx_dropped: int = 0
    tx_refused: int = 0
    rx_dropped: int = 0
    rx_cut: int = 0
    rx_refused: int = 0
    rx_trains: int = 0
    tx_trains: int = 0


def open_interface(number: int, interface: str, prepare: Callable[[socket.socket], None]) -> socket.socket:
    """Return a non-blocking packet socket that receives every frame of an interface.

    ``prepare`` is called with the socket before it receives anything.

    Raises PortError, also for an OSError of ``prepare``.
    """
    try:
        # Protocol 0 until it is bound: a socket made with ETH_P_ALL takes frames of every interface before bind.
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    except PermissionError as error:
        raise PortError(
            f"port {number} on {interface}: packet sockets need root (CAP_NET_RAW): run it as root"
        ) from error
    try:
        _configure(opened, interface)
        prepare(opened)
        opened.bind((interface, ETH_P_ALL))
    except OSError as error:
        opened.close()
        raise PortError(f"port {number} on {interface}: {error.strerror or error}; {CURE}") from error
    return opened


def _configure(opened: socket.socket, interface: str) -> None:
    opened.setblocking(False)
    for option in (SO_RCVBUFFORCE, SO_SNDBUFFORCE):
        opened.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
    with suppress(OSError):  # before Linux 4.20 the receiver has to skip them
        opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    index = socket.if_nametoindex(interface)
    membership = struct.pack("iHH8s", index, PACKET_MR_PROMISC, 0, b"")
    opened.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, membership)


def mtu_of(opened: socket.socket, interface: str) -> int:
    """Return the interface's MTU: bytes behind the Ethernet header. Raises OSError."""
    answer = fcntl.ioctl(opened, SIOCGIFMTU, _NAMED_NUMBER.pack(interface.encode(), 0))
    mtu: int = _NAMED_NUMBER.unpack(answer)[1]
    return mtu


def with_tag(frame: bytes, auxdata: bytes) -> bytes:
    """Put back the outer VLAN tag, which Linux passes apart from the frame."""
    status, _, _, _, _, tag, kind = _AUXDATA.unpack(auxdata)
    if not status & TP_STATUS_VLAN_TPID_VALID:
        kind = ETH_P_8021Q
    return b"".join((frame[:12], struct.pack(">HH", kind, tag), frame[12:]))


def kernel_drops(opened: socket.socket) -> int:
    """Return how many frames a packet socket has lost since the last call."""
    _, drops = _STATISTICS.unpack(opened.getsockopt(SOL_PACKET, PACKET_STATISTICS, _STATISTICS.size))
    lost: int = drops
    return lost


MOST_BYTES = 65535
LONGEST_S = 0.0005  # that a train occupies its link, so that an urgent packet behind it does not wait longer
UNKNOWN_MBIT = 1000.0  # of an interface that does not tell its speed
_SPEED = "/sys/class/net/{}/speed"


@dataclass(frozen=True)
class TrainSpec:
    """The trains that the native engine's ports receive and send.

    ``link_mbit``: the rate of the links behind the ports, if it is lower than the interfaces' rate. ``allowed``: False
    for an interface on which trains are of no advantage; packets are then received and sent one by one, with their
    checksums.
    """

    link_mbit: float | None = None
    allowed: bool = True


DEFAULT_TRAINS = TrainSpec()


def train_bytes(mbit: float) -> int:
    """Return the longest train that a link of this rate carries in :data:`LONGEST_S`, at most 64 KB."""
    return min(MOST_BYTES, int(mbit * 1e6 / 8 * LONGEST_S))


def speed_mbit(interface: str) -> float:
    """Return the speed that an interface reports. A queueing discipline on it may be slower."""
    told = known_mbit(interface)
    return UNKNOWN_MBIT if told is None else told


def known_mbit(interface: str, link_mbit: float | None = None) -> float | None:
    """Return the rate of an interface's link: ``link_mbit``, or the speed that it reports; None if it reports none."""
    if link_mbit is not None:
        return link_mbit
    with suppress(OSError, ValueError):  # down, or of a kind without a speed
        told = float(Path(_SPEED.format(interface)).read_text())
        if told > 0:
            return told
    return None
