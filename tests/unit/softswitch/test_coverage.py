# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What of a program the packets of a trace did not reach."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from helpers.softswitch.compile_programs import PROGRAMS
from softswitch import cli
from softswitch.runtime.entries import ActionCall, Entry, Lpm
from softswitch.switch import SoftSwitch
from softswitch.trace import TraceFile

pytestmark = pytest.mark.usefixtures("no_logs")
TABLES = PROGRAMS / "tables.json"


@pytest.fixture
def no_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "_start_logs", lambda arguments: None)


def trace(file: Path, *addresses: int) -> None:
    tracer = TraceFile(str(file))
    switch = SoftSwitch(TABLES.read_text(), seed=1, trace=tracer)
    switch.insert("ingress.longest", Entry((Lpm(0x0A000000, 8),), ActionCall("ingress.nothing", ())))
    for address in addresses:
        switch.process(1, struct.pack(">BBHIQ", 1, 0, 0, address, 0))
    tracer.close()


def test_gaps_close_as_packets_reach_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for number, addresses in enumerate([(), (0x0B000000,), (0x0B000000, 0x0A000000)]):
        trace(tmp_path / f"{number}.jsonl", *addresses)
        assert cli.main([str(TABLES), "--coverage", str(tmp_path / f"{number}.jsonl")]) == 0
        told.append(capsys.readouterr().out)
    longest, nothing = "table 'ingress.longest' was", "tables.p4:46 action 'ingress.nothing' of table 'ingress.longest'"
    assert [longest in each for each in told] == [True, False, False]
    assert [nothing in each for each in told] == [False, True, False]
    assert "parser state 'start' was never entered" in told[0] and "parser state" not in told[1].partition("\n")[2]
    assert "tables.p4:" in told[1] and "was never true" in told[1] and told[0].startswith("0 of ")


@pytest.mark.parametrize(
    "line",
    ["{", "[1]", "7", '{"events": 7}', '{"events": [7]}', '{"events": [{"event": "table", "table": "x"}]}'],
)
def test_what_is_no_trace_of_the_program(line: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "t.jsonl").write_text(f"{line}\n")
    assert cli.main([str(TABLES), "--coverage", str(tmp_path / "t.jsonl")]) == 1
    assert "t.jsonl:1: no packet of a trace" in caplog.text
    assert cli.main([str(TABLES), "--coverage", str(tmp_path / "none.jsonl")]) == 1
    assert "none.jsonl: No such file or directory; name a file that --trace FILE.jsonl has written" in caplog.text
