# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Extracts the bmv2 JSON from ``p4_device_config``, which may be wrapped in the message that older controllers use.

The message is ``p4.tmp.P4DeviceConfig`` of p4lang/PI, which the package p4runtime does not have. p4lang/tutorials'
``p4runtime_lib`` still sends it: ``bool reassign = 1``, ``Extras extras = 2``, ``bytes device_data = 3``.
"""

from __future__ import annotations

from typing import Final

from softswitch.p4runtime.errors import InvalidArgumentError
from softswitch.p4runtime.wire import read_number

_DEVICE_DATA: Final = 3 << 3 | 2
#: Tags of the message's fields. No JSON begins with one of these bytes.
_FIRST: Final = frozenset({1 << 3, 2 << 3 | 2, _DEVICE_DATA})
_FIELDS_MOST: Final = 16  # it has three; others are passed over
_VARINT, _BYTES = 0, 2
_SIZES: Final = {1: 8, 5: 4}  # bytes of a value, by wire type
_CURE: Final = "send the JSON that p4c --target bmv2 writes, or a P4DeviceConfig with it as device_data"


def bmv2_json_of(device_config: bytes) -> str:
    """Return the text of the program. Raises InvalidArgumentError."""
    wrapped = device_config[:1] != b"" and device_config[0] in _FIRST
    data = _device_data(device_config) if wrapped else device_config
    if not data:
        what = "a P4DeviceConfig without device_data" if wrapped else "empty"
        raise InvalidArgumentError(f"p4_device_config is {what}; {_CURE}")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"p4_device_config is not bmv2 JSON text: {error}; {_CURE}") from error


def _device_data(message: bytes) -> bytes:
    """Field 3, the last one if it comes twice; empty where it is missing. Raises InvalidArgumentError."""
    found, at = b"", 0
    for _ in range(_FIELDS_MOST):
        if at == len(message):
            return found
        try:
            tag, start = read_number(message, at)
            start, end = _value(message, tag & 7, start)
        except IndexError as error:
            raise _malformed(f"its field at byte {at} is cut off, or is none") from error
        if tag == _DEVICE_DATA:
            found = message[start:end]
        at = end
    if at != len(message):
        raise _malformed(f"it has more than {_FIELDS_MOST} fields")
    return found


def _value(message: bytes, wire_type: int, at: int) -> tuple[int, int]:
    """Where a field's value begins and ends. Raises IndexError where there is none of this type."""
    start, end = at, at + _SIZES.get(wire_type, 0)
    if wire_type in (_VARINT, _BYTES):
        number, end = read_number(message, at)
        if wire_type == _BYTES:
            start, end = end, end + number
    elif wire_type not in _SIZES:
        raise IndexError
    if end > len(message):
        raise IndexError
    return start, end


def _malformed(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"p4_device_config begins as a P4DeviceConfig, but {what}; {_CURE}")
