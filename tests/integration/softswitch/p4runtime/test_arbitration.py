# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Arbitration: the rules of "Client Arbitration and Controller Replication", each with its twin."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from google.rpc import code_pb2
from helpers.p4runtime.client import DEVICE_ID, Controller, Program, code_of, insert
from helpers.p4runtime.fake_device import FakeDevice
from p4.v1 import p4runtime_pb2 as p4rt
from softswitch.p4runtime.roles import MAX_CONTROLLERS
from softswitch.p4runtime.server import Server, serve
from softswitch.runtime.entries import ActionCall, Entry

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


def test_first_controller_is_primary(connect_fake: Connect) -> None:
    assert seen(connect_fake().become(BIG)) == ("OK", BIG)


def test_zero_is_an_election_id_and_unset_is_not(connect_fake: Connect) -> None:
    assert seen(connect_fake().become(None)) == ("NOT_FOUND", None)
    assert seen(connect_fake().become(0)) == ("OK", 0)


def test_the_highest_is_primary_and_all_are_told(connect_fake: Connect) -> None:
    low, high, lowest = connect_fake(), connect_fake(), connect_fake()
    low.become(10)
    assert seen(high.become(BIG)) == ("OK", BIG)
    assert next_seen(low) == ("ALREADY_EXISTS", BIG)
    assert seen(lowest.become(9)) == ("ALREADY_EXISTS", BIG)
    assert low.is_quiet() and high.is_quiet()  # a new backup is nobody else's news


def test_without_election_id_never_primary(connect_fake: Connect) -> None:
    connect_fake().become(1)
    assert seen(connect_fake().become(None)) == ("ALREADY_EXISTS", 1)


def test_two_without_election_id_are_no_duplicates(connect_fake: Connect) -> None:
    assert seen(connect_fake().become(None)) == seen(connect_fake().become(None)) == ("NOT_FOUND", None)


def test_same_id_again_stays_primary(connect_fake: Connect) -> None:
    primary, backup = connect_fake(), connect_fake()
    primary.become(5)
    backup.become(4)
    primary.arbitrate(5)
    assert next_seen(primary) == ("OK", 5)
    assert next_seen(backup) == ("ALREADY_EXISTS", 5)


def test_backup_raises_itself(connect_fake: Connect) -> None:
    primary, backup = connect_fake(), connect_fake()
    primary.become(5)
    backup.become(4)
    backup.arbitrate(6)
    assert next_seen(backup) == ("OK", 6)
    assert next_seen(primary) == ("ALREADY_EXISTS", 6)


@pytest.mark.parametrize("lower", [3, None])
def test_primary_lowers_itself(connect_fake: Connect, lower: int | None) -> None:
    primary, backup = connect_fake(), connect_fake()
    primary.become(5)
    backup.become(4)
    primary.arbitrate(lower)
    assert next_seen(primary) == next_seen(backup) == ("NOT_FOUND", 5)


def test_closing_primary_leaves_none_until_an_id_as_high_comes(connect_fake: Connect) -> None:
    primary, backup = connect_fake(), connect_fake()
    primary.become(5)
    backup.become(4)
    primary.half_close()
    assert ended(primary) == "OK"
    assert next_seen(backup) == ("NOT_FOUND", 5)
    backup.arbitrate(4)
    assert next_seen(backup) == ("NOT_FOUND", 5)
    assert seen(connect_fake().become(5)) == ("OK", 5)
    assert next_seen(backup) == ("ALREADY_EXISTS", 5)


def test_cancelled_primary(connect_fake: Connect) -> None:
    primary, backup = connect_fake(), connect_fake()
    primary.become(5)
    backup.become(4)
    primary.cancel()
    assert next_seen(backup) == ("NOT_FOUND", 5)


def test_vanished_primary(connect_fake: Connect) -> None:
    primary, backup = connect_fake(), connect_fake()
    primary.become(5)
    backup.become(4)
    primary.channel.close()
    assert next_seen(backup) == ("NOT_FOUND", 5)


def test_closing_backup_is_nobodys_news(connect_fake: Connect) -> None:
    primary, backup = connect_fake(), connect_fake()
    primary.become(5)
    backup.become(4)
    backup.half_close()
    assert ended(backup) == "OK"
    assert primary.is_quiet()
    assert seen(connect_fake().become(4)) == ("ALREADY_EXISTS", 5)  # its id is free again


# --- refusals that end the stream


def test_unknown_device(connect_fake: Connect) -> None:
    controller = connect_fake().open_stream()
    controller.arbitrate(1, device_id=DEVICE_ID + 1)
    assert ended(controller) == "NOT_FOUND"


def test_another_device_later(connect_fake: Connect) -> None:
    controller, backup = connect_fake(), connect_fake()
    controller.become(2)
    backup.become(1)
    controller.arbitrate(2, device_id=DEVICE_ID + 1)
    assert ended(controller) == "FAILED_PRECONDITION"
    assert next_seen(backup) == ("NOT_FOUND", 2)


@pytest.mark.parametrize("first", [True, False])
def test_duplicate_id(connect_fake: Connect, first: bool) -> None:
    primary, other = connect_fake(), connect_fake()
    primary.become(5)
    if first:
        other.open_stream()
    else:
        other.become(4)
    other.arbitrate(5)
    end = other.wait_for_end()
    assert code_pb2.Code.Name(end.code) == "INVALID_ARGUMENT"
    # Clients look for these words to choose another id.
    assert "election id 5 is already used by another controller" in str(end)
    assert primary.is_quiet()


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
def test_roles_are_refused(connect_fake: Connect, message: Any, code_first: str, code_later: str) -> None:
    new, live = connect_fake().open_stream(), connect_fake()
    new.send(message)
    assert ended(new) == code_first
    live.become(1)
    live.send(message)
    assert ended(live) == code_later


def test_empty_role_is_the_default_role(connect_fake: Connect) -> None:
    controller = connect_fake().open_stream()
    controller.send_arbitration(with_role(), 1)
    assert next_seen(controller) == ("OK", 1)


def test_too_many_controllers(connect_fake: Connect) -> None:
    controllers = [connect_fake() for _ in range(MAX_CONTROLLERS)]
    for number, controller in enumerate(controllers):
        controller.become(number)
    one_more = connect_fake().open_stream()
    one_more.arbitrate(MAX_CONTROLLERS)
    assert ended(one_more) == "RESOURCE_EXHAUSTED"
    assert code_of(controllers[-1].read) == "FAILED_PRECONDITION"
    controllers[0].half_close()
    assert ended(controllers[0]) == "OK"
    assert seen(connect_fake().become(MAX_CONTROLLERS))[0] == "OK"


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


def test_nobody_writes_after_the_primary_is_gone(connect_fake: Connect, program: Program) -> None:
    primary, other = connect_fake(), connect_fake()
    primary.become(5)
    primary.set_pipeline(program.config())
    primary.half_close()
    ended(primary)
    other.election_id = 5
    assert code_of(other.write) == "PERMISSION_DENIED"


class SlowDevice(FakeDevice):
    """Holds an insert until the test lets it go on."""

    def __init__(self) -> None:
        super().__init__()
        self.started = threading.Event()
        self.go_on = threading.Event()

    def insert(self, table: str, entry: Entry) -> None:
        if entry.action == ActionCall("ingress.forward", (1,)):
            self.started.set()
            assert self.go_on.wait(timeout=30)
        super().insert(table, entry)


def test_new_primary_waits_for_the_writes_of_the_old(program: Program) -> None:
    device = SlowDevice()
    server: Server = serve(device, "127.0.0.1:0", DEVICE_ID)
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
