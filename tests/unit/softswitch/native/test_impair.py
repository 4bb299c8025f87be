# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Impairments in C against those in Python: the same frames, at the same times, to the last bit of a probability."""

from __future__ import annotations

import ctypes
import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from softswitch.native.portlib import LaneCounters, Pass, port_library
from softswitch.native.ports import lane_spec
from softswitch.runtime.impair import HOLD_LIMIT_NS, Impairment, ImpairmentSpec

pytestmark = pytest.mark.cc

SPECS = [
    ImpairmentSpec(),
    ImpairmentSpec(drop=0.1, dup=0.1, reorder=0.1, seed=7),
    ImpairmentSpec(drop=0.5, dup=0.5, reorder=0.5, seed=2**70),
    ImpairmentSpec(reorder=1.0, seed=-1),
    ImpairmentSpec(dup=1.0, reorder=0.9, seed=3),
    ImpairmentSpec(drop=1.0, dup=1.0, reorder=1.0),
]


class NativeLane:
    """The C state machine with the interface of Impairment."""

    def __init__(self, address: int) -> None:
        self._address = address
        self._library = port_library()
        self._passed: list[bytes] = []
        self._pass = Pass(lambda _, data, length: self._passed.append(ctypes.string_at(data, length)))

    def push(self, frame: bytes, now_ns: int) -> list[bytes]:
        self._library.ss_lane_push(self._address, frame, len(frame), now_ns, self._pass, None)
        return self._take()

    def poll(self, now_ns: int) -> list[bytes]:
        self._library.ss_lane_poll(self._address, now_ns, self._pass, None)
        return self._take()

    @property
    def deadline_ns(self) -> int | None:
        deadline = int(self._library.ss_lane_deadline(self._address))
        return None if deadline == 2**64 - 1 else deadline

    @property
    def counts(self) -> tuple[int, int, int]:
        """Dropped, duplicated, reordered."""
        counters = LaneCounters()
        self._library.ss_lane_read_counters(self._address, ctypes.byref(counters))
        return counters.dropped, counters.duplicated, counters.reordered

    def _take(self) -> list[bytes]:
        passed, self._passed[:] = list(self._passed), []
        return passed


@contextmanager
def native_lane(spec: ImpairmentSpec, lane: str) -> Iterator[NativeLane]:
    library = port_library()
    address = library.ss_lane_new(ctypes.byref(lane_spec(spec, lane)))
    try:
        yield NativeLane(address)
    finally:
        library.ss_lane_free(address)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_both_engines_decide_alike(spec: ImpairmentSpec) -> None:
    draw = random.Random(1)
    now_ns = 10**15
    reference = Impairment(spec, "3 rx")
    with native_lane(spec, "3 rx") as lane:
        for number in range(5000):
            # Often many in a burst, sometimes a gap in which the time of held frames is up, to the nanosecond.
            now_ns += draw.choice([0, 0, 1, 900, HOLD_LIMIT_NS // 3, HOLD_LIMIT_NS - 1, HOLD_LIMIT_NS])
            if draw.random() < 0.2:
                assert lane.poll(now_ns) == reference.poll(now_ns)
            frame = number.to_bytes(4) + bytes(draw.choice([0, 10, 60, 1500]))
            assert lane.push(frame, now_ns) == reference.push(frame, now_ns)
            assert lane.deadline_ns == reference.deadline_ns
        assert lane.poll(now_ns + HOLD_LIMIT_NS) == reference.poll(now_ns + HOLD_LIMIT_NS)
        assert lane.deadline_ns is None
        counters = reference.counters
        assert lane.counts == (counters.dropped, counters.duplicated, counters.reordered)


def first_draw(seed: int, lane: str) -> int:
    """SplitMix64's first number, written down once more from its paper, from the state that the page describes."""
    state = int.from_bytes(hashlib.sha256(f"{seed} {lane}".encode()).digest()[:8], "little")
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
        with native_lane(spec, "1 tx") as lane:
            assert lane.push(b"frame", 0) == ([] if lost else [b"frame"])


def test_many_frames_can_be_held_at_once() -> None:
    frames = [number.to_bytes(4) * number for number in range(1000)]
    with native_lane(ImpairmentSpec(reorder=1.0), "1 rx") as lane:
        for frame in frames:
            assert lane.push(frame, 5) == []
        assert lane.poll(5 + HOLD_LIMIT_NS - 1) == []
        assert lane.poll(5 + HOLD_LIMIT_NS) == frames
