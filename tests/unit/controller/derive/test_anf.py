# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Evaluating the polynomial of a table gives the table."""

from __future__ import annotations

from helpers.controller.config_texts import PUBLISHED_TABLE
from hypothesis import given
from hypothesis import strategies as st
from sumwire_controller.derive.anf import coefficients


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
