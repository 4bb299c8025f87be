# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""docs/models.md says of every rule what shows on the real code that it is needed: a test, a mutation, or nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.paths import ROOT
from sumwire_lab.models.catalogue import MODELS

_PAGE = (ROOT / "docs" / "models.md").read_text()
_MUTATIONS = set(re.findall(r"^\| ([a-z0-9-]+) \| \d+", (ROOT / "docs" / "simulator.md").read_text(), re.MULTILINE))
# Those of slot.pml are played packet by packet.
_RULES = [(model.name, rule.name) for model in MODELS if model.name != "slot" for rule in model.rules]


def test_every_rule_has_its_row() -> None:
    assert re.findall(r"^\| (\w+) \| ([A-Z_]+) \|", _PAGE, re.MULTILINE) == _RULES


@pytest.mark.parametrize(("model", "rule"), _RULES)
def test_what_a_row_names_is_there(model: str, rule: str) -> None:
    (held,) = re.findall(rf"^\| {model} \| {rule} \| (.+) \|$", _PAGE, re.MULTILINE)
    how, _, what = held.partition(": ")
    if how == "broken":
        assert what in _MUTATIONS
    elif how != "open":
        assert how == "tested"
        file, _, name = what.strip("`").partition("::")
        assert f"def {name}(" in Path(ROOT, file).read_text()
