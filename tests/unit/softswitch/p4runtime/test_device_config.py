# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""``p4_device_config`` as controllers send it: bmv2's JSON, plain or in a ``p4.tmp.P4DeviceConfig``."""

from __future__ import annotations

import pytest
from google.protobuf.wrappers_pb2 import BytesValue
from softswitch.p4runtime.device_config import bmv2_json_of
from softswitch.p4runtime.errors import InvalidArgumentError

JSON = '{"program": "' + "a" * 300 + '"}'
REASSIGN, EXTRAS = b"\x08\x01", b"\x12\x00"


def field(data: bytes, tag: int = 0x1A) -> bytes:
    """A field of bytes: the length is encoded by protobuf itself."""
    return bytes([tag]) + BytesValue(value=data).SerializeToString()[1:]


DATA = field(JSON.encode())


@pytest.mark.parametrize(
    "sent",
    [
        JSON.encode(),
        f"\n\t {JSON}".encode(),
        REASSIGN + DATA,  # p4runtime_lib's bytes
        DATA,
        REASSIGN + EXTRAS + DATA,
        DATA + REASSIGN,
        field(b"an older one") + DATA,
        # Fields of a later version, one of each wire type.
        REASSIGN + DATA + b"\x20\x05" + b"\x29" + bytes(8) + b"\x35" + bytes(4) + field(b"x", 0x3A),
    ],
)
def test_the_json_is_found(sent: bytes) -> None:
    assert bmv2_json_of(sent).strip() == JSON


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (b"", "is empty"),
        (REASSIGN, "a P4DeviceConfig without device_data"),
        (b"\x1a\x00", "a P4DeviceConfig without device_data"),
        (b"\x08", "its field at byte 0 is cut off"),
        (b"\x1a", "its field at byte 0 is cut off"),
        (REASSIGN + DATA[:-1], "its field at byte 2 is cut off"),
        (REASSIGN + b"\x1a" + b"\xff" * 9 + b"\x7f", "its field at byte 2 is cut off"),
        (REASSIGN + b"\x1a" + b"\xff" * 11, "its field at byte 2 is cut off"),
        (DATA + b"\x2d\x00\x00", "is cut off, or is none"),
        (DATA + b"\x23", "is cut off, or is none"),  # a group
        (REASSIGN * 17, "more than 16 fields"),
        (field(b"\xff\xfe"), "not bmv2 JSON text"),
        (b"\xff\xfe", "not bmv2 JSON text"),
    ],
)
def test_what_is_malformed_is_refused_with_a_cure(sent: bytes, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"(?s)({text}).*; send the JSON that p4c --target bmv2 writes"):
        bmv2_json_of(sent)


def test_as_many_fields_as_are_read() -> None:
    assert bmv2_json_of(REASSIGN * 15 + DATA) == JSON
