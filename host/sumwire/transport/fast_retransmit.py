# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Fast retransmit: a chunk is overtaken when REORDER_TOLERANCE packets sent after it have been answered.

It is then retransmitted without waiting for the timer (compare TCP's three duplicate acknowledgements, RFC 5681).
Example: chunks 0 to 7 were sent, and 1, 2 and 3 have results. Chunk 0 is overtaken.
"""

from __future__ import annotations

from typing import Final

REORDER_TOLERANCE: Final = 3


class FastRetransmit:
    """Numbers of the latest answered transmissions of one exchange (see :class:`sumwire.transport.in_flight.Flight`).

    Transmissions with a number below ``threshold`` are overtaken; ``latest`` is the largest answered number.
    ``numbers``: the largest answered ones, rising.
    """

    def __init__(self) -> None:
        self.numbers = [0] * REORDER_TOLERANCE

    @property
    def threshold(self) -> int:
        """The smallest of the REORDER_TOLERANCE latest numbers."""
        return self.numbers[0]

    @property
    def latest(self) -> int:
        """The largest answered number, 0 before the first answer."""
        return self.numbers[-1]

    def answered(self, first_transmissions: list[int]) -> None:
        """Take in the chunks that were answered, by the numbers of their first transmissions, of which only the
        REORDER_TOLERANCE largest matter.

        A retransmitted chunk counts as the answer to its first transmission. If it counted for the retransmission, one
        needless retransmission would make all packets sent before it look overtaken.
        """
        self.numbers = sorted(self.numbers + first_transmissions)[-REORDER_TOLERANCE:]
