# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The ops, from docs/wire-format.md: nothing of the project's code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

VALUES = 1024
WORD = 128
THC, MAX32, SUM32, SIGN, VOTE, MIN32, JUMBO = OPS = 1, 2, 3, 4, 5, 6, 7
OP_NAMES = {THC: "thc", MAX32: "max32", SUM32: "sum32", SIGN: "sign", VOTE: "vote", MIN32: "min32", JUMBO: "jumbo"}
# Words from a host, from a lower switch, and of a result.
WORDS_UP = {THC: 4, MAX32: 1, SUM32: 8, SIGN: 8, VOTE: 2, MIN32: 1, JUMBO: 64}
WORDS_PARTIAL = {THC: 8, MAX32: 1, SUM32: 8, SIGN: 8, VOTE: 6, MIN32: 1, JUMBO: 64}
WORDS_DOWN = {THC: 8, MAX32: 1, SUM32: 8, SIGN: 8, VOTE: 2, MIN32: 1, JUMBO: 64}
# Their packets may have tags, and software aggregators sum them.
SHORT_OPS = tuple(op for op in OPS if op != JUMBO)
# Bytes that JUMBO adds as one number: values of one byte, and one that overflows carries into the one before it.
WIDE = 256
# Slots of a switch that have room for it.
JUMBO_SLOTS = 512
# A THC contribution and a THC result without their two low planes.
WORDS_TRIMMED, WORDS_CUT = 2, 6
# What stands in for two planes that are not there: 2, 1, 2, 1, ...
STAND_IN = np.where(np.arange(VALUES) % 2 == 0, 2, 1)


def to_planes(values: NDArray[np.integer], planes: int) -> bytes:
    """1024 integers as planes, the most significant first; value i is bit i from the left."""
    bits = [(np.asarray(values) >> k) & 1 for k in reversed(range(planes))]
    return b"".join(np.packbits(bit.astype(np.uint8)).tobytes() for bit in bits)


def from_planes(payload: bytes) -> NDArray[np.int64]:
    planes = len(payload) // WORD
    bits = np.unpackbits(np.frombuffer(payload, np.uint8).reshape(planes, WORD), axis=1).astype(np.int64)
    return sum((bits[p] << (planes - 1 - p) for p in range(planes)), np.zeros(8 * WORD, np.int64))


class Signs(NamedTuple):
    """What merged signs may be: where `low` has a 1 all contributors have, where `high` has a 0 none has."""

    low: NDArray[np.uint8]
    high: NDArray[np.uint8]

    def allows(self, bits: NDArray[np.uint8]) -> bool:
        return bool(np.all(bits & self.low == self.low) and np.all(bits & ~self.high == 0))


Content = NDArray[np.int64] | Signs


def read(op: int, payload: bytes, table: Sequence[int], partial: bool) -> Content:
    """A contribution's content: sums for THC, elements, sign bits, counts of plus votes."""
    if op == JUMBO:
        return np.frombuffer(payload, np.uint8).astype(np.int64)
    if op == THC:
        values = from_planes(payload)
        if len(payload) == WORDS_TRIMMED * WORD:
            values = 4 * values + STAND_IN
        return values if partial else np.asarray(table, np.int64)[values]
    if op == SIGN:
        bits = np.frombuffer(payload, np.uint8)
        return Signs(bits, bits)
    if op == VOTE:
        planes = 3 if partial else 1
        halves = (payload[: planes * WORD], payload[planes * WORD :])
        return np.concatenate([from_planes(half) for half in halves])
    return np.frombuffer(payload, ">i4" if op == SUM32 else ">u4").astype(np.int64)


def fold(op: int, held: Content, added: Content) -> tuple[Content, bool]:
    """The slot's new content, and whether an element of it left its range."""
    if isinstance(held, Signs) and isinstance(added, Signs):
        return Signs(held.low & added.low, held.high | added.high), False
    assert not isinstance(held, Signs) and not isinstance(added, Signs)
    if op == MAX32:
        return np.maximum(held, added), False
    if op == MIN32:
        return np.minimum(held, added), False
    if op == JUMBO:
        return _with_carries(held, added), False
    total = held + added
    if op != SUM32:
        return total, False
    wrapped = (total + 2**31) % 2**32 - 2**31
    return wrapped, bool(np.any(wrapped != total))


def _with_carries(held: NDArray[np.int64], added: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum of bytes, where one that overflows carries into the one before it, as far as a word goes."""
    words = (
        (int.from_bytes(partial(JUMBO, a)) + int.from_bytes(partial(JUMBO, b))) % 2 ** (8 * WIDE)
        for a, b in zip(held.reshape(-1, WIDE), added.reshape(-1, WIDE), strict=True)
    )
    return read(JUMBO, b"".join(word.to_bytes(WIDE) for word in words), (), partial=False)


def partial(op: int, held: Content) -> bytes:
    """The payload to the switch above. Of signs that are still to be drawn it has those that all agree on."""
    if isinstance(held, Signs):
        return held.low.tobytes()
    if op == THC:
        return to_planes(held, 8)
    if op == JUMBO:
        return held.astype(np.uint8).tobytes()
    if op == VOTE:
        return to_planes(held[:VALUES], 3) + to_planes(held[VALUES:], 3)
    return held.astype(">i4" if op == SUM32 else ">u4").tobytes()


def result(op: int, held: Content, count: int) -> bytes:
    """The payload to the workers. A tie of votes is plus."""
    if op != VOTE:
        return partial(op, held)
    assert not isinstance(held, Signs)
    return b"".join(np.packbits(2 * half >= count).tobytes() for half in (held[:VALUES], held[VALUES:]))
