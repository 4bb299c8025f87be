# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Random numbers, and loss, duplication, reordering and delay of frames, for tests.

Both engines draw the same sequence from the same seed. The state machine of impairments has neither threads nor a clock
of its own: the fate of the n-th frame in one direction of a port depends only on the seed, the port and the direction.
So the same traffic gives the same result in every run and engine.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

LIMB_BITS = 64
_MASK = (1 << LIMB_BITS) - 1


class SplitMix:
    """The generator SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). With ``seed`` None the system provides one.

    The state lies at ``address``, so that the native engine draws from the same sequence.
    """

    def __init__(self, seed: int | None = None) -> None:
        chosen = int.from_bytes(os.urandom(8), "little") if seed is None else seed
        self._state = ctypes.c_uint64(chosen & _MASK)
        self.address = ctypes.addressof(self._state)

    def next(self) -> int:
        """Return 64 random bits."""
        state = (self._state.value + 0x9E3779B97F4A7C15) & _MASK
        self._state.value = state
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        return state ^ (state >> 31)

    def integer(self, low: int, high: int, limbs: int) -> int:
        """Return a number in low..high from ``limbs`` draws of 64 bits, the least significant first."""
        drawn = 0
        for limb in range(limbs):
            drawn |= self.next() << (LIMB_BITS * limb)
        return low + ((drawn * (high - low + 1)) >> (LIMB_BITS * limbs))


MAX_HELD_FRAMES = 3  # later frames that may overtake a held one
HOLD_LIMIT_NS = 5_000_000  # a held frame goes out after this time at the latest
DELAY_MAX_MS = 10_000.0
_NS_PER_MS = 1_000_000


class ImpairmentError(ValueError):
    """An impairment specification that cannot be used; the message names key, value and rule."""


@dataclass(frozen=True)
class ImpairmentSpec:
    """Impairments. Probabilities are per frame, each in 0..1. ``delay_ms``: finally every frame is delayed by so many
    milliseconds. ``ports`` None means all. Raises ImpairmentError."""

    drop: float = 0.0
    dup: float = 0.0
    reorder: float = 0.0
    seed: int = 0
    ports: frozenset[int] | None = None
    receive: bool = True
    send: bool = True
    delay_ms: float = 0.0

    def __post_init__(self) -> None:
        for name in ("drop", "dup", "reorder"):
            value = getattr(self, name)
            if not 0.0 <= value <= 1.0:
                raise ImpairmentError(f"{name}={value}: a probability is in 0..1")
        if not 0.0 <= self.delay_ms <= DELAY_MAX_MS:
            raise ImpairmentError(f"delay={self.delay_ms}: milliseconds are in 0..{DELAY_MAX_MS:g}")

    @property
    def delay_ns(self) -> int:
        """The delay in nanoseconds."""
        return round(self.delay_ms * _NS_PER_MS)

    def applies(self, port: int) -> bool:
        return self.ports is None or port in self.ports


def parse_impairment(text: str) -> ImpairmentSpec:
    """Read ``drop=0.01,dup=0.01,reorder=0.02,delay=12.5,seed=7,ports=1+2,direction=both``; every key is optional.

    ``delay``: milliseconds. ``direction``: ``rx`` (frames received), ``tx`` (frames sent) or ``both``. Raises
    ImpairmentError.
    """
    values: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        key, separator, value = part.partition("=")
        if not separator:
            raise ImpairmentError(f"{part!r}: write key=value")
        if key in values:
            raise ImpairmentError(f"{key}: given twice")
        values[key] = value
    known = {"drop", "dup", "reorder", "delay", "seed", "ports", "direction"}
    for key, value in values.items():
        if key not in known:
            raise ImpairmentError(f"{key}={value}: unknown key; known are {', '.join(sorted(known))}")
    direction = values.get("direction", "both")
    if direction not in ("rx", "tx", "both"):
        raise ImpairmentError(f"direction={direction}: it is rx, tx or both")
    return ImpairmentSpec(
        drop=_number(values, "drop"),
        dup=_number(values, "dup"),
        reorder=_number(values, "reorder"),
        delay_ms=_number(values, "delay"),
        seed=_integer("seed", values.get("seed", "0")),
        ports=_ports(values.get("ports")),
        receive=direction != "tx",
        send=direction != "rx",
    )


def _number(values: dict[str, str], key: str) -> float:
    text = values.get(key, "0")
    try:
        return float(text)
    except ValueError:
        raise ImpairmentError(f"{key}={text}: not a number") from None


def _integer(key: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ImpairmentError(f"{key}={text}: not an integer") from None


def _ports(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    return frozenset(_integer("ports", part) for part in text.split("+"))


def initial_state(seed: int, direction: str) -> int:
    """Return the 64-bit state at which the random numbers of one direction of one port start."""
    return int.from_bytes(hashlib.sha256(f"{seed} {direction}".encode()).digest()[:8], "little")


@dataclass
class _Held:
    frame: bytes
    frames_left: int
    deadline_ns: int


@dataclass
class ImpairmentCounters:
    dropped: int = 0
    duplicated: int = 0
    reordered: int = 0


class Impairment:
    """The impairment of one direction of one port. ``direction`` names both, such as ``"1 rx"``; each has its own
    random numbers.

    Times are nanoseconds of any monotonic clock, passed in by the caller.
    """

    def __init__(self, spec: ImpairmentSpec, direction: str) -> None:
        self._spec = spec
        self._random = SplitMix(initial_state(spec.seed, direction))
        self._held: list[_Held] = []
        # Frames under way, in order, with the times at which they arrive.
        self._line: deque[tuple[int, bytes]] = deque()
        self.counters = ImpairmentCounters()

    def push(self, frame: bytes, now_ns: int) -> list[bytes]:
        """Take one frame; return the frames that go on now, in order."""
        # All numbers are drawn for every frame, so that what happens to it depends only on its number.
        lost, twice, late = (self._happens(p) for p in (self._spec.drop, self._spec.dup, self._spec.reorder))
        overtaken_by = self._random.integer(1, MAX_HELD_FRAMES, 1)
        out: list[bytes] = []
        held_before = list(self._held)
        if lost:
            self.counters.dropped += 1
        elif late:
            self.counters.reordered += 1
            self._held.append(_Held(frame, overtaken_by, now_ns + HOLD_LIMIT_NS))
            if twice:
                self.counters.duplicated += 1
                out.append(frame)
        else:
            out.append(frame)
            if twice:
                self.counters.duplicated += 1
                out.append(frame)
        if out:
            for held in held_before:
                held.frames_left -= 1
        return self._delayed([*out, *self._release(now_ns)], now_ns)

    def poll(self, now_ns: int) -> list[bytes]:
        """Return held and delayed frames that are due."""
        return self._delayed(self._release(now_ns), now_ns)

    @property
    def deadline_ns(self) -> int | None:
        """Return the latest time at which the next held frame must be sent; None if no frame is held."""
        arrival = [self._line[0][0]] if self._line else []
        return min((*arrival, *(held.deadline_ns for held in self._held)), default=None)

    def _delayed(self, frames: Iterable[bytes], now_ns: int) -> list[bytes]:
        """Send frames on their way; return those that arrive."""
        if not self._spec.delay_ns:
            return [*frames]
        self._line += [(now_ns + self._spec.delay_ns, frame) for frame in frames]
        arrived = []
        while self._line and self._line[0][0] <= now_ns:
            arrived.append(self._line.popleft()[1])
        return arrived

    def _happens(self, probability: float) -> bool:
        # 53 bits: what a float in 0..1 holds exactly.
        return (self._random.next() >> 11) * 2.0**-53 < probability

    def _release(self, now_ns: int) -> list[bytes]:
        if not self._held:
            return []
        due = [held.frame for held in self._held if held.frames_left <= 0 or held.deadline_ns <= now_ns]
        self._held = [held for held in self._held if held.frames_left > 0 and held.deadline_ns > now_ns]
        return due
