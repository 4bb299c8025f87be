# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packet-out and packet-in: controller metadata as header bits in front of the frame.

Specification: "Packet I/O", "ControllerPacketMetadata".
"""

from __future__ import annotations

from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.p4runtime import values
from softswitch.p4runtime.errors import InvalidArgumentError
from softswitch.p4runtime.p4info import Value

Header = tuple[Value, ...]


def _header_bytes(header: Header) -> int:
    """Fields are packed without gaps, most significant bit first; the last byte is filled with zero bits."""
    return (sum(field.width for field in header) + 7) // 8


def frame_of_packet_out(header: Header | None, packet: Any) -> bytes:
    """The frame to inject at the CPU port.

    Raises InvalidArgumentError unless the metadata has each field of ``header`` exactly once; without a header
    (None) it must have none.
    """
    fields = header or ()
    given = _metadata_by_id(packet, fields)
    bits = 0
    for field in fields:
        if field.id not in given:
            raise InvalidArgumentError(f"packet-out metadata {field.name!r} (id {field.id}) is missing")
        what = f"packet-out metadata {field.name!r}"
        bits = bits << field.width | values.decode(given[field.id], field.width, what)
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
    """The ``PacketIn`` of a frame that left by the CPU port.

    Raises InvalidArgumentError where the frame is shorter than ``header``.
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
        packet.metadata.add(metadata_id=field.id, value=values.encode(value))
    return packet
