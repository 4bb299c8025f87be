# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The expected results of ops for random contributions, computed with numpy and without the library's codecs.

Contributions are uint8 (chunks, words, 128), as in packets. A plane is one word; value i is bit i from the left, and
the most significant plane comes first. SUM32 and MAX32 have 32 big-endian elements in a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire.wire.packets import VALUES_PER_PLANE, WORD_BYTES
from sumwire_protocol.ops import BY_NAME, THC

Words = NDArray[np.uint8]
_ELEMENT: Final = np.dtype(">u4")


def contribution(op: str, worker: int, chunks: int, seed: int) -> Words:
    """Return random words of one worker, with independent bits. Every worker can compute those of the others."""
    rng = np.random.default_rng((seed, worker, BY_NAME[op].code))
    return rng.integers(0, 256, (chunks, BY_NAME[op].up.words, WORD_BYTES), np.uint8)


def expected(op: str, contributions: Sequence[Words], table: Sequence[int]) -> Words:
    """Return the result of an op that is determined by the contributions. Raises KeyError for `sign`."""
    by_op = {"thc": _thc, "max32": _max32, "sum32": _sum32, "vote": _vote}
    return by_op[op](contributions, table)


def from_planes(words: Words) -> NDArray[np.int64]:
    """Return the integers, (chunks, 1024), of planes."""
    bits = np.unpackbits(words, axis=2).astype(np.int64)
    planes = bits.shape[1]
    return sum((bits[:, p] << (planes - 1 - p) for p in range(planes)), np.zeros((len(words), VALUES_PER_PLANE), int))


def to_planes(values: NDArray[np.int64], planes: int) -> Words:
    """Return the planes of integers, (chunks, 1024)."""
    bits = [(values >> k & 1).astype(np.uint8) for k in reversed(range(planes))]
    return np.packbits(np.stack(bits, axis=1), axis=2)


def _thc(contributions: Sequence[Words], table: Sequence[int]) -> Words:
    values = np.asarray(table, np.int64)
    total = np.sum([values[from_planes(words)] for words in contributions], axis=0)
    return to_planes(total, THC.down.words)


def _elements(contributions: Sequence[Words]) -> NDArray[np.uint64]:
    return np.stack([words.view(_ELEMENT).astype(np.uint64) for words in contributions])


def _as_words(elements: NDArray[np.uint64]) -> Words:
    words: Words = elements.astype(_ELEMENT).view(np.uint8)
    return words


def _sum32(contributions: Sequence[Words], table: Sequence[int]) -> Words:
    return _as_words(_elements(contributions).sum(axis=0) & np.uint64(0xFFFFFFFF))


def _max32(contributions: Sequence[Words], table: Sequence[int]) -> Words:
    return _as_words(_elements(contributions).max(axis=0))


def _vote(contributions: Sequence[Words], table: Sequence[int]) -> Words:
    """The majority's sign; a tie is plus."""
    plus = np.sum([np.unpackbits(words, axis=2) for words in contributions], axis=0, dtype=np.int64)
    return np.packbits(2 * plus >= len(contributions), axis=2)


def sign_allowed(result: Words, contributions: Sequence[Words]) -> bool:
    """Return whether every merged sign equals the sign of some worker."""
    low = np.bitwise_and.reduce(list(contributions))
    high = np.bitwise_or.reduce(list(contributions))
    return bool(np.all(result & low == low) and np.all(result & ~high == 0))


def sign_shares(result: Words, contributions: Sequence[Words]) -> list[float]:
    """Return the share of the merged signs that was drawn from each worker; 1/n each if all workers have equal weight.

    For independent random signs the correlation of result and contribution is that share; its standard deviation is
    below 1 / sqrt(values).
    """
    drawn = 2.0 * np.unpackbits(result) - 1
    return [float(np.mean(drawn * (2.0 * np.unpackbits(words) - 1))) for words in contributions]
