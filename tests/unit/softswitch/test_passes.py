# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Replicas of a packet, and its further passes: clones, resubmits, recirculations."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import pytest
from softswitch.errors import InvalidEntryError, NotFoundError
from softswitch.program import ir
from softswitch.runtime.entries import CounterValue, Replica
from softswitch.switch import EngineChoice, SoftSwitch

NORMAL, REPLICA = 0, 5


@pytest.fixture
def switch(switch_for: Callable[[str], SoftSwitch]) -> SoftSwitch:
    return switch_for("multicast")


def probe(group: int, port: int, note: int) -> bytes:
    return struct.pack(">HHHHII", group, port, note, 0xEEEE, 0xEEEE, 0xEEEE) + b"rest"


def fields(frame: bytes) -> tuple[int, ...]:
    return struct.unpack(">HHHHII", frame[:16])


def test_every_replica_starts_from_the_same_state(switch: SoftSwitch) -> None:
    switch.set_group(7, [Replica(1, 1), Replica(2, 2), Replica(3, 3), Replica(1, 9)])
    out = switch.process(5, probe(7, 0, 40))
    assert [port for port, _ in out] == [1, 2, 3, 1]
    # group, egress port, the note of ingress (41, never 141), rid, instance type, packet length
    assert [fields(frame) for _, frame in out] == [
        (7, 1, 41, 1, REPLICA, 20),
        (7, 2, 41, 2, REPLICA, 20),
        (7, 3, 41, 3, REPLICA, 20),
        (7, 1, 41, 9, REPLICA, 20),
    ]
    # Only the replica with rid 2 carries the extra header, before the payload.
    assert [frame[16:] for _, frame in out] == [b"rest", bytes.fromhex("01020304") + b"rest", b"rest", b"rest"]


def test_a_replica_dropped_in_egress_does_not_drop_the_others(switch: SoftSwitch) -> None:
    switch.set_group(1, [Replica(4, 1), Replica(5, 2), Replica(4, 3), Replica(6, 3)])
    assert [port for port, _ in switch.process(0, probe(1, 0, 0))] == [5, 6]
    counted = [switch.read_counter("egress.copies", port).packets for port in range(8)]
    assert counted == [0, 0, 0, 0, 2, 1, 1, 0]
    assert switch.read_counter("egress.copies", 4) == CounterValue(2, 40)


def test_unicast(switch: SoftSwitch) -> None:
    ((port, frame),) = switch.process(0, probe(0, 6, 1))
    assert port == 6
    assert fields(frame) == (0, 6, 2, 0, NORMAL, 20)


def test_nothing_assigned_is_port_zero(switch: SoftSwitch) -> None:
    assert [port for port, _ in switch.process(3, probe(0, 0, 0))] == [0]


def test_drops(switch: SoftSwitch) -> None:
    switch.set_group(9, [Replica(1, 1)])
    assert switch.process(0, probe(0, 0xFFFF, 0)) == []  # mark_to_drop takes back mcast_grp = 9
    assert switch.process(0, probe(0, 511, 0)) == []  # the drop port
    assert switch.process(0, probe(0, 4, 0)) == []  # dropped in egress
    assert switch.process(0, probe(8, 1, 0)) == []  # a group that does not exist


def test_another_drop_port(program_text: Callable[[str], str], engine: EngineChoice) -> None:
    switch = SoftSwitch(program_text("multicast"), drop_port=6, engine=engine)
    assert switch.process(0, probe(0, 6, 0)) == []
    assert [port for port, _ in switch.process(0, probe(0, 511, 0))] == [511]
    assert switch.process(0, probe(0, 0xFFFF, 0)) == []  # mark_to_drop in ingress
    assert switch.process(0, probe(0, 4, 0)) == []  # and in egress
    switch.set_group(1, [Replica(511, 1)])
    with pytest.raises(InvalidEntryError, match=r"port 0\.\.511 but the drop port 6"):
        switch.set_group(1, [Replica(6, 1)])
    with_passes, dropping = program((), ()), program((), (ir.MarkToDrop(),))
    for loaded, drop_port in ((with_passes, 1), (replace(with_passes, passes=None), 1), (dropping, 6)):
        switch = SoftSwitch(drop_port=drop_port, engine=engine)
        switch.load(loaded)
        assert sent(switch, "01020304") == []
    with pytest.raises(InvalidEntryError, match="port 512"):
        SoftSwitch(drop_port=512, engine=engine)


def test_a_group_wins_over_the_drop_port(switch: SoftSwitch) -> None:
    switch.set_group(2, [Replica(1, 1)])
    assert [port for port, _ in switch.process(0, probe(2, 511, 0))] == [1]


def test_an_empty_group_sends_nothing(switch: SoftSwitch) -> None:
    switch.set_group(2, [])
    assert switch.process(0, probe(2, 1, 0)) == []


STANDARD = "standard_metadata"
PORT, SPEC, KIND, RID = (
    ir.FieldRef(STANDARD, name, width)
    for name, width in (("ingress_port", 9), ("egress_spec", 9), ("instance_type", 32), ("egress_rid", 16))
)
GROUP, EGRESS = ir.FieldRef(STANDARD, "mcast_grp", 16), ir.FieldRef(STANDARD, "egress_port", 9)
REQUESTS = tuple(ir.FieldRef("#hidden", name, 16) for name in ("clone", "list", "resubmit", "recirculate"))
CLONE, LIST, RESUBMIT, RECIRCULATE = REQUESTS
KEPT = ir.FieldRef("meta", "kept", 8)
WHAT, COUNT, SEEN, CAME = (ir.FieldRef("h", name, 8) for name in ("what", "count", "seen", "came"))
KEEPING, EMPTY = 1, 2
CLONE_5 = (ir.Assign(CLONE, ir.Const(ir.CLONE_REQUESTED | 5)), ir.Assign(LIST, ir.Const(KEEPING)))


def is_equal(left: ir.Expr, right: int) -> ir.Expr:
    return ir.Binary("==", left, ir.Const(right))


def program(ingress: tuple[ir.Statement, ...], egress: tuple[ir.Statement, ...]) -> ir.Program:
    """Headers leave with the instance type in ``seen`` and with the metadata that was kept in ``came``."""
    fields = (PORT, SPEC, EGRESS, KIND, RID, GROUP)
    shown = (
        ir.Assign(SEEN, KIND),
        ir.Assign(CAME, KEPT),
    )
    bodies = {
        "ingress": (ir.Assign(SPEC, ir.Const(1)), ir.Assign(KEPT, ir.Binary("+", KEPT, ir.Const(7))), *ingress),
        "egress": (*shown, *egress),
    }
    actions, pipelines = [], {}
    for index, (name, body) in enumerate(bodies.items()):
        actions.append(ir.Action(index, name, (), body))
        table = ir.Table(name, ir.MatchKind.EXACT, (), 0, (index,), index, (), True, None, {index: None})
        pipelines[name] = ir.Pipeline(name, name, {name: table})
    state = ir.ParserState("start", (ir.Extract("h"),), (), (), None)
    return ir.Program(
        headers={
            "h": ir.Header("h", tuple(ir.Field(each.field, 8) for each in (WHAT, COUNT, SEEN, CAME)), False),
            "meta": ir.Header("meta", (ir.Field("kept", 8),), True),
            "#hidden": ir.Header("#hidden", tuple(ir.Field(each.field, 16) for each in REQUESTS), True),
            STANDARD: ir.Header(STANDARD, tuple(ir.Field(each.field, each.width) for each in fields), True),
        },
        errors={"NoError": 0, "PacketTooShort": 1, "StackOutOfBounds": 2, "HeaderTooShort": 3, "ParserTimeout": 4},
        parser=ir.Parser("parser", "start", {"start": state}),
        ingress=pipelines["ingress"],
        egress=pipelines["egress"],
        deparser=("h",),
        actions=tuple(actions),
        passes=ir.Passes(*REQUESTS[:4], {KEEPING: (KEPT, PORT), EMPTY: ()}),
    )


def sent(switch: SoftSwitch, what: str) -> list[tuple[int, str]]:
    """Frames that leave: what, count, seen and came in hexadecimal digits."""
    return [(port, frame.hex(" ")) for port, frame in switch.process(3, bytes.fromhex(what))]


def test_a_clone_of_ingress_is_the_packet_as_it_came_in(engine: EngineChoice) -> None:
    changed = ir.Assign(COUNT, ir.Const(0x99))
    switch = SoftSwitch(program((*CLONE_5, changed), ()), engine=engine)
    assert sent(switch, "11220000") == [(1, "11 99 00 07")]  # there is no session 5 yet
    switch.set_session(5, [Replica(7, 1), Replica(8, 2)])
    # The clones come first, with ingress's changes of the header undone and the kept metadata.
    assert sent(switch, "11220000") == [(7, "11 22 01 07"), (8, "11 22 01 07"), (1, "11 99 00 07")]
    switch.set_group(4, [Replica(9, 0)])
    switch.set_session(5, [], group=4)
    assert sent(switch, "11220000") == [(9, "11 22 01 07"), (1, "11 99 00 07")]
    switch.delete_session(5)
    assert sent(switch, "11220000") == [(1, "11 99 00 07")]


def test_a_clone_of_egress_passes_egress_as_it_was_left(engine: EngineChoice) -> None:
    first = ir.If(is_equal(KIND, 0), (*CLONE_5, ir.Assign(COUNT, ir.Const(0x55)), ir.MarkToDrop()))
    switch = SoftSwitch(program((), (first,)), engine=engine)
    switch.set_session(5, [Replica(7, 0)])
    assert sent(switch, "11220000") == [(7, "11 55 02 07")]  # the packet itself is dropped


def test_a_resubmitted_packet_comes_in_again_as_it_came(engine: EngineChoice) -> None:
    first = ir.If(is_equal(KIND, 0), (ir.Assign(RESUBMIT, ir.Const(KEEPING)), ir.Assign(COUNT, ir.Const(0x55))))
    mark = ir.If(is_equal(KIND, 6), (ir.Assign(WHAT, PORT),))
    switch = SoftSwitch(program((first, mark), ()), engine=engine)
    assert sent(switch, "11220000") == [(1, "03 22 00 0e")]


def test_a_recirculated_packet_comes_in_again_as_it_leaves(engine: EngineChoice) -> None:
    again = ir.If(ir.Binary("<", COUNT, ir.Const(3)), (ir.Assign(RECIRCULATE, ir.Const(EMPTY)),))
    count = ir.Assign(COUNT, ir.Binary("+", COUNT, ir.Const(1)))
    mark = ir.If(is_equal(KIND, 4), (ir.Assign(WHAT, PORT),))
    switch = SoftSwitch(program((mark,), (count, again)), engine=engine)
    assert sent(switch, "11000000") == [(1, "00 03 00 07")]  # no list: neither the port nor metadata


def test_a_packet_without_end_ends_and_is_counted(engine: EngineChoice) -> None:
    for statement in (ir.Assign(RESUBMIT, ir.Const(EMPTY)), ir.Assign(RECIRCULATE, ir.Const(EMPTY))):
        switch = SoftSwitch(program((statement,), ()), engine=engine)
        assert sent(switch, "11000000") == []
        assert switch.loaded.lost_passes == 1
        sent(switch, "11000000")
        assert switch.loaded.lost_passes == 2
    # Every clone of egress clones itself into two: they do not end of themselves either.
    switch = SoftSwitch(program((), CLONE_5), engine=engine)
    switch.set_session(5, [Replica(7, 0), Replica(8, 0)])
    frames = sent(switch, "11000000")
    assert len(frames) == 1 + 2 * 256
    assert switch.loaded.lost_passes == len(frames) - 256


def test_truncate_in_ingress_reaches_one_packet_and_no_replicas(engine: EngineChoice) -> None:
    group = ir.If(is_equal(WHAT, 1), (ir.Assign(GROUP, ir.Const(4)),))
    switch = SoftSwitch(program((ir.Truncate(COUNT), group), ()), engine=engine)
    switch.set_group(4, [Replica(9, 0)])
    assert sent(switch, "00030000ff") == [(1, "00 03 00")]
    assert sent(switch, "01030000ff") == [(9, "01 03 05 07 ff")]


def test_sessions(engine: EngineChoice) -> None:
    switch = SoftSwitch(program((), ()), engine=engine)
    switch.set_session(0, [Replica(1, 2)], group=3)
    assert switch.sessions() == {0: ((Replica(1, 2),), 3)}
    for session, replicas, group in ((32768, [], 0), (1, [], 65536), (1, [Replica(511, 0)], 0)):
        with pytest.raises(InvalidEntryError, match=f"clone session {session}"):
            switch.set_session(session, replicas, group)
    with pytest.raises(NotFoundError):
        switch.delete_session(1)
