# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a trace says of a packet, where it goes, and that it costs nothing where nobody asked for it."""

from __future__ import annotations

import io
import json
import logging
import os
import random
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.logs import events_of
from helpers.paths import ROOT
from helpers.softswitch.compile_programs import PROGRAMS
from softswitch import cli, options, trace
from softswitch.errors import DeviceError
from softswitch.events import SwitchEvent
from softswitch.native.emit import emit_c
from softswitch.program.load.program import load_program
from softswitch.python.emit import emit_program
from softswitch.records import RecordFile
from softswitch.runtime.entries import ActionCall, ActionSet, Entry, Exact, Lpm, Replica, Ternary
from softswitch.switch import NOT_NATIVE, SoftSwitch
from softswitch.trace import TraceFile, lines

Packets = list[dict[str, Any]]
COMPILED = [file for file in sorted(PROGRAMS.glob("*.json")) if file.stem != "sources"]
CALLS = re.compile(r"\btrace\.\w+\(")
HIDDEN = "\x1b[2J\n\r\x00\N{RIGHT-TO-LEFT OVERRIDE}"


@pytest.fixture
def quiet() -> Iterator[io.StringIO]:
    """The log of traces, as text, at its lowest level."""
    told = io.StringIO()
    logger, handler = logging.getLogger("softswitch.trace"), logging.StreamHandler(told)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    yield told
    logger.removeHandler(handler)
    logger.setLevel(level)


def traced(name: str) -> tuple[SoftSwitch, Packets]:
    packets: Packets = []
    return SoftSwitch((PROGRAMS / f"{name}.json").read_text(), seed=1, trace=packets.append), packets


def of_kind(packet: dict[str, Any], kind: str) -> Packets:
    """All events of a kind, or all, at any depth."""
    found: Packets = []

    def look(events: Packets) -> None:
        for each in events:
            if kind in ("", each["event"]):
                found.append(each)
            look(each.get("events", []))

    look(packet["events"])
    return found


def probe(which: int, small: int, medium: int, address: int) -> bytes:
    return struct.pack(">BBHIQ", which, small, medium, address, 0)


# -- what is told ---------------------------------------------------------------------------------------


def test_the_entry_that_was_hit() -> None:
    switch, packets = traced("tables")
    switch.insert("ingress.longest", Entry((Lpm(0x0A000000, 8),), ActionCall("ingress.mark", (7,))))
    masked = (Ternary(0x10, 0xF0), Ternary(0, 0), Exact(0))
    switch.insert("ingress.masked", Entry(masked, ActionCall("ingress.mark", (1,)), 5))
    switch.insert("ingress.masked", Entry(masked, ActionCall("ingress.mark", (1,)), 9))
    switch.process(1, probe(1, 0, 0, 0x0A020304))
    switch.process(1, probe(2, 0x15, 0, 0))
    (longest,) = [each for each in of_kind(packets[0], "table") if each["table"] == "ingress.longest"]
    assert longest["hit"] is True
    assert longest["keys"] == [{"name": "hdr.probe.address", "match": "lpm", "value": "0x0a020304"}]
    assert longest["entry"] == ["0x0a000000/8"]
    assert "priority" not in longest
    (chosen,) = [each for each in of_kind(packets[1], "table") if each["table"] == "ingress.masked"]
    assert (chosen["entry"][0], chosen["priority"], chosen["handle"]) == ("0x10 &&& 0xf0", 9, 1)
    hit = "key (hdr.probe.address=0x0a020304): hit with handle 0, hdr.probe.address lpm 0x0a000000/8"
    assert f"    Applying table 'ingress.longest', {hit}" in list(lines(packets[0]))
    (action,) = [each for each in of_kind(packets[0], "action") if each["table"] == "ingress.longest"]
    assert action == {
        "event": "action", "table": "ingress.longest", "action": "ingress.mark",
        "parameters": {"value": "0x0000000000000007"},
    }  # fmt: skip


def test_checksums_are_verified_before_the_parser_ends_as_in_bmv2() -> None:
    switch, packets = traced("checksum")
    switch.process(1, bytes(12) + b"\x08\x00" + bytes(20))
    kinds = [event["event"] for event in packets[0]["events"]]
    assert kinds[: kinds.index("pipeline")][-3:] == ["extract", "checksum", "parser_end"]


def test_an_entry_that_was_changed_or_deleted_between_packets() -> None:
    switch, packets = traced("tables")
    key = (Lpm(0x0A000000, 8),)
    frame = probe(1, 0, 0, 0x0A020304)
    switch.insert("ingress.longest", Entry(key, ActionCall("ingress.mark", (7,))))
    switch.process(1, frame)
    switch.modify("ingress.longest", Entry(key, ActionCall("ingress.mark", (8,))))
    with switch.batch():
        switch.modify("ingress.longest", Entry(key, ActionCall("ingress.mark", (9,))))
        switch.process(1, frame)  # the eight is still there
        switch.delete("ingress.longest", key)
        switch.process(1, frame)
    switch.process(1, frame)
    found = [next(e for e in of_kind(p, "table") if e["table"] == "ingress.longest") for p in packets]
    assert [each["hit"] for each in found] == [True, True, True, False]
    assert [each.get("entry") for each in found] == [["0x0a000000/8"]] * 3 + [None]
    assert [each.get("handle") for each in found] == [0] * 3 + [None]
    ran = [next(e for e in of_kind(p, "action") if e["table"] == "ingress.longest") for p in packets]
    assert [each["parameters"].get("value", "")[-2:] for each in ran] == ["07", "08", "08", "ff"]


def test_conditions_have_their_line_of_p4() -> None:
    switch, packets = traced("tables")
    switch.process(1, probe(0, 0, 0, 0))
    first = of_kind(packets[0], "condition")[0]
    assert first["condition"] == "hdr.probe.which == 0"
    assert first["value"] is True
    place, _, number = first["place"].rpartition(":")
    assert "hdr.probe.which == 0" in (ROOT / place).read_text().splitlines()[int(number) - 1]


def test_drops_have_their_line_of_p4() -> None:
    switch, packets = traced("multicast")
    assert switch.process(0, struct.pack(">HHHHII", 0, 0xFFFF, 0, 0, 0, 0)) == []
    (marked,) = of_kind(packets[0], "mark_to_drop")
    place, _, number = marked["place"].rpartition(":")
    assert "mark_to_drop" in (ROOT / place).read_text().splitlines()[int(number) - 1]
    assert packets[0]["events"][-1] == {"event": "dropped", "at": "ingress"}
    assert packets[0]["out"] == []


def test_replicas_are_branches() -> None:
    switch, packets = traced("multicast")
    switch.set_group(1, [Replica(4, 1), Replica(5, 2)])
    out = switch.process(0, struct.pack(">HHHHII", 1, 0, 0, 0, 0, 0) + b"rest")
    branches = of_kind(packets[0], "replica")
    assert [(each["port"], each["instance"]) for each in branches] == [(4, 1), (5, 2)]
    assert branches[0]["events"][-1] == {"event": "dropped", "at": "egress"}
    assert branches[1]["events"][-1] == {"event": "transmit", "port": 5, "length": len(out[0][1])}


def test_the_member_of_a_selector_that_runs() -> None:
    switch, packets = traced("externs")
    table = next(t for t in switch.loaded.program.tables.values() if t.selector is not None)
    named = [a for a in switch.loaded.program.actions if a.index in table.actions and a.parameters]
    calls = tuple(ActionCall(named[0].name, (number,)) for number in (3, 4))
    switch.insert(table.name, Entry((Exact(0x33),), ActionSet(calls)))
    for index in range(8):
        switch.process(1, bytes([0x33, index, 0, 0]))
    ran = [e for packet in packets for e in of_kind(packet, "action") if e["table"] == table.name]
    assert {int(next(iter(each["parameters"].values())), 16) for each in ran} == {3, 4}
    looked = [e for packet in packets for e in of_kind(packet, "table") if e["table"] == table.name]
    assert {tuple(each["entry"]) for each in looked} == {("0x33",)}


def test_text_has_bmv2_s_words() -> None:
    switch, packets = traced("tables")
    switch.process(1, probe(0, 0, 0, 0))
    text = "\n".join(lines(packets[0]))
    for words in (
        "Parser 'parser' entering state 'start'", "Extracting header 'probe'", "Pipeline 'ingress': start",
        "Applying table 'ingress.exact_pair'", "is true", ": miss", "Action entry is ", "Deparsing header 'probe'",
        "Transmitting packet of size 16 out of port 1",
    ):  # fmt: skip
        assert words in text
    assert text.startswith("packet 1: 16 bytes in at port 1\n  Parser")


def test_long_numbers_are_cut_in_text_only() -> None:
    switch, packets = traced("wide")
    switch.process(1, struct.pack(">BBHI", 1, 0, 0, 0) + b"\xab" * 256)
    (header,) = [each for each in of_kind(packets[0], "extract") if max(map(len, each["fields"].values())) > 200]
    assert "0x" + "ab" * 128 in header["fields"].values()
    assert max(map(len, lines(packets[0]))) < 400
    assert "0xabababababababab...(256 digits)" in "\n".join(lines(packets[0]))


def test_every_event_has_a_text() -> None:
    """Garbage and short frames, of which each is told as text and as JSON that reads back."""
    draw = random.Random(3)
    seen = set()
    for name in ("checksum", "corner", "cpu", "externs", "multicast", "parse", "stacks", "tables", "wide"):
        switch, packets = traced(name)
        for _ in range(60):
            frame = bytes([draw.randrange(256) if draw.random() < 0.5 else draw.randrange(20)])
            switch.process(draw.randrange(8), (frame + draw.randbytes(draw.randrange(80)))[: draw.randrange(82)])
        for packet in packets:
            assert json.loads(json.dumps(packet)) == packet
            assert all(line.isprintable() for line in lines(packet))
            assert "None" not in "".join(lines(packet))
            seen |= {each["event"] for each in of_kind(packet, "")}
    assert len(seen) > 20
    assert seen <= trace._TEXTS.keys()


# -- hostile programs -----------------------------------------------------------------------------------


def test_names_with_control_characters(tmp_path: Path, quiet: io.StringIO) -> None:
    """A program's own texts reach no terminal and break no line."""
    switch, packets = traced("tables")
    switch.process(1, probe(0, 0, 0, 0))
    packet = json.loads(json.dumps(packets[0]).replace("ingress.exact_pair", json.dumps(HIDDEN)[1:-1]))
    assert HIDDEN in [each["table"] for each in of_kind(packet, "table")]
    assert all(line.isprintable() for line in lines(packet))
    for name in ("t.txt", "t.jsonl"):
        file = TraceFile(str(tmp_path / name))
        file(packet)
        file.close()
        text = (tmp_path / name).read_bytes()
        assert text.isascii()
        assert b"\x1b" not in text
        assert text.count(b"\n") == (1 if name == "t.jsonl" else len(list(lines(packet))))
    trace.to_log(packet)
    assert "\x1b" not in quiet.getvalue()
    assert len(quiet.getvalue().split("\n")) == len(list(lines(packet))) + 1


def test_fragments_that_are_not_printable_are_left_out() -> None:
    program = json.loads((PROGRAMS / "tables.json").read_text())
    for bad in (HIDDEN, 7, ["x"], "x" * 5000):
        for node in program["pipelines"][0]["conditionals"]:
            node["source_info"]["source_fragment"] = bad
        packets: Packets = []
        SoftSwitch(json.dumps(program), trace=packets.append).process(1, probe(0, 0, 0, 0))
        assert of_kind(packets[0], "condition")[0]["condition"] == ("x" * 200 if bad == "x" * 5000 else "")


# -- where traces go ------------------------------------------------------------------------------------


def test_files_are_whole_after_each_packet(tmp_path: Path) -> None:
    text, objects = TraceFile(str(tmp_path / "t.txt")), TraceFile(str(tmp_path / "t.jsonl"))
    switch = SoftSwitch((PROGRAMS / "tables.json").read_text(), trace=lambda packet: (text(packet), objects(packet)))
    for count in (1, 2, 3):
        switch.process(1, probe(0, 0, 0, 0))
        read = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
        assert [packet["packet"] for packet in read] == list(range(1, count + 1))
        assert (tmp_path / "t.txt").read_text() == "".join(f"{line}\n" for packet in read for line in lines(packet))


def test_the_log(quiet: io.StringIO, caplog: pytest.LogCaptureFixture) -> None:
    switch = SoftSwitch((PROGRAMS / "tables.json").read_text(), trace=trace.to_log)
    with caplog.at_level(logging.DEBUG, "softswitch.trace"):
        switch.process(1, probe(0, 0, 0, 0))
    assert "Applying table 'ingress.exact_pair'" in quiet.getvalue()
    told = [record for record in caplog.records if record.name == "softswitch.trace"]
    assert set(events_of(told)) == {SwitchEvent.PACKET_TRACED}


def test_a_full_disk_is_said_once_and_packets_go_on(caplog: pytest.LogCaptureFixture) -> None:
    switch = SoftSwitch((PROGRAMS / "tables.json").read_text(), trace=TraceFile("/dev/full"))
    for _ in range(3):
        assert [port for port, _ in switch.process(1, probe(0, 0, 0, 0))] == [1]
    (told,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert told.getMessage() == "/dev/full: No space left on device: nothing more is written there"
    assert events_of([told]) == [SwitchEvent.FILE_ENDED]


def test_a_record_that_was_cut_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RecordFile(tmp_path / "records")
    file.write(b"first\n")
    real, calls = os.write, []

    def full(opened: int, data: memoryview) -> int:
        calls.append(bytes(data))
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return real(opened, data[:3])

    monkeypatch.setattr(os, "write", full)
    file.write(b"222222\n")
    file.write(b"third\n")
    assert calls == [b"222222\n", b"222\n"]
    assert (tmp_path / "records").read_bytes() == b"first\n"


# -- which engine ---------------------------------------------------------------------------------------


def test_only_the_python_engine_traces() -> None:
    assert SoftSwitch(trace=print).engine == "python"
    assert SoftSwitch(trace=print, engine="python").engine == "python"
    with pytest.raises(DeviceError, match="does not trace packets; take the engine python or auto"):
        SoftSwitch(trace=print, engine="native")


def test_a_program_that_comes_later_is_traced_too() -> None:
    packets: Packets = []
    switch = SoftSwitch(trace=packets.append)
    assert switch.process(1, bytes(16)) == []
    switch.load((PROGRAMS / "tables.json").read_text())
    switch.process(1, probe(0, 0, 0, 0))
    assert [packet["packet"] for packet in packets] == [1]


@pytest.mark.parametrize("file", COMPILED, ids=lambda file: file.stem)
def test_the_code_without_a_trace_has_nothing_of_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = load_program(file.read_text())
    before = emit_program(program).source, emit_c(program).source
    assert CALLS.search(emit_program(program, traces=True).source)
    assert not CALLS.search(before[0])
    assert "recorder" not in before[0] + before[1]
    for option, source in zip(("--dump-python", "--dump-c"), before, strict=True):
        assert cli.main([str(file), option, "--trace", "/dev/null"]) == 0
        assert capsys.readouterr().out == source


# -- the command line -----------------------------------------------------------------------------------


def parsed(*words: str) -> Any:
    return options.parse(["--no-p4", "--insecure", *words])


def test_trace_needs_the_python_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("--trace", str(tmp_path / "t"), "--engine", "native")
    assert (
        "--trace: the native engine does not trace packets; take the engine python or auto" in capsys.readouterr().err
    )
    with pytest.raises(SystemExit):
        parsed("--trace", str(tmp_path / "none" / "t"))
    assert "name a file that can be written" in capsys.readouterr().err


def test_the_options_make_a_tracer(tmp_path: Path, quiet: io.StringIO) -> None:
    assert cli._tracer(parsed()) is None
    assert cli._tracer(parsed("-L", "debug")) is None
    assert cli._tracer(parsed("-L", "trace", "--engine", "native")) is None
    assert dict(options.ignored(parsed("-L", "trace", "--engine", "native"))) == {"--log-level trace": NOT_NATIVE}
    assert list(options.ignored(parsed("-L", "trace"))) == []
    tell = cli._tracer(parsed("-L", "trace", "--trace", str(tmp_path / "t.jsonl")))
    assert tell is not None
    SoftSwitch((PROGRAMS / "tables.json").read_text(), trace=tell).process(1, probe(0, 0, 0, 0))
    assert quiet.getvalue().startswith("packet 1")
    assert json.loads((tmp_path / "t.jsonl").read_text())["packet"] == 1


def test_the_command_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(switch: SoftSwitch, *_: object) -> int:
        return len(switch.process(1, probe(0, 0, 0, 0)))

    monkeypatch.setattr(cli, "_run", run)
    monkeypatch.setattr(cli, "_start_logs", lambda arguments: None)
    words = [str(PROGRAMS / "tables.json"), "--insecure", "--trace", str(tmp_path / "t.jsonl")]
    assert cli.main(words) == 1
    assert json.loads((tmp_path / "t.jsonl").read_text())["out"] == [{"port": 1, "length": 16}]


def test_pcap_takes_a_folder_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parsed().pcap is None
    assert parsed("--pcap").pcap == Path()
    assert parsed("--pcap", "pcaps").pcap == Path("pcaps")
    assert Path("pcaps").is_dir()


def test_pcap_into_what_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "program.json").write_text("{}")
    with pytest.raises(SystemExit):
        parsed("--pcap", str(tmp_path / "program.json"))
    assert "File exists; name a folder that can be written" in capsys.readouterr().err
