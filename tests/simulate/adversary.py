# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A Byzantine switch: whatever it knows, it drops, changes, repeats, mixes and makes up what goes through it.

:mod:`simulate.play` puts it before and behind every switch of a schedule that has one. It has no key: of a job with
authentication tags it is any device on the way but the switch that adds, and of a blind job it may be that one too.

It draws from a generator of its own and never looks at payload when it decides, so it does the same in two plays whose
packets differ in payload alone (:mod:`simulate.flow`).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from golden import model
from golden.model import Packet

# Ethernet, IPv4 and UDP headers.
_HEAD: Final = 42
_KEPT_FRAMES: Final = 64
_FIELDS: Final = {
    "count": 8, "contributors": 32, "flags": 8, "round": 32, "slot": 16, "worker": 8, "bucket": 16, "chunk": 24,
    "kind": 3, "token": 32,
}  # fmt: skip
_KINDS: Final = (model.CONTRIBUTE, model.RESULT, model.INFORM, model.PROBE, model.STALE, model.REFUSED)

Move = Callable[["Adversary", bytes], list[bytes]]


class Adversary:
    """``share``: of the frames that it does something to. A seed prefers a few of its moves, and kinds of packets."""

    def __init__(self, seed: int, share: float) -> None:
        self.rng = random.Random(f"adversary {seed}")
        self._share = share
        self._moves = self.rng.sample(sorted(MOVES), self.rng.randrange(1, 4))
        # Most do harm through what is added and what is handed out.
        self._kinds = self.rng.choice([(model.CONTRIBUTE,), (model.RESULT,), (model.RESULT,), _KINDS])
        self._from = self.rng.choice((0, 30, 60, 100, 200))
        self._seen = 0
        self.before: deque[bytes] = deque(maxlen=_KEPT_FRAMES)

    def turn(self, frame: bytes) -> list[bytes]:
        """What goes on in place of a frame."""
        if not is_sumwire(frame) or model.decode(frame[_HEAD:]).kind not in self._kinds:
            return [frame]
        self._seen += 1
        acts = self._seen > self._from and self.rng.random() < self._share
        found = MOVES[self.rng.choice(self._moves)](self, frame) if acts else [frame]
        self.before.append(frame)
        return found

    def other(self, frame: bytes) -> bytes:
        """An earlier frame of the same length, or this one."""
        return self.rng.choice([*(old for old in self.before if len(old) == len(frame)), frame])


def is_sumwire(frame: bytes) -> bool:
    """Whether it is a frame of a Sumwire job."""
    ports = (int.from_bytes(frame[34:36]), int.from_bytes(frame[36:38]))
    return len(frame) >= model.BARE and model.UDP_PORT in ports


def _with_payload(frame: bytes, change: Callable[[bytearray], None]) -> list[bytes]:
    packet = model.decode(frame[_HEAD:])
    payload = bytearray(packet.payload)
    if payload:
        change(payload)
    return [_framed(frame, packet._replace(payload=bytes(payload)))]


def _framed(frame: bytes, packet: Packet) -> bytes:
    return frame[:_HEAD] + packet.encode()


def _drop(adversary: Adversary, frame: bytes) -> list[bytes]:
    return []


def _flip(adversary: Adversary, frame: bytes) -> list[bytes]:
    def change(payload: bytearray) -> None:
        payload[adversary.rng.randrange(len(payload))] ^= 1 << adversary.rng.randrange(8)

    return _with_payload(frame, change)


def _add(adversary: Adversary, frame: bytes) -> list[bytes]:
    """A power of two to one element."""

    def change(payload: bytearray) -> None:
        # Norms of workers lie at the front.
        at = 4 * adversary.rng.randrange(adversary.rng.choice((len(payload) // 4, 16)))
        value = int.from_bytes(payload[at : at + 4]) + (1 << adversary.rng.randrange(32))
        payload[at : at + 4] = (value & 0xFFFFFFFF).to_bytes(4)

    return _with_payload(frame, change)


def _set(adversary: Adversary, frame: bytes) -> list[bytes]:
    """A field of the header to anything."""
    packet = model.decode(frame[_HEAD:])
    name = adversary.rng.choice(sorted(_FIELDS))
    near = adversary.rng.random() < 0.5
    change: dict[str, Any] = {name: getattr(packet, name) ^ 1 << adversary.rng.randrange(_FIELDS[name]) if near else 0}
    return [_framed(frame, packet._replace(**change))]


def _repeat(adversary: Adversary, frame: bytes) -> list[bytes]:
    return [frame, adversary.other(frame)]


def _mix(adversary: Adversary, frame: bytes) -> list[bytes]:
    """The payload of an earlier packet."""
    packet, other = model.decode(frame[_HEAD:]), model.decode(adversary.other(frame)[_HEAD:])
    return [_framed(frame, packet._replace(payload=other.payload))]


def _swap(adversary: Adversary, frame: bytes) -> list[bytes]:
    """An earlier packet in this one's place."""
    return [adversary.other(frame)]


def _zero(adversary: Adversary, frame: bytes) -> list[bytes]:
    def change(payload: bytearray) -> None:
        payload[:] = bytes(len(payload))

    return _with_payload(frame, change)


def _claim(adversary: Adversary, frame: bytes) -> list[bytes]:
    """A contribution of one worker as the result of workers 0 to 2."""
    packet = model.decode(frame[_HEAD:])
    everybody = packet._replace(kind=model.RESULT, flags=0, contributors=7, count=3)
    return [_framed(frame, everybody)]


MOVES: Final[dict[str, Move]] = {
    "drop": _drop,
    "flip": _flip,
    "add": _add,
    "set": _set,
    "repeat": _repeat,
    "mix": _mix,
    "swap": _swap,
    "zero": _zero,
    "claim": _claim,
}


def turned(adversary: Adversary | None, frames: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """What leaves a switch, by port."""
    if adversary is None:
        return list(frames)
    return [(port, other) for port, frame in frames for other in adversary.turn(frame)]
