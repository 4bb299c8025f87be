# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Marsit's one-bit merge (arXiv 2204.06787), as pure functions on packed bits. Bit 1 is plus.

Signs merged over a workers meet signs merged over b workers. Where they agree the bit stays; where they differ the
second one wins with probability b / (a + b). So P(plus) is the share of plus among all a + b workers: if it was
so on both sides, it is so after the merge.
"""

from __future__ import annotations

from sumwire.multihop.draws import Bits, Draws


def merge(first: Bits, second: Bits, first_weight: int, second_weight: int, draws: Draws) -> Bits:
    """The general merge: `second` is taken with probability second_weight / (first_weight + second_weight).

    Arrays of one shape; weights are numbers of workers, 1 or more. Returns a new array.
    """
    if first_weight < 1 or second_weight < 1:
        raise ValueError(f"weights {first_weight} and {second_weight}: each side stands for 1 worker or more")
    if first.shape != second.shape:
        raise ValueError(f"shapes {first.shape} and {second.shape} must be equal")
    take_second = draws.bernoulli(second_weight, first_weight + second_weight, first.shape)
    return reservoir_form(first, second, take_second)


def reservoir_form(first: Bits, second: Bits, take_second: Bits) -> Bits:
    """`second` where `take_second` is 1, else `first`: one probability for all values."""
    return first ^ ((first ^ second) & take_second)


def paper_form(received: Bits, own: Bits, transient: Bits) -> Bits:
    """As the paper writes it: (received AND own) OR ((received XOR own) AND transient).

    The transient bit is 1 with probability (m - 1)/m where `own` is 0 and 1/m where it is 1, m workers in all.
    """
    return (received & own) | ((received ^ own) & transient)


def transient_of(own: Bits, take_own: Bits) -> Bits:
    """The paper's transient bit from a draw of the reservoir form: both forms then give the same result."""
    return ~(own ^ take_own)
