# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Planes against numpy's bit functions, value by value."""

from __future__ import annotations

import numpy as np
import pytest
from sumwire.codec.errors import CodecError
from sumwire.codec.layout import pack_index_planes, unpack_sum_planes


def bit(word: bytes, value: int) -> int:
    """Bit of `value` in a plane: counted from the most significant bit of byte 0."""
    return word[value // 8] >> (7 - value % 8) & 1


def test_many_chunks_are_like_few() -> None:
    words = np.random.default_rng(5).integers(0, 256, (700, 8, 128), dtype=np.uint8)
    expected = np.packbits(np.unpackbits(words, axis=-1).transpose(0, 2, 1), axis=-1)[..., 0]
    before = words.copy()
    assert np.array_equal(unpack_sum_planes(words), expected)
    assert np.array_equal(words, before), "the input must stay as it is"
    assert np.array_equal(unpack_sum_planes(words[::2]), expected[::2])


@pytest.mark.parametrize("chunks", [1, 3])
def test_memory_order_does_not_matter(chunks: int) -> None:
    """Planes whose transpose is the contiguous one, as numpy makes them of transposed bits."""
    columns = np.random.default_rng(chunks).integers(0, 256, (chunks, 128, 8), dtype=np.uint8)
    words = columns.transpose(0, 2, 1)
    before = words.copy()
    assert np.array_equal(unpack_sum_planes(words), unpack_sum_planes(before))
    assert np.array_equal(words, before), "the input must stay as it is"


@pytest.mark.parametrize("shape", [(1, 1023), (1024,)])
def test_wrong_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(CodecError, match="needs uint8"):
        pack_index_planes(np.zeros(shape, np.uint8))
    with pytest.raises(CodecError, match="needs uint8"):
        unpack_sum_planes(np.zeros((1, 7, 128), np.uint8))
