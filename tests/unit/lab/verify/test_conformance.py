# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options and rows of verify-faithful."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.paths import ROOT
from softswitch.fuzz.p4runtime.target import Target, TargetError
from sumwire_lab.errors import LabError, OptionError
from sumwire_lab.experiments import p4runtime_clients
from sumwire_lab.options import arguments
from sumwire_lab.options.faithful_options import GROUPS, FaithfulOptions
from sumwire_lab.study.check import Check, equal
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify import conformance
from sumwire_lab.verify.plan import Experiment

KNOWN = {"one": lambda: [equal("one", 1, 1)], "two": lambda: [equal("two", 1, 1)]}


def parsed(*words: str) -> FaithfulOptions:
    return arguments.faithful_options(arguments.parser().parse_args(["verify-faithful", *words]))


def test_options() -> None:
    assert parsed() == FaithfulOptions(GROUPS, quick=False)
    assert parsed("--quick").quick
    assert parsed("--rows", "p4runtime-two").wanted("p4runtime", KNOWN) == ["two"]


@pytest.mark.parametrize("text", ["x", "", "p4runtime,", "x-one"])
def test_no_such_group(text: str) -> None:
    with pytest.raises(OptionError, match="rows="):
        parsed("--rows", text)


def test_no_such_row() -> None:
    with pytest.raises(OptionError, match="rows=p4runtime-three: rows of p4runtime are one, two"):
        parsed("--rows", "p4runtime-three").wanted("p4runtime", KNOWN)


def test_rows_of_each_group_in_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def experiments(results: Path, say: Say, options: FaithfulOptions) -> dict[str, Experiment]:
        return KNOWN

    assert tuple(conformance.GROUPS) == GROUPS
    monkeypatch.setattr(conformance, "GROUPS", {"p4runtime": experiments})
    plan = conformance.plan(tmp_path, lambda _: None, FaithfulOptions(("p4runtime-two",)))
    assert list(plan.experiments) == ["p4runtime-two"]
    assert plan.carry_out(tmp_path, lambda _: None) == [Check("two", 1, "1", holds=True)]
    assert (tmp_path / "verify-faithful.json").is_file()


def test_the_page_has_every_row(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "lab.md").read_text()
    for group, experiments in conformance.GROUPS.items():
        rows = experiments(tmp_path, lambda _: None, FaithfulOptions())
        assert [row for row in rows if f"| `{group}-{row}` |" not in page] == []


def test_a_switch_that_does_not_start_fails_its_row_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def never(folder: Path) -> Target:
        raise TargetError("the switch does not answer")

    monkeypatch.setattr(p4runtime_clients, "_SWITCHES", {"bmv2": never})
    p4info = ROOT / "tests/helpers/p4runtime/programs/tables.p4info.txtpb"
    with pytest.raises(LabError, match="bmv2: the switch does not answer"):
        p4runtime_clients.insert_seconds(p4info, 1, lambda _: None)
