# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Values as bytestrings, and updates of table entries as protobuf writes them."""

from __future__ import annotations

import random
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from p4.v1 import p4runtime_pb2
from softswitch.p4runtime import entries
from softswitch.p4runtime.batching import parse_write
from softswitch.p4runtime.errors import InvalidArgumentError
from softswitch.p4runtime.wire import PlainMessage, plain_update


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


_WIDTHS = (1, 1, 1, 2, 4, 6, 16)


def _value(rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice(_WIDTHS))


def _number(rng: random.Random) -> int:
    return rng.choice((1, 2, 127, 128, rng.getrandbits(31) | 1))


def _match(rng: random.Random) -> p4runtime_pb2.FieldMatch:
    match = p4runtime_pb2.FieldMatch(field_id=_number(rng))
    match rng.choice(("exact", "ternary", "lpm", "range", "optional")):
        case "exact":
            match.exact.value = _value(rng)
        case "optional":
            match.optional.value = _value(rng)
        case "ternary":
            match.ternary.value, match.ternary.mask = _value(rng), _value(rng)
        case "range":
            match.range.low, match.range.high = _value(rng), _value(rng)
        case _:
            match.lpm.value, match.lpm.prefix_len = _value(rng), rng.randint(1, 200)
    return match


def _update(rng: random.Random) -> p4runtime_pb2.Update:
    update = p4runtime_pb2.Update(type=rng.randint(1, 3))
    entry = update.entity.table_entry
    entry.table_id = _number(rng)
    entry.match.extend(_match(rng) for _ in range(rng.randint(0, 3)))
    if rng.random() < 0.8:
        entry.action.action.action_id = _number(rng)
        for _ in range(rng.randint(0, 3)):
            entry.action.action.params.add(param_id=_number(rng), value=_value(rng))
    if rng.random() < 0.5:
        entry.priority = rng.getrandbits(31) | 1
    return update


def _unusual(rng: random.Random, update: Any) -> Any:
    """With something that only protobuf reads."""
    entry = update.entity.table_entry
    match rng.randrange(8):
        case 0:
            entry.metadata = b"m"
        case 1:
            entry.is_default_action = True
        case 2:
            entry.action.action_profile_member_id = 3
        case 3:
            entry.priority = -1
        case 4:
            update.type = -1
        case 5:
            entry.match.add(field_id=1).exact.value = bytes(200)
        case 6:
            entry.counter_data.packet_count = 1
        case _:
            update.entity.counter_entry.counter_id = 1
    return update


def _mutated(rng: random.Random, raw: bytes) -> bytes:
    at = rng.randrange(len(raw))
    match rng.randrange(4):
        case 0:
            return raw[:at] + bytes([rng.getrandbits(8)]) + raw[at + 1 :]
        case 1:
            return raw[:at]
        case 2:
            return raw[:at] + rng.randbytes(rng.randint(1, 3)) + raw[at:]
        case _:
            return raw[:at] + raw[at + 1 :]


def _as_protobuf(read: Any, kind: Any = p4runtime_pb2.Update) -> Any:
    """Read through the names that both have."""
    made, known = kind(), kind.FromString(read.SerializeToString())
    for oneof in kind.DESCRIPTOR.oneofs:
        assert read.WhichOneof(oneof.name) == known.WhichOneof(oneof.name)
    for field in kind.DESCRIPTOR.fields:
        value, part = getattr(read, field.name), getattr(made, field.name)
        if field.message_type is None and field.containing_oneof is None:
            setattr(made, field.name, value)
        elif field.label == field.LABEL_REPEATED:
            part.extend(_as_protobuf(each, field.message_type._concrete_class) for each in value)
        elif read.HasField(field.name):
            part.CopyFrom(_as_protobuf(value, type(part)))
            part.SetInParent()
    return made


def test_updates_of_the_usual_form_are_plain() -> None:
    rng = random.Random(1)
    raws = [_update(rng).SerializeToString() for _ in range(500)]
    for raw in raws:
        plain = plain_update(raw)
        assert (plain is not None) == (len(raw) < 132)  # of the entity, in which all is but four bytes, 127
        assert plain is None or _as_protobuf(plain) == p4runtime_pb2.Update.FromString(raw)
    assert sum(len(raw) < 132 for raw in raws) > 400


def test_other_updates_are_left_to_protobuf() -> None:
    rng = random.Random(2)
    for _ in range(300):
        assert plain_update(_unusual(rng, _update(rng)).SerializeToString()) is None


def test_mutated_bytes_mean_what_protobuf_reads() -> None:
    rng = random.Random(3)
    plain_ones = 0
    for _ in range(2000):
        raw = _mutated(rng, _update(rng).SerializeToString())
        plain = plain_update(raw)
        if plain is not None:
            plain_ones += 1
            assert _as_protobuf(plain) == p4runtime_pb2.Update.FromString(raw), raw.hex()
    assert plain_ones > 100


def _request(rng: random.Random) -> p4runtime_pb2.WriteRequest:
    request = p4runtime_pb2.WriteRequest(device_id=rng.choice((0, 1, 1 << 60)), role=rng.choice(("", "role")))
    request.election_id.low = rng.getrandbits(64)
    if rng.random() < 0.3:
        request.atomicity = p4runtime_pb2.WriteRequest.DATAPLANE_ATOMIC
    for _ in range(rng.randint(0, 4)):
        update = _update(rng)
        request.updates.append(_unusual(rng, update) if rng.random() < 0.3 else update)
    return request


def _read(raw: bytes) -> p4runtime_pb2.WriteRequest:
    write = parse_write(raw)
    request = p4runtime_pb2.WriteRequest()
    request.CopyFrom(write.head)
    del request.updates[:]
    request.updates.extend(_as_protobuf(each) if isinstance(each, PlainMessage) else each for each in write.updates)
    return request


def test_write_requests_are_what_protobuf_reads() -> None:
    rng = random.Random(4)
    refused = 0
    for number in range(800):
        raw = _request(rng).SerializeToString()
        if number % 2 and raw:
            raw = _mutated(rng, raw)
        try:
            expected = p4runtime_pb2.WriteRequest.FromString(raw)
        except (DecodeError, UnicodeDecodeError):
            refused += 1
            with pytest.raises(InvalidArgumentError, match="this is no"):
                parse_write(raw)
        else:
            assert _read(raw) == expected, raw.hex()
    assert refused > 50


def test_a_role_that_is_no_text_is_refused() -> None:
    raw = bytes([1 << 3, 1, 6 << 3 | 2, 1, 0xFF])
    with pytest.raises(InvalidArgumentError, match="this is no WriteRequest"):
        parse_write(raw)


@pytest.mark.parametrize("tag", [1 << 3, 4 << 3 | 2])
def test_a_number_ends_after_ten_bytes(tag: int) -> None:
    longest = bytes([tag, *[0x80] * 9, 0])
    assert _read(longest) == p4runtime_pb2.WriteRequest.FromString(longest)
    # Shifting a number of megabytes bit by bit would take an hour.
    for bytes_ in (11, 4 << 20):
        with pytest.raises(InvalidArgumentError, match="this is no WriteRequest"):
            parse_write(bytes([tag]) + b"\xff" * bytes_ + b"\1")


def test_updates_in_two_places_stay_in_order() -> None:
    rng = random.Random(5)
    first, second = _update(rng), _update(rng)
    raw = b"".join(
        p4runtime_pb2.WriteRequest(updates=[each], atomicity=number).SerializeToString()
        for number, each in enumerate((first, second))
    )
    assert [update.type for update in parse_write(raw).updates] == [first.type, second.type]
    assert _read(raw) == p4runtime_pb2.WriteRequest.FromString(raw)
