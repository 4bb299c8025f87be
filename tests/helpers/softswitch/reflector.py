# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A program in C, without P4, for tests of the native ports: each frame says by which ports it leaves.

IP and ARP pass unchanged between the ports of a pair: 1 and 2, 3 and 4, and so on.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from ctypes import c_uint64, c_void_p
from pathlib import Path

from nativelib import build, load
from softswitch.native import ports as portlib

NATIVE = Path(portlib.__file__).parent
PORT_BYTE, COPIES_BYTE, MARK_BYTE = 14, 15, 16
"""Behind the Ethernet header: port of the first copy, number of copies (one port up each), what the program adds to."""

_SOURCE = """
#include "program_lock.h"
#include <stdatomic.h>
#include <time.h>

struct reflector {
  struct ss_machine machine;
  uint64_t mark;           // added to the mark byte of every frame
  uint64_t spin_ns;        // how long a packet takes
  _Atomic uint64_t busy;   // 1 while a packet runs
  _Atomic uint64_t packets;
  uint64_t last_us;
};

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int passes(const uint8_t *frame, uint32_t length) {
  static const uint16_t kinds[] = {0x0800, 0x0806, 0x86DD};
  for (int i = 0; length >= 14 && i < 3; i++) {
    if (frame[12] == kinds[i] >> 8 && frame[13] == (kinds[i] & 255)) return 1;
  }
  return 0;
}

static void process(struct ss_machine *machine, uint32_t port, const uint8_t *frame, uint32_t length, uint64_t now_us,
                    struct ss_sink *sink) {
  struct reflector *self = (struct reflector *)machine;
  atomic_store_explicit(&self->busy, 1, memory_order_relaxed);
  if (self->spin_ns != 0) for (uint64_t end = now_ns() + self->spin_ns; now_ns() < end;);
  self->last_us = now_us;
  if (passes(frame, length)) {
    uint8_t *out = ss_reserve(sink, length);
    if (out != NULL) {
      memcpy(out, frame, length);
      ss_commit(sink, port % 2 ? port + 1 : port - 1, length);
    }
  } else if (length > 16) {
    for (uint32_t copy = 0; copy < frame[15]; copy++) {
      uint8_t *out = ss_reserve(sink, length);
      if (out == NULL) break;
      memcpy(out, frame, length);
      out[16] = (uint8_t)(out[16] + self->mark);
      ss_commit(sink, frame[14] + copy + (frame[14] == 255 ? 255 : 0), length);
    }
  }
  atomic_store_explicit(&self->packets, self->packets + 1, memory_order_relaxed);
  atomic_store_explicit(&self->busy, 0, memory_order_relaxed);
}

static const struct ss_program program = {.process = process};

struct reflector *reflector_new(uint64_t mark, uint64_t spin_ns) {
  struct reflector *self = calloc(1, sizeof *self);
  *self = (struct reflector){.machine = {.program = &program}, .mark = mark, .spin_ns = spin_ns};
  return self;
}
void reflector_free(struct reflector *self) { free(self); }
uint64_t reflector_packets(struct reflector *self) { return self->packets; }
uint64_t reflector_busy(struct reflector *self) { return self->busy; }
uint64_t reflector_last_us(struct reflector *self) { return self->last_us; }

// Packets that ran between the wish to come in and being in.
uint64_t reflector_wait(struct ss_lock *lock, struct reflector *self) {
  uint64_t before = self->packets;
  ss_lock_enter(lock);
  uint64_t after = self->packets;
  ss_lock_leave(lock);
  return after - before;
}
"""

_FUNCTIONS = {
    "reflector_new": (c_void_p, (c_uint64, c_uint64)),
    "reflector_free": (None, (c_void_p,)),
    "reflector_packets": (c_uint64, (c_void_p,)),
    "reflector_busy": (c_uint64, (c_void_p,)),
    "reflector_last_us": (c_uint64, (c_void_p,)),
    "reflector_wait": (c_uint64, (c_void_p, c_void_p)),
}


@functools.cache
def _library() -> ctypes.CDLL:
    source = f"#include <stdlib.h>\n{_SOURCE}"
    library = load(
        build(
            "softswitch-test-reflector",
            [NATIVE / "program_lock.c"],
            generated={"reflector.c": source},
            includes=[NATIVE],
            flags=["-D_GNU_SOURCE", "-pthread"],
        )
    )
    for name, (result, arguments) in _FUNCTIONS.items():
        getattr(library, name).restype = result
        getattr(library, name).argtypes = arguments
    return library


class Reflector:
    """A machine whose program is the C in this file. ``spin_ns``: the least time that a packet takes."""

    def __init__(self, mark: int = 1, spin_ns: int = 0) -> None:
        self._library = _library()
        self.address: int = self._library.reflector_new(mark, spin_ns)

    def __enter__(self) -> Reflector:
        return self

    def __exit__(self, *_: object) -> None:
        """Free the memory. If the machine is still in use, this crashes, or fails under a sanitizer."""
        self._library.reflector_free(self.address)
        self.address = 0

    @property
    def packets(self) -> int:
        """How many have run so far."""
        return int(self._library.reflector_packets(self.address))

    @property
    def is_busy(self) -> bool:
        """True while a packet runs."""
        return bool(self._library.reflector_busy(self.address))

    @property
    def last_us(self) -> int:
        """Timestamp of the last packet."""
        return int(self._library.reflector_last_us(self.address))

    def packets_until_in(self, lock: int) -> int:
        """Take the lock; returns how many packets ran before it was free."""
        return int(self._library.reflector_wait(lock, self.address))


def frame(port: int, copies: int = 1, mark: int = 0, length: int = 60) -> bytes:
    """A frame that leaves by ``port``, ``port`` + 1 and so on. 255 stands for port 510."""
    told = 255 if port == 510 else port
    return bytes(12) + b"\x88\xb5" + bytes([told, copies, mark]) + bytes(length - 17)


class ReflectingSwitch:
    """What NativePortRunner needs of a switch, without P4 behind it."""

    def __init__(self, cpu_port: int | None = None) -> None:
        self.cpu_port = cpu_port
        self.cpu_frames: list[bytes] = []
        self.transmit: Callable[[int, bytes], None] | None = None

    def to_cpu(self, frame: bytes) -> None:
        self.cpu_frames.append(frame)

    def on_transmit(self, transmit: Callable[[int, bytes], None] | None) -> None:
        self.transmit = transmit
