# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Election of a primary controller, and roles."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from fuzz.p4runtime.clients import Client, Elections
from google.rpc import code_pb2
from helpers.p4runtime.client import CPU_PORT, DEVICE_ID, Controller, Ended, Program, code_of, delete, election, insert
from helpers.p4runtime.messages import group
from p4.v1 import p4runtime_pb2 as p4rt
from softswitch.p4runtime.roles import MAX_CONTROLLERS, MAX_ROLES
from softswitch.p4runtime.server import P4RuntimeServer, serve
from softswitch.runtime.entries import ActionCall, Entry
from softswitch.switch import SoftSwitch

Connect = Callable[[], Controller]
BIG = (1 << 127) + (1 << 63) + 5  # needs every bit of both halves


def seen(arbitration: Any) -> tuple[str, int | None]:
    """(status, election id or None) of a notification."""
    id_ = arbitration.election_id
    election_id = (id_.high << 64 | id_.low) if arbitration.HasField("election_id") else None
    assert arbitration.device_id == DEVICE_ID
    return code_pb2.Code.Name(arbitration.status.code), election_id


def next_seen(controller: Controller) -> tuple[str, int | None]:
    return seen(controller.receive().arbitration)


def ended(controller: Controller) -> str:
    return str(code_pb2.Code.Name(controller.wait_for_end().code))


def test_clients_of_many_elections_are_told_what_the_model_says(server: P4RuntimeServer) -> None:
    """They raise and lower their ids, take those of others, break rules, leave, and come again."""

    def different(what: str, how: str) -> None:
        raise AssertionError(f"{what}: {how}")

    clients = [Client(f"127.0.0.1:{server.port}") for _ in range(4)]
    elections = Elections(clients, DEVICE_ID, BIG, random.Random(1), different)
    elections.fuzz(300)
    elections.leave_all()
    for client in clients:
        client.close()


@pytest.mark.parametrize(
    ("ids", "told"),
    [
        ([BIG], [("OK", BIG)]),
        ([None, 0], [("NOT_FOUND", None), ("OK", 0)]),
        ([1, None], [("OK", 1), ("ALREADY_EXISTS", 1)]),
        ([None, None], [("NOT_FOUND", None), ("NOT_FOUND", None)]),
    ],
    ids=["the first is primary", "zero is an id, unset is not", "never without id", "two without id"],
)
def test_what_controllers_are_told(connect: Connect, ids: list[int | None], told: list[tuple[str, int | None]]) -> None:
    assert [seen(connect().become(election_id)) for election_id in ids] == told


@pytest.mark.parametrize("leave", [lambda gone: gone.cancel(), lambda gone: gone.channel.close()])
def test_cancelled_or_vanished_primary(connect: Connect, leave: Callable[[Controller], None]) -> None:
    primary, backup = connect(), connect()
    primary.become(5)
    backup.become(4)
    leave(primary)
    assert next_seen(backup) == ("NOT_FOUND", 5)


def test_news_of_a_backup_are_nobody_elses(connect: Connect) -> None:
    primary, backup = connect(), connect()
    primary.become(5)
    backup.become(4)
    assert primary.is_quiet()
    backup.half_close()
    assert ended(backup) == "OK"
    assert primary.is_quiet()
    other = connect()
    assert seen(other.become(4)) == ("ALREADY_EXISTS", 5)  # its id is free again
    other.arbitrate(5)
    # Clients look for these words to choose another id.
    assert "election id 5 is already used by another controller" in str(other.wait_for_end())
    assert primary.is_quiet()


# --- refusals that end the stream


def with_role(name: str = "", role_id: int = 0, config: bool = False) -> Any:
    message = p4rt.StreamMessageRequest()
    message.arbitration.device_id = DEVICE_ID
    message.arbitration.role.name = name
    message.arbitration.role.id = role_id
    if config:
        message.arbitration.role.config.SetInParent()
    return message


@pytest.mark.parametrize(
    ("message", "code_first", "code_later"),
    [
        (with_role(role_id=2), "UNIMPLEMENTED", "FAILED_PRECONDITION"),
        (with_role(name="lab", config=True), "INVALID_ARGUMENT", "FAILED_PRECONDITION"),
        (with_role(config=True), "INVALID_ARGUMENT", "INVALID_ARGUMENT"),
    ],
)
def test_roles_are_refused(connect: Connect, message: Any, code_first: str, code_later: str) -> None:
    new, live = connect().open_stream(), connect()
    new.send(message)
    assert ended(new) == code_first
    live.become(1)
    live.send(message)
    assert ended(live) == code_later


def test_empty_role_is_the_default_role(connect: Connect) -> None:
    controller = connect().open_stream()
    controller.send_arbitration(with_role(), 1)
    assert next_seen(controller) == ("OK", 1)


def test_too_many_controllers(connect: Connect) -> None:
    controllers = [connect() for _ in range(MAX_CONTROLLERS)]
    for number, controller in enumerate(controllers):
        controller.become(number)
    one_more = connect().open_stream()
    one_more.arbitrate(MAX_CONTROLLERS)
    assert ended(one_more) == "RESOURCE_EXHAUSTED"
    assert code_of(controllers[-1].read) == "FAILED_PRECONDITION"
    controllers[0].half_close()
    assert ended(controllers[0]) == "OK"
    assert seen(connect().become(MAX_CONTROLLERS))[0] == "OK"


# --- who may write


def test_only_the_primary_writes(connect: Connect, program: Program) -> None:
    primary, backup, stranger = connect(), connect(), connect()
    primary.become(BIG)
    backup.become(BIG - 1)
    config = program.config()
    assert code_of(lambda: backup.set_pipeline(config)) == "PERMISSION_DENIED"
    assert code_of(lambda: stranger.set_pipeline(config)) == "PERMISSION_DENIED"
    primary.set_pipeline(config)
    entry = program.entry("exact_t", action=program.action("drop"), dst=("exact", b"\x01"))
    assert code_of(lambda: backup.write(insert(entry))) == "PERMISSION_DENIED"
    assert code_of(lambda: stranger.write(insert(entry))) == "PERMISSION_DENIED"
    stranger.election_id = BIG & (1 << 64) - 1  # the low half alone is another id
    assert code_of(lambda: stranger.write(insert(entry))) == "PERMISSION_DENIED"
    assert primary.read_entries(program.entry("exact_t")) == []
    primary.write(insert(entry))


def test_nobody_writes_after_the_primary_is_gone(connect: Connect, program: Program) -> None:
    primary, other = connect(), connect()
    primary.become(5)
    primary.set_pipeline(program.config())
    primary.half_close()
    ended(primary)
    other.election_id = 5
    assert code_of(other.write) == "PERMISSION_DENIED"


class SlowSwitch(SoftSwitch):
    """Holds an insert until the test lets it go on."""

    def __init__(self) -> None:
        super().__init__(engine="python")
        self.started = threading.Event()
        self.go_on = threading.Event()

    def insert(self, table: str, entry: Entry) -> None:
        if entry.action == ActionCall("ingress.forward", (1,)):
            self.started.set()
            assert self.go_on.wait(timeout=30)
        super().insert(table, entry)


def test_new_primary_waits_for_the_writes_of_the_old(program: Program) -> None:
    device = SlowSwitch()
    server: P4RuntimeServer = serve(device, "127.0.0.1:0", DEVICE_ID)
    old, new = Controller(server.port), Controller(server.port)
    try:
        old.become(1)
        old.set_pipeline(program.config())
        entry = program.entry("exact_t", action=program.action("forward", port=b"\x01"), dst=("exact", b"\x01"))
        running = old.stub.Write.future(old.write_request(insert(entry)), timeout=30)
        assert device.started.wait(timeout=30)
        new.open_stream().arbitrate(2)
        assert next_seen(old) == ("ALREADY_EXISTS", 2)  # told first, and refused from here on
        refused = old.stub.Write.future(old.write_request(insert(entry)), timeout=30)
        device.go_on.set()
        running.result()
        assert next_seen(new) == ("OK", 2)
        assert code_of(refused.result) == "PERMISSION_DENIED"
    finally:
        device.go_on.set()
        for controller in (old, new):
            controller.close()
        server.stop()


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


def test_packet_ins_go_to_the_roles_that_receive_them(connect: Connect, switch: SoftSwitch, program: Program) -> None:
    default, all_of_them, some, none = (connect() for _ in range(4))
    default.become(1)
    default.set_pipeline(program.config())
    take(all_of_them, "all", 1, role_config(packet_ins=True))
    take(some, "some", 1, role_config(packet_ins=True, packet_filter=(1, b"\x07")))
    take(none, "none", 1, role_config())
    for port in (6, 7):
        switch.to_cpu((port << 7).to_bytes(2, "big") + b"frame")
    assert [default.receive().packet.payload for _ in range(2)] == [b"frame"] * 2
    assert [all_of_them.receive().packet.metadata[0].value for _ in range(2)] == [b"\x06", b"\x07"]
    assert some.receive().packet.metadata[0].value == b"\x07"
    assert some.is_quiet() and none.is_quiet()
    assert CPU_PORT not in (6, 7)


def test_there_are_not_more_roles_than_are_kept(connect: Connect) -> None:
    for number in range(MAX_ROLES - 1):
        controller = connect()
        take(controller, f"role {number}", 1, None)
        controller.close()
    with pytest.raises(Ended, match="the most there may be"):
        take(connect(), "one more", 1, None)
