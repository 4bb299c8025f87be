# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Random packets through both engines and through bmv2's simple_switch_grpc: the same frames come out.

Programs run with their constant entries; the frames are drawn from a fixed seed, so that a difference repeats.
"""

from __future__ import annotations

import os
import random
import selectors
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from helpers.softswitch.compile_programs import PROGRAMS
from softswitch.switch import EngineChoice, SoftSwitch
from sumwire_lab.network.switches import thrift_option

PORTS = (1, 2, 3, 4, 7, 8)  # what the programs send to
FRAMES = 80
START_TIMEOUT_S = 30.0
ANSWER_TIMEOUT_S = 30.0
QUIET_S = 0.3
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23

pytestmark = [pytest.mark.root, pytest.mark.bmv2]

Frames = list[tuple[int, bytes]]


def parse_frames(draw: random.Random) -> Frames:
    frames: Frames = []
    for _ in range(FRAMES):
        kind = draw.choice([0x7100, 0x9000, 0x90AA, 0x1234])
        frame = draw.randbytes(12) + kind.to_bytes(2)
        if kind == 0x7100:
            frame += draw.randbytes(2) + draw.choice([0x9011, 0x0800]).to_bytes(2)
        if draw.random() < 0.3:
            frame += draw.randbytes(4)
        frame += draw.choice([b"\x45", b"\x35"]) + draw.randbytes(3)
        frame += draw.choice([b"\xbe\xef", b"\xf0\x02", b"\xf0\x04", draw.randbytes(2)]) + draw.randbytes(7)
        frames.append((draw.choice([1, 3]), frame[: draw.randrange(14, len(frame) + 1)]))
    return frames


def tables_frames(draw: random.Random) -> Frames:
    """Only the tables with constant entries or none."""

    def frame() -> bytes:
        small = draw.choice([1, 2, 3, 9, 0x15, 0x42, draw.randrange(256)])
        medium = draw.choice([50, 99, 100, 500, 550, 600, 601, draw.randrange(65536)])
        address = draw.choice([0x0A020000, 0x0A010204, 0x0A010203, draw.getrandbits(32)])
        return struct.pack(">BBHIQ", draw.choice([0, 1, 4, 5, 7]), small, medium, address, 0)

    return [(1, frame()) for _ in range(FRAMES)]


def multicast_frames(draw: random.Random) -> Frames:
    def frame() -> bytes:
        return struct.pack(">HHHHII", 0, draw.choice([1, 2, 3, 4, 7, 511, 0xFFFF]), draw.randrange(65536), 5, 6, 7)

    return [(1, frame() + draw.randbytes(draw.randrange(9))) for _ in range(FRAMES)]


def wide_frames(draw: random.Random) -> Frames:
    edges = [0, 1, (1 << 1024) - 1, 1 << 1023, (1 << 512) - 1]

    def word() -> bytes:
        return draw.choice([*edges, *(draw.getrandbits(1024) for _ in range(4))]).to_bytes(128)

    def frame(op: int) -> bytes:
        index = draw.choice([0, 1, 2, 3, 4, 200, 255])
        small = draw.choice([0, 1, 99, 100, 0x7FFF, 0x8000, 0xFFFF, draw.randrange(65536)])
        return struct.pack(">BBHI", op, index, small, 0) + word() + word()

    return [(1, frame(draw.choice([*range(14), 33, 34, 35, 36, 50]))) for _ in range(FRAMES)]


def checksum_frames(draw: random.Random) -> Frames:
    frames: Frames = []
    for _ in range(FRAMES):
        header = bytearray(draw.randbytes(20) if draw.random() < 0.9 else bytes(20))
        header[1] = draw.choice([0xFF, 0, 3])
        header[10:12] = bytes(2)
        if draw.random() < 0.6:
            total = sum(struct.unpack(">10H", header))
            header[10:12] = (0xFFFF - (total % 0xFFFF or (0xFFFF if total else 0))).to_bytes(2)
        kind = draw.choice([b"\x08\x00"] * 4 + [b"\x08\x06"])
        frames.append((1, draw.randbytes(12) + kind + bytes(header) + draw.randbytes(5)))
    return frames


def corner_frames(draw: random.Random) -> Frames:
    """Without 0x13, which reads fields that bmv2 leaves from an earlier packet."""
    kinds = [*range(0x80, 0x90), *range(0x13), 0x40, 0xC5]

    def frame() -> bytes:
        value = draw.choice([0, 1, 99, 100, 0x7FFF, 0x8000, 0xFFFA, 0xFFFB, 0xFFFF, draw.randrange(65536)])
        index = draw.choice([0, 3, 4, 31, 32, 200])
        return struct.pack(">BBHI", draw.choice(kinds), index, value, draw.getrandbits(32))

    return [(1, frame() + draw.randbytes(draw.randrange(8, 20))) for _ in range(FRAMES)]


CASES: dict[str, Callable[[random.Random], Frames]] = {
    "parse": parse_frames,
    "tables": tables_frames,
    "multicast": multicast_frames,
    "wide": wide_frames,
    "checksum": checksum_frames,
    "corner": corner_frames,
}


class Wires:
    """The far ends of bmv2's ports."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._selector = selectors.DefaultSelector()
        self.sockets: dict[int, socket.socket] = {}
        for port in PORTS:
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            opened.bind((f"{prefix}p{port}", 3))
            opened.setblocking(False)
            self.sockets[port] = opened
            self._selector.register(opened, selectors.EVENT_READ, port)

    def collect(self, count: int, timeout_s: float) -> Frames:
        """``count`` frames, or what came before the time was up."""
        found: Frames = []
        deadline = time.monotonic() + timeout_s
        while len(found) < count and (left := deadline - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                found.append((key.data, self.sockets[key.data].recv(65536)))
        return sorted(found)

    def close(self) -> None:
        self._selector.close()
        for opened in self.sockets.values():
            opened.close()


@contextmanager
def veths() -> Iterator[str]:
    prefix = f"sb{os.getpid() % 100000}"
    made: list[str] = []

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    try:
        for port in PORTS:
            near, far = f"{prefix}s{port}", f"{prefix}p{port}"
            ip("link", "add", near, "type", "veth", "peer", "name", far)
            made.append(near)
            for end in (near, far):
                Path(f"/proc/sys/net/ipv6/conf/{end}/disable_ipv6").write_text("1")
                ip("link", "set", end, "up", "mtu", "2000")
        yield prefix
    finally:
        for near in made:
            ip("link", "del", near)


@contextmanager
def bmv2(program: Path, prefix: str, log: Path) -> Iterator[None]:
    interfaces = [f"{port}@{prefix}s{port}" for port in PORTS]
    ports = [word for one in interfaces for word in ("-i", one)]
    address = f"unix:{log.parent / 'p4rt'}"
    command = ["simple_switch_grpc", *thrift_option(), *ports, str(program), "--", "--grpc-server-addr", address]
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait()


def wait_until_it_forwards(wires: Wires, port: int, frame: bytes) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        wires.sockets[port].send(frame)
        if wires.collect(1, QUIET_S):
            wires.collect(1 << 30, QUIET_S)  # answers to earlier tries
            return
    raise AssertionError("bmv2 forwards nothing")


def engines() -> list[EngineChoice]:
    """The engines of this machine: the native one needs a compiler."""
    found = SoftSwitch().engine
    return ["python"] if found == "python" else ["python", found]


def on_the_wire(frames: Frames) -> Frames:
    return sorted((port, frame) for port, frame in frames if port in PORTS and len(frame) >= 14)


@pytest.mark.parametrize("name", sorted(CASES))
def test_same_frames(name: str, program_text: Callable[[str], str], tmp_path: Path) -> None:
    """bmv2 runs each program once; its frames are compared with those of every engine."""
    frames = CASES[name](random.Random(5))
    switches = {engine: SoftSwitch(program_text(name), seed=1, engine=engine) for engine in engines()}
    stateless = SoftSwitch(program_text(name), seed=1, engine="python")
    probe = next((port, frame) for port, frame in frames if any(p in PORTS for p, _ in stateless.process(port, frame)))
    with ExitStack() as stack:
        prefix = stack.enter_context(veths())
        wires = Wires(prefix)
        stack.callback(wires.close)
        stack.enter_context(bmv2(PROGRAMS / f"{name}.json", prefix, tmp_path / "bmv2.log"))
        # A frame that leaves no state behind starts the comparison.
        wait_until_it_forwards(wires, *probe)
        for number, (port, frame) in enumerate(frames):
            expected = {engine: on_the_wire(switch.process(port, frame)) for engine, switch in switches.items()}
            wires.sockets[port].send(frame)
            found = wires.collect(max(map(len, expected.values())), ANSWER_TIMEOUT_S)
            for engine, sent in expected.items():
                assert found == sent, f"{engine} engine, frame {number} in at port {port}: {frame.hex()}"
        assert wires.collect(1, QUIET_S) == []
