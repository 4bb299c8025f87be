# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Roles: elections of their own, and what each role may write, read and receive by its config."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.rpc import code_pb2
from helpers.p4runtime.client import CPU_PORT, DEVICE_ID, Controller, Ended, Program, code_of, delete, election, insert
from helpers.p4runtime.fake_device import FakeDevice
from helpers.p4runtime.messages import group
from p4.v1 import p4runtime_pb2 as p4rt
from softswitch.p4runtime.roles import MAX_ROLES

Connect = Callable[[], Controller]


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def role_config(
    exclusive: tuple[int, ...] = (),
    shared: tuple[int, ...] = (),
    packet_ins: bool = False,
    packet_filter: tuple[int, bytes] | None = None,
    pipeline: bool = False,
) -> bytes:
    """A stratum.P4RoleConfig, written by hand from its proto file: field numbers 1 to 5."""
    lists = b"".join(
        tag + varint(len(packed)) + packed
        for tag, ids in ((b"\x0a", exclusive), (b"\x12", shared))
        if (packed := b"".join(map(varint, ids)))
    )
    wanted = b""
    if packet_filter is not None:
        body = b"\x08" + varint(packet_filter[0]) + b"\x12" + varint(len(packet_filter[1])) + packet_filter[1]
        wanted = b"\x1a" + varint(len(body)) + body
    return lists + wanted + (b"\x20\x01" if packet_ins else b"") + (b"\x28\x01" if pipeline else b"")


def take(controller: Controller, role: str, election_id: int, config: bytes | None) -> Any:
    """Take part in a role's election; the answer."""
    message = p4rt.StreamMessageRequest()
    message.arbitration.device_id = DEVICE_ID
    message.arbitration.role.name = role
    if config is not None:
        message.arbitration.role.config.type_url = "type.googleapis.com/stratum.P4RoleConfig"
        message.arbitration.role.config.value = config
    controller.open_stream()
    controller.send_arbitration(message, election_id)
    return controller.receive().arbitration


def write(controller: Controller, role: str, election_id: int, *updates: Any) -> str:
    request = p4rt.WriteRequest(device_id=DEVICE_ID, role=role, updates=updates)
    return code_of(lambda: controller.stub.Write(election(request, election_id), timeout=60))


def read(controller: Controller, role: str, *entities: Any) -> list[Any]:
    request = p4rt.ReadRequest(device_id=DEVICE_ID, role=role, entities=entities)
    return [entity for response in controller.stub.Read(request, timeout=60) for entity in response.entities]


@pytest.fixture
def lab(primary: Controller, connect: Connect, program: Program) -> Controller:
    """The primary of role "lab", which has one table for itself. The default role has a primary with the same id."""
    controller = connect()
    config = role_config(exclusive=(program.id("tables", "exact_t"),))
    told = take(controller, "lab", 1, config)
    assert (told.status.code, told.role.name, told.role.config.value) == (code_pb2.OK, "lab", config)
    return controller


def test_a_role_writes_its_own_tables_only(lab: Controller, program: Program) -> None:
    own = program.entry("exact_t", action=program.action("drop"), dst=("exact", b"\x01"))
    foreign = program.entry("lpm_t", action=program.action("drop"), src=("lpm", b"\x01", 48))
    assert write(lab, "lab", 1, insert(own)) == "OK"
    assert write(lab, "lab", 1, insert(foreign)) == "UNKNOWN"  # of a batch
    assert write(lab, "", 1, insert(foreign)) == "OK"  # with the default role's id, which every client is trusted with
    assert [each.table_entry for each in read(lab, "lab", p4rt.Entity(table_entry=p4rt.TableEntry()))] == [own]
    everything = read(lab, "", p4rt.Entity(table_entry=p4rt.TableEntry()))
    assert {each.table_entry.table_id for each in everything} > {own.table_id, foreign.table_id}
    assert write(lab, "lab", 1, delete(own)) == "OK"


def test_a_role_has_neither_groups_nor_the_pipeline(lab: Controller, program: Program) -> None:
    assert write(lab, "lab", 1, p4rt.Update(type=p4rt.Update.INSERT, entity=group(1))) == "UNKNOWN"
    request = p4rt.SetForwardingPipelineConfigRequest(
        device_id=DEVICE_ID, role="lab", action=3, config=program.config()
    )
    refused = code_of(lambda: lab.stub.SetForwardingPipelineConfig(election(request, 1), timeout=60))
    assert refused == "PERMISSION_DENIED"


def test_elections_of_roles_do_not_meet(primary: Controller, lab: Controller, connect: Connect) -> None:
    other = connect()
    told = take(other, "lab", 2, role_config())
    assert told.status.code == code_pb2.OK
    lost = lab.receive().arbitration
    assert (lost.status.code, lost.election_id.low, lost.role.name) == (code_pb2.ALREADY_EXISTS, 2, "lab")
    assert write(lab, "lab", 1) == "PERMISSION_DENIED"
    assert write(primary, "", 1) == "OK"
    assert primary.is_quiet()
    assert write(lab, "unknown", 1) == "NOT_FOUND"


def test_a_config_that_is_another_roles_own_is_refused(lab: Controller, connect: Connect, program: Program) -> None:
    other = connect()
    with pytest.raises(Ended, match="belongs to role 'lab'"):
        take(other, "guests", 1, role_config(shared=(program.id("tables", "exact_t"),)))
    shared = connect()
    assert take(shared, "guests", 1, role_config(shared=(program.id("tables", "lpm_t"),))).status.code == code_pb2.OK


def test_a_role_without_config_has_the_whole_pipeline(primary: Controller, connect: Connect, program: Program) -> None:
    controller = connect()
    assert not take(controller, "all", 1, None).role.HasField("config")
    entry = program.entry("lpm_t", action=program.action("drop"), src=("lpm", b"\x01", 48))
    assert write(controller, "all", 1, insert(entry)) == "OK"


def test_packet_ins_go_to_the_roles_that_receive_them(
    connect_fake: Connect, fake: FakeDevice, program: Program
) -> None:
    default, all_of_them, some, none = (connect_fake() for _ in range(4))
    default.become(1)
    default.set_pipeline(program.config())
    take(all_of_them, "all", 1, role_config(packet_ins=True))
    take(some, "some", 1, role_config(packet_ins=True, packet_filter=(1, b"\x07")))
    take(none, "none", 1, role_config())
    for port in (6, 7):
        fake.emit((port << 7).to_bytes(2, "big") + b"frame")
    assert [default.receive().packet.payload for _ in range(2)] == [b"frame"] * 2
    assert [all_of_them.receive().packet.metadata[0].value for _ in range(2)] == [b"\x06", b"\x07"]
    assert some.receive().packet.metadata[0].value == b"\x07"
    assert some.is_quiet() and none.is_quiet()
    assert CPU_PORT not in (6, 7)


def test_there_are_not_more_roles_than_are_kept(connect_fake: Connect) -> None:
    for number in range(MAX_ROLES - 1):
        controller = connect_fake()
        take(controller, f"role {number}", 1, None)
        controller.close()
    with pytest.raises(Ended, match="the most there may be"):
        take(connect_fake(), "one more", 1, None)
