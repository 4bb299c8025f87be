# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the ops do to slots' payloads, for several slots of one op at a time.

Payloads are uint8 (n, words, 128), the most significant plane first; planes are added as planes.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.aggregator import draws
from sumwire.aggregator.state import MONOMIALS

Planes = NDArray[np.uint8]

# Two counters of votes to a slot, each of half of its planes.
VOTE_COUNTERS: Final = p4.VOTE_WORDS_UP
VOTE_PLANES: Final = p4.SLOT_WORDS // VOTE_COUNTERS
# For the lowest two planes of an index or a sum that are missing: half of the values get 2 there, and half 1.
FILL: Final = np.array([[p4.CUT_FILL_BYTE], [0xFF ^ p4.CUT_FILL_BYTE]], np.uint8)
_LANE: Final = np.dtype(">u4")
_SIGN_BIT: Final = np.uint32(1 << 31)


def _wide(planes: Planes) -> NDArray[np.uint64]:
    """The same bits, 64 at a time: bitwise work is done on these."""
    return np.ascontiguousarray(planes).view(np.uint64)


def look_up(payload: Planes, coefficients: NDArray[np.uint32]) -> Planes:
    """THC: table values of indices. (n, 4, 128) and each packet's coefficients (n, 8) to (n, 8, 128)."""
    planes = _wide(payload)
    values = np.zeros((len(payload), p4.SLOT_WORDS, planes.shape[2]), np.uint64)
    tables, table_of = np.unique(coefficients, axis=0, return_inverse=True)
    for number, table in enumerate(tables):
        which = np.flatnonzero(table_of.reshape(-1) == number)
        products = _products(planes[which])
        for k, monomials in enumerate(table):
            chosen = [m for m in range(MONOMIALS) if int(monomials) >> m & 1]
            values[which, p4.SLOT_WORDS - 1 - k] = np.bitwise_xor.reduce(products[chosen], axis=0)
    return values.view(np.uint8)


def _products(planes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """All monomials of index planes (n, 4, 16), (16, n, 16): number m is the AND of the planes whose bits m has."""
    products = np.empty((MONOMIALS, len(planes), planes.shape[2]), np.uint64)
    products[0] = ~np.uint64(0)
    for k in range(p4.THC_INDEX_PLANES):
        np.bitwise_and(products[: 1 << k], planes[:, p4.THC_INDEX_PLANES - 1 - k], out=products[1 << k : 2 << k])
    return products


def count_votes(payload: Planes) -> Planes:
    """VOTE: one vote as counters."""
    counters = np.zeros((len(payload), p4.SLOT_WORDS, p4.WORD_BYTES), np.uint8)
    counters[:, VOTE_PLANES - 1 :: VOTE_PLANES] = payload
    return counters


def start(op: int, payload: Planes, coefficients: NDArray[np.uint32]) -> Planes:
    """The words of slots from their first contributions: as many words as the op has in a slot."""
    if op == p4.OP_THC:
        return look_up(payload, coefficients)
    return count_votes(payload) if op == p4.OP_VOTE else payload


def add_planes(held: Planes, added: Planes, counters: int) -> Planes:
    """Ripple-carry sums of both, a counter's planes at a time."""
    first, second = _wide(held), _wide(added)
    total = np.empty_like(first)
    planes = p4.SLOT_WORDS // counters
    for start_plane in range(0, p4.SLOT_WORDS, planes):
        carry = np.zeros_like(first[:, 0])
        for k in reversed(range(start_plane, start_plane + planes)):
            a, b = first[:, k], second[:, k]
            differ = a ^ b
            total[:, k] = differ ^ carry
            carry = (a & b) | (carry & differ)
    return total.view(np.uint8)


def add_lanes(held: Planes, added: Planes) -> tuple[Planes, NDArray[np.bool_]]:
    """SUM32: wrapped sums, and of which slots a lane left its range."""
    a, b = (np.ascontiguousarray(x).view(_LANE).astype(np.uint32) for x in (held, added))
    total = a + b
    # Both addends have the same sign, and the sum has the other.
    left = np.asarray(((a ^ total) & (b ^ total) & _SIGN_BIT).any(axis=(1, 2)))
    return total.astype(_LANE).view(np.uint8), left


def keep_larger(held: Planes, added: Planes) -> Planes:
    """MAX32."""
    a, b = (np.ascontiguousarray(x).view(_LANE) for x in (held, added))
    return np.maximum(a, b).astype(_LANE).view(np.uint8)


def merge_signs(held: Planes, added: Planes, keys: draws.Words, counts: NDArray[np.uint8]) -> Planes:
    """SIGN: a sign of ``added`` takes the held one's place with probability 1 / count, the new one among them."""
    a, b = (_wide(x).reshape(len(x), -1) for x in (held, added))
    drawn = np.empty_like(a)
    for count in np.unique(counts):
        drawn[counts == count] = draws.draws(keys[counts == count], int(count), a.shape[1])
    return (a ^ ((a ^ b) & drawn)).view(np.uint8).reshape(held.shape)


def votes(counters: Planes, counts: NDArray[np.uint8]) -> Planes:
    """VOTE: the majority of each, (n, 2, 128). A tie is plus."""
    least = (counts.astype(np.uint32) + 1) >> 1
    # From the least significant bit on: where counter and threshold differ the counter's bit decides, else what the
    # lower bits said.
    won = np.full((len(counters), VOTE_COUNTERS, p4.WORD_BYTES), 0xFF, np.uint8)
    for bit in range(VOTE_PLANES):
        c = counters[:, VOTE_PLANES - 1 - bit :: VOTE_PLANES]
        won = np.where((least >> bit & 1)[:, None, None] == 1, won & c, won | c)
    return won
