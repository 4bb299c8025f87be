# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Messages from bytes. It is done in worker threads: a long message must not hold up the event loop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.alike import alike
from softswitch.p4runtime.errors import InvalidArgumentError
from softswitch.p4runtime.wire import plain_update

_WIRE_TYPE, _VARINT, _BYTES = 7, 0, 2
_ONE_BYTE = 0x7F  # the largest number in one byte
_LAST_SHIFT = 63  # that of a number's tenth byte, which is its last
_NUMBERS = frozenset({1 << 3 | _VARINT, 2 << 3 | _VARINT, 3 << 3 | _BYTES})  # device_id, role_id, election_id
_UPDATES = 4 << 3 | _BYTES


def parse(kind: Any, raw: bytes) -> Any:
    """Raises InvalidArgumentError where ``raw`` is no message of this kind."""
    try:
        return kind.FromString(raw)
    except (DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"this is no {kind.DESCRIPTOR.name}: {error}") from error


@dataclass(frozen=True)
class Write:
    """A ``WriteRequest``: ``head`` is one without its updates, which are protobuf's messages or look like them."""

    head: Any
    updates: Iterable[Any]


def parse_write(raw: bytes) -> Write:
    """Raises as :func:`parse`."""
    try:
        first, chunks, after = _updates(raw)
        head = parse(p4runtime_pb2.WriteRequest, raw[:first] + raw[after:])
    except (IndexError, InvalidArgumentError):
        return _whole(raw)  # which says what is wrong, if anything
    if head.updates:
        return _whole(raw)
    together = alike(chunks)
    if together is not None:
        return Write(head, together)
    return Write(head, [plain_update(chunk) or parse(p4runtime_pb2.Update, chunk) for chunk in chunks])


def _whole(raw: bytes) -> Write:
    request = parse(p4runtime_pb2.WriteRequest, raw)
    return Write(request, list(request.updates))


def _updates(raw: bytes) -> tuple[int, list[bytes], int]:
    """Where the updates of a ``WriteRequest`` begin, the bytes of each, and where they end. Raises IndexError where the
    bytes end too soon, or a number does not end."""
    first = at = _after_numbers(raw)
    chunks = []
    while at < len(raw) and raw[at] == _UPDATES:
        length, start = _number(raw, at + 1)
        at = start + length
        if at > len(raw):
            raise IndexError
        chunks.append(raw[start:at])
    return first, chunks, at


def _after_numbers(raw: bytes) -> int:
    """Where the device's id, the role's and the election's end, if they come first."""
    at = 0
    while at < len(raw) and raw[at] in _NUMBERS:
        value, after = _number(raw, at + 1)
        at = after + value if raw[at] & _WIRE_TYPE == _BYTES else after
    return at


def _number(raw: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends. Raises IndexError where it has more than ten bytes, or the bytes end too soon."""
    number = raw[at] & _ONE_BYTE
    shift = 0
    while raw[at] > _ONE_BYTE:
        at, shift = at + 1, shift + 7
        if shift > _LAST_SHIFT:
            raise IndexError
        number |= (raw[at] & _ONE_BYTE) << shift
    return number, at + 1
