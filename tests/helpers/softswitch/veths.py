# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""veth pairs: one end is a port of the switch, the other a host of the test."""

from __future__ import annotations

import fcntl
import itertools
import os
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TIMEOUT_S = 30.0
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
SO_RCVBUFFORCE = 33
SIOCGIFFLAGS, IFF_RUNNING = 0x8913, 0x40
_FLAGS = struct.Struct("16sH22x")  # struct ifreq
_MADE = itertools.count()


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def wait_for_carrier(interface: str) -> None:
    """Wait until the kernel has brought an interface up; frames sent before are lost.

    Asked by a call, because /sys has the interfaces of the network namespace in which it was mounted.
    """
    asked = _FLAGS.pack(interface.encode(), 0)
    deadline = time.monotonic() + TIMEOUT_S
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        while not _FLAGS.unpack(fcntl.ioctl(any_socket, SIOCGIFFLAGS, asked))[1] & IFF_RUNNING:
            assert time.monotonic() < deadline, f"{interface} does not come up"
            time.sleep(0.001)  # between two looks


@contextmanager
def veth_pairs(count: int, mtu: int = 1500) -> Iterator[dict[int, str]]:
    """Ports 1..count -> interface. The peer of interface X is Xp."""
    prefix = f"s{os.getpid() % 100000}n{next(_MADE) % 1000}"
    names = {number: f"{prefix}v{number}" for number in range(1, count + 1)}
    made: list[str] = []
    try:
        for name in names.values():
            ip("link", "add", name, "type", "veth", "peer", "name", f"{name}p")
            made.append(name)
            for end in (name, f"{name}p"):
                Path(f"/proc/sys/net/ipv6/conf/{end}/disable_ipv6").write_text("1")
                ip("link", "set", end, "up", "mtu", str(mtu))
        for name in made:
            for end in (name, f"{name}p"):
                wait_for_carrier(end)
        yield names
    finally:
        for name in made:
            subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)


class Host:
    """The far end of a port."""

    def __init__(self, interface: str) -> None:
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
        self.socket.bind((f"{interface}p", 3))
        self.socket.settimeout(TIMEOUT_S)

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
