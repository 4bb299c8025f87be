# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Impairments in C compared with those in Python: the same frames at the same times."""

from __future__ import annotations

import ctypes
import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from softswitch.native.ports import port_library, spec_struct
from softswitch.runtime.impair import HOLD_LIMIT_NS, Impairment, ImpairmentSpec

pytestmark = pytest.mark.cc

SPECS = [
    ImpairmentSpec(),
    ImpairmentSpec(drop=0.1, dup=0.1, reorder=0.1, seed=7),
    ImpairmentSpec(drop=0.5, dup=0.5, reorder=0.5, seed=2**70),
    ImpairmentSpec(reorder=1.0, seed=-1),
    ImpairmentSpec(dup=1.0, reorder=0.9, seed=3),
    ImpairmentSpec(drop=1.0, dup=1.0, reorder=1.0),
    ImpairmentSpec(drop=0.1, dup=0.2, reorder=0.2, delay_ms=25.0, seed=7),
    ImpairmentSpec(delay_ms=0.0001),
]


# ss_pass_fn: context, frame, length
Pass = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32)


class NativeImpairment:
    """The C state machine with the interface of Impairment."""

    def __init__(self, address: int) -> None:
        self._address = address
        self._library = port_library()
        self._passed: list[bytes] = []
        self._pass = Pass(lambda _, data, length: self._passed.append(ctypes.string_at(data, length)))

    def push(self, frame: bytes, now_ns: int) -> list[bytes]:
        self._library.ss_impair_push(self._address, frame, len(frame), now_ns, self._pass, None)
        return self._take()

    def poll(self, now_ns: int) -> list[bytes]:
        self._library.ss_impair_poll(self._address, now_ns, self._pass, None)
        return self._take()

    @property
    def deadline_ns(self) -> int | None:
        deadline = int(self._library.ss_impair_deadline(self._address))
        return None if deadline == 2**64 - 1 else deadline

    @property
    def counts(self) -> tuple[int, int, int]:
        """Dropped, duplicated, reordered."""
        counters = self._library.ss_impair_counters()
        self._library.ss_impair_read_counters(self._address, counters)
        return counters.dropped, counters.duplicated, counters.reordered

    def _take(self) -> list[bytes]:
        passed, self._passed[:] = list(self._passed), []
        return passed


@contextmanager
def native_impairment(spec: ImpairmentSpec, direction: str) -> Iterator[NativeImpairment]:
    library = port_library()
    address = library.ss_impair_new(spec_struct(spec, direction))
    try:
        yield NativeImpairment(address)
    finally:
        library.ss_impair_free(address)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_both_engines_decide_alike(spec: ImpairmentSpec) -> None:
    draw = random.Random(1)
    now_ns = 10**15
    reference = Impairment(spec, "3 rx")
    with native_impairment(spec, "3 rx") as impairment:
        for number in range(5000):
            # Often many in a burst, sometimes a gap in which the time of held frames is up, to the nanosecond.
            now_ns += draw.choice([0, 0, 1, 900, HOLD_LIMIT_NS // 3, HOLD_LIMIT_NS - 1, HOLD_LIMIT_NS])
            if draw.random() < 0.2:
                assert impairment.poll(now_ns) == reference.poll(now_ns)
            frame = number.to_bytes(4) + bytes(draw.choice([0, 10, 60, 1500]))
            assert impairment.push(frame, now_ns) == reference.push(frame, now_ns)
            assert impairment.deadline_ns == reference.deadline_ns
        for end in (now_ns + HOLD_LIMIT_NS, now_ns + HOLD_LIMIT_NS + spec.delay_ns):
            assert impairment.poll(end) == reference.poll(end)
        assert impairment.deadline_ns is None
        counters = reference.counters
        assert impairment.counts == (counters.dropped, counters.duplicated, counters.reordered)


def first_draw(seed: int, direction: str) -> int:
    """SplitMix64's first number, computed independently from the paper."""
    state = int.from_bytes(hashlib.sha256(f"{seed} {direction}".encode()).digest()[:8], "little")
    z = (state + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


@pytest.mark.parametrize("seed", [0, 7, 123456789])
def test_a_probability_holds_to_its_last_bit(seed: int) -> None:
    exact = (first_draw(seed, "1 tx") >> 11) / 2**53
    for drop, lost in ((exact, False), (exact + 2**-53, True)):
        spec = ImpairmentSpec(drop=drop, seed=seed)
        assert Impairment(spec, "1 tx").push(b"frame", 0) == ([] if lost else [b"frame"])
        with native_impairment(spec, "1 tx") as impairment:
            assert impairment.push(b"frame", 0) == ([] if lost else [b"frame"])


def test_many_frames_can_be_held_at_once() -> None:
    frames = [number.to_bytes(4) * number for number in range(1000)]
    with native_impairment(ImpairmentSpec(reorder=1.0), "1 rx") as impairment:
        for frame in frames:
            assert impairment.push(frame, 5) == []
        assert impairment.poll(5 + HOLD_LIMIT_NS - 1) == []
        assert impairment.poll(5 + HOLD_LIMIT_NS) == frames
