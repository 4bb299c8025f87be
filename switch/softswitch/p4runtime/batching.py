# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Writes as bytes: how a WriteRequest is cut into updates, and batches of updates that differ in values alone.

The values of such a batch are read by column, without a message for each update.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError
from p4.v1 import p4runtime_pb2

from softswitch.p4runtime import wire
from softswitch.p4runtime.errors import InvalidArgumentError
from softswitch.p4runtime.wire import ExactMatch, LpmMatch, PlainParam, PlainUpdate, plain_update

#: So many updates of a layout there are on average, else it is not worth the effort.
FEWEST: Final = 16
#: Layouts of one length.
MOST_LAYOUTS: Final = 8
_NUMBERS: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}  # struct's, by bytes
_ONE_BYTE: Final = 0x7F  # the largest number in one byte
_MORE: Final = 0x80  # the bit of a byte that others of its number follow
_SHIFT: Final = 7
_TWO_BYTES: Final = _MORE << 8  # these bits of a number in two bytes, and not the lower one


class UpdateBatch(NamedTuple):
    """``numbers``: which of a request's updates they are, in order. All are as ``first``, but for ``columns``: of each
    match field the value, with a prefix length behind it, and then of each parameter the value."""

    numbers: Sequence[int]
    first: PlainUpdate
    columns: Sequence[Sequence[int]]


class BatchedUpdates:
    """All updates of a request, by layouts. Iterating gives one after the other."""

    def __init__(self, chunks: Sequence[bytes], layouts: Sequence[UpdateBatch]) -> None:
        self._chunks = chunks
        self.layouts = layouts

    def __len__(self) -> int:
        return len(self._chunks)

    def __iter__(self) -> Iterator[PlainUpdate]:
        for chunk in self._chunks:
            update = plain_update(chunk)
            assert update is not None, "one with the same bytes around its values was read"
            yield update


def batched(chunks: Sequence[bytes]) -> BatchedUpdates | None:
    """The updates with these bytes. None where they have too many layouts, or where one is not of exact and prefix
    matches and an action."""
    by_length: dict[int, list[int]] = {}
    for number, chunk in enumerate(chunks):
        by_length.setdefault(len(chunk), []).append(number)
    layouts: list[UpdateBatch] = []
    for numbers in by_length.values():
        rest: Sequence[int] = numbers
        most = min(MOST_LAYOUTS, len(chunks) // FEWEST - len(layouts))
        while rest:
            cut = _cut(chunks, rest) if most > 0 else None
            if cut is None:
                return None
            layouts.append(cut[0])
            rest = cut[1]
            most -= 1
    return BatchedUpdates(chunks, layouts)


def _cut(chunks: Sequence[bytes], numbers: Sequence[int]) -> tuple[UpdateBatch, Sequence[int]] | None:
    """Those of the first one's layout, and the others; all have as many bytes. None where the first has no layout."""
    first = plain_update(chunks[numbers[0]])
    parts = None if first is None else _parts(first)
    if first is None or parts is None or b"".join(part.data for part in parts) != chunks[numbers[0]]:
        return None
    rows = list(struct.iter_unpack(_form(parts), b"".join([chunks[number] for number in numbers])))
    columns = list(zip(*rows, strict=True))
    fixed = [(place, part.data) for place, part in enumerate(parts) if part.kind is _Kind.FIXED]
    rest: list[int] = []
    if any(columns[place].count(data) < len(rows) for place, data in fixed):
        is_same = [all(row[place] == data for place, data in fixed) for row in rows]
        rest = [number for number, same in zip(numbers, is_same, strict=True) if not same]
        numbers = list(compress(numbers, is_same))
        columns = list(zip(*compress(rows, is_same), strict=True))
    values = [(part, column) for part, column in zip(parts, columns, strict=True) if part.kind is not _Kind.FIXED]
    read = [found for part, column in values if (found := _read(part, column)) is not None]
    return (UpdateBatch(numbers, first, read), rest) if len(read) == len(values) else None


class _Kind(enum.Enum):
    FIXED, VALUE, LENGTH = range(3)


class _UpdatePart(NamedTuple):
    """Bytes of an update. In their place others of its layout have the same (FIXED), or as many."""

    data: bytes
    kind: _Kind


# ------------------------------------------------------------ the layout of an update


def _parts(update: PlainUpdate) -> list[_UpdatePart] | None:
    """How the update is written in the usual form. None where a part of it has no layout."""
    action = update.action
    keys = [match for match in update.match if isinstance(match, ExactMatch | LpmMatch)]
    if action is None or update.priority or len(keys) < len(update.match):
        return None
    if not all(each.value for each in (*keys, *action.params)):
        return None
    params = [part for param in action.params for part in _message(wire.ACTION_PARAM, _param(param))]
    call = _message(wire.TABLE_ACTION_ACTION, [_number_part(wire.ACTION_ID, action.action_id), *params])
    matches = [part for match in keys for part in _message(wire.ENTRY_MATCH, _match(match))]
    entry = [_number_part(wire.ENTRY_TABLE_ID, update.table_id), *matches, *_message(wire.ENTRY_ACTION, call)]
    entity = _message(wire.UPDATE_ENTITY, _message(wire.ENTITY_TABLE_ENTRY, entry))
    return _joined([_number_part(wire.UPDATE_TYPE, update.type), *entity])


def _match(match: ExactMatch | LpmMatch) -> list[_UpdatePart]:
    value = _value(wire.KIND_VALUE, match.value)
    if isinstance(match, LpmMatch):
        value += [_fixed([wire.KIND_PREFIX_LEN]), _UpdatePart(_varint(match.prefix_len), _Kind.LENGTH)]
    kind = wire.MATCH_LPM if isinstance(match, LpmMatch) else wire.MATCH_EXACT
    return [_number_part(wire.MATCH_FIELD_ID, match.field_id), *_message(kind, value)]


def _param(param: PlainParam) -> list[_UpdatePart]:
    return [_number_part(wire.PARAM_ID, param.param_id), *_value(wire.PARAM_VALUE, param.value)]


def _message(tag: int, parts: Sequence[_UpdatePart]) -> list[_UpdatePart]:
    return [_fixed([tag, sum(len(part.data) for part in parts)]), *parts]


def _value(tag: int, value: bytes) -> list[_UpdatePart]:
    return _message(tag, [_UpdatePart(value, _Kind.VALUE)])


def _number_part(tag: int, number: int) -> _UpdatePart:
    return _fixed([tag, *_varint(number)])


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > _ONE_BYTE:
        written.append(number & _ONE_BYTE | _MORE)
        number >>= _SHIFT
    return bytes([*written, number])


def _fixed(data: Iterable[int]) -> _UpdatePart:
    return _UpdatePart(bytes(data), _Kind.FIXED)


def _joined(parts: Iterable[_UpdatePart]) -> list[_UpdatePart]:
    """With one fixed part between two others."""
    made: list[_UpdatePart] = []
    for part in parts:
        if made and part.kind is made[-1].kind is _Kind.FIXED:
            made[-1] = _fixed(made[-1].data + part.data)
        else:
            made.append(part)
    return made


# ------------------------------------------------------------ columns


def _form(parts: Iterable[_UpdatePart]) -> str:
    """The struct of an update: its numbers where struct has such, else bytes."""
    sizes = [(len(part.data), part.kind) for part in parts]
    return ">" + "".join(f"{size}s" if kind is _Kind.FIXED else _NUMBERS.get(size, f"{size}s") for size, kind in sizes)


def _read(part: _UpdatePart, column: Sequence[Any]) -> Sequence[int] | None:
    """The numbers in a column. None where one is no prefix length in as many bytes."""
    numbers = column if len(part.data) in _NUMBERS else list(map(int.from_bytes, column))
    if part.kind is _Kind.VALUE:
        return numbers
    if len(part.data) == 1:
        return numbers if max(numbers) <= _ONE_BYTE else None
    if len(part.data) > 2 or any(number & (_TWO_BYTES | _MORE) != _TWO_BYTES for number in numbers):
        return None
    return [number >> 8 & _ONE_BYTE | (number & _ONE_BYTE) << _SHIFT for number in numbers]


_WIRE_TYPE, _VARINT, _BYTES = 7, 0, 2
_LAST_SHIFT = 63  # that of a number's tenth byte, which is its last
_NUMBER_TAGS = frozenset({1 << 3 | _VARINT, 2 << 3 | _VARINT, 3 << 3 | _BYTES})  # device_id, role_id, election_id
_UPDATES = 4 << 3 | _BYTES


def parse(kind: Any, raw: bytes) -> Any:
    """Raises InvalidArgumentError where ``raw`` is no message of this kind."""
    try:
        return kind.FromString(raw)
    except (DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"this is no {kind.DESCRIPTOR.name}: {error}") from error


@dataclass(frozen=True)
class WriteParts:
    """A ``WriteRequest``: ``head`` is one without its updates, which are protobuf's messages or look like them."""

    head: Any
    updates: Iterable[Any]


def parse_write(raw: bytes) -> WriteParts:
    """Raises as :func:`parse`."""
    try:
        first, chunks, after = _updates(raw)
        head = parse(p4runtime_pb2.WriteRequest, raw[:first] + raw[after:])
    except (IndexError, InvalidArgumentError):
        return _whole(raw)  # which says what is wrong, if anything
    if head.updates:
        return _whole(raw)
    together = batched(chunks)
    if together is not None:
        return WriteParts(head, together)
    return WriteParts(head, [plain_update(chunk) or parse(p4runtime_pb2.Update, chunk) for chunk in chunks])


def _whole(raw: bytes) -> WriteParts:
    request = parse(p4runtime_pb2.WriteRequest, raw)
    return WriteParts(request, list(request.updates))


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
    while at < len(raw) and raw[at] in _NUMBER_TAGS:
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
