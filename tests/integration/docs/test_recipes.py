# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Blocks of the recipes in CONTRIBUTING.md."""

from __future__ import annotations

import runpy
import sys
import types
from typing import Any

import pytest
from helpers.docs import pages
from helpers.paths import ROOT
from sumwire.codec.base import GradientCodec
from sumwire.systems import gradients, spec
from sumwire_lab.options.layout import SHAPES, leaves_of

TEXTS = {block.name: block.text for block in pages.blocks("text") if block.path.name == "CONTRIBUTING.md"}


def test_the_row_of_an_op_is_the_sources() -> None:
    source = (ROOT / "protocol" / "sumwire_protocol" / "ops.py").read_text()
    row, table = TEXTS["CONTRIBUTING.md: An op"].strip().rsplit("\n", 1)
    assert row in source and table in source


def test_a_topology_of_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, Any] = eval(f"{{{TEXTS['CONTRIBUTING.md: A topology']}}}")
    ((name, shape),) = made.items()
    assert name not in SHAPES
    monkeypatch.setitem(SHAPES, name, shape)
    assert leaves_of(name) == ["leaf1", "leaf2", "leaf3"]


def test_a_system_of_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the codec of the example in the place that the recipe gives it."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    example = runpy.run_path(str(ROOT / "examples" / "custom_codec.py"))
    module = types.ModuleType("sumwire.codec.fixed")
    module.__dict__["FixedPointCodec"] = example["FixedPointCodec"]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names: dict[str, Any] = dict(vars(gradients))
    text = TEXTS["CONTRIBUTING.md: A system"]
    exec(compile(f"from __future__ import annotations\n{text}", "CONTRIBUTING.md", "exec"), names)
    route = names["FIXED"].routes[spec.SWITCH]
    assert route.ops == ("sum32", "max32") and isinstance(route.codec(None), GradientCodec)
    assert names["FIXED"].approximates_mean
