# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""SIGN's random draws. They do not depend on how packets are cut into batches.

Word i of a stream is mix64(key + (i + 1) * GOLDEN), SplitMix64 at a random position (Steele, Lea, Flood, OOPSLA 2014).
The key is made of the server's own random seed, the slot, the round, and the number of contributors: there is one
merge for each of these, and a repeated packet draws nothing.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

GOLDEN: Final = 0x9E3779B97F4A7C15
MIX_1: Final = 0xBF58476D1CE4E5B9
MIX_2: Final = 0x94D049BB133111EB
# Probabilities are rounded to multiples of 2**-16.
PROBABILITY_BITS: Final = 16

Words = NDArray[np.uint64]


def mix64(words: Words) -> Words:
    """SplitMix64's finalizer, of each word."""
    words = (words ^ words >> np.uint64(30)) * np.uint64(MIX_1)
    words = (words ^ words >> np.uint64(27)) * np.uint64(MIX_2)
    return words ^ words >> np.uint64(31)


def _joined(high: NDArray[Any], low: NDArray[Any]) -> Words:
    return high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)


def keys(seed: int, slot: NDArray[Any], round_: NDArray[Any], held: NDArray[Any]) -> Words:
    """The keys of merges, (n,). ``held``: the slot's contributors with the merged one. All arrays are of shape (n,)."""
    golden = np.uint64(GOLDEN)
    key = mix64((np.uint64(seed) ^ slot.astype(np.uint64)) + golden)
    return mix64((key ^ _joined(round_, held)) + golden)


def draws(keys_: Words, count: int, words: int, weight: int = 1) -> Words:
    """Draws (n, words) for keys (n,), 64 in a word, each 1 with probability weight / count, below 1."""
    probability = ((weight << PROBABILITY_BITS) + count // 2) // count
    drawn = np.zeros((len(keys_), words), np.uint64)
    lowest = (probability & -probability).bit_length() - 1
    for bit in range(lowest, PROBABILITY_BITS):
        numbers = np.arange(bit * words + 1, (bit + 1) * words + 1, dtype=np.uint64)
        random = mix64(keys_[:, None] + numbers * np.uint64(GOLDEN))
        drawn = drawn | random if probability >> bit & 1 else drawn & random
    return drawn
