# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Authentication tags of many packets by numpy, as tags.h computes them (docs/security.md)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

Numbers = NDArray[np.uint64]
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_START: Final = np.array(
    [0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573], np.uint64
)  # SipHash's
# SipHash takes the length of what it hashes in with the last bytes.
_LENGTH: Final = np.uint64((p4.SUMWIRE_BYTES + 16 + 4) << 56)
_WORKER: Final = np.uint64(0xFF00)


def tags_of(key: NDArray[Any], heads: NDArray[np.uint8], payloads: NDArray[np.uint8]) -> Numbers:
    """The tags of packets, uint64 (n,).

    ``key``: a record of KEY, () or (n,). ``heads``: uint8 (n, 32). ``payloads``: uint8 (n, bytes of one).
    """
    numbers = np.ascontiguousarray(heads).view(">u8").astype(np.uint64)
    kinds = heads[:, 0] & np.uint8(0xF)
    from_worker = (kinds == p4.KIND_CONTRIBUTE) | (kinds == p4.KIND_PROBE)
    numbers[:, 0] &= np.where(from_worker, ~np.uint64(0), ~_WORKER)
    high, low = universal(key["hash"], payloads)
    last = np.broadcast_to(_LENGTH | key["address"].astype(np.uint64), len(heads))
    with np.errstate(over="ignore"):
        return _siphash(key["sip"], [*numbers.T, high, low, last])


def universal(hash_key: Numbers, payloads: NDArray[np.uint8]) -> tuple[Numbers, Numbers]:
    """NH of payloads: the high and the low halves of its 128 bits, (n,) each. ``hash_key``: (..., numbers)."""
    count, size = payloads.shape
    if not size:
        return np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    numbers = np.ascontiguousarray(payloads).view(">u8").astype(np.uint64)
    with np.errstate(over="ignore"):
        numbers += hash_key[..., : size // 8]
        high, low = _products(numbers[:, 0::2], numbers[:, 1::2])
        total = np.zeros(count, np.uint64)
        carries = np.zeros(count, np.uint64)
        for product in low.T:
            total += product
            carries += total < product
        return high.sum(axis=1, dtype=np.uint64) + carries, total


def _products(one: Numbers, other: Numbers) -> tuple[Numbers, Numbers]:
    """Products of 64 x 64 bits, their high and low halves."""
    a, b, c, d = one >> _HALF, one & _LOW, other >> _HALF, other & _LOW
    low, cross, across = b * d, a * d, b * c
    middle = (low >> _HALF) + (cross & _LOW) + (across & _LOW)
    high = a * c + (cross >> _HALF) + (across >> _HALF) + (middle >> _HALF)
    return high, (middle << _HALF) | (low & _LOW)


def _rotate(numbers: Numbers, by: int) -> Numbers:
    return (numbers << np.uint64(by)) | (numbers >> np.uint64(64 - by))


def _siphash(sip: Numbers, message: list[Numbers]) -> Numbers:
    """SipHash-2-4 of n messages: the numbers at each place, (n,), the last one with the length. ``sip``: (..., 2)."""
    count = len(message[0])
    low, high = (np.broadcast_to(sip[..., half], count) for half in (0, 1))
    state = [half ^ start for half, start in zip((low, high, low, high), _START, strict=True)]
    for numbers in message:
        state[3] = state[3] ^ numbers
        _rounds(state, 2)
        state[0] = state[0] ^ numbers
    state[2] = state[2] ^ np.uint64(0xFF)
    _rounds(state, 4)
    tags: Numbers = state[0] ^ state[1] ^ state[2] ^ state[3]
    return tags


def _rounds(state: list[Numbers], count: int) -> None:
    v0, v1, v2, v3 = state
    for _ in range(count):
        v0, v2 = v0 + v1, v2 + v3
        v1, v3 = _rotate(v1, 13) ^ v0, _rotate(v3, 16) ^ v2
        v0, v2 = _rotate(v0, 32) + v3, v2 + v1
        v1, v3 = _rotate(v1, 17) ^ v2, _rotate(v3, 21) ^ v0
        v2 = _rotate(v2, 32)
    state[:] = v0, v1, v2, v3
