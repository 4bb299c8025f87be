# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Members and groups of action profiles, and one-shot sets: programs/selector.p4 in both engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fuzz.p4runtime import target
from google.rpc import code_pb2
from helpers.p4runtime.client import CPU_PORT, DEVICE_ID, Controller, Program, delete, insert, modify
from helpers.p4runtime.messages import packet, update
from helpers.p4runtime.served import primary_of
from p4.v1 import p4runtime_pb2 as p4rt
from softswitch.switch import EngineChoice, SoftSwitch

INSERT, MODIFY, DELETE = p4rt.Update.INSERT, p4rt.Update.MODIFY, p4rt.Update.DELETE
PROGRAM = Program("selector")


@pytest.fixture(params=["python", pytest.param("native", marks=pytest.mark.cc)])
def controller(request: pytest.FixtureRequest) -> Iterator[Controller]:
    engine: EngineChoice = request.param
    with primary_of(SoftSwitch(engine=engine, cpu_port=CPU_PORT), PROGRAM.config(), CPU_PORT) as controller:
        yield controller


@pytest.fixture
def bmv2(tmp_path: Path) -> Iterator[Controller]:
    with target.bmv2(tmp_path, DEVICE_ID, CPU_PORT) as switch:
        controller = Controller(switch.address)
        controller.become(1)
        controller.set_pipeline(PROGRAM.config())
        yield controller
        controller.half_close()
        controller.wait_for_end()
        controller.close()


def member(number: int, reason: int | None = None, profile: str = "members") -> Any:
    entity = p4rt.Entity()
    entity.action_profile_member.action_profile_id = PROGRAM.id("action_profiles", profile)
    entity.action_profile_member.member_id = number
    if reason is not None:
        action = PROGRAM.action("mark", reason=bytes([reason])).action
        entity.action_profile_member.action.CopyFrom(action)
    return entity


def of_member(number: int, ether_type: int = 0x800) -> Any:
    entry = PROGRAM.entry("profiled", type=("exact", ether_type.to_bytes(2, "big")))
    entry.action.action_profile_member_id = number
    return entry


def one_shot(*reasons: int, weight: int = 1) -> Any:
    entry = PROGRAM.entry("selected", dst=("exact", b"\x01"))
    entry.action.action_profile_action_set.SetInParent()
    for reason in reasons:
        action = PROGRAM.action("mark", reason=bytes([reason])).action
        entry.action.action_profile_action_set.action_profile_actions.add(action=action, weight=weight)
    return entry


def watched(entry: Any) -> Any:
    entry.action.action_profile_action_set.action_profile_actions[0].watch_port = b"\x01"
    return entry


def group(number: int, *members: tuple[int, int], max_size: int = 0, profile: str = "chosen") -> Any:
    """``members``: number and weight of each."""
    entity = p4rt.Entity()
    entity.action_profile_group.action_profile_id = PROGRAM.id("action_profiles", profile)
    entity.action_profile_group.group_id = number
    entity.action_profile_group.max_size = max_size
    for member_id, weight in members:
        entity.action_profile_group.members.add(member_id=member_id, weight=weight)
    return entity


def of_group(number: int) -> Any:
    entry = PROGRAM.entry("selected", dst=("exact", b"\x01"))
    entry.action.action_profile_group_id = number
    return entry


def crc16(data: bytes) -> int:
    """CRC-16/ARC, bit by bit."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc


SOURCES = [number.to_bytes(6, "big") for number in range(1, 13)]


def chosen(controller: Controller) -> list[int]:
    """What the selector chooses for packets from each of SOURCES."""
    return [reason(controller, source=source) for source in SOURCES]


def shares(*reasons: int) -> list[int]:
    """What it has to choose: the hash of the source, modulo the number of shares."""
    return [reasons[crc16(source) % len(reasons)] for source in SOURCES]


def reason(controller: Controller, ether_type: int = 0x800, source: bytes = bytes(6)) -> int:
    """What the program found for a packet to 00:00:00:00:00:01."""
    frame = bytes(5) + b"\x01" + source + ether_type.to_bytes(2, "big")
    out = packet(p4rt.PacketOut, frame, (1, bytes([CPU_PORT])), (2, b"\x01"))
    controller.send(p4rt.StreamMessageRequest(packet=out))
    return int(controller.receive().packet.metadata[1].value[0])


def test_entries_have_the_action_of_their_member_and_follow_it(controller: Controller) -> None:
    controller.write(update(INSERT, member(1, 11)), update(INSERT, member(2, 12)))
    controller.write(insert(of_member(1)), insert(of_member(1, 0x806)))
    assert (reason(controller), reason(controller, 0x806)) == (11, 11)
    controller.write(update(MODIFY, member(1, 21)))
    assert (reason(controller), reason(controller, 0x806)) == (21, 21)
    controller.write(modify(of_member(2)))
    assert (reason(controller), reason(controller, 0x806)) == (12, 21)
    assert sorted(controller.read_entries(PROGRAM.entry("profiled")), key=str) == sorted(
        [of_member(2), of_member(1, 0x806)], key=str
    )
    assert controller.read(member(0)) == [member(1, 21), member(2, 12)]
    assert controller.read(p4rt.Entity(action_profile_member=p4rt.ActionProfileMember())) == controller.read(member(0))
    controller.write(delete(of_member(2)), update(DELETE, member(2)))
    assert reason(controller) == 0
    assert controller.read(member(1)) == controller.read(member(0)) == [member(1, 21)]


def test_a_one_shot_set_of_one_action(controller: Controller) -> None:
    controller.write(insert(one_shot(33)))
    assert reason(controller) == 33
    assert controller.read_entries(PROGRAM.entry("selected")) == [one_shot(33)]
    controller.write(modify(one_shot(34)))
    assert reason(controller) == 34
    controller.write(delete(one_shot(34)))
    assert reason(controller) == 0


@pytest.mark.parametrize(
    ("made", "code", "text"),
    [
        (insert(of_member(5)), "NOT_FOUND", "no member 5"),
        (update(INSERT, member(1, 1)), "ALREADY_EXISTS", "member 1 exists"),
        (update(MODIFY, member(5, 1)), "NOT_FOUND", "member 5 does not exist"),
        (update(DELETE, member(5)), "NOT_FOUND", "member 5 does not exist"),
        (update(DELETE, member(1)), "FAILED_PRECONDITION", "1 entries refer to it"),
        (update(INSERT, member(0, 1)), "INVALID_ARGUMENT", "id is not 0"),
        (update(INSERT, member(6)), "INVALID_ARGUMENT", "needs an action"),
        (insert(one_shot()), "INVALID_ARGUMENT", "at least one action"),
        (insert(one_shot(1, 2, weight=200)), "RESOURCE_EXHAUSTED", "weights are 400"),
        (insert(watched(one_shot(1, 2))), "UNIMPLEMENTED", "watch ports"),
        (insert(one_shot(1, weight=0)), "INVALID_ARGUMENT", "weight 0"),
        (insert(of_member(1)), "ALREADY_EXISTS", "already"),
    ],
)
def test_refused(controller: Controller, made: Any, code: str, text: str) -> None:
    controller.write(update(INSERT, member(1, 1)), insert(of_member(1)))
    [error] = controller.refused(made)
    assert code_pb2.Code.Name(error.canonical_code) == code
    assert text in error.message
    assert controller.read(member(0)) == [member(1, 1)]
    assert controller.read_entries(PROGRAM.entry("profiled")) == [of_member(1)]


def test_what_else_a_table_with_a_profile_does_not_take(controller: Controller) -> None:
    plain, group, set_of_profile = of_member(1), of_member(1), of_member(1)
    plain.action.CopyFrom(PROGRAM.action("mark", reason=b"\x01"))
    group.action.action_profile_group_id = 1
    set_of_profile.action.CopyFrom(one_shot(1).action)
    errors = controller.refused(*map(insert, (plain, group, set_of_profile)))
    assert [each.canonical_code for each in errors] == [code_pb2.INVALID_ARGUMENT] * 3


def test_members_fill_a_profile(controller: Controller) -> None:
    controller.write(*(update(INSERT, member(number, 1)) for number in range(1, 9)))
    [error] = controller.refused(update(INSERT, member(9, 1)))
    assert error.canonical_code == code_pb2.RESOURCE_EXHAUSTED


def test_members_and_one_shots_of_a_selector_do_not_mix(controller: Controller) -> None:
    controller.write(insert(one_shot(1)))
    [error] = controller.refused(update(INSERT, member(1, 1, "chosen")))
    assert error.canonical_code == code_pb2.INVALID_ARGUMENT
    controller.write(delete(one_shot(1)), update(INSERT, member(1, 1, "chosen")))
    [error] = controller.refused(insert(one_shot(1)))
    assert error.canonical_code == code_pb2.INVALID_ARGUMENT


def test_the_default_action_is_constant_and_a_pipeline_begins_without_members(controller: Controller) -> None:
    default = p4rt.TableEntry(table_id=PROGRAM.id("tables", "profiled"), is_default_action=True)
    [read] = controller.read_entries(default)
    assert not read.HasField("action")
    default.action.CopyFrom(PROGRAM.action("mark", reason=b"\x01"))
    [error] = controller.refused(modify(default))
    assert error.canonical_code == code_pb2.PERMISSION_DENIED
    controller.write(update(INSERT, member(1, 1)))
    controller.set_pipeline(PROGRAM.config())
    assert controller.read(member(0)) == []


def test_a_selector_chooses_among_the_actions_of_a_one_shot_set(controller: Controller) -> None:
    one_shot_sets(controller)


@pytest.mark.bmv2
def test_bmv2_chooses_the_same_of_a_one_shot_set(bmv2: Controller) -> None:
    one_shot_sets(bmv2)


def one_shot_sets(controller: Controller) -> None:
    controller.write(insert(one_shot(31, 32, 33)))
    assert chosen(controller) == shares(31, 32, 33)
    assert controller.read_entries(PROGRAM.entry("selected")) == [one_shot(31, 32, 33)]
    controller.write(modify(one_shot(41, 42, weight=3)))
    assert chosen(controller) == shares(41, 41, 41, 42, 42, 42)
    controller.write(delete(one_shot(41)))
    assert chosen(controller) == [0] * len(SOURCES)


def test_a_selector_chooses_among_the_members_of_a_group(controller: Controller) -> None:
    members_and_groups(controller)


@pytest.mark.bmv2
def test_bmv2_chooses_the_same_of_a_group(bmv2: Controller) -> None:
    members_and_groups(bmv2)


def members_and_groups(controller: Controller) -> None:
    controller.write(*(update(INSERT, member(number, 50 + number, "chosen")) for number in (1, 2, 3)))
    controller.write(update(INSERT, group(7, (1, 1), (2, 1))), insert(of_group(7)))
    assert chosen(controller) == shares(51, 52)
    assert controller.read(group(0)) == controller.read(group(7)) == [group(7, (1, 1), (2, 1))]
    assert controller.read_entries(PROGRAM.entry("selected")) == [of_group(7)]
    controller.write(update(MODIFY, member(2, 62, "chosen")))
    assert chosen(controller) == shares(51, 62)
    # A second share of member 1 takes the next handle, behind those of all members.
    controller.write(update(MODIFY, group(7, (1, 2), (3, 1))))
    assert chosen(controller) == shares(51, 53, 51)
    controller.write(delete(of_group(7)), update(DELETE, group(7)), update(DELETE, member(1, None, "chosen")))
    assert controller.read(group(0)) == []


def test_what_a_group_does_not_take(controller: Controller) -> None:
    controller.write(*(update(INSERT, member(number, number, "chosen")) for number in (1, 2)))
    controller.write(update(INSERT, group(7, (1, 1), max_size=4)), update(INSERT, group(8)), insert(of_group(7)))
    refused = [
        (update(INSERT, group(7)), "ALREADY_EXISTS", "group 7 exists"),
        (update(MODIFY, group(9)), "NOT_FOUND", "group 9 does not exist"),
        (update(DELETE, group(7)), "FAILED_PRECONDITION", "1 entries refer to it"),
        (update(DELETE, member(1, None, "chosen")), "FAILED_PRECONDITION", "1 groups have it"),
        (update(INSERT, group(0)), "INVALID_ARGUMENT", "id is not 0"),
        (update(INSERT, group(9, profile="members")), "INVALID_ARGUMENT", "no selector"),
        (update(INSERT, group(9, (5, 1))), "NOT_FOUND", "member 5 does not exist"),
        (update(INSERT, group(9, (1, 1), (1, 2))), "INVALID_ARGUMENT", "given twice"),
        (update(INSERT, group(9, (1, 0))), "INVALID_ARGUMENT", "weight 0"),
        (update(MODIFY, group(7, (1, 5), max_size=4)), "RESOURCE_EXHAUSTED", "weights are 5 together, at most 4"),
        (update(MODIFY, group(7, (1, 1), max_size=5)), "INVALID_ARGUMENT", "max_size 5"),
        (update(MODIFY, group(7, max_size=4)), "FAILED_PRECONDITION", "cannot become empty"),
        (modify(of_group(8)), "FAILED_PRECONDITION", "group 8 is empty"),
        (modify(of_group(9)), "NOT_FOUND", "no group 9"),
    ]
    errors = controller.refused(*(made for made, _, _ in refused))
    for error, (_, code, text) in zip(errors, refused, strict=True):
        assert (code_pb2.Code.Name(error.canonical_code), text in error.message) == (code, True), error.message
    assert controller.read(group(0)) == [group(7, (1, 1), max_size=4), group(8)]
    assert chosen(controller) == [1] * len(SOURCES)


def test_a_profile_that_no_table_has(controller: Controller) -> None:
    """p4c describes a selector that a program declares and does not use; such a profile takes no member."""
    config = PROGRAM.config()
    unused = config.p4info.action_profiles.add(size=4)
    unused.preamble.id, unused.preamble.name, unused.preamble.alias = 0x11FFFFFF, "ingress.unused", "unused"
    controller.set_pipeline(config)
    assert controller.read(member(0, profile="members"), p4rt.Entity(action_profile_member={})) == []
    refused = member(1, 5)
    refused.action_profile_member.action_profile_id = unused.preamble.id
    [error] = controller.refused(update(INSERT, refused))
    assert code_pb2.Code.Name(error.canonical_code) == "INVALID_ARGUMENT"
    assert "no table has this profile" in error.message
