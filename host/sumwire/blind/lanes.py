# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Values of other ops as bytes of SUM32's elements, so that their sums can be masked.

THC: the table value of every index is a byte, four to an element. A job's table is such that the sum of all workers is
at most 255, so no byte carries into the next one, and the sum of the elements has the sums of all bytes.

VOTE: 1 for a plus, in four bits, eight to an element. At most 15 workers vote, so nothing carries either.

Example (THC): four values with the table values 7, 0, 30, 3 are the element 0x07001E03.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import THC, VOTE, Op

from sumwire.blind.kernels import kernels
from sumwire.codec.planes import pack_index_planes, unpack_index_planes

_INDICES: Final = 1 << p4.THC_INDEX_PLANES
_COUNTER_BITS: Final = 4


class Lanes(ABC):
    """The packets of one op as packets of SUM32. ``op``: of whose words they take the place, with as many values."""

    op: Op

    @abstractmethod
    def up(self, words: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Write the op's words of a host, uint8 (chunks, up words, 128), as elements to ``out``, uint8 (chunks, 8,
        128) with any stride between chunks."""

    @abstractmethod
    def down(self, sums: NDArray[np.uint8], workers: int) -> NDArray[np.uint8]:
        """Return what the op would have sent down, uint8 (chunks, down words, 128), from sums of elements of all
        workers, uint8 (chunks, 8, 128)."""


class TableLanes(Lanes):
    """THC's. ``table``: at most 16 values of at most 255."""

    op = THC

    def __init__(self, table: tuple[int, ...]) -> None:
        self._table = np.zeros(_INDICES, np.uint8)
        self._table[: len(table)] = table

    def up(self, words: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        native = kernels()
        if native is None:
            out[:] = self._table[unpack_index_planes(words)].reshape(out.shape)
            return
        planes = np.ascontiguousarray(words)
        native.blind_to_lanes(
            planes.ctypes.data, len(planes), self._table.ctypes.data, out.ctypes.data, out.strides[0]
        )  # fmt: skip

    def down(self, sums: NDArray[np.uint8], workers: int) -> NDArray[np.uint8]:
        native = kernels()
        if native is None:
            return pack_index_planes(np.ascontiguousarray(sums).reshape(len(sums), -1), p4.SLOT_WORDS)
        planes = np.empty((len(sums), THC.down.words, p4.WORD_BYTES), np.uint8)
        native.blind_to_planes(sums.ctypes.data, sums.strides[0], len(sums), planes.ctypes.data)
        return planes


class VoteLanes(Lanes):
    """VOTE's."""

    op = VOTE

    def up(self, words: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        plus = np.unpackbits(np.ascontiguousarray(words).reshape(len(words), -1), axis=1)
        out[:] = (plus[:, ::2] << _COUNTER_BITS | plus[:, 1::2]).reshape(out.shape)

    def down(self, sums: NDArray[np.uint8], workers: int) -> NDArray[np.uint8]:
        octets = np.ascontiguousarray(sums).reshape(len(sums), -1)
        counts = np.stack([octets >> _COUNTER_BITS, octets & ((1 << _COUNTER_BITS) - 1)], axis=2)
        plus = counts.reshape(len(sums), -1) * 2 >= workers
        return np.packbits(plus, axis=1).reshape(len(sums), VOTE.down.words, p4.WORD_BYTES)
