# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the ops in numpy: folds contributions into slots, many slots of one op at a time.

Payloads are uint8 (n, words, 128). Bit planes are added without unpacking them; the most significant plane comes first.
Every op has a function in `FOLDS`, and one in `STARTS` if a slot holds something else than its first contribution.

SIGN merges at random. Word i of a random stream is mix64(key + (i + 1) * GOLDEN): SplitMix64 at a random position
(Steele, Lea, Flood, OOPSLA 2014). The key is derived from the aggregator's seed, the slot, the round and the number of
contributors, so the result does not depend on how packets are cut into batches, and a repeated packet changes nothing.

Used by `reference`; `kernels` passes the constants of the generator to C.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import OPS

from sumwire.aggregator.state import MONOMIALS

GOLDEN: Final = 0x9E3779B97F4A7C15
MIX_1: Final = 0xBF58476D1CE4E5B9
MIX_2: Final = 0x94D049BB133111EB
# Probabilities are rounded to multiples of 2**-16.
PROBABILITY_BITS: Final = 16

Words = NDArray[np.uint64]


def mix64(words: Words) -> Words:
    """Apply SplitMix64's finalizer to each word."""
    words = (words ^ words >> np.uint64(30)) * np.uint64(MIX_1)
    words = (words ^ words >> np.uint64(27)) * np.uint64(MIX_2)
    return words ^ words >> np.uint64(31)


def _joined(high: NDArray[Any], low: NDArray[Any]) -> Words:
    return high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)


def merge_keys(seed: int, slot: NDArray[Any], round_: NDArray[Any], held: NDArray[Any]) -> Words:
    """Derive the keys of the random streams of n merges. ``held``: how many workers are in each slot after the merge.
    All arrays are (n,)."""
    golden = np.uint64(GOLDEN)
    key = mix64((np.uint64(seed) ^ slot.astype(np.uint64)) + golden)
    return mix64((key ^ _joined(round_, held)) + golden)


def random_bits(keys_: Words, count: int, words: int, weight: int = 1) -> Words:
    """Draw random bits (n, words) for keys (n,), 64 to a word. Each is 1 with probability weight / count < 1."""
    probability = ((weight << PROBABILITY_BITS) + count // 2) // count
    drawn = np.zeros((len(keys_), words), np.uint64)
    lowest = (probability & -probability).bit_length() - 1
    for bit in range(lowest, PROBABILITY_BITS):
        numbers = np.arange(bit * words + 1, (bit + 1) * words + 1, dtype=np.uint64)
        random = mix64(keys_[:, None] + numbers * np.uint64(GOLDEN))
        drawn = drawn | random if probability >> bit & 1 else drawn & random
    return drawn


Planes = NDArray[np.uint8]

# Two counters of votes to a slot, each of half of its planes.
VOTE_COUNTERS: Final = p4.VOTE_WORDS_UP
VOTE_PLANES: Final = p4.SLOT_WORDS // VOTE_COUNTERS
# Planes of a counter in a partial result: the low ones.
_VOTE_PLANES_PARTIAL: Final = p4.VOTE_WORDS_PARTIAL // VOTE_COUNTERS
# For the lowest two planes of an index or a sum that are missing: half of the values get 2 there, and half 1.
FILL: Final = np.array([[p4.CUT_FILL_BYTE], [0xFF ^ p4.CUT_FILL_BYTE]], np.uint8)
_ELEMENT: Final = np.dtype(">u4")
_SIGN_BIT: Final = np.uint32(1 << 31)


@dataclass(frozen=True)
class Contributions:
    """Contributions of one op, each to a different slot.

    ``payload`` is (n, words up, 128), or, if they are ``partial`` results of lower aggregators, (n, words of a partial
    result, 128). ``coefficients`` (n, 8): the jobs' THC tables. ``counts`` (n,): how many workers each slot holds with
    this contribution. ``weights`` (n,): how many workers the contribution stands for. ``keys`` (n,): the slots' random
    streams for SIGN.
    """

    payload: Planes
    coefficients: NDArray[np.uint32]
    counts: NDArray[np.uint8]
    keys: Words
    weights: NDArray[np.uint8]
    partial: bool = False


def _wide(planes: Planes) -> NDArray[np.uint64]:
    """A view of planes as numbers of 64 bits, on which bitwise work is done."""
    return np.ascontiguousarray(planes).view(np.uint64)


def look_up(payload: Planes, coefficients: NDArray[np.uint32]) -> Planes:
    """THC: planes of table values (n, 8, 128), from planes of indices (n, 4, 128) and coefficients (n, 8)."""
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
    """All monomials (16, n, 16) of index planes (n, 4, 16): number m is the AND of the planes whose bits m has."""
    products = np.empty((MONOMIALS, len(planes), planes.shape[2]), np.uint64)
    products[0] = ~np.uint64(0)
    for k in range(p4.THC_INDEX_PLANES):
        np.bitwise_and(products[: 1 << k], planes[:, p4.THC_INDEX_PLANES - 1 - k], out=products[1 << k : 2 << k])
    return products


def count_votes(payload: Planes) -> Planes:
    """Return a VOTE packet's counters, (n, 8, 128), of one vote each."""
    counters = np.zeros((len(payload), p4.SLOT_WORDS, p4.WORD_BYTES), np.uint8)
    counters[:, VOTE_PLANES - 1 :: VOTE_PLANES] = payload
    return counters


def _counters_taken(partial: Planes) -> Planes:
    """VOTE: counters (n, 8, 128) of partial results (n, 6, 128), whose top planes are 0."""
    counters = np.zeros((len(partial), VOTE_COUNTERS, VOTE_PLANES, p4.WORD_BYTES), np.uint8)
    counters[:, :, -_VOTE_PLANES_PARTIAL:] = partial.reshape(len(partial), VOTE_COUNTERS, -1, p4.WORD_BYTES)
    return counters.reshape(len(partial), p4.SLOT_WORDS, p4.WORD_BYTES)


def counters_passed(counters: Planes) -> Planes:
    """VOTE: compute partial results (n, 6, 128) from counters (n, 8, 128)."""
    split = counters.reshape(len(counters), VOTE_COUNTERS, VOTE_PLANES, p4.WORD_BYTES)
    return split[:, :, -_VOTE_PLANES_PARTIAL:].reshape(len(counters), p4.VOTE_WORDS_PARTIAL, p4.WORD_BYTES)


def add_planes(held: Planes, added: Planes, counters: int) -> Planes:
    """Add planes. A slot's 8 planes are ``counters`` numbers of equal width; a carry stays within its number."""
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


def _elements(planes: Planes) -> NDArray[Any]:
    return np.ascontiguousarray(planes).view(_ELEMENT)


def _as_planes(elements: NDArray[Any]) -> Planes:
    return elements.astype(_ELEMENT).view(np.uint8)


def _each(ufunc: np.ufunc, held: Planes, new: Contributions) -> Planes:
    """Element-wise ops."""
    return _as_planes(ufunc(_elements(held), _elements(new.payload)))


def overflows(held: Planes, added: Planes, total: Planes) -> NDArray[np.bool_]:
    """SUM32: return in which slots some element of the sum overflowed, bool (n,)."""
    a, b, c = (_elements(x).astype(np.uint32) for x in (held, added, total))
    # Both addends have the same sign, and the sum has the other.
    return np.asarray(((a ^ c) & (b ^ c) & _SIGN_BIT).any(axis=(1, 2)))


def merge_signs(held: Planes, new: Contributions) -> Planes:
    """SIGN: replace each held sign by the contribution's with probability weight / count."""
    a, b = (_wide(x).reshape(len(x), -1) for x in (held, new.payload))
    drawn = np.empty_like(a)
    for count, weight in sorted(set(zip(new.counts.tolist(), new.weights.tolist(), strict=True))):
        which = (new.counts == count) & (new.weights == weight)
        drawn[which] = random_bits(new.keys[which], count, a.shape[1], weight)
    return (a ^ ((a ^ b) & drawn)).view(np.uint8).reshape(held.shape)


def _sums(new: Contributions) -> Planes:
    return new.payload if new.partial else look_up(new.payload, new.coefficients)


def _counters(new: Contributions) -> Planes:
    return _counters_taken(new.payload) if new.partial else count_votes(new.payload)


STARTS: Final[Mapping[int, Callable[[Contributions], Planes]]] = {p4.OP_THC: _sums, p4.OP_VOTE: _counters}
# Of what a slot holds and a contribution; as many words as STARTS makes of one, or as the contribution has.
FOLDS: Final[Mapping[int, Callable[[Planes, Contributions], Planes]]] = {
    p4.OP_THC: lambda held, new: add_planes(held, _sums(new), 1),
    p4.OP_SUM32: lambda held, new: _as_planes(_elements(held).astype(np.uint32) + _elements(new.payload)),
    p4.OP_SIGN: merge_signs,
    p4.OP_VOTE: lambda held, new: add_planes(held, _counters(new), VOTE_COUNTERS),
    **{op.code: partial(_each, getattr(np, op.ufunc)) for op in OPS if op.ufunc},
}


def start(op: int, new: Contributions) -> Planes:
    """Return the words of slots that hold these first contributions."""
    return STARTS[op](new) if op in STARTS else new.payload


def fold(op: int, held: Planes, new: Contributions) -> Planes:
    """Add contributions to slots that hold ``held``, (n, 8, 128), and return the slots' new words."""
    return FOLDS[op](held if op in STARTS else held[:, : new.payload.shape[1]], new)


def votes(counters: Planes, counts: NDArray[np.uint8]) -> Planes:
    """VOTE: return the majorities (n, 2, 128) of counters (n, 8, 128) that have counted ``counts`` votes. A tie is
    plus."""
    least = (counts.astype(np.uint32) + 1) >> 1
    # From the least significant bit on: where counter and threshold differ the counter's bit decides, else the lower
    # bits.
    won = np.full((len(counters), VOTE_COUNTERS, p4.WORD_BYTES), 0xFF, np.uint8)
    for bit in range(VOTE_PLANES):
        c = counters[:, VOTE_PLANES - 1 - bit :: VOTE_PLANES]
        won = np.where((least >> bit & 1)[:, None, None] == 1, won & c, won | c)
    return won
