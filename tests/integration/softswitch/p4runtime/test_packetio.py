# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packets to and from the CPU port, also cloned ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.rpc import code_pb2
from helpers.logs import lines_of, of
from helpers.p4runtime.client import CPU_PORT, DEVICE_ID, Controller, Program
from helpers.p4runtime.messages import FRAME, TO_CPU, packet, packet_out, update
from helpers.p4runtime.served import primary_of
from p4.v1 import p4runtime_pb2 as p4rt
from softswitch.errors import DeviceError
from softswitch.events import SwitchEvent
from softswitch.p4runtime import service
from softswitch.p4runtime.errors import InvalidArgumentError
from softswitch.p4runtime.p4info import ValueInfo
from softswitch.p4runtime.rpcs import PACKET_IN_QUEUE
from softswitch.p4runtime.server import P4RuntimeServer
from softswitch.switch import EngineChoice, SoftSwitch


@pytest.fixture(params=["python", pytest.param("native", marks=pytest.mark.cc)])
def controller(request: pytest.FixtureRequest) -> Iterator[Controller]:
    engine: EngineChoice = request.param
    with primary_of(SoftSwitch(engine=engine, cpu_port=CPU_PORT), Program("clone").config(), CPU_PORT) as controller:
        yield controller


def test_clones_come_to_the_controller_as_long_as_their_session_is_there(controller: Controller) -> None:
    entity = p4rt.Entity()
    session = entity.packet_replication_engine_entry.clone_session_entry
    session.session_id = 5
    session.replicas.add(egress_port=CPU_PORT)
    cloned = packet_out((1, b"\x07"), (2, b"\x01"))  # leaves by port 7, task 1
    controller.send(cloned)
    assert controller.is_quiet()
    controller.write(update(p4rt.Update.INSERT, entity))
    controller.send(cloned)
    packet = controller.receive().packet
    # A clone keeps no metadata, and so no ingress port.
    assert [(each.metadata_id, each.value) for each in packet.metadata] == [(1, b"\x00"), (2, b"\x01")]
    assert packet.payload == FRAME
    controller.write(update(p4rt.Update.DELETE, entity))
    controller.send(cloned)
    assert controller.is_quiet()


Connect = Callable[[], Controller]
PORT_AND_TAG = (ValueInfo(1, "egress_port", 9), ValueInfo(2, "tag", 7))
PORT_ONLY = (ValueInfo(4, "egress_port", 9),)


@pytest.mark.parametrize(
    ("header", "metadata", "front"),
    [
        (PORT_AND_TAG, [(1, b"\x01\xff"), (2, b"\x03")], b"\xff\x83"),
        (PORT_AND_TAG, [(2, b"\x03"), (1, b"\x05")], b"\x02\x83"),
        (PORT_AND_TAG, [(1, b"\x00\x00\x05"), (2, b"\x7f")], b"\x02\xff"),
        (PORT_ONLY, [(4, b"\x01\x01")], b"\x80\x80"),
        ((), [], b""),
        (None, [], b""),
    ],
)
@pytest.mark.parametrize("payload", [b"", FRAME])
def test_packet_out_bits(header: Any, metadata: list[tuple[int, bytes]], front: bytes, payload: bytes) -> None:
    message = packet(p4rt.PacketOut, payload, *metadata)
    assert service.frame_of_packet_out(header, message) == front + payload


BAD_METADATA: list[tuple[list[tuple[int, bytes]], str]] = [
    ([(1, b"\x05")], "'tag'"),
    ([(1, b"\x05"), (2, b"\x03"), (3, b"\x00")], "id 3"),
    ([(1, b"\x05"), (2, b"\x03"), (2, b"\x03")], "twice"),
    ([(1, b"\x02\x00"), (2, b"\x03")], "0x200 does not fit bit<9>"),
    ([(1, b""), (2, b"\x03")], "empty"),
]


@pytest.mark.parametrize(("metadata", "text"), BAD_METADATA)
def test_packet_out_is_refused(metadata: list[tuple[int, bytes]], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        service.frame_of_packet_out(PORT_AND_TAG, packet(p4rt.PacketOut, FRAME, *metadata))


def test_packet_out_without_header_takes_no_metadata() -> None:
    with pytest.raises(InvalidArgumentError):
        service.frame_of_packet_out(None, packet(p4rt.PacketOut, FRAME, (1, b"\x00")))


@pytest.mark.parametrize(
    ("header", "frame", "metadata", "payload"),
    [
        (PORT_AND_TAG, b"\xff\x83" + FRAME, [(1, b"\x01\xff"), (2, b"\x03")], FRAME),
        (PORT_AND_TAG, b"\x02\x80", [(1, b"\x05"), (2, b"\x00")], b""),
        (PORT_ONLY, b"\x80\x80" + FRAME, [(4, b"\x01\x01")], FRAME),
        (None, FRAME, [], FRAME),
    ],
)
def test_packet_in_bits(header: Any, frame: bytes, metadata: list[tuple[int, bytes]], payload: bytes) -> None:
    assert service.packet_in_of_frame(header, frame) == packet(p4rt.PacketIn, payload, *metadata)


def test_packet_in_shorter_than_its_header() -> None:
    with pytest.raises(InvalidArgumentError, match="1 bytes"):
        service.packet_in_of_frame(PORT_AND_TAG, b"\x00")


# --- over the stream


def test_packet_out_comes_back_as_packet_in(primary: Controller) -> None:
    """programs/tables.p4 sends it to the CPU port, with its ingress port and the tag in the packet-in header."""
    for _ in range(3):
        primary.send(TO_CPU)
        expected = packet(p4rt.PacketIn, FRAME, (1, bytes([CPU_PORT])), (2, b"\x2a"))
        assert primary.receive().packet == expected


def test_a_frame_without_its_packet_in_header_is_dropped(
    switch: SoftSwitch, primary: Controller, caplog: pytest.LogCaptureFixture
) -> None:
    switch.to_cpu(b"\x00")
    assert primary.is_quiet()
    (dropped,) = of(lines_of(caplog.records), SwitchEvent.MESSAGE_DROPPED)
    assert (dropped["kind"], dropped["level"]) == ("packet-in", "warning")


def test_packet_in_goes_to_the_primary_only(primary: Controller, connect: Connect) -> None:
    backup = connect()
    backup.become(0)
    primary.send(TO_CPU)
    assert primary.receive().HasField("packet")
    assert backup.is_quiet()


def error_of(controller: Controller) -> Any:
    response = controller.receive()
    assert response.HasField("error"), response
    return response.error


def test_backup_may_not_send(primary: Controller, connect: Connect) -> None:
    backup, stranger = connect(), connect()
    backup.become(0)
    stranger.open_stream()
    for controller in (backup, stranger):
        controller.send(TO_CPU)
        error = error_of(controller)
        assert error.canonical_code == code_pb2.PERMISSION_DENIED
        assert error.packet_out.packet_out == TO_CPU.packet
    assert primary.is_quiet()


def test_bad_packet_out_is_reported_and_the_stream_goes_on(primary: Controller) -> None:
    bad = packet_out((1, b"\x05"))
    primary.send(bad)
    error = error_of(primary)
    assert error.canonical_code == code_pb2.INVALID_ARGUMENT
    assert error.packet_out.packet_out == bad.packet
    primary.send(TO_CPU)
    assert primary.receive().HasField("packet")


def test_other_messages_are_unoffered(primary: Controller) -> None:
    ack = p4rt.StreamMessageRequest(digest_ack=p4rt.DigestListAck(digest_id=1))
    other = p4rt.StreamMessageRequest()
    other.other.Pack(p4rt.Uint128(low=1))
    primary.send(ack)
    error = error_of(primary)
    assert error.canonical_code == code_pb2.INVALID_ARGUMENT  # the program has no such digest
    assert error.digest_list_ack.digest_list_ack == ack.digest_ack
    primary.send(other)
    error = error_of(primary)
    assert error.canonical_code == code_pb2.UNIMPLEMENTED
    assert error.other.other == other.other
    primary.send(p4rt.StreamMessageRequest())
    assert error_of(primary).canonical_code == code_pb2.INVALID_ARGUMENT


def test_packet_out_before_a_pipeline(connect: Connect) -> None:
    controller = connect()
    controller.become(1)
    controller.send(TO_CPU)
    assert error_of(controller).canonical_code == code_pb2.FAILED_PRECONDITION


class Refusing(SoftSwitch):
    def inject(self, port: int, frame: bytes) -> None:
        raise DeviceError("the frame is too long")


@pytest.mark.parametrize(
    ("device", "cpu_port", "code"),
    [
        (SoftSwitch(engine="python"), None, code_pb2.FAILED_PRECONDITION),
        (Refusing(engine="python"), CPU_PORT, code_pb2.INVALID_ARGUMENT),
    ],
)
def test_packet_out_the_switch_cannot_take(
    program: Program, device: SoftSwitch, cpu_port: int | None, code: int
) -> None:
    with primary_of(device, program.config(), cpu_port) as controller:
        controller.send(TO_CPU)
        assert error_of(controller).canonical_code == code


def test_frames_nobody_takes_are_dropped(
    switch: SoftSwitch, server: P4RuntimeServer, connect: Connect, program: Program
) -> None:
    controller = connect()
    controller.become(1)
    switch.to_cpu(b"\x02\x83")  # no pipeline
    assert controller.is_quiet()
    controller.set_pipeline(program.config())
    controller.arbitrate(None)
    assert controller.receive().HasField("arbitration")
    switch.to_cpu(b"\x02\x83")  # no primary
    assert controller.is_quiet()


def test_a_controller_that_does_not_read_costs_no_memory_and_blocks_nobody(
    switch: SoftSwitch, server: P4RuntimeServer, program: Program
) -> None:
    """Its stub's stream is never iterated, so gRPC's flow control stops the server's sending."""
    controller = Controller(server.port)
    controller.become(1)
    controller.set_pipeline(program.config())
    silent = controller.stub.StreamChannel(
        iter(
            [
                p4rt.StreamMessageRequest(
                    arbitration=p4rt.MasterArbitrationUpdate(device_id=DEVICE_ID, election_id={"low": 2})
                )
            ]
        )
    )
    assert next(silent).arbitration.status.code == code_pb2.OK
    for _ in range(4 * PACKET_IN_QUEUE):
        switch.to_cpu(b"\x02\x83" + bytes(1500))
    silent.cancel()
    controller.close()
