# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Marsit's one-bit merge (arXiv 2204.06787), as pure functions on packed bits. Bit 1 is plus.

Signs of a workers are merged with signs of b workers. Where they differ, the second is taken with probability
b / (a + b). If P(plus) is the share of plus among the workers of each side, it is the share among all a + b workers
after the merge.
"""

from __future__ import annotations

from sumwire.multihop.draws import Bits, Draws


def merge(first: Bits, second: Bits, first_weight: int, second_weight: int, draws: Draws) -> Bits:
    """Return the merge of two arrays of one shape, a new array.

    A bit is that of `second` with probability second_weight / (first_weight + second_weight), else that of `first`.
    Weights are numbers of workers. Raises ValueError for weights below 1 or different shapes.
    """
    if first_weight < 1 or second_weight < 1:
        raise ValueError(f"weights {first_weight} and {second_weight}: each side stands for 1 worker or more")
    if first.shape != second.shape:
        raise ValueError(f"shapes {first.shape} and {second.shape} must be equal")
    take_second = draws.bernoulli(second_weight, first_weight + second_weight, first.shape)
    return reservoir_form(first, second, take_second)


def reservoir_form(first: Bits, second: Bits, take_second: Bits) -> Bits:
    """Return `second` where `take_second` is 1, else `first`. The probability is the same for all values."""
    return first ^ ((first ^ second) & take_second)


def paper_form(received: Bits, own: Bits, transient: Bits) -> Bits:
    """Return the merge as the paper writes it: (received AND own) OR ((received XOR own) AND transient).

    The transient bit is 1 with probability (m - 1)/m where `own` is 0 and 1/m where it is 1, m workers in all.
    """
    return (received & own) | ((received ^ own) & transient)


def transient_of(own: Bits, take_own: Bits) -> Bits:
    """Return the paper's transient bit for a draw of the reservoir form, with which both forms give equal results."""
    return ~(own ^ take_own)
