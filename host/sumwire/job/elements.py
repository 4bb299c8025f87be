# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""uint32 values as words of MAX32: 32 big-endian elements of 32 bits per word."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.wire.packets import WORD_BYTES

# Elements of one word.
ELEMENTS: Final = p4.WORD_BITS // p4.ELEMENT_BITS
ELEMENT: Final = np.dtype(">u4")


def to_words(values: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """uint32 values as words, uint8 (chunks, 1, 128). The last word is padded with zeros."""
    chunks = -(-len(values) // ELEMENTS)
    elements = np.zeros(chunks * ELEMENTS, ELEMENT)
    elements[: len(values)] = values
    return elements.view(np.uint8).reshape(chunks, 1, WORD_BYTES)


def from_words(words: NDArray[np.uint8], count: int) -> NDArray[np.uint32]:
    """The first ``count`` values of words: the inverse of :func:`to_words`."""
    return words.reshape(-1).view(ELEMENT)[:count].astype(np.uint32)
