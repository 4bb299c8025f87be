# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Bytestrings: the examples of the specification's tables "Valid" and "Invalid Bytestring Encoding"."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from softswitch.p4runtime import entries
from softswitch.p4runtime.errors import InvalidArgumentError


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
