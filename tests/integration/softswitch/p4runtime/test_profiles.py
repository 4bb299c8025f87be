# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Members of action profiles, and one-shot sets of one action: programs/selector.p4 in both engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.rpc import code_pb2
from helpers.p4runtime.client import CPU_PORT, DEVICE_ID, Controller, Program, delete, insert, modify
from helpers.p4runtime.messages import packet, update
from p4.v1 import p4runtime_pb2 as p4rt
from softswitch.p4runtime.server import serve
from softswitch.switch import EngineChoice, SoftSwitch

INSERT, MODIFY, DELETE = p4rt.Update.INSERT, p4rt.Update.MODIFY, p4rt.Update.DELETE
PROGRAM = Program("selector")


@pytest.fixture(params=["python", pytest.param("native", marks=pytest.mark.cc)])
def controller(request: pytest.FixtureRequest) -> Iterator[Controller]:
    engine: EngineChoice = request.param
    server = serve(SoftSwitch(engine=engine, cpu_port=CPU_PORT), "127.0.0.1:0", DEVICE_ID, CPU_PORT)
    controller = Controller(server.port)
    controller.become(1)
    controller.set_pipeline(PROGRAM.config())
    yield controller
    controller.close()
    server.stop()


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


def reason(controller: Controller, ether_type: int = 0x800) -> int:
    """What the program found for a packet to 00:00:00:00:00:01."""
    frame = bytes(5) + b"\x01" + bytes(6) + ether_type.to_bytes(2, "big")
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
        (insert(one_shot(1, 2)), "UNIMPLEMENTED", "set of 2 actions"),
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
    selected = one_shot(1)
    selected.action.action_profile_group_id = 1
    [error] = controller.refused(insert(selected))
    assert error.canonical_code == code_pb2.UNIMPLEMENTED


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
