# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Commands of ``simple_switch_CLI`` against a switch of this process, with both engines."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.p4runtime import client
from helpers.softswitch import compile_programs
from softswitch.cli_door import commands, externs, values, work
from softswitch.cli_door.commands import COMMANDS, Commander
from softswitch.p4runtime.service import P4RuntimeService
from softswitch.program import ir
from softswitch.runtime.entries import ActionCall, Entry, Lpm
from softswitch.switch import EngineChoice, SoftSwitch

BROADCAST = "ff:ff:ff:ff:ff:ff"


class Rig:
    """A switch and what carries out its commands."""

    def __init__(self, program: Path, engine: EngineChoice) -> None:
        self.switch = SoftSwitch(program.read_text(), seed=1, engine=engine)
        self.service = P4RuntimeService(self.switch, 0, None, None)
        self.commander = Commander(self.switch, self.service, {1: "lo", 2: "none-such"})

    def __call__(self, text: str) -> list[str]:
        """The lines that the commands of ``text`` print, one command a line."""
        return [line for command in text.splitlines() for line in self.commander.answer(command).out]


Make = Callable[[str], Rig]


@pytest.fixture
def rig(engine: EngineChoice) -> Make:
    """Of a program beside the tests of P4Runtime."""
    return lambda name: Rig(client.PROGRAMS / f"{name}.json", engine)


@pytest.fixture
def engine_rig(engine: EngineChoice) -> Make:
    """Of a program beside the tests of the engines."""
    return lambda name: Rig(compile_programs.PROGRAMS / f"{name}.json", engine)


def probe(which: int, small: int = 0, medium: int = 0, address: int = 0) -> bytes:
    """A packet for tables.p4 of the engines' tests."""
    return struct.pack(">BBHIQ", which, small, medium, address, 0)


def trace_of(switch: SoftSwitch, packet: bytes) -> int:
    ((_, frame),) = switch.process(1, packet)
    trace: int = struct.unpack(">BBHIQ", frame)[4]
    return trace


def test_forwarding_as_labs_write_it(engine_rig: Make) -> None:
    """A command file with comments, empty lines, addresses, prefixes, masks, ranges and priorities."""
    lab = engine_rig("tables")
    assert lab(
        """
        # routes
        table_set_default longest nothing
        table_add longest mark 10.0.0.0/8 => 0x11

        table_add ingress.longest ingress.mark 10.0.1.0/24 => 34
        table_add masked mark 0x10&&&0xf0 10.0.0.1&&&255.255.255.255 7 => 3 20
        table_add masked mark 0&&&0 10.0.0.1&&&0xffffffff 7 => 4 10
        table_add between mark 5->0x0a 1 => 5 1
        """
    ) == [
        "Setting default action of longest",
        "action:              nothing",
        "runtime data:        ",
        "Adding entry to lpm match table longest",
        "match key:           LPM-0a:00:00:00/8",
        "action:              mark",
        "runtime data:        00:00:00:00:00:00:00:11",
        "Entry has been added with handle 0",
        "Adding entry to lpm match table ingress.longest",
        "match key:           LPM-0a:00:01:00/24",
        "action:              ingress.mark",
        "runtime data:        00:00:00:00:00:00:00:22",
        "Entry has been added with handle 1",
        "Adding entry to ternary match table masked",
        "match key:           TERNARY-10 &&& f0\tTERNARY-0a:00:00:01 &&& ff:ff:ff:ff\tEXACT-00:07",
        "action:              mark",
        "runtime data:        00:00:00:00:00:00:00:03",
        "Entry has been added with handle 0",
        "Adding entry to ternary match table masked",
        "match key:           TERNARY-00 &&& 00\tTERNARY-0a:00:00:01 &&& ff:ff:ff:ff\tEXACT-00:07",
        "action:              mark",
        "runtime data:        00:00:00:00:00:00:00:04",
        "Entry has been added with handle 1",
        "Adding entry to range match table between",
        "match key:           RANGE-00:05 -> 00:0a\tEXACT-01",
        "action:              mark",
        "runtime data:        00:00:00:00:00:00:00:05",
        "Entry has been added with handle 0",
    ]
    assert trace_of(lab.switch, probe(1, address=0x0A050505)) == 0x11
    assert trace_of(lab.switch, probe(1, address=0x0A000105)) == 34
    assert trace_of(lab.switch, probe(1, address=0x0B000105)) == 0
    # The smaller priority wins, as in bmv2.
    assert trace_of(lab.switch, probe(2, small=0x1F, medium=7, address=0x0A000001)) == 4
    assert [trace_of(lab.switch, probe(3, small=1, medium=each)) for each in (4, 5, 10, 11)] == [0, 5, 5, 0]


def test_entries_are_shown_changed_and_deleted(rig: Make) -> None:
    lab = rig("tables")
    lab("table_add exact_t forward 00:00:00:00:00:01 => 7\ntable_add exact_t mark 2 => 12 0xabc")
    assert lab("table_num_entries exact_t") == ["2"]
    assert lab("table_dump_entry exact_t 1") == [
        "Dumping entry 0x1",
        "Match key:",
        "* ethernet.dst        : EXACT     000000000002",
        "Action entry: ingress.mark - 0c, 0abc",
    ]
    assert lab("table_dump_entry_from_key exact_t 00:00:00:00:00:02") == lab("table_dump_entry exact_t 1")
    assert lab("table_modify exact_t forward 1 => 3") == ["Modifying entry 1 for exact match table exact_t"]
    assert lab("table_dump_entry exact_t 1")[-1] == "Action entry: ingress.forward - 03"
    assert lab("table_dump exact_t")[-4:] == [
        "==========",
        "Dumping default entry",
        "Action entry: ingress.drop - ",
        "==========",
    ]
    assert lab("table_delete exact_t 0") == ["Deleting entry 0 from exact_t"]
    assert lab("table_delete exact_t 0")[-1] == "Invalid table operation (INVALID_HANDLE)"
    # A handle is not given again, so that an old one never means another entry.
    assert lab("table_add exact_t forward 1 => 7")[-1] == "Entry has been added with handle 2"
    assert lab("table_clear exact_t\ntable_num_entries exact_t") == ["0"]
    assert lab.switch.entries("ingress.exact_t") == []


def test_default_actions(rig: Make) -> None:
    lab = rig("tables")
    before = lab("table_dump lpm_t")[-2]
    assert lab("table_set_default lpm_t forward 7")[-1] == "runtime data:        00:07"
    assert lab("table_dump lpm_t")[-2] == "Action entry: ingress.forward - 07"
    assert lab("table_reset_default lpm_t\ntable_dump lpm_t")[-2] == before


def test_a_constant_default_action(engine_rig: Make) -> None:
    lab = engine_rig("tables")
    assert lab("table_set_default masked mark 1")[-1] == "Invalid table operation (DEFAULT_ENTRY_IS_CONST)"
    assert lab("table_reset_default masked") == ["Invalid table operation (DEFAULT_ENTRY_IS_CONST)"]


def test_what_the_program_has(rig: Make) -> None:
    lab = rig("tables")
    line = f"{'ingress.lpm_t':30} [implementation=None, mk=ethernet.src(lpm, 48)]"
    assert line in lab("show_tables")
    assert f"{'ingress.mark':30} [vlan(12),\twide(20)]" in lab("show_actions")
    actions = [f"{'ingress.drop':30} []", f"{'ingress.forward':30} [port(9)]"]
    assert lab("table_info lpm_t") == [line, "*" * 80, *actions]
    assert lab("table_show_actions lpm_t") == actions
    assert [row.split()[:3] for row in lab("show_ports")[2:]] == [["1", "lo", "UP"], ["2", "none-such", "DOWN"]]
    assert lab("switch_info")[0] == f"{'engine':15}: {lab.switch.engine}"
    assert int(lab("get_time_elapsed")[0]) >= 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("table_add exact_t forward 1 =>", "Error: Action ingress.forward needs 1 parameters"),
        ("table_add exact_t forward => 1", "Error: Table exact_t needs 1 key fields"),
        ("table_add exact_t nope 1 => 1", "Error: Table exact_t has no action nope"),
        ("table_add nope forward 1 => 1", "Error: Invalid table name (nope)"),
        (
            "table_add exact_t forward 1 => 512",
            "Invalid runtime data: Error while parsing 512 - Parameter is too large",
        ),
        ("table_add exact_t forward -1 => 5", "Invalid match key: Error while parsing -1 - Parameter is negative"),
        ("table_add exact_t forward 00:00:00:00:01 => 5", "- Invalid MAC address"),
        (
            "table_add exact_t forward x => 5",
            "Invalid match key: Error while parsing x - Invalid input, could not cast",
        ),
        ("table_add lpm_t forward 1 => 5", "Invalid match key: Invalid LPM value 1, use '/' to separate"),
        ("table_add lpm_t forward 1/49 => 5", "Invalid match key: Invalid prefix length 49, it should be in 0..48"),
        ("table_add ternary_t drop 1 1 => 5", "Invalid match key: Invalid ternary value 1, use '&&&' to separate"),
        ("table_add ternary_t drop 1&&&1 1 => x", "Error: Table is ternary, but could not extract a valid priority"),
        ("table_add ternary_t drop 1&&&1 1 => -1", "Error: priority -1 is not in 0..2147483646"),
        ("table_add range_t drop 5 => 1", "Invalid match key: Invalid range value 5, use '->' to separate"),
        ("table_add range_t drop 5->4 => 1", "Invalid match key: start is not less than end in expression 5->4"),
        ("table_add keyless_t forward => 3", "Invalid table operation (NO_TABLE_KEY)"),
        ("table_add const_t drop 1&&&1 => 3", "Invalid table operation (IMMUTABLE_TABLE_ENTRIES)"),
        ("table_add exact_t", "Error: Insufficient number of args"),
        ("table_num_entries exact_t 1", "Error: Wrong number of args, expected 1 but got 2"),
        ("table_delete exact_t x", "Error: Bad format for entry handle"),
        (f"table_delete exact_t {'9' * 5000}", "Error: Bad format for entry handle"),
        ("table_dump_entry_from_key exact_t 1", "Invalid table operation (BAD_MATCH_KEY)"),
        ("act_prof_dump nope", "Error: Invalid action profile name (nope)"),
        ("table_indirect_add exact_t 1 => 0", "Error: Cannot run this command on non-indirect table"),
        ("table_indirect_create_member exact_t forward 0", "Error: Cannot run this command on non-indirect table"),
        ("counter_read seen 8", "Invalid counter operation (INVALID_INDEX)"),
        ("counter_write seen 1 -1 0", "Error: counts are in 0..9223372036854775807"),
        ("counter_read exact_hits 5", "Invalid table operation (INVALID_HANDLE)"),
        ("register_read nope 0", "Error: Invalid register name (nope)"),
        ("mc_mgrp_create 0", "Invalid PRE operation (ERROR)"),
        ("mc_node_create 1 512", "Error: '512' is not a valid port number"),
        ("mc_node_create 1 5 5", "Error: Found duplicate port number '5'"),
        ("mc_node_create 65536 5", "Invalid PRE operation (ERROR)"),
        ("mc_node_create 1 5 | 1", "Error: link aggregation groups (LAGs) are not offered: give ports"),
        ("mc_node_associate 1 0", "Invalid PRE operation (INVALID_L1_HANDLE)"),
        ("mc_mgrp_destroy 7", "Invalid PRE operation (INVALID_MGRP_HANDLE)"),
        ("mirroring_add x 1", "Error: Bad format for mirror_id, expected integer"),
        ("mirroring_add 1 511", "Invalid mirroring operation (ERROR)"),
        ("mirroring_get 5", "Invalid mirroring operation (SESSION_NOT_FOUND)"),
        ("nonsense 1", "*** Unknown syntax: nonsense 1"),
        (
            "table_dump \x1b[2Jexact_t",
            r"Error: the line has characters that cannot be printed: table_dump \x1b[2Jexact_t",
        ),
        ("help nope", "*** No help on nope"),
    ],
)
def test_what_is_refused_changes_nothing(rig: Make, command: str, said: str) -> None:
    lab = rig("tables")
    before = lab("table_dump exact_t\ntable_dump lpm_t\ntable_dump ternary_t\nmc_dump")
    lines = lab(command)
    assert said in lines[-1] and all(line.replace("\t", "").isprintable() for line in lines)
    assert lab("table_dump exact_t\ntable_dump lpm_t\ntable_dump ternary_t\nmc_dump") == before


def test_the_same_key_and_a_full_table(engine_rig: Make) -> None:
    lab = engine_rig("tables")
    assert lab("table_add exact_pair nothing 1 2 =>")[-1] == "Entry has been added with handle 0"
    assert lab("table_add exact_pair nothing 1 2 =>")[-1] == "Invalid table operation (DUPLICATE_ENTRY)"
    lab("\n".join(f"table_add exact_pair nothing {each} 2 =>" for each in (2, 3, 4)))
    assert lab("table_add exact_pair nothing 5 2 =>")[-1] == "Invalid table operation (TABLE_FULL)"


def test_an_optional_field_has_a_whole_mask_or_none(rig: Make) -> None:
    lab = rig("tables")
    assert lab("table_add optional_t drop 0&&&0 7 => 3")[-1] == "Entry has been added with handle 0"
    assert lab(f"table_add optional_t drop 1&&&{BROADCAST} 7 => 3")[-1] == "Entry has been added with handle 1"


def test_registers(engine_rig: Make) -> None:
    lab = engine_rig("corner")
    assert lab("register_read cells 0") == ["cells[0]= 0"]
    assert lab("register_write cells 1 42\nregister_write ingress.cells 3 0xffffffff") == []
    assert lab.switch.registers("ingress.cells") == [0, 42, 0, 0xFFFFFFFF]
    whole = lab.commander.answer("register_read cells")
    assert whole.out == ["cells= 0, 42, 0, 4294967295"]
    assert whole.err == ["register index omitted, reading entire array"]
    for refused in ("register_read cells 4", "register_read cells -1", "register_write cells 4 1"):
        assert lab(refused) == ["Invalid register operation (INVALID_INDEX)"]
    assert lab("register_write cells 1 4294967296") == ["Invalid register operation (ERROR)"]
    assert lab("register_write cells 1 x") == ["Error: Bad format for value, must be an integer"]
    assert lab("register_reset cells\nregister_read cells") == ["cells= 0, 0, 0, 0"]


def test_wide_registers(engine_rig: Make) -> None:
    lab = engine_rig("wide")
    lab(f"register_write store 2 {(1 << 1024) - 1}\nregister_write count 0 65535")
    assert lab("register_read store 2\nregister_read count 0") == [f"store[2]= {(1 << 1024) - 1}", "count[0]= 65535"]


def test_a_register_too_long_to_read_whole(engine_rig: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(externs, "CELLS_MOST", 3)
    lab = engine_rig("corner")
    assert lab("register_read cells") == [
        "Error: register ingress.cells has 4 cells, 3 are read at once: give an index"
    ]
    assert lab("register_read cells 3") == ["cells[3]= 0"]


def test_an_answer_has_a_limit(rig: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = rig("tables")
    monkeypatch.setattr(work, "ANSWER_MOST", 1 << 20)
    assert len(lab("show_tables")) > 5
    monkeypatch.setattr(work, "ANSWER_MOST", 100)
    assert lab("show_tables") == ["Error: the answer is longer than 0 MiB; ask for single entries or cells"]


def test_counters(engine_rig: Make) -> None:
    lab = engine_rig("tables")
    lab("table_add exact_pair mark 1 2 => 9")
    lab.switch.process(1, probe(0, small=1, medium=2))
    packet = len(probe(0))
    direct = "this is the direct counter for table ingress.exact_pair"
    assert lab("counter_read exact_hits 0") == [direct, f"exact_hits[0]= ({packet} bytes, 1 packets)"]
    assert lab("counter_write exact_hits 0 3 400")[-1] == "exact_hits[0] has been updated"
    assert lab("counter_read exact_hits 0")[-1] == "exact_hits[0]= (400 bytes, 3 packets)"
    assert lab("counter_reset exact_hits") == [direct]
    assert lab("counter_read exact_hits 0")[-1] == "exact_hits[0]= (0 bytes, 0 packets)"


def test_indirect_counters(rig: Make) -> None:
    lab = rig("tables")
    assert lab("counter_write seen 1 5 6") == ["seen[1] has been updated"]
    assert lab("counter_read seen 1") == ["seen[1]= (6 bytes, 5 packets)"]
    assert lab.switch.read_counter("ingress.seen", 1).packets == 5
    assert lab("counter_reset seen\ncounter_read seen 1") == ["seen[1]= (0 bytes, 0 packets)"]


def test_meters(rig: Make) -> None:
    lab = rig("meter")
    none = ["WARNING: expected 2 rates but only received 0"]
    assert lab("meter_get_rates rates 0") == none
    assert lab("meter_set_rates rates 0 0.001:10 0.002:20") == []
    assert lab("meter_get_rates rates 0") == [
        "0: info rate = 0.001, burst size = 10",
        "1: info rate = 0.002, burst size = 20",
    ]
    assert lab("meter_get_rates rates 1") == none
    assert lab("meter_array_set_rates rates 1:5 2:6") == []
    assert lab("meter_get_rates rates 3")[0] == "0: info rate = 1.0, burst size = 5"
    for refused, said in (
        ("meter_get_rates rates 4", "Invalid meter operation (INVALID_INDEX)"),
        ("meter_set_rates rates 4 1:1 2:2", "Invalid meter operation (INVALID_INDEX)"),
        ("meter_set_rates rates 0 3:1 2:2", "Invalid meter operation (INVALID_INFO_RATE_VALUE)"),
        ("meter_set_rates rates 0 3:1", "Error: Invalid number of rates, expected 2 but got 1"),
        ("meter_set_rates rates 0 a:1 2:2", "Error: Error while parsing rates"),
        ("meter_set_rates rates 0 nan:1 2:2", "Error: Error while parsing rates: nan:1 is out of range"),
        ("meter_set_rates rates 0 inf:1 inf:2", "Error: Error while parsing rates: inf:1 is out of range"),
        ("meter_array_set_rates host_rates 1:1 2:2", "Invalid meter operation (ERROR)"),
    ):
        assert lab(refused) == [said]
    lab("table_add hosts measure 1 =>\nmeter_set_rates host_rates 0 0.5:10 1:20")
    assert lab("meter_get_rates host_rates 0")[1] == "1: info rate = 1.0, burst size = 20"
    # A changed entry keeps its meter, as in bmv2.
    lab("table_modify hosts NoAction 0")
    assert lab("meter_get_rates host_rates 0")[1] == "1: info rate = 1.0, burst size = 20"
    assert lab("meter_get_rates host_rates 1") == ["Invalid table operation (INVALID_HANDLE)"]


def test_equal_paths(engine_rig: Make) -> None:
    """ECMP: a selector's group whose members change while an entry refers to it."""
    lab = engine_rig("externs")
    assert lab(
        """
        act_prof_create_group choices
        act_prof_create_member choices mark 11
        act_prof_create_member choices mark 22
        act_prof_add_member_to_group choices 0 0
        act_prof_add_member_to_group choices 1 0
        table_indirect_add_with_group by_selector 5 => 0
        """
    ) == [
        "Group has been created with handle 0",
        "Member has been created with handle 0",
        "Member has been created with handle 1",
        "Adding entry to indirect match table MyIngress.by_selector",
        "Entry has been added with handle 0",
    ]
    (entry,) = lab.switch.entries("MyIngress.by_selector")
    assert [call.args for call in entry.action.calls] == [(11,), (22,)]  # type: ignore[union-attr]
    lab("act_prof_modify_member choices mark 1 33")
    (entry,) = lab.switch.entries("MyIngress.by_selector")
    assert [call.args for call in entry.action.calls] == [(11,), (33,)]  # type: ignore[union-attr]
    assert lab("act_prof_dump_group choices 0") == ["Dumping group 0", "Members: [0, 1]"]
    assert lab("act_prof_dump_member choices 1") == ["Dumping member 1", "Action entry: MyIngress.mark - 21"]
    assert lab("table_dump by_selector")[:5] == [
        "==========",
        "TABLE ENTRIES",
        "**********",
        "Dumping entry 0x0",
        "Match key:",
    ]
    assert "Index: group(0)" in lab("table_dump by_selector")
    for refused, said in (
        ("act_prof_add_member_to_group choices 1 0", "MBR_ALREADY_IN_GRP"),
        ("act_prof_add_member_to_group choices 7 0", "INVALID_MBR_HANDLE"),
        ("act_prof_add_member_to_group choices 1 7", "INVALID_GRP_HANDLE"),
        ("act_prof_delete_member choices 0", "MBR_STILL_USED"),
        ("act_prof_delete_group choices 0", "GRP_STILL_USED"),
        ("table_indirect_add_with_group by_selector 6 => 9", "INVALID_GRP_HANDLE"),
        ("table_indirect_add by_selector 6 => 9", "INVALID_MBR_HANDLE"),
        ("table_indirect_add by_selector 6 => -1", "INVALID_MBR_HANDLE"),
        ("table_add by_selector mark 6 => 9", "WRONG_TABLE_TYPE"),
        ("table_set_default by_selector mark 6", "WRONG_TABLE_TYPE"),
        ("act_prof_dump_group choices 3", "INVALID_GRP_HANDLE"),
        ("act_prof_dump_member choices 3", "INVALID_MBR_HANDLE"),
    ):
        assert lab(refused)[-1] == f"Invalid table operation ({said})"
    assert lab("act_prof_create_group profile") == [
        "Error: Cannot run this command on an action profile without selector"
    ]
    lab("act_prof_remove_member_from_group choices 0 0")
    assert lab("act_prof_remove_member_from_group choices 0 0") == ["Invalid table operation (MBR_NOT_IN_GRP)"]
    assert lab("act_prof_remove_member_from_group choices 1 0") == ["Invalid table operation (EMPTY_GRP)"]
    assert lab("act_prof_delete_member choices 0\nact_prof_create_member choices mark 1") == [
        "Member has been created with handle 0"
    ]
    lab("table_indirect_delete by_selector 0\nact_prof_delete_group choices 0")
    assert lab("act_prof_dump choices")[-1] == "GROUPS"


def test_old_names_of_commands_for_profiles(engine_rig: Make) -> None:
    lab = engine_rig("externs")
    assert lab("table_indirect_create_member by_profile mark 7") == ["Member has been created with handle 0"]
    assert lab("table_indirect_add by_profile 1 => 0")[-1] == "Entry has been added with handle 0"
    assert "Index: member(0)" in lab("table_dump_entry by_profile 0")
    assert lab("table_dump_member by_profile 0")[-1] == "Action entry: MyIngress.mark - 07"
    assert "table_indirect_create_member <table>" in lab("help table_indirect_create_member")[0]


def test_multicast(engine_rig: Make) -> None:
    lab = engine_rig("multicast")
    assert lab("mc_mgrp_create 1\nmc_node_create 5 0 3\nmc_node_create 6 7\nmc_node_associate 1 0") == [
        "Creating multicast group 1",
        "Creating node with rid 5 , port map 1001 and lag map ",
        "node was created with handle 0",
        "Creating node with rid 6 , port map 10000000 and lag map ",
        "node was created with handle 1",
        "Associating node 0 to multicast group 1",
    ]
    assert lab("mc_node_associate 1 1") == ["Associating node 1 to multicast group 1"]
    assert lab("mc_dump") == [
        "==========",
        "MC ENTRIES",
        "**********",
        "mgrp(1)",
        "  -> (L1h=0, rid=5) -> (ports=[0, 3], lags=[])",
        "  -> (L1h=1, rid=6) -> (ports=[7], lags=[])",
        "==========",
        "LAGS",
        "==========",
    ]
    packet = struct.pack(">HHHHII", 1, 0, 0, 0, 0, 0)
    assert sorted(port for port, _ in lab.switch.process(1, packet)) == [0, 3, 7]
    lab("mc_node_update 1 5 6\nmc_node_dissociate 1 0")
    assert sorted(port for port, _ in lab.switch.process(1, packet)) == [5, 6]
    assert lab("mc_node_associate 1 1")[-1] == "Invalid PRE operation (ERROR)"
    assert lab("mc_node_update 1 511")[-1] == "Invalid PRE operation (ERROR)"
    assert "  -> (L1h=1, rid=6) -> (ports=[5, 6], lags=[])" in lab("mc_dump")
    lab("mc_node_destroy 1")
    assert lab.switch.groups() == {1: ()}
    assert lab("mc_node_create 1 1")[-1] == "node was created with handle 1"
    lab("mc_mgrp_create 1")  # a script that runs twice
    lab("mc_mgrp_destroy 1")
    assert lab.switch.groups() == {}


def test_mirroring(rig: Make) -> None:
    lab = rig("clone")
    assert lab("mirroring_add 5 7\nmirroring_get 5") == ["MirroringSessionConfig(port=7, mgid=None)"]
    assert lab("mirroring_add_mc 5 22\nmirroring_get 5") == ["MirroringSessionConfig(port=None, mgid=22)"]
    assert {session: group for session, (_, group) in lab.switch.sessions().items()} == {5: 22}
    assert lab("mirroring_delete 5\nmirroring_delete 5") == ["Invalid mirroring operation (SESSION_NOT_FOUND)"]


def test_everything_as_it_came(rig: Make) -> None:
    lab = rig("tables")
    lab("table_add exact_t forward 1 => 7\ncounter_write seen 0 1 1\nmc_mgrp_create 3\nmirroring_add 1 1")
    assert lab("reset_state") == []
    assert lab("table_num_entries exact_t\ncounter_read seen 0") == ["0", "seen[0]= (0 bytes, 0 packets)"]
    assert lab.switch.groups() == {} and lab.switch.sessions() == {}
    assert lab("table_add exact_t forward 1 => 7")[-1] == "Entry has been added with handle 0"


def test_what_the_switch_has_no_use_for_says_so(rig: Make) -> None:
    lab = rig("tables")
    assert lab("set_queue_depth 100 1") == ["Error: packets wait in no queue, so there is no depth and no rate to set"]
    for name in commands._NOT_OFFERED:
        (line,) = lab(f"{name} 1 2 3")
        assert line.startswith("Error: ")


def test_help_names_every_command(rig: Make) -> None:
    lab = rig("tables")
    named = {line.strip() for line in lab("help")[1:]}
    assert {*COMMANDS, *commands._OLD, "help"} == named
    assert lab("help register_read") == ["Read a cell, or all: register_read <register> [index]"]
    assert all(lab(f"help {name}")[0].startswith(COMMANDS[name].text) for name in COMMANDS)


def test_without_a_program(engine: EngineChoice) -> None:
    switch = SoftSwitch(None, engine=engine)
    commander = Commander(switch, P4RuntimeService(switch, 0, None, None), {})
    assert commander.answer("show_tables").out == ["Error: no program is loaded"]
    assert commander.answer("reset_state").out == ["Error: no program is loaded"]


@pytest.mark.parametrize(
    ("word", "width", "value"),
    [
        ("10.0.0.1", 32, 0x0A000001),
        ("0x0a000001", 32, 0x0A000001),
        ("::1", 128, 1),
        ("2001:db8::2", 128, 0x20010DB8000000000000000000000002),
        ("0:1:2:a:b:ff", 48, 0x0001020A0BFF),
        ("7", 9, 7),
        ("0b11", 9, 3),
    ],
)
def test_forms_of_numbers(word: str, width: int, value: int) -> None:
    assert values._number(word, width) == value


@pytest.mark.parametrize(
    ("word", "width"),
    [("10.0.0.256", 32), ("10.0.0", 32), ("::g", 128), ("1:2:3:4:5", 48), ("1:2:3:4:5:666", 48), ("", 8), ("256", 8)],
)
def test_numbers_that_are_none(word: str, width: int) -> None:
    with pytest.raises(values._BadValueError):
        values._number(word, width)


def test_handles_are_in_the_order_of_inserts_whoever_wrote_and_none_comes_twice(engine_rig: Make) -> None:
    lab = engine_rig("tables")
    lab.switch.insert("ingress.longest", Entry((Lpm(0x0A000000, 8),), ActionCall("ingress.mark", (7,))))
    lab.switch.insert("ingress.longest", Entry((Lpm(0x0B000000, 8),), ActionCall("ingress.mark", (8,))))
    lab.switch.delete("ingress.longest", (Lpm(0x0A000000, 8),))
    assert "Dumping entry 0x1" in lab("table_dump longest")
    assert lab("table_add longest mark 10.0.0.0/8 => 9")[-1] == "Entry has been added with handle 2"
    assert lab("table_delete longest 0")[-1] == "Invalid table operation (INVALID_HANDLE)"
    assert lab("table_modify longest mark 1 5\ntable_dump_entry longest 1")[-1].endswith("ingress.mark - 05")


def test_a_signed_field_of_a_key_has_the_name_of_bmv2() -> None:
    signed = ir.Binary("&", ir.FieldRef("note", "b", 8, True), ir.Const(0xFF))  # what the loader makes of one
    assert values.field_name(ir.Key("hdr.note.b", ir.MatchKind.EXACT, signed, 8)) == "note.b"
