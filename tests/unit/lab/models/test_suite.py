# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What is searched, and what counts as it must be. No Spin: that is tests/integration/lab/models."""

from __future__ import annotations

import re

import pytest
from sumwire_lab.errors import OptionError
from sumwire_lab.models import suite
from sumwire_lab.models.catalogue import MODELS, PromelaModel
from sumwire_lab.models.suite import FOLDER, Search, SearchOutcome, SearchResult, SearchTask

NOTHING = SearchResult("", (), 10, 5, 1.0, 0.1)
WRONG = SearchResult("no slot is stuck", ("send 0 0", "arrive 0 0"), 10, 5, 1.0, 0.1)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_every_rule_of_a_model_is_taken_out(model: PromelaModel) -> None:
    """Rules that a search names and the model does not know would be taken out nowhere."""
    inside = set(re.findall(r"WITHOUT_(\w+)", (FOLDER / f"{model.name}.pml").read_text()))
    bounds = {each.removeprefix("WITHOUT_") for setting in model.settings for each in setting.defines}
    named = {rule.name for rule in model.rules}
    assert len(named) == len(model.rules)
    assert named <= inside
    assert inside - named <= bounds


def test_every_model_of_the_folder_is_searched() -> None:
    inside = {path.stem for path in FOLDER.glob("*.pml") if "proctype" in path.read_text()}
    assert {model.name for model in MODELS} == inside


@pytest.mark.parametrize("rule", ["", "TURN"])
@pytest.mark.parametrize("found", [NOTHING, WRONG])
def test_whole_models_have_no_error_and_others_have_one(rule: str, found: SearchResult) -> None:
    outcome = SearchOutcome(SearchTask("slot", rule, "about", (), Search.STATES), found)
    assert outcome.holds == (bool(rule) == bool(found.violated))
    assert ("WRONG" in suite.table([outcome])) == (not outcome.holds)
    assert outcome.as_dict()["holds"] == outcome.holds


def test_some_models_can_be_named() -> None:
    assert {task.model for task in suite.tasks(["slot"])} == {"slot"}
    assert {task.model for task in suite.tasks()} == {model.name for model in MODELS}
    with pytest.raises(OptionError, match="known are slot"):
        suite.tasks(["slots"])
