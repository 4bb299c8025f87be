# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which rows a verify command line asks for, and that they are carried out."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.paths import ROOT
from sumwire_lab.errors import OptionError
from sumwire_lab.options import arguments
from sumwire_lab.options.verify_options import TOPICS, VerifyOptions
from sumwire_lab.study.check import Check, equal
from sumwire_lab.verify import commands
from sumwire_lab.verify.plan import Experiments

KNOWN: Experiments = {"one": lambda _: [equal("one", 1, 1)], "two": lambda _: [equal("two", 1, 1)]}
# By topic: one of its groups of rows.
GROUPED = {"papers": "thc", "ways": "start", "faithful": "p4runtime"}


def parsed(topic: str, *words: str) -> VerifyOptions:
    return arguments.verify_options(arguments.parser().parse_args(["verify", topic, *words]))


@pytest.mark.parametrize("topic", GROUPED)
def test_groups_and_rows_are_chosen(topic: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    groups, group = TOPICS[topic].rows, GROUPED[topic]
    assert parsed(topic) == VerifyOptions(topic, groups, quick=False)
    assert parsed(topic, "--quick").quick
    assert tuple(commands.GROUPED[topic]) == groups
    assert parsed(topic, "--rows", f"{group}-two,{groups[-1]}").wanted(group, KNOWN) == ["two"]
    assert parsed(topic, "--rows", f"{group}-two,{group}").wanted(group, KNOWN) == ["one", "two"]
    assert parsed(topic, "--rows", groups[-1]).wanted(groups[0], KNOWN) == []
    with pytest.raises(OptionError, match=f"rows={group}-three: rows of {group} are one, two"):
        parsed(topic, "--rows", f"{group}-three").wanted(group, KNOWN)
    monkeypatch.setitem(commands.GROUPED, topic, {group: KNOWN, groups[-1]: KNOWN})
    chosen = VerifyOptions(topic, (groups[-1], f"{group}-two"))
    assert list(commands.chosen(topic, chosen)) == [f"{group}-two", f"{groups[-1]}-one", f"{groups[-1]}-two"]
    done = commands.verify(topic, tmp_path, lambda _: None, chosen)
    assert done == [Check(name, 1, "1", holds=True) for name in ("two", "one", "two")]
    assert (tmp_path / f"verify-{topic}.json").is_file()


@pytest.mark.parametrize("topic", GROUPED)
@pytest.mark.parametrize("text", ["x", "", "{},", "x-one"])
def test_no_such_group(topic: str, text: str) -> None:
    with pytest.raises(OptionError, match="rows="):
        parsed(topic, "--rows", text.format(GROUPED[topic]))


@pytest.mark.parametrize("topic", ["papers", "ways"])
def test_a_try_has_one_seed(topic: str) -> None:
    assert (parsed(topic).seeds, parsed(topic, "--quick").seeds) == ((1, 2, 3), (1,))


@pytest.mark.parametrize("topic", ["ways", "faithful"])
def test_the_page_has_every_row(topic: str) -> None:
    page = (ROOT / "docs" / "lab.md").read_text()
    rows = [f"{group}-{row}" for group, experiments in commands.GROUPED[topic].items() for row in experiments]
    assert [row for row in rows if f"| `{row}` |" not in page] == []


def test_every_row_of_the_options_has_its_experiment() -> None:
    for topic in ("life", "see", "trust"):
        rows = TOPICS[topic].rows
        assert tuple(commands.BY_ROW[topic]) == rows
        assert set(rows) - set(commands.chosen(topic, VerifyOptions(topic))) <= {"attacks"}
    assert list(commands.chosen("see", VerifyOptions("see", ("scapy", "tshark")))) == ["scapy", "tshark"]
    assert list(commands.chosen("trust", VerifyOptions("trust", ("attacks",)))) == [f"attack {k}" for k in range(1, 11)]


def test_options_of_trust() -> None:
    assert parsed("trust") == VerifyOptions("trust", quick=False)
    assert parsed("trust", "--rows", "forged,tls", "--quick") == VerifyOptions("trust", ("forged", "tls"), quick=True)
    quick = VerifyOptions("trust", quick=True)
    assert (quick.amount(10_000), quick.amount(50), VerifyOptions("trust").amount(7)) == (100, 1, 7)


def test_options_of_see() -> None:
    assert parsed("see") == VerifyOptions("see", quick=False)
    assert parsed("see", "--rows", "doctor,scapy", "--quick") == VerifyOptions("see", ("doctor", "scapy"), quick=True)
    assert parsed("see", "--switches", "soft,bmv2").doctored == ("soft", "bmv2")
    assert parsed("see", "--switches", "bmv2,soft", "--quick").doctored == ("bmv2",)
    with pytest.raises(OptionError, match="switches=hard"):
        parsed("see", "--switches", "hard")


@pytest.mark.parametrize(("topic", "row"), [("trust", "tls"), ("see", "doctor")])
@pytest.mark.parametrize("text", ["x", "", "{0},{0}", "{0},"])
def test_wrong_rows(topic: str, row: str, text: str) -> None:
    with pytest.raises(OptionError, match="rows="):
        parsed(topic, "--rows", text.format(row))
