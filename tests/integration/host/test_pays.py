# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire pays` on this machine: it measures every codec, and prints what where-it-pays.md says."""

from __future__ import annotations

import json
import shlex

import pytest
from helpers.docs import pages
from sumwire import cli
from sumwire.systems import pays
from sumwire.systems.spec import SWITCH

COMMAND, PRINTED = (
    next(block.text for block in pages.blocks(language) if block.name == "where-it-pays.md: Before anything is set up")
    for language in ("", "text")
)


def test_it_prints_the_page_s_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(shlex.split(COMMAND)[1:]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line[:10] for line in told] == [line[:10] for line in PRINTED.splitlines()]
    # Bytes are computed: they are the page's on every machine.
    rows = slice(1, [line.split(":")[0] for line in told].index("measured here"))
    assert [line[25:45] for line in told[rows]] == [line[25:45] for line in PRINTED.splitlines()[rows]]


def test_every_system_has_a_cost_or_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pays", "--params", "2M", "--rate", "1G", "--workers", "40", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    named = {one["system"] for one in told["systems"]} | told["left_out"].keys()
    switched = {name for name, spec in pays.TABLE.items() if SWITCH in spec.routes}
    assert named == {*pays.LABELS, *switched} - {"dlcp"}
    assert {"vote", "ef-sign", "marsit"} <= told["left_out"].keys()
    assert all(one["seconds"] > 0 and one["host_ms"] > 0 for one in told["systems"])
