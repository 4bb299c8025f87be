# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Plain updates of table entries, read directly from their bytes.

Controllers write tables in batches of thousands of similar updates. protobuf's Python implementation takes far longer
to parse an update than the switch to carry it out. This module reads only the usual form: fields in the order of their
numbers, each length in one byte, a key, an action with its parameters, a priority. For any other form it returns None,
and protobuf reads it.

The objects that it returns have the interface of protobuf's messages: the same names, ``WhichOneof``, ``HasField``.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from p4.v1 import p4runtime_pb2

ONE_BYTE: Final = 0x7F  # the largest number, or length, in one byte
_LAST_SHIFT: Final = 63  # that of a number's tenth byte, which is its last
_VARINT, _BYTES = 0, 2  # wire types
_INT32: Final = (1 << 31) - 1
_MOST: Final = {FieldDescriptor.TYPE_UINT32: (1 << 32) - 1, FieldDescriptor.TYPE_INT32: _INT32}

#: The fields that are read, of the messages of which not all are.
_READ: Final = {
    "Update": {"type", "entity"},
    "Entity": {"table_entry"},
    "TableEntry": {"table_id", "match", "action", "priority"},
    "FieldMatch": {"field_id", "exact", "ternary", "lpm", "range", "optional"},
    "TableAction": {"action"},
}


#: Where a value is, from and to, or a prefix length, which has a largest number behind it in place of 0.
Span = tuple[int, int, int]


class _Field(NamedTuple):
    """``most``: the largest number. ``kind``: of a message. ``is_value``: updates of a batch differ in it."""

    name: str
    most: int
    kind: type[PlainMessage] | None
    is_repeated: bool
    is_choice: bool
    is_value: bool


class PlainMessage:
    """A message of one kind, with protobuf's interface. Unset fields have their defaults in the class."""

    fields: ClassVar[dict[int, _Field]]
    raw = b""
    which: str | None = None

    def WhichOneof(self, _: str) -> str | None:  # noqa: N802
        return self.which

    def HasField(self, name: str) -> bool:  # noqa: N802
        return name in vars(self)

    def SerializeToString(self) -> bytes:  # noqa: N802
        return self.raw


def is_list(field: FieldDescriptor) -> bool:
    """Return whether a field is repeated, under every version of protobuf: since version 6 the field itself tells
    it."""
    known = getattr(field, "is_repeated", None)
    return field.label == field.LABEL_REPEATED if known is None else bool(known)


def _kind(message: Descriptor) -> type[PlainMessage]:
    kind: Any = type(message.name, (PlainMessage,), {"fields": {}})
    for field in message.fields:
        is_repeated = is_list(field)
        setattr(kind, field.name, () if is_repeated else field.default_value)
        if field.name in _READ.get(message.name, {field.name}):
            inner = None if field.message_type is None else _kind(field.message_type)
            is_number = inner is None and field.type != field.TYPE_BYTES
            most = _MOST.get(field.type, _INT32) if is_number else 0
            is_value = inner is None and (not is_number or field.name == "prefix_len")
            choice = field.containing_oneof is not None
            found = _Field(field.name, most, inner, is_repeated, choice, is_value)
            kind.fields[field.number << 3 | (_VARINT if is_number else _BYTES)] = found
            if inner is not None and not is_repeated:
                setattr(kind, field.name, inner())
    return kind  # type: ignore[no-any-return]


_UPDATE: Final = _kind(p4runtime_pb2.Update.DESCRIPTOR)


class _NotPlainError(Exception):
    """Never leaves this module."""


def plain_update(raw: bytes) -> Any:
    """Return the message in the bytes of an ``Update``, as protobuf would read it. None if they do not have the usual
    form."""
    return read_update(raw)[0]


def read_update(raw: bytes) -> tuple[Any, list[Span]]:
    """Like :func:`plain_update`, and also return where its values and prefix lengths are."""
    spans: list[Span] = []
    try:
        return _message(_UPDATE, raw, 0, len(raw), spans), spans
    except (_NotPlainError, IndexError, KeyError):
        return None, spans


def _message(kind: type[PlainMessage], raw: bytes, at: int, end: int, spans: list[Span]) -> PlainMessage:
    """Raises _NotPlainError, KeyError for a field that is not read, or IndexError where the bytes end too soon."""
    message = kind()
    message.raw = raw[at:end]
    given = vars(message)
    before = 0
    while at < end:
        tag, start = raw[at], at + 1
        name, most, inner, is_repeated, is_choice, is_value = kind.fields[tag]
        number, at = raw[start], start + 1
        if number > ONE_BYTE:
            number, at = read_number(raw, start)
        if not most:
            start, at = at, at + number
        if tag < before or (tag == before and not is_repeated) or at > end or number > (most or ONE_BYTE):
            raise _NotPlainError
        before = tag
        value: Any = number
        if is_value:
            spans.append((start, at, most))
        if not most:
            value = raw[start:at] if inner is None else _message(inner, raw, start, at, spans)
        if is_repeated:
            given.setdefault(name, []).append(value)
        else:
            given[name] = value
        if is_choice:
            if message.which is not None:
                raise _NotPlainError
            message.which = name
    return message


def read_number(raw: bytes, at: int) -> tuple[int, int]:
    """Return a number, and where it ends. Raises IndexError if it has more than ten bytes, or the bytes end too
    soon."""
    number = raw[at] & ONE_BYTE
    shift = 0
    while raw[at] > ONE_BYTE:
        at, shift = at + 1, shift + 7
        if shift > _LAST_SHIFT:
            raise IndexError
        number |= (raw[at] & ONE_BYTE) << shift
    return number, at + 1
