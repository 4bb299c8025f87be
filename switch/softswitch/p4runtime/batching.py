# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Splits a WriteRequest into updates at the level of bytes, and finds batches of updates that differ in values only.

The values of such a batch are read column by column, without a message for each update.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError
from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.errors import InvalidArgumentError
from softswitch.p4runtime.wire import ONE_BYTE, Span, plain_update, read_number, read_update

#: So many updates of a layout there are on average, else it is not worth the effort.
FEWEST: Final = 16
#: Layouts of one length.
MOST_LAYOUTS: Final = 8
_NUMBERS: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}  # struct's, by bytes
_MORE: Final = 0x80  # the bit of a byte that others of its number follow
_SHIFT: Final = 7
_TWO_BYTES: Final = _MORE << 8  # these bits of a number in two bytes, and not the lower one


class UpdateBatch(NamedTuple):
    """A batch of updates. ``numbers``: their places in the request, in order. All equal ``first`` except for
    ``columns``: for each match field its value, followed by a prefix length if it has one, then the value of each
    parameter."""

    numbers: Sequence[int]
    first: Any
    columns: Sequence[Sequence[int]]


class BatchedUpdates:
    """All updates of a request, grouped by layout. Iterating yields them one by one."""

    def __init__(self, chunks: Sequence[bytes], layouts: Sequence[UpdateBatch]) -> None:
        self._chunks = chunks
        self.layouts = layouts

    def __len__(self) -> int:
        return len(self._chunks)

    def __iter__(self) -> Iterator[Any]:
        for chunk in self._chunks:
            update = plain_update(chunk)
            assert update is not None, "one with the same bytes around its values was read"
            yield update


def batched(chunks: Sequence[bytes]) -> BatchedUpdates | None:
    """Return the updates with these bytes. None if they have too many layouts, or if one consists of more than exact
    and prefix matches and an action."""
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
    chunk = chunks[numbers[0]]
    first, spans = read_update(chunk)
    if first is None or not _has_layout(first.entity.table_entry, spans):
        return None
    form, fixed, at = ">", [], 0
    for start, end, _ in spans:
        form += f"{start - at}s" + _NUMBERS.get(end - start, f"{end - start}s")
        fixed.append(chunk[at:start])
        at = end
    fixed.append(chunk[at:])
    form += f"{len(chunk) - at}s"
    rows = list(struct.iter_unpack(form, b"".join([chunks[number] for number in numbers])))
    columns = list(zip(*rows, strict=True))
    rest: list[int] = []
    if any(column.count(data) < len(rows) for column, data in zip(columns[::2], fixed, strict=True)):
        is_same = [list(row[::2]) == fixed for row in rows]
        rest = [number for number, same in zip(numbers, is_same, strict=True) if not same]
        numbers = list(compress(numbers, is_same))
        columns = list(zip(*compress(rows, is_same), strict=True))
    values = [_read(span, column) for span, column in zip(spans, columns[1::2], strict=True)]
    read = [column for column in values if column is not None]
    return (UpdateBatch(numbers, first, read), rest) if len(read) == len(values) else None


def _has_layout(entry: Any, spans: Sequence[Span]) -> bool:
    """Whether it is of exact and prefix matches and an action, with all values."""
    kinds = [match.which for match in entry.match]
    params = entry.action.action.params
    complete = len(spans) == len(kinds) + kinds.count("lpm") + len(params)
    if not complete or not entry.action.which or entry.priority:
        return False
    return {"exact", "lpm"}.issuperset(kinds) and all(start < end for start, end, _ in spans)


def _read(span: Span, column: Sequence[Any]) -> Sequence[int] | None:
    """The numbers in a column. None where one is no prefix length in as many bytes."""
    start, end, is_length = span
    size = end - start
    numbers = column if size in _NUMBERS else list(map(int.from_bytes, column))
    if not is_length:
        return numbers
    if size == 1:
        return numbers if max(numbers) <= ONE_BYTE else None
    if size > 2 or any(number & (_TWO_BYTES | _MORE) != _TWO_BYTES for number in numbers):
        return None
    return [number >> 8 & ONE_BYTE | (number & ONE_BYTE) << _SHIFT for number in numbers]


_WIRE_TYPE, _VARINT, _BYTES = 7, 0, 2
_NUMBER_TAGS = frozenset({1 << 3 | _VARINT, 2 << 3 | _VARINT, 3 << 3 | _BYTES})  # device_id, role_id, election_id
_UPDATES = 4 << 3 | _BYTES


def parse(kind: Any, raw: bytes) -> Any:
    """Parse ``raw`` as a message of this kind. Raises InvalidArgumentError if it is not one."""
    try:
        return kind.FromString(raw)
    except (DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"this is no {kind.DESCRIPTOR.name}: {error}") from error


@dataclass(frozen=True)
class WriteParts:
    """A ``WriteRequest`` in two parts. ``head``: the request without its updates. The updates are protobuf's messages,
    or look like them."""

    head: Any
    updates: Iterable[Any]


def parse_write(raw: bytes) -> WriteParts:
    """Parse a WriteRequest. Raises as :func:`parse`."""
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
        length, start = read_number(raw, at + 1)
        at = start + length
        if at > len(raw):
            raise IndexError
        chunks.append(raw[start:at])
    return first, chunks, at


def _after_numbers(raw: bytes) -> int:
    """Where the device's id, the role's and the election's end, if they come first."""
    at = 0
    while at < len(raw) and raw[at] in _NUMBER_TAGS:
        value, after = read_number(raw, at + 1)
        at = after + value if raw[at] & _WIRE_TYPE == _BYTES else after
    return at
