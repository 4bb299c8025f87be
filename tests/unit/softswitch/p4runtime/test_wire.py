# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Values as bytestrings, and updates of table entries as protobuf writes them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from fuzz.p4runtime.model import Model, Resource, schema_of
from fuzz.p4runtime.requests import Draw, Mutations
from google.protobuf.message import DecodeError
from helpers.p4runtime.client import Program
from hypothesis import given
from hypothesis import strategies as st
from p4.v1 import p4runtime_pb2
from softswitch.p4runtime import entries
from softswitch.p4runtime.batching import parse_write
from softswitch.p4runtime.errors import InvalidArgumentError
from softswitch.p4runtime.wire import PlainMessage, is_list, plain_update


@pytest.mark.parametrize(
    ("width", "data", "value", "canonical"),
    [
        (8, b"\x63", 99, True),
        (16, b"\x00\x63", 99, False),
        (16, b"\x63", 99, True),
        (16, b"\x30\x64", 12388, True),
        (16, b"\x00\x30\x64", 12388, False),
        (12, b"\x00\x63", 99, False),
        (12, b"\x00\x00\x63", 99, False),
        (1, b"\x00", 0, True),
        (1, b"\x01", 1, True),
        (1024, b"\xff" * 128, 2**1024 - 1, True),
    ],
)
def test_valid(width: int, data: bytes, value: int, canonical: bool) -> None:
    assert entries.decode_value(data, width, "x") == value
    assert (entries.encode_value(value) == data) is canonical


@pytest.mark.parametrize(
    ("width", "data"),
    [
        (8, b"\x01\x63"),
        (8, b""),
        (16, b"\x01\x00\x63"),
        (12, b"\x10\x63"),
        (12, b"\x01\x00\x63"),
        (12, b"\x00\x40\x63"),
        (1, b"\x02"),
        (1024, b"\x01" + b"\x00" * 128),
    ],
)
def test_invalid(width: int, data: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"the field.*bit<{width}>"):
        entries.decode_value(data, width, "the field")


@given(st.integers(min_value=0, max_value=2**200), st.integers(min_value=0, max_value=3))
def test_round_trip_is_shortest(value: int, leading_zeros: int) -> None:
    data = entries.encode_value(value)
    assert entries.decode_value(b"\x00" * leading_zeros + data, 201, "x") == value
    assert len(data) == 1 or data[0] != 0


@pytest.fixture
def drawn() -> Iterator[Any]:
    """Updates of tables, counters, groups and sessions, as the fuzzer draws them."""
    schema = schema_of(Program("tables").p4info)
    resources: list[Resource] = [("table", number) for number in schema.tables] * 3
    resources += [*(("counter", number) for number in schema.counters), ("group", 3), ("session", 4)]
    draw = Draw(Model(schema, entries={number: {} for number in schema.tables}), resources, random.Random(1))
    return (draw.update() for _ in iter(int, 1))


def _as_protobuf(read: Any, kind: Any = p4runtime_pb2.Update) -> Any:
    """Read through the names that both have."""
    made, known = kind(), kind.FromString(read.SerializeToString())
    for oneof in kind.DESCRIPTOR.oneofs:
        assert read.WhichOneof(oneof.name) == known.WhichOneof(oneof.name)
    for field in kind.DESCRIPTOR.fields:
        value, part = getattr(read, field.name), getattr(made, field.name)
        if field.message_type is None and field.containing_oneof is None:
            setattr(made, field.name, value)
        elif is_list(field):
            part.extend(_as_protobuf(each, field.message_type._concrete_class) for each in value)
        elif read.HasField(field.name):
            part.CopyFrom(_as_protobuf(value, type(part)))
            part.SetInParent()
    return made


def _read(raw: bytes) -> p4runtime_pb2.WriteRequest:
    write = parse_write(raw)
    request = p4runtime_pb2.WriteRequest()
    request.CopyFrom(write.head)
    del request.updates[:]
    request.updates.extend(_as_protobuf(each) if isinstance(each, PlainMessage) else each for each in write.updates)
    return request


def _is_plain(update: Any) -> bool:
    """Of the usual form: a row's key, action and priority, and nothing else."""
    entry = update.entity.table_entry
    plain = p4runtime_pb2.TableEntry(table_id=entry.table_id, match=entry.match, priority=entry.priority)
    if entry.HasField("action"):
        plain.action.CopyFrom(entry.action)
    return bool(update.entity.HasField("table_entry") and plain == entry)


def test_updates_of_the_usual_form_are_plain(drawn: Iterator[Any]) -> None:
    updates = list(islice(drawn, 500))
    plain = [plain_update(update.SerializeToString()) for update in updates]
    assert [each is not None for each in plain] == [_is_plain(update) for update in updates]
    assert 200 < len(plain) - plain.count(None) < 450


def _within(tag: int, data: bytes) -> bytes:
    return bytes([tag, len(data)]) + data


def _in_parts(drawn: Iterator[Any]) -> Iterator[bytes]:
    """Updates of which one message is the bytes of two: fields come twice, in any order, and choices are two."""
    for update in drawn:
        one, other = update.entity.table_entry, next(drawn).entity.table_entry
        action = p4runtime_pb2.TableEntry(action=other.action).SerializeToString()
        entries = [one.SerializeToString() + part for part in (action, other.SerializeToString())]
        matches = [match.SerializeToString() for match in (*one.match, *other.match)]
        # With the number of the field once: it is two bytes.
        entries += [_within(2 << 3 | 2, first + second[2:]) for first in matches for second in matches]
        for entry in entries:
            if len(entry) < 120:
                yield b"\x08\x01" + _within(2 << 3 | 2, _within(2 << 3 | 2, entry))


def test_bytes_mean_what_protobuf_reads_or_nothing(drawn: Iterator[Any]) -> None:
    raws = [update.SerializeToString() for update in islice(drawn, 60)]
    raws = [
        raw[:at] + bytes([raw[at] ^ bits]) + raw[at + 1 :] for raw in raws for at in range(len(raw)) for bits in (1, 2)
    ]
    raws += islice(_in_parts(drawn), 400)
    for raw in raws:
        plain = plain_update(raw)
        assert plain is None or _as_protobuf(plain) == p4runtime_pb2.Update.FromString(raw), raw.hex()


def test_write_requests_are_what_protobuf_reads(drawn: Iterator[Any]) -> None:
    """Also changed ones, and changed bytes."""
    rng = random.Random(4)
    mutations = Mutations((1, 2, 300), rng)
    read = {"plain": 0, "other": 0, "refused": 0}
    for number in range(700):
        request = p4runtime_pb2.WriteRequest(device_id=1 << 60, updates=islice(drawn, number % 5))
        request.election_id.low = rng.getrandbits(64)
        if number % 3:
            mutations.apply(request)
        raw = request.SerializeToString()
        if number % 3 == 2:
            raw = mutations.flip(raw)
        try:
            expected = p4runtime_pb2.WriteRequest.FromString(raw)
        except (DecodeError, UnicodeDecodeError):
            read["refused"] += 1
            with pytest.raises(InvalidArgumentError, match="this is no"):
                parse_write(raw)
        else:
            for update in parse_write(raw).updates:
                read["plain" if isinstance(update, PlainMessage) else "other"] += 1
            assert _read(raw) == expected, raw.hex()
    assert min(read.values()) > 50, read


def test_a_role_that_is_no_text_is_refused() -> None:
    raw = bytes([1 << 3, 1, 6 << 3 | 2, 1, 0xFF])
    with pytest.raises(InvalidArgumentError, match="this is no WriteRequest"):
        parse_write(raw)


@pytest.mark.parametrize("tag", [1 << 3, 4 << 3 | 2])
def test_a_number_ends_after_ten_bytes(tag: int) -> None:
    longest = bytes([tag, *[0x80] * 9, 0])
    # Newer protobufs read a length of five bytes at most.
    with contextlib.suppress(DecodeError):
        assert p4runtime_pb2.WriteRequest.FromString(longest) == _read(longest)
    # Shifting a number of megabytes bit by bit would take an hour.
    for bytes_ in (11, 4 << 20):
        with pytest.raises(InvalidArgumentError, match="this is no WriteRequest"):
            parse_write(bytes([tag]) + b"\xff" * bytes_ + b"\1")


def test_updates_in_two_places_stay_in_order(drawn: Iterator[Any]) -> None:
    first, second = islice(drawn, 2)
    raw = b"".join(
        p4runtime_pb2.WriteRequest(updates=[each], atomicity=number).SerializeToString()
        for number, each in enumerate((first, second))
    )
    assert [update.type for update in parse_write(raw).updates] == [first.type, second.type]
    assert _read(raw) == p4runtime_pb2.WriteRequest.FromString(raw)
