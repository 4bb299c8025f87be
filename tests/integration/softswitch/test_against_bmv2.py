# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Random packets through both engines and through bmv2's simple_switch_grpc: the same frames come out.

Programs run with their constant entries; the frames are drawn from a fixed seed, so that a difference repeats.
"""

from __future__ import annotations

import random
import signal
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz.samples import bmv2
from helpers.softswitch.compile_programs import PROGRAMS
from softswitch.switch import EngineChoice, SoftSwitch

FRAMES = 80
ANSWER_TIMEOUT_S = 30.0

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


def engines() -> list[EngineChoice]:
    """The engines of this machine: the native one needs a compiler."""
    found = SoftSwitch().engine
    return ["python"] if found == "python" else ["python", found]


@pytest.mark.parametrize("name", sorted(CASES))
def test_same_frames(name: str, program_text: Callable[[str], str], tmp_path: Path) -> None:
    """bmv2 runs each program once; its frames are compared with those of every engine."""
    switches = {engine: SoftSwitch(program_text(name), seed=1, engine=engine) for engine in engines()}
    with bmv2.wires() as wires, bmv2.running(PROGRAMS / f"{name}.json", wires, tmp_path) as process:
        for number, (port, frame) in enumerate(CASES[name](random.Random(5))):
            expected = {engine: bmv2.on_the_wire(switch.process(port, frame)) for engine, switch in switches.items()}
            found = wires.answers(port, frame, max(map(len, expected.values())), ANSWER_TIMEOUT_S)
            if process.poll() == -signal.SIGSEGV:
                pytest.skip(f"bmv2 died at frame {number}: built with NDEBUG, it checks no index of a register")
            for engine, sent in expected.items():
                assert found == sent, f"{engine} engine, frame {number} in at port {port}: {frame.hex()}"
