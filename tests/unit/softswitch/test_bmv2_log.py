# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The comparison of bmv2's log with the soft switch's trace: equal events are equal, and every other one is told."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from fuzz.samples import stf
from fuzz.samples.logs import Log, passes_of
from helpers.softswitch.compile_programs import PROGRAMS
from softswitch.runtime.entries import Replica
from softswitch.switch import SoftSwitch

# The packet of docs/trace.md, as bmv2 would log it: packet 0, its replicas as copies 1 and 2, which run by turns.
MULTICAST = """
0.0 Processing packet received on port 0
0.0 Parser 'parser': start
0.0 Parser 'parser' entering state 'start'
0.0 Extracting header 'probe'
0.0 Parser state 'start' has no switch, going to default next state
0.0 Bytes parsed: 16
0.0 Parser 'parser': end
0.0 Pipeline 'ingress': start
0.0 Applying table 'tbl_multicast31'
0.0 Looking up key:
0.0 Table 'tbl_multicast31': miss
0.0 Action entry is multicast31 -
0.0 multicast.p4(31) Primitive meta.note = hdr.probe.note + 1
0.0 multicast.p4(32) Condition "hdr.probe.port == 0xffff" (node_3) is false
0.0 Applying table 'tbl_multicast36'
0.0 Looking up key:
0.0 Table 'tbl_multicast36': miss
0.0 Action entry is multicast36 -
0.0 Pipeline 'ingress': end
0.0 Multicast requested for packet
0.0 Replicating packet on port 4
0.1 Pipeline 'egress': start
0.0 Replicating packet on port 5
0.2 Pipeline 'egress': start
0.1 Looking up key:
0.2 Looking up key:
0.2 Table 'tbl_multicast46': miss
0.1 Table 'tbl_multicast46': miss
0.1 Action entry is multicast46 -
0.2 Action entry is multicast46 -
0.2 Updated counter 'egress.copies' at index 5
0.1 Updated counter 'egress.copies' at index 4
0.2 multicast.p4(53) Condition "standard.egress_rid == 2" (node_9) is true
0.2 Looking up key:
0.2 Table 'tbl_multicast54': miss
0.2 Action entry is multicast54 -
0.1 multicast.p4(53) Condition "standard.egress_rid == 2" (node_9) is false
0.1 multicast.p4(57) Condition "standard.egress_port == 4" (node_11) is true
0.1 Looking up key:
0.1 Table 'tbl_multicast58': miss
0.1 Action entry is multicast58 -
0.1 Pipeline 'egress': end
0.1 Dropping packet at the end of egress
0.2 multicast.p4(57) Condition "standard.egress_port == 4" (node_11) is false
0.2 Pipeline 'egress': end
0.2 Deparsing header 'probe'
0.2 Deparsing header 'extra'
open: No such file or directory
0.2 Transmitting packet of size 20 out of port 5
""".strip()


def log(text: str, headers: dict[int, str] | None = None) -> Log:
    """The log with these records: packet and copy, and what is said. Other lines are beside them, or a key's fields."""
    lines = ["Calling target program-options parser", "[03:04:05.006] [bmv2] [D] [thread 7] Adding interface"]
    for line in text.splitlines():
        number, _, said = line.partition(" ")
        is_record = number.replace(".", "").isdigit()
        lines.append(f"[03:04:05.006] [bmv2] [T] [thread 7] [{number}] [cxt 0] {said}" if is_record else line)
    return Log("\n".join(lines) + "\n[03:04:05.0", headers or {})


def traced(name: str) -> tuple[SoftSwitch, list[dict[str, Any]]]:
    packets: list[dict[str, Any]] = []
    return SoftSwitch((PROGRAMS / f"{name}.json").read_text(), seed=1, trace=packets.append), packets


def multicast() -> dict[str, Any]:
    switch, packets = traced("multicast")
    switch.set_group(1, [Replica(4, 1), Replica(5, 2)])
    switch.process(0, bytes.fromhex("0001 0000 0007 0000 00000000 00000000"))
    return packets[0]


def test_replicas() -> None:
    found = log(MULTICAST)
    assert found.ports == {0: 0}
    assert found.passes(0) == passes_of(multicast())


@pytest.mark.parametrize(
    "change",
    [
        "state 'start'>state 'begin'", "header 'probe'>header 'other'", "Bytes parsed: 16>Bytes parsed: 14",
        "'ingress': start>'other': start", "'tbl_multicast31': miss>'tbl_multicast31': hit with handle 0",
        "is multicast31 ->is multicast36 -", "(node_3) is false>(node_3) is true", "0.0 Multicast requested>0.0 Some",
        "packet on port 4>packet on port 6", "copies' at index 5>copies' at index 6", "end of egress>end of ingress",
        "Deparsing header 'extra'>Deparsing header 'probe'", "size 20>size 21", "out of port 5>out of port 4",
        "0.2 Deparsing header 'extra'\nopen>open",
        "0.1 Action entry is multicast58 ->0.2 Action entry is multicast58 -",
    ],
)  # fmt: skip
def test_what_differs_is_seen(change: str) -> None:
    old, new = change.split(">")
    assert old in MULTICAST
    assert log(MULTICAST.replace(old, new)).passes(0) != passes_of(multicast())


def test_keys_handles_and_data_of_an_entry() -> None:
    switch, packets = traced("tables")
    runner = stf.StfRunner(switch)
    added = stf.parse("add ingress.longest hdr.probe.address:0x0a000000/8 ingress.mark(value:7)")
    (command,) = [runner.write(each) for each in added if isinstance(each, stf.Add)]
    assert command == "table_add ingress.longest ingress.mark 0xa000000/8 => 0x7"
    switch.process(1, struct.pack(">BBHIQ", 1, 0, 0, 0x0A020304, 0))
    mine = [event for each in passes_of(packets[0]) for event in each]
    entry = """0.0 Looking up key:
* hdr.probe.address   : 0a020304

0.0 Table 'ingress.longest': hit with handle 0
0.0 Action entry is ingress.mark - 7,"""
    (theirs,) = log(entry).passes(0)
    assert theirs == [
        ("table", "ingress.longest", (0x0A020304,), 0),
        ("action", "ingress.mark", (7,)),
    ]
    assert all(event in mine for event in theirs)
    for old, new in (("0a020304", "0a020305"), ("handle 0", "handle 1"), ("- 7,", "- 8,")):
        (changed,) = log(entry.replace(old, new)).passes(0)
        assert not all(event in mine for event in changed)


def test_what_only_one_side_tells_is_left_out() -> None:
    """The drop port, and the extraction during which a parser fails."""
    text = """3.0 Parser 'parser' entering state 'start'
3.0 Extracting header 'probe'
3.0 Exception while parsing: PacketTooShort
3.0 Parser 'parser': end
3.0 Pipeline 'ingress': start
3.0 Egress port is 511
3.0 Dropping packet at the end of ingress"""
    error = {"event": "parser_error", "error": "PacketTooShort"}
    events = [
        {"event": "parser_state", "parser": "parser", "state": "start"}, error,
        {"event": "parser_end", "parser": "parser", "bytes": 0}, {"event": "pipeline", "pipeline": "ingress"},
        {"event": "dropped", "at": "ingress"},
    ]  # fmt: skip
    assert log(text).passes(3) == passes_of({"events": events})
    error["error"] = "NoMatch"
    assert log(text).passes(3) != passes_of({"events": events})


def test_registers_and_headers_of_stacks() -> None:
    text = """0.0 Extracting to header stack 0, next header is 4
0.0 Read register 'seen' at index 3 read value 255
0.0 Wrote register 'seen' at index 3 with value 256
0.0 Attempted to write register 'seen' with size 8 at out-of-bounds index 9.  No register values were updated."""
    events = [
        {"event": "extract", "header": "h[1]", "fields": {}},
        {"event": "register_read", "register": "seen", "index": 3, "value": "0x00ff"},
        {"event": "register_write", "register": "seen", "index": 3, "value": "0x0100"},
        {"event": "register_write", "register": "seen", "index": 9, "value": None},
    ]
    assert log(text, {4: "h[1]"}).passes(0) == passes_of({"events": events})
    assert log(text, {4: "h[0]"}).passes(0) != passes_of({"events": events})


def test_the_command_of_an_entry_with_a_priority() -> None:
    runner = stf.StfRunner(traced("tables")[0])
    keys = "hdr.probe.small:0x1* hdr.probe.address:0x0a000001"
    (statement,) = stf.parse(f"add ingress.masked 5 {keys} ingress.mark(value:3)")
    assert isinstance(statement, stf.Add)
    command = runner.write(statement)
    assert command.startswith("table_add ingress.masked ingress.mark 0x10&&&0xf0 0xa000001&&&0xffffffff ")
    assert command.endswith(f" => 0x3 {(1 << 31) - 1 - 5}")
