# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The generator in the switch (p4src/include/control/sign.p4) has the full period 2^1024 - 1.

Its step is linear over GF(2). From 2048 output bits Berlekamp and Massey's algorithm gives the shortest recurrence: its
polynomial has degree 1024, so it is the step's characteristic polynomial. The period is full if x has the order
2^1024 - 1 modulo it: x to that power is 1, and x to that power divided by any prime factor of it is not.
"""

from __future__ import annotations

import math
import random
import re

import pytest
from helpers.paths import ROOT
from sumwire_protocol import constants as p4

SIGN_P4 = ROOT / "p4src" / "include" / "control" / "sign.p4"
BITS = p4.WORD_BITS
ALL = (1 << BITS) - 1
# 2^1024 - 1 is the product of the Fermat numbers F0..F9; these are their prime factors.
PRIMES = (
    3, 5, 17, 257, 65537,
    641, 6700417,
    274177, 67280421310721,
    59649589127497217, 5704689200685129054721,
    1238926361552897, 93461639715357977769163558199606896584051237541638188580280321,
    2424833, 7455602825647884208337395736200454918783366342657,
    741640062627530801524787141901937474059940781097519023905821316144415759504705008092818711693940737,
)  # fmt: skip

Shifts = tuple[int, int, int]


def shifts_of_the_program() -> Shifts:
    """Left, right, left, as the P4 source has them."""
    text = SIGN_P4.read_text()
    a, b, c = (re.search(rf"const int SIGN_SHIFT_{name} = (\d+);", text) for name in "ABC")
    assert a
    assert b
    assert c
    return int(a[1]), int(b[1]), int(c[1])


def outputs(shifts: Shifts, count: int) -> list[int]:
    """The lowest bit of the state after each step."""
    left, right, last = shifts
    state = random.Random(1).getrandbits(BITS)
    bits = []
    for _ in range(count):
        bits.append(state & 1)
        state ^= state << left & ALL
        state ^= state >> right
        state ^= state << last & ALL
    return bits


def recurrence(bits: list[int]) -> int:
    """The polynomial of the shortest linear recurrence, bit k the coefficient of x^k (Massey, 1969)."""
    current = before = 1
    length, since, window = 0, 1, 0
    for place, bit in enumerate(bits):
        window = window << 1 | bit
        if (current & window).bit_count() & 1:
            updated = current ^ before << since
            if 2 * length <= place:
                length, before, since = place + 1 - length, current, 0
            current = updated
        since += 1
    return int(format(current, "b").zfill(length + 1)[::-1], 2)


def power_of_x(exponent: int, modulus: int) -> int:
    """x^exponent in GF(2)[x] modulo a polynomial."""
    degree = modulus.bit_length() - 1

    def reduce(value: int) -> int:
        while value.bit_length() > degree:
            value ^= modulus << (value.bit_length() - 1 - degree)
        return value

    result = 1
    for digit in format(exponent, "b"):
        # Squaring over GF(2) puts a zero between the coefficients: the binary digits read in base 4.
        result = reduce(int(format(result, "b"), 4))
        if digit == "1":
            result = reduce(result << 1)
    return result


def is_full(shifts: Shifts) -> bool:
    """Is the period 2^1024 - 1?"""
    polynomial = recurrence(outputs(shifts, 2 * BITS))
    if polynomial.bit_length() - 1 != BITS or power_of_x(ALL, polynomial) != 1:
        return False
    return all(power_of_x(ALL // prime, polynomial) != 1 for prime in PRIMES)


def test_the_primes_are_the_factorization() -> None:
    assert math.prod(PRIMES) == ALL
    rng = random.Random(1)
    for prime in PRIMES:
        # Miller and Rabin; a composite passes all 40 with a chance of 2^-80 at most.
        odd = (prime - 1) // ((prime - 1) & -(prime - 1))
        for _ in range(40):
            power = pow(rng.randrange(2, prime) if prime > 3 else 2, odd, prime)
            while power not in (1, prime - 1) and odd < prime - 1 and power * power % prime not in (1, power):
                power = power * power % prime
            assert power in (1, prime - 1)


def test_the_recurrence_of_a_small_known_generator() -> None:
    """x^4 + x + 1: s[n + 4] = s[n + 1] + s[n]."""
    bits = [1, 0, 0, 0]
    while len(bits) < 12:
        bits.append(bits[-3] ^ bits[-4])
    assert recurrence(bits) == 0b10011
    assert [power_of_x(k, 0b10011) == 1 for k in (3, 5, 15)] == [False, False, True]


def test_period_is_full() -> None:
    assert is_full(shifts_of_the_program())


@pytest.mark.parametrize("change", [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_other_shifts_have_a_shorter_one(change: Shifts) -> None:
    """The test can fail: next to none of all shifts are full."""
    a, b, c = shifts_of_the_program()
    assert not is_full((a + change[0], b + change[1], c + change[2]))


def test_no_bit_of_a_step_hangs_on_one_other_value_alone() -> None:
    """A new bit that were the XOR of its own old one and one other would make draws at that lag exclude each other,
    visibly. It is so at the low end if the first shift is longer than the second (docs/sign.md)."""
    left, right, last = shifts_of_the_program()
    for place in range(BITS):
        depends = 0
        for bit in range(BITS):
            state = 1 << bit
            state ^= state << left & ALL
            state ^= state >> right
            state ^= state << last & ALL
            depends |= (state >> place & 1) << bit
        assert (depends & ~(1 << place)).bit_count() >= 2, place
