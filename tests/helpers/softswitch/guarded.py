# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the emitted C of a program between guard pages: what reads or writes outside ends the process."""

from __future__ import annotations

import ctypes
import mmap
import random
import sys
from collections.abc import Sequence

from helpers.softswitch.compile_programs import PROGRAMS
from softswitch.native.engine import NativeMachine
from softswitch.runtime.impair import SplitMix


class SinkFrame(ctypes.Structure):
    _fields_ = (("port", ctypes.c_uint32), ("length", ctypes.c_uint32), ("data", ctypes.c_void_p))


class Sink(ctypes.Structure):
    """``struct ss_sink`` of engine.h."""

    _fields_ = (
        ("arena", ctypes.c_void_p), ("capacity", ctypes.c_size_t), ("used", ctypes.c_size_t),
        ("frames", ctypes.POINTER(SinkFrame)), ("count", ctypes.c_uint32), ("limit", ctypes.c_uint32),
        ("flush", ctypes.c_void_p), ("owner", ctypes.c_void_p),
    )  # fmt: skip


Flush = ctypes.CFUNCTYPE(None, ctypes.POINTER(Sink))
Process = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.POINTER(Sink)
)
PROCESS_OFFSET = 32  # of `process` in struct ss_program
ARENA = 200


class Guarded:
    """A page between two guard pages."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 3 * mmap.PAGESIZE)
        self.first = ctypes.addressof(ctypes.c_char.from_buffer(self._memory)) + mmap.PAGESIZE
        self.end = self.first + mmap.PAGESIZE
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        for page in (self.first - mmap.PAGESIZE, self.end):
            assert protect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0, ctypes.get_errno()


def hammer(machine: NativeMachine, frames: Sequence[bytes], sent: ctypes.c_uint64) -> None:
    """Every frame at the start and at the end of its page, with room for `ARENA` bytes of answers at a page's end."""
    incoming, outgoing = Guarded(), Guarded()

    def flush(sink: ctypes._Pointer[Sink]) -> None:
        sent.value += sink.contents.count
        sink.contents.count = sink.contents.used = 0

    callback = Flush(flush)
    records = (SinkFrame * 4)()
    sink = Sink(outgoing.end - ARENA, ARENA, 0, records, 0, 4, ctypes.cast(callback, ctypes.c_void_p), None)
    program = ctypes.c_void_p.from_address(machine.address).value
    assert program is not None
    process = Process(ctypes.c_void_p.from_address(program + PROCESS_OFFSET).value)  # type: ignore[arg-type]
    for frame in frames:
        for at in (incoming.first, incoming.end - len(frame)):
            ctypes.memmove(at, frame, len(frame))
            process(machine.address, 1, at, len(frame), 0, ctypes.byref(sink))
    flush(ctypes.pointer(sink))


def main(name: str) -> int:
    """0 if some frames left the program `name`, 3 if none did."""
    machine = NativeMachine((PROGRAMS / f"{name}.json").read_text(), SplitMix(1), lambda: 0)
    rng = random.Random(11)
    frames = [rng.randbytes(length) for length in range(700)]
    frames += [bytes([rng.choice([0, 1, 2, 3, 8])]) * length for length in range(0, 700, 3)]
    sent = ctypes.c_uint64()
    hammer(machine, frames, sent)
    return 0 if sent.value else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
