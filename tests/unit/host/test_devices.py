# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The library's own tensors do not follow `torch.set_default_device` and `torch.set_default_dtype`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from helpers.paths import ROOT

MAKERS = frozenset({
    "arange", "as_tensor", "asarray", "empty", "empty_strided", "eye", "full", "linspace", "ones", "rand", "randint",
    "randn", "randperm", "scalar_tensor", "tensor", "tril_indices", "triu_indices", "zeros",
})  # fmt: skip


# What is of torch's default dtype unless told.
OF_FLOATS = frozenset({"empty", "empty_strided", "eye", "linspace", "ones", "rand", "randn", "zeros"})


def without(option: str, makers: frozenset[str], text: str) -> Iterator[tuple[int, str]]:
    """Line and name of each call that makes a tensor where, or of what, torch's default says."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), keywords=given):
                if name in makers and all(each.arg != option for each in given):
                    yield node.lineno, name


@pytest.mark.parametrize(("option", "makers"), [("device", MAKERS), ("dtype", OF_FLOATS)])
def test_every_new_tensor_names_its_device_and_type(option: str, makers: frozenset[str]) -> None:
    host = ROOT / "host" / "sumwire"
    found = {
        f"{path.relative_to(host)}:{line}: torch.{name}"
        for path in host.rglob("*.py")
        for line, name in without(option, makers, path.read_text())
    }
    assert found == set()
    assert list(without(option, makers, f"torch.zeros(3)\ntorch.zeros(3, {option}=x)")) == [(1, "zeros")]
