# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What of a program packets reach."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fuzz.coverage import main
from helpers.paths import ROOT
from softswitch.native.emit import emit_c
from softswitch.native.engine import NativeMachine
from softswitch.program.load.program import load_program
from softswitch.runtime.entries import ActionCall, Entry, Exact
from softswitch.runtime.impair import SplitMix

TABLES = (ROOT / "tests/helpers/softswitch/programs/tables.json").read_text()
PAIR = "table ingress.exact_pair: "


def test_without_coverage_nothing_is_counted() -> None:
    emitted = emit_c(load_program(TABLES))
    assert "ss_reach" not in emitted.source
    assert emitted.points == ()


@pytest.mark.cc
def test_points_that_packets_reach() -> None:
    machine = NativeMachine(TABLES, SplitMix(1), lambda: 0, coverage=True)

    def reached() -> dict[str, int]:
        return {point.partition(PAIR)[2]: count for point, count in machine.reached().items() if PAIR in point}

    assert set(reached()) >= {"hit", "miss", "action ingress.mark_and_send", "action ingress.drop_it"}
    assert not any(machine.reached().values())
    frame = bytes([0, 5, *(600).to_bytes(2, "big"), *bytes(12)])
    machine.process(0, frame)
    assert (reached()["hit"], reached()["miss"]) == (0, 1)
    machine.tables["ingress.exact_pair"].insert(Entry((Exact(5), Exact(600)), ActionCall("ingress.drop_it")))
    machine.process(0, frame)
    assert (reached()["hit"], reached()["miss"], reached()["action ingress.drop_it"]) == (1, 1, 1)
    assert reached()["action ingress.mark_and_send"] == 0
    errors = {point: count for point, count in machine.reached().items() if ": error at " in point}
    assert set(errors.values()) == {0}
    machine.process(0, b"")
    assert sum(machine.reached()[point] for point in errors) == 1
    assert 0 in {count for point, count in machine.reached().items() if "node_" in point}


def test_the_command_names_what_no_process_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "1.json").write_text(json.dumps({"a": 0, "b": 1, "c": 0}))
    (tmp_path / "2.json").write_text(json.dumps({"a": 0, "b": 0, "c": 7}))
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "not reached: a\n2 of 3 points of the program reached\n"
