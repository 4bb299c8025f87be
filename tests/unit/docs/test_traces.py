# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The traces that docs/trace.md prints are those of the programs that it names, and its table has every event."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.docs import pages
from helpers.paths import ROOT
from helpers.softswitch.compile_programs import PROGRAMS
from softswitch import trace
from softswitch.coverage import coverage_lines
from softswitch.runtime.entries import Replica
from softswitch.switch import SoftSwitch
from softswitch.trace import lines

PAGE = ROOT / "docs" / "trace.md"
BLOCKS = {(block.name, block.language): block.text for block in pages.blocks_of(PAGE)}


def test_the_page_s_block_prints_what_the_page_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(PROGRAMS)
    exec(compile(BLOCKS["trace.md: Trace", "python"], "trace.md", "exec"), {})
    assert capsys.readouterr().out == BLOCKS["trace.md: Trace", "text"]


def test_the_frame_that_sumwire_drops() -> None:
    (written,) = re.findall(r"`frame = bytes.fromhex\(\"([0-9a-f ]+)\"\)`", PAGE.read_text())
    packets: list[dict[str, Any]] = []
    switch = SoftSwitch((ROOT / "p4src/build/sumwire.json").read_text(), trace=packets.append)
    assert switch.process(1, bytes.fromhex(written)) == []
    assert "".join(f"{line}\n" for line in lines(packets[0])) == BLOCKS["trace.md: Trace (2)", "text"]


def test_the_coverage_of_the_packet_of_the_page(tmp_path: Path) -> None:
    packets: list[dict[str, Any]] = []
    switch = SoftSwitch((PROGRAMS / "multicast.json").read_text(), trace=packets.append)
    switch.set_group(1, [Replica(4, 1), Replica(5, 2)])
    switch.process(0, bytes.fromhex("0001 0000 0007 0000 00000000 00000000"))
    (tmp_path / "t.jsonl").write_text(json.dumps(packets[0]))
    told = "".join(f"{line}\n" for line in coverage_lines(switch.loaded.program, tmp_path / "t.jsonl"))
    assert told == BLOCKS["trace.md: Coverage", "text"]


def test_the_table_has_every_event() -> None:
    _, _, section = PAGE.read_text().partition("## Events")
    rows = [line.split("|")[1] for line in section.split("## Captures")[0].splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted([*trace._TEXTS, "packet", "port", "length", "events", "out"])
