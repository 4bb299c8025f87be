# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How workers tell each other numbers through the switch that it cannot read, such as the norms of their tensors.

Every worker has places of its own in a row of SUM32 chunks, and zeros elsewhere, so the sum has the numbers of all. A
number is hidden by the common stream (:meth:`sumwire.blind.masks.Masks.places`), of which a place is used once, by one
worker.

Example: two workers, a number each, 4 and 3. The common stream begins with 1000 and 2000. They send (1004, 0) and
(0, 2003), masked as everything is; the sum is (1004, 2003).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import SUM32

from sumwire.codec.errors import CodecError

if TYPE_CHECKING:
    from sumwire.blind.masks import Masks

_ELEMENTS: Final = SUM32.values


class Places:
    """Room for ``count`` numbers of each worker in the chunks from ``sequence`` on."""

    def __init__(self, masks: Masks, sequence: int, count: int, *, worker: int, workers: int) -> None:
        self.chunks = -(-count * workers // _ELEMENTS)
        self._hidden = masks.places(sequence, self.chunks)
        self._count = count
        self._worker = worker
        self._workers = workers

    def pack(self, own: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """This worker's payload, uint8 (chunks, 8, 128), with its numbers, shape (count,)."""
        elements = np.zeros(self.chunks * _ELEMENTS, ">u4")
        here = slice(self._worker * self._count, (self._worker + 1) * self._count)
        elements[here] = own + self._hidden[here]
        return elements.view(np.uint8).reshape(self.chunks, SUM32.up.words, p4.WORD_BYTES)

    def unpack(self, words: NDArray[np.uint8]) -> NDArray[np.uint32]:
        """The numbers of all workers, shape (workers, count), from the sums, uint8 (chunks, 8, 128).

        Raises CodecError for what no workers can have sent.
        """
        elements = np.ascontiguousarray(words).reshape(-1).view(">u4").astype(np.uint32)
        filled = self._workers * self._count
        if bool(elements[filled:].any()):
            raise CodecError("numbers of workers: an element that belongs to no worker is not 0")
        return (elements[:filled] - self._hidden[:filled]).reshape(self._workers, self._count)
