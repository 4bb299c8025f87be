# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Algebraic normal form (Reed-Muller expansion) of a lookup table.

The switch cannot look up every value of a packet in a table. It computes each output plane for 1024 values at once, as
a XOR of products of input planes ("monomials"). The coefficients select the monomials that occur. Monomial M is a bit
mask: if bit k is set, input plane k is a factor. Monomial 0 is the constant one.

Example: the table [0, 1, 1, 0] of two bits is plane0 XOR plane1, so its coefficients are 1 for monomials 1 and 2.
"""

from __future__ import annotations

from collections.abc import Sequence

from sumwire_protocol.constants import SLOT_WORDS, THC_INDEX_PLANES

MONOMIALS = 1 << THC_INDEX_PLANES


def coefficients(table: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return the coefficients (0 or 1) of a table of at most 16 values of at most 8 bits, as [output plane][monomial].

    A table of fewer than 16 values uses only the low input planes. Senders set the others to 0, so the values of the
    missing rows do not matter; they count as 0.
    """
    rows = [*table, *([0] * (MONOMIALS - len(table)))]
    return tuple(_moebius([row >> plane & 1 for row in rows]) for plane in range(SLOT_WORDS))


def _moebius(truth: list[int]) -> tuple[int, ...]:
    """The coefficients c[M] for which truth[z] is the XOR of c[M] over all subsets M of z. Overwrites `truth`."""
    for bit in range(THC_INDEX_PLANES):
        for z in range(MONOMIALS):
            if z >> bit & 1:
                truth[z] ^= truth[z ^ 1 << bit]
    return tuple(truth)
