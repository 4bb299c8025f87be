# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The service without gRPC: carries out each RPC on messages, and handles packets of the CPU port.

Specification: "Packet I/O", "ControllerPacketMetadata".
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from commonlib.events import Told
from p4.v1 import p4runtime_pb2

from softswitch.device import Device
from softswitch.errors import DeviceError
from softswitch.events import SwitchEvent
from softswitch.p4runtime import entries, pipeline, write
from softswitch.p4runtime.batching import WriteParts
from softswitch.p4runtime.calls import Stream
from softswitch.p4runtime.digests import Digests
from softswitch.p4runtime.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotThereError,
    P4RuntimeError,
    PermissionDeniedError,
    UnimplementedError,
    from_device,
)
from softswitch.p4runtime.from_program import info_of
from softswitch.p4runtime.idle import IdleTimeouts
from softswitch.p4runtime.p4info import ValueInfo
from softswitch.p4runtime.pipeline import ForwardingPipeline
from softswitch.p4runtime.profiles import EntryKey
from softswitch.p4runtime.read import EntityReader, idle_entry
from softswitch.p4runtime.roles import Access, Roles, election_id_of
from softswitch.program import ir

Header = tuple[ValueInfo, ...]


def _header_bytes(header: Header) -> int:
    """Fields are packed without gaps, most significant bit first; the last byte is filled with zero bits."""
    return (sum(field.width for field in header) + 7) // 8


def frame_of_packet_out(header: Header | None, packet: Any) -> bytes:
    """Return the frame to inject at the CPU port.

    Raises InvalidArgumentError unless the metadata has each field of ``header`` exactly once; without a header (None)
    it must have none.
    """
    fields = header or ()
    given = _metadata_by_id(packet, fields)
    bits = 0
    for field in fields:
        if field.id not in given:
            raise InvalidArgumentError(f"packet-out metadata {field.name!r} (id {field.id}) is missing")
        what = f"packet-out metadata {field.name!r}"
        bits = bits << field.width | entries.decode_value(given[field.id], field.width, what)
    size = _header_bytes(fields)
    padding = size * 8 - sum(field.width for field in fields)
    payload: bytes = packet.payload
    return (bits << padding).to_bytes(size, "big") + payload


def _metadata_by_id(packet: Any, fields: Header) -> dict[int, bytes]:
    known = {field.id for field in fields}
    given: dict[int, bytes] = {}
    for metadata in packet.metadata:
        if metadata.metadata_id not in known:
            raise InvalidArgumentError(f"packet-out metadata id {metadata.metadata_id} is not in the P4Info")
        if metadata.metadata_id in given:
            raise InvalidArgumentError(f"packet-out metadata id {metadata.metadata_id} is given twice")
        given[metadata.metadata_id] = metadata.value
    return given


def packet_in_of_frame(header: Header | None, frame: bytes) -> Any:
    """Return the ``PacketIn`` for a frame that left by the CPU port.

    Raises InvalidArgumentError if the frame is shorter than ``header``.
    """
    fields = header or ()
    size = _header_bytes(fields)
    if len(frame) < size:
        raise InvalidArgumentError(f"a frame of {len(frame)} bytes is shorter than the packet-in header, {size} bytes")
    packet = p4runtime_pb2.PacketIn(payload=frame[size:])
    bits, left = int.from_bytes(frame[:size], "big"), size * 8
    for field in fields:
        left -= field.width
        value = bits >> left & (1 << field.width) - 1
        packet.metadata.add(metadata_id=field.id, value=entries.encode_value(value))
    return packet


#: Version of the P4Runtime API this package implements.
API_VERSION = "1.4.1"

_ACTIONS = p4runtime_pb2.SetForwardingPipelineConfigRequest
_LOG = logging.getLogger(__name__)
_SLOW = "the primary controller does not read fast enough"


class P4RuntimeService:
    """P4Runtime for one device.

    ``cpu_port`` is where packet-outs enter; None refuses them. ``verify`` checks a program without loading
    it (raising DeviceError); None refuses the action VERIFY.
    """

    def __init__(
        self, device: Device, device_id: int, cpu_port: int | None, verify: Callable[[ir.Program], object] | None
    ) -> None:
        self._device = device
        self._device_id = device_id
        self._cpu_port = cpu_port
        self._verify = verify
        self._write_lock = threading.Lock()
        self._pipeline: ForwardingPipeline | None = None
        # That of a program that no controller has brought.
        self._own: ForwardingPipeline | None = None
        self.roles = Roles(device_id, self._write_lock)

    def set_pipeline(self, request: Any) -> None:
        self._check_target(request)
        self._require_primary(request)  # first of all: others do not even wait for the lock
        with self._write_lock:
            if not self._require_primary(request).can_set_pipeline:
                raise PermissionDeniedError(f"role {request.role!r} may not set the pipeline, says its config")
            match request.action:
                case _ACTIONS.VERIFY:
                    self._verify_config(request)
                case _ACTIONS.VERIFY_AND_COMMIT:
                    self._commit_config(request.config)
                case action if action in _ACTIONS.Action.values() and action != _ACTIONS.UNSPECIFIED:
                    raise UnimplementedError(f"{_ACTIONS.Action.Name(action)} is not offered; VERIFY_AND_COMMIT is")
                case action:
                    raise InvalidArgumentError(f"action {action} is unspecified or unknown")

    def _verify_config(self, request: Any) -> None:
        if self._verify is None:
            raise UnimplementedError("VERIFY is not offered; VERIFY_AND_COMMIT is")
        _, program = pipeline.parse_pipeline(request.config)
        try:
            self._verify(program)
        except DeviceError as error:
            raise InvalidArgumentError(str(error)) from error

    def _commit_config(self, config: Any) -> None:
        parsed, program = pipeline.parse_pipeline(config)
        try:
            self._device.load(program)
        except DeviceError as error:
            raise InvalidArgumentError(str(error)) from error
        self.end()
        digests = Digests(parsed.info, self._send_digests)
        idle = IdleTimeouts(self._device, self._send_idle)
        self._pipeline = replace(parsed, loads=self._device.loads, digests=digests, idle=idle)
        _LOG.info("a controller has loaded a program", extra=SwitchEvent.PROGRAM_LOADED())

    @contextmanager
    def lent(self) -> Iterator[ForwardingPipeline]:
        """The running program's pipeline, for another door of the switch. No controller writes meanwhile.

        What is written with it, controllers read. Without a controller's P4Info it has one made from the program.
        Raises NotFoundError without a program.
        """
        with self._write_lock:
            current = self._pipeline
            if current is None:
                if self._own is None or self._own.loads != self._device.loads:
                    self._own = ForwardingPipeline(info_of(self._device.program), None, loads=self._device.loads)
                current = self._own
            yield current

    def reset(self) -> None:
        """Load the running program anew: everything is as if it had just come. Raises NotFoundError without one."""
        with self._write_lock:
            if self._pipeline is None:
                self._device.load(self._device.program)
            else:
                self._commit_config(self._pipeline.config)

    def end(self) -> None:
        """End the threads that work for the pipeline."""
        for work in (self._pipeline.digests, self._pipeline.idle) if self._pipeline is not None else ():
            if work is not None:
                work.end()

    def get_pipeline(self, request: Any) -> Any:
        self._check_device_id(request.device_id)
        response = p4runtime_pb2.GetForwardingPipelineConfigResponse()
        current = self._pipeline
        if current is not None:
            response.config.CopyFrom(pipeline.select_config(current.config, request.response_type))
        return response

    def write(self, message: WriteParts) -> None:
        request = message.head
        self._check_target(request)
        self._require_primary(request)  # first of all: others do not even wait for the lock
        with self._write_lock:
            allowed = self._require_primary(request)
            current = self._require_pipeline()
            write.check_atomicity(request.atomicity)
            count = write.apply(self._device, current, message.updates, allowed)
        # One update a call is usual: at info they would be most of the log.
        if _LOG.isEnabledFor(logging.DEBUG):
            _LOG.debug("a controller has written %d updates", count, extra=SwitchEvent.ROWS_WRITTEN(updates=count))

    def read(self, request: Any) -> EntityReader:
        self._check_target(request)
        allowed = self.roles.access_of(request.role)
        return EntityReader(self._device, self._require_pipeline(), request.entities, allowed)

    def stream_message(self, stream: Stream, message: Any) -> None:
        """Handle one message of a controller. An error that it raises must terminate the stream."""
        if message.WhichOneof("update") == "arbitration":
            self.roles.update(stream, message.arbitration)
            return
        try:
            self._other_stream_message(stream, message)
        except P4RuntimeError as error:
            stream.send(_stream_error(message, error))
        except DeviceError as error:
            stream.send(_stream_error(message, from_device(error)))

    def _other_stream_message(self, stream: Stream, message: Any) -> None:
        kind = message.WhichOneof("update")
        if kind is None:
            raise InvalidArgumentError("the stream message is empty, or of a kind this server does not know")
        if kind not in ("packet", "digest_ack"):
            raise UnimplementedError(f"{kind} is not offered")
        allowed = self.roles.access_of_primary(stream)
        if kind == "digest_ack":
            allowed.require(message.digest_ack.digest_id, "the digest")
            digests = self._require_pipeline().digests
            if digests is not None:
                digests.acknowledge(message.digest_ack)
            return
        if self._cpu_port is None:
            raise FailedPreconditionError("the switch has no CPU port")
        frame = frame_of_packet_out(self._require_pipeline().info.packet_out, message.packet)
        self._device.inject(self._cpu_port, frame)

    def packet_in(self, frame: bytes) -> None:
        """Pass a frame that left by the CPU port to the primaries that receive it. Never blocks; a frame that no
        primary can take is lost."""
        primaries, current = self.roles.primaries, self._pipeline
        if not primaries or current is None:
            return
        try:
            packet = packet_in_of_frame(current.info.packet_in, frame)
        except InvalidArgumentError as error:
            _LOG.warning("packet-in dropped: %s", error, extra=_dropped("packet-in"))
            return
        message = p4runtime_pb2.StreamMessageResponse(packet=packet)
        for allowed, primary in primaries:
            if allowed.receives(packet) and not primary.offer_packet(message):
                _LOG.debug("packet-in dropped: %s", _SLOW, extra=_dropped("packet-in"))

    def _send_digests(self, digest_id: int, message: Any) -> None:
        """To the primaries of the roles that have this digest. Never blocks; what nobody takes is lost."""
        for allowed, primary in self.roles.primaries:
            if allowed.has(digest_id) and not primary.offer_packet(message):
                _LOG.debug("a list of digests dropped: %s", _SLOW, extra=_dropped("digests"))

    def _send_idle(self, entries: list[EntryKey]) -> None:
        """To the primaries of the roles that have their table. Never blocks; what nobody takes is lost."""
        current = self._pipeline
        if current is None:
            return
        message = p4runtime_pb2.StreamMessageResponse()
        message.idle_timeout_notification.timestamp = time.time_ns()
        message.idle_timeout_notification.table_entry.extend(idle_entry(current, where) for where in entries)
        table_id = message.idle_timeout_notification.table_entry[0].table_id
        for allowed, primary in self.roles.primaries:
            if allowed.has(table_id) and not primary.offer_packet(message):
                _LOG.debug("an idle timeout dropped: %s", _SLOW, extra=_dropped("idle timeout"))

    def _check_target(self, request: Any) -> None:
        self._check_device_id(request.device_id)
        number = getattr(request, "role_id", 0)  # a ReadRequest has none
        if number:
            raise NotThereError(f"role id {number} is not known: roles have names")

    def _require_primary(self, request: Any) -> Access:
        return self.roles.require_primary(request.role, election_id_of(request))

    def _check_device_id(self, device_id: int) -> None:
        if device_id != self._device_id:
            raise NotThereError(f"device id {device_id} is not this device's, {self._device_id}")

    def _require_pipeline(self) -> ForwardingPipeline:
        if self._pipeline is None:
            raise FailedPreconditionError("no forwarding pipeline config is set")
        return self._pipeline


def _dropped(kind: str) -> dict[str, Told]:
    return SwitchEvent.MESSAGE_DROPPED(kind=kind)


def _stream_error(message: Any, error: P4RuntimeError) -> Any:
    """A ``StreamError`` that carries the offending message back."""
    response = p4runtime_pb2.StreamMessageResponse()
    response.error.canonical_code = error.code
    response.error.message = str(error)
    match message.WhichOneof("update"):
        case "packet":
            response.error.packet_out.packet_out.CopyFrom(message.packet)
        case "digest_ack":
            response.error.digest_list_ack.digest_list_ack.CopyFrom(message.digest_ack)
        case "other":
            response.error.other.other.CopyFrom(message.other)
    return response
