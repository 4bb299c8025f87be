# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Evaluating the polynomial of a table gives the table."""

from __future__ import annotations

import pytest
from helpers.controller.config_texts import PUBLISHED_TABLE
from hypothesis import given
from hypothesis import strategies as st
from sumwire_controller.derive.anf import coefficients, moebius


def evaluate(plane: tuple[int, ...], z: int) -> int:
    """XOR of the monomials in use, each the AND of its input bits."""
    result = 0
    for monomial, coefficient in enumerate(plane):
        factors = [z >> k & 1 for k in range(4) if monomial >> k & 1]
        result ^= coefficient & int(all(factors))
    return result


def lookup(table: list[int], z: int) -> int:
    return sum(evaluate(plane, z) << j for j, plane in enumerate(coefficients(table)))


@given(st.integers(1, 4).flatmap(lambda bits: st.lists(st.integers(0, 255), min_size=1 << bits, max_size=1 << bits)))
def test_any_table(table: list[int]) -> None:
    assert [lookup(table, z) for z in range(len(table))] == table
    assert all(lookup(table, z) == 0 for z in range(len(table), 16))


def test_published_table() -> None:
    assert [lookup(PUBLISHED_TABLE, z) for z in range(16)] == PUBLISHED_TABLE


def test_identity_needs_only_the_inputs_themselves() -> None:
    planes = coefficients(range(16))
    assert planes[:4] == tuple(tuple(int(m == 1 << j) for m in range(16)) for j in range(4))
    assert not any(map(any, planes[4:]))


def test_moebius_by_hand() -> None:
    assert moebius([0, 1, 1, 1]) == (0, 1, 1, 1)  # or = a ^ b ^ ab
    assert moebius([1, 0, 0, 0]) == (1, 1, 1, 1)  # nor = 1 ^ a ^ b ^ ab
    assert moebius([1]) == (1,)


@given(st.lists(st.integers(0, 1), min_size=16, max_size=16))
def test_moebius_undoes_itself(truth: list[int]) -> None:
    assert list(moebius(moebius(truth))) == truth


@pytest.mark.parametrize("size", [0, 3, 15])
def test_moebius_refuses_other_sizes(size: int) -> None:
    with pytest.raises(ValueError, match=f"{size} rows"):
        moebius([0] * size)


@pytest.mark.parametrize(("table", "words"), [([0] * 17, "17 rows"), ([256], "256"), ([-1], "-1")])
def test_coefficients_refuse(table: list[int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        coefficients(table)
