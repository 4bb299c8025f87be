# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Mutated packets of samples through bmv2's simple_switch_grpc as well, on veth pairs; needs root.

Only samples whose packet test writes nothing: their tables are empty, or have the program's own entries.
"""

from __future__ import annotations

import os
import selectors
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from helpers.softswitch.veths import ip, wait_for_carrier
from sumwire_lab.network.switches import thrift_option

COMMAND = "simple_switch_grpc"
PORTS = tuple(range(11))
LEAST_BYTES = 14  # that a packet socket sends
_START_S, _ANSWER_S, _QUIET_S = 20.0, 2.0, 0.02
_FRAME_BYTES = 65536
_SOL_PACKET, _IGNORE_OUTGOING, _ALL = 263, 23, 3
# The kernel takes the first 802.1Q tag out of a frame and tells it beside it: struct tpacket_auxdata of packet(7).
_AUXDATA = struct.Struct("=IIIHHHH")
_PACKET_AUXDATA, _TAG_VALID, _TYPE_VALID = 8, 1 << 4, 1 << 6
_ADDRESSES_BYTES, _802_1Q = 12, 0x8100

Frames = list[tuple[int, bytes]]


class NoBmv2Error(Exception):
    """bmv2 or root's rights are missing, or bmv2 did not start."""


def missing() -> str:
    """What this machine lacks, empty if nothing."""
    if shutil.which(COMMAND) is None:
        return f"{COMMAND} is not on PATH"
    return "" if os.geteuid() == 0 else "bmv2's ports need root"


@contextmanager
def wires() -> Iterator[Wires]:
    """Veth pairs for bmv2's ports."""
    prefix = f"sv{os.getpid() % 100000}"
    with ExitStack() as stack:
        for port in PORTS:
            near, far = f"{prefix}s{port}", f"{prefix}p{port}"
            ip("link", "add", near, "type", "veth", "peer", "name", far)
            stack.callback(ip, "link", "del", near)
            for end in (near, far):
                Path(f"/proc/sys/net/ipv6/conf/{end}/disable_ipv6").write_text("1")
                ip("link", "set", end, "up", "mtu", "9000")
        for port in PORTS:
            for end in (f"{prefix}s{port}", f"{prefix}p{port}"):
                wait_for_carrier(end)
        made = Wires(prefix)
        stack.callback(made.close)
        yield made


class Wires:
    """The far ends."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._selector = selectors.DefaultSelector()
        self._sockets: dict[int, socket.socket] = {}
        for port in PORTS:
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            opened.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
            opened.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
            opened.bind((f"{prefix}p{port}", _ALL))
            opened.setblocking(False)
            self._sockets[port] = opened
            self._selector.register(opened, selectors.EVENT_READ, port)

    def close(self) -> None:
        self._selector.close()
        for opened in self._sockets.values():
            opened.close()

    def answers(self, port: int, frame: bytes, count: int, within_s: float = _ANSWER_S) -> Frames:
        """What leaves for a frame, in the order of ports: ``count`` frames, and what comes soon after them."""
        self._sockets[port].send(frame)
        found = self._collect(count, within_s)
        return sorted(found + self._collect(1 << 30, _QUIET_S))

    def drain(self) -> None:
        self._collect(1 << 30, _QUIET_S)

    def _collect(self, count: int, seconds: float) -> Frames:
        found: Frames = []
        deadline = time.monotonic() + seconds
        while len(found) < count and (left := deadline - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                found.append((key.data, received(self._sockets[key.data])))
        return found


def received(link: socket.socket) -> bytes:
    """A frame from a packet socket with auxdata, with its tag."""
    frame, beside, _, _ = link.recvmsg(_FRAME_BYTES, socket.CMSG_SPACE(_AUXDATA.size))
    for level, kind, data in beside:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
            status, *_, tag, tag_type = _AUXDATA.unpack(data[: _AUXDATA.size])
            if status & _TAG_VALID:
                tagged = struct.pack(">HH", tag_type if status & _TYPE_VALID else _802_1Q, tag)
                return frame[:_ADDRESSES_BYTES] + tagged + frame[_ADDRESSES_BYTES:]
    return frame


@contextmanager
def running(program: Path, wired: Wires, folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """bmv2 with a program's JSON, and its process; it serves P4Runtime at ``p4rt.sock`` in the folder. Raises
    NoBmv2Error if it ends before it listens."""
    ports = [word for port in PORTS for word in ("-i", f"{port}@{wired.prefix}s{port}")]
    address = folder / "p4rt.sock"
    address.unlink(missing_ok=True)
    command = [COMMAND, *thrift_option(), *options, *ports, str(program), "--", "--grpc-server-addr", f"unix:{address}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + _START_S
            while not _listens(address):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise NoBmv2Error(f"{COMMAND} ended with {process.poll()} before it listened")
            wired.drain()
            yield process
        finally:
            process.terminate()
            process.wait()


def _listens(address: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as tried:
        tried.settimeout(_QUIET_S)
        with suppress(OSError):
            tried.connect(str(address))
            return True
    with socket.socket() as never, suppress(OSError):  # waits without a sleep
        never.settimeout(_QUIET_S)
        never.bind(("127.0.0.1", 0))
        never.listen()
        never.accept()
    return False


def on_the_wire(frames: Sequence[tuple[int, bytes]]) -> Frames:
    """What a veth pair carries of ``frames``."""
    return sorted((port, frame) for port, frame in frames if port in PORTS and len(frame) >= LEAST_BYTES)
