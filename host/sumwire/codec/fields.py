# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Small counts, several to an element of a SUM32 chunk, so that integer sums add them all without a carry.

Value i of a chunk is field i // 256 of element i % 256; field 0 has the lowest bits. The highest bit of an element
stays 0.

Example: fields of 6 bits are 5 to an element, 1280 values to a chunk. Three workers that send 2, 2 and 1 in field 1 add
up to 5 << 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import SUM32

from sumwire.codec.base import CodecInfo
from sumwire.codec.errors import CodecError
from sumwire.codec.sum32 import pack_elements, unpack_elements

_ELEMENTS: Final = SUM32.values


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields of ``bits`` bits."""

    bits: int

    @property
    def number(self) -> int:
        """Fields of an element."""
        return (p4.ELEMENT_BITS - 1) // self.bits

    @property
    def most(self) -> int:
        """The largest sum of a field."""
        return (1 << self.bits) - 1

    @property
    def chunk_values(self) -> int:
        """Values of a chunk."""
        return self.number * _ELEMENTS

    def info(self, name: str, preliminary_op: int | None = None) -> CodecInfo:
        """Of a codec whose payload they are."""
        return CodecInfo(name, SUM32.code, SUM32.up.words, SUM32.down.words, self.chunk_values, preliminary_op)

    def pack(self, values: NDArray[np.int32]) -> NDArray[np.uint8]:
        """Return values of whole chunks, flat, as words of shape (chunks, 8, 128)."""
        shaped = values.reshape(-1, self.number, _ELEMENTS)
        return pack_elements((shaped << self._shifts()).sum(axis=1, dtype=np.int32).reshape(-1))

    def check_counts(self, counts: NDArray[np.int64], each: int) -> None:
        """Raise CodecError for a chunk of more contributors, which send at most ``each``, than a field has room for."""
        if counts.max(initial=0) * each > self.most:
            raise CodecError(f"count {counts.max()}: a field holds at most {self.most // each} contributions")

    def unpack(self, words: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return the sums of chunks, shape (chunks, values)."""
        elements = unpack_elements(words, len(words) * _ELEMENTS).reshape(-1, 1, _ELEMENTS)
        return ((elements >> self._shifts()) & self.most).reshape(len(words), -1)

    def _shifts(self) -> NDArray[np.int32]:
        return (self.bits * np.arange(self.number, dtype=np.int32))[:, None]
