# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sequence numbers, slots and rounds.

All chunks of a job share one sequence number K. It counts from 0 over all exchanges and is equal on all workers.
Chunk K uses slot ``K mod S`` in round ``K div S``, where S is the job's number of slots. Packets carry the round in 32
bits, so rounds are compared in serial-number arithmetic (RFC 1982).

Example: with S = 5 slots, chunk 7 uses slot 2 in round 1, and chunk 12 uses slot 2 again in round 2.
"""

from __future__ import annotations

from typing import Final

ROUND_BITS: Final = 32
ROUNDS: Final = 1 << ROUND_BITS
_HALF_ROUNDS: Final = 1 << (ROUND_BITS - 1)

# (slot, round)
Place = tuple[int, int]


def place_of(sequence: int, slots: int) -> Place:
    """Slot and round of a chunk."""
    return sequence % slots, sequence // slots % ROUNDS


def round_newer(a: int, b: int) -> bool:
    """Return True if round ``a`` comes after round ``b``: round 0 comes after round 2**32 - 1."""
    return a != b and (a - b) % ROUNDS < _HALF_ROUNDS
