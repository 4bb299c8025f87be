# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make models` in short: one model whole, one without a rule, and what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sumwire_lab import cli
from sumwire_lab.errors import LabError, MissingToolError
from sumwire_lab.models import suite
from sumwire_lab.models.suite import Search, Searches, SearchTask

WHOLE = SearchTask("slot", "", "any losses and copies", ("WORKERS=3", "FOREVER"), Search.STATES)
REPEAT = SearchTask("slot", "REPEAT", "", ("WITHOUT_REPEAT",), Search.SHORTEST)
# A copy of worker 0's packet counts again.
COPY = ("send 0 0", "arrive 0 0", "arrive 0 0")


@pytest.mark.spin
def test_a_model_whole_and_without_a_rule() -> None:
    said: list[str] = []
    whole, repeat = suite.carry_out([WHOLE, REPEAT], said.append)
    assert whole.holds and whole.found.states > 100
    assert repeat.holds and repeat.found.violated == "a result counts each worker once, and nothing else"
    assert set(COPY) <= set(repeat.found.steps) and repeat.found.steps.count("arrive 0 0") == 2
    assert len(said) == 2


@pytest.mark.spin
def test_a_deviation_ends_with_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rule whose absence does no harm: here one that the model does not have."""
    harmless = SearchTask("slot", "NO_SUCH_RULE", "", ("FOREVER", "CHUNKS=3"), Search.SHORTEST)
    monkeypatch.setattr(suite, "tasks", lambda names: [harmless])
    assert cli.main(["models", "--json", str(tmp_path / "found.json")]) == cli.EXIT_FAILED
    assert "NO COUNTEREXAMPLE" in capsys.readouterr().out
    record = json.loads((tmp_path / "found.json").read_text())
    assert not record["holds"] and record["searches"][0]["rule"] == "NO_SUCH_RULE"


def test_a_machine_without_spin_is_told_the_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(suite.shutil, "which", lambda program: None)
    with pytest.raises(MissingToolError, match="apt-get install spin gcc"):
        suite.check_tools()
    assert cli.main(["models"]) == cli.EXIT_FAILED
    assert "apt-get install spin gcc" in capsys.readouterr().err


def test_nothing_begins_after_a_stop() -> None:
    searches = Searches()
    searches.stop()
    with pytest.raises(LabError, match="stopped"):
        searches.run("slot", (), Search.STATES)
