# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The library's own tensors do not follow `torch.set_default_device`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from helpers.paths import ROOT

MAKERS = frozenset({
    "arange", "as_tensor", "asarray", "empty", "empty_strided", "eye", "full", "linspace", "ones", "rand", "randint",
    "randn", "randperm", "scalar_tensor", "tensor", "tril_indices", "triu_indices", "zeros",
})  # fmt: skip


def without_device(text: str) -> Iterator[tuple[int, str]]:
    """Line and name of each call that makes a tensor wherever torch's default says."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), keywords=given):
                if name in MAKERS and all(each.arg != "device" for each in given):
                    yield node.lineno, name


def test_every_new_tensor_names_its_device() -> None:
    host = ROOT / "host" / "sumwire"
    found = {
        f"{path.relative_to(host)}:{line}: torch.{name}"
        for path in host.rglob("*.py")
        for line, name in without_device(path.read_text())
    }
    assert found == set()
    assert list(without_device('torch.zeros(3)\ntorch.zeros(3, device="cpu")')) == [(1, "zeros")]
