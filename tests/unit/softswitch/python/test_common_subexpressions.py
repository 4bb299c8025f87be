# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Common subexpression elimination changes how often an expression is computed, never the result."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from softswitch.python.emit_code import eliminate_common_subexpressions

NAMES = ["a", "b", "c", "d"]


def expressions(depth: int = 3) -> st.SearchStrategy[str]:
    leaf = st.sampled_from([*NAMES, "1", "0xff"])
    if depth == 0:
        return leaf
    inner = expressions(depth - 1)
    pair = st.builds(lambda op, x, y: f"({x} {op} {y})", st.sampled_from("&|^+-*"), inner, inner)
    choice = st.builds(lambda x, y, z: f"({x} if {y} else {z})", inner, inner, inner)
    return st.one_of(leaf, pair, pair, pair, choice)


def run(lines: list[str]) -> dict[str, int]:
    space = {"a": 12345, "b": -77, "c": 1 << 70, "d": 0, "__builtins__": {}}
    exec("\n".join(lines), {}, space)
    return {name: space[name] for name in NAMES}  # type: ignore[misc]


@given(st.lists(st.tuples(st.sampled_from(NAMES), expressions()), min_size=1, max_size=8))
def test_same_results(statements: list[tuple[str, str]]) -> None:
    lines = [f"{name} = {text}" for name, text in statements]
    assert run(eliminate_common_subexpressions(lines)) == run(lines)


def test_a_repeated_expression_is_computed_once() -> None:
    shared = eliminate_common_subexpressions(["a = (b & c) | (d & (b ^ c))", "# then", "d = (b ^ c) ^ d"])
    assert shared == ["w0 = b ^ c", "a = (b & c) | (d & (w0))", "# then", "d = (w0) ^ d"]


def test_not_across_an_assignment_to_its_operand() -> None:
    lines = ["a = b ^ c", "b = 1", "d = b ^ c"]
    assert eliminate_common_subexpressions(lines) == lines


def test_not_across_branches_or_out_of_a_condition() -> None:
    lines = ["a = b ^ c", "if d:", "    a = b ^ c", "d = (b << c if c < 9 else 0)", "d = (b << c if c < 9 else 1)"]
    assert eliminate_common_subexpressions(lines) == lines
