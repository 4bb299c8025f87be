# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The hosts' authentication tags, in C and in numpy, against the golden model."""

from __future__ import annotations

import ipaddress

import numpy as np
import pytest
from golden import tags as golden
from numpy.typing import NDArray
from sumwire.wire.authentication import Tags, key_record, without_tags

KEY = bytes(range(7, 39))
SWITCH = "10.9.8.7"
JOB = 0x1234
REFUSED = 6
NATIVE = pytest.mark.parametrize("native", [pytest.param(True, marks=pytest.mark.cc), False], ids=["native", "numpy"])


def tags_of(native: bool, monkeypatch: pytest.MonkeyPatch, *, recovery: bool = False) -> Tags:
    monkeypatch.setenv("SUMWIRE_NATIVE", "1" if native else "0")
    tags = Tags(key_record(KEY, JOB, SWITCH, recovery=recovery))
    assert tags.is_native == native
    return tags


def packets(rng: np.random.Generator, count: int, words: int) -> NDArray[np.uint8]:
    """Any bytes, but for the job: of every kind."""
    rows = rng.integers(0, 256, (count, 32 + words * 128 + 8), dtype=np.uint8)
    rows[:, 2:4] = JOB >> 8, JOB & 0xFF
    # Sums with carries in every place.
    rows[0, 4:] = 0xFF
    return rows


def expected(row: NDArray[np.uint8]) -> bytes:
    return golden.tagged(KEY, row[:-8].tobytes(), ipaddress.IPv4Address(SWITCH).packed)


@NATIVE
@pytest.mark.parametrize("words", [0, 1, 2, 4, 6, 8])
def test_written_tags_are_the_golden_model_s(native: bool, words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tags = tags_of(native, monkeypatch)
    rows = packets(np.random.default_rng(words), 40, words)
    before, numbers = rows.copy(), np.arange(0, 40, 3)
    tags.write(rows, numbers)
    for number, row in enumerate(rows):
        assert row.tobytes() == (expected(before[number]) if number % 3 == 0 else before[number].tobytes())
    assert tags.tagged(before[1, :-8]).tobytes() == expected(before[1])


@NATIVE
def test_wrong_tags_and_lengths_are_found(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tags = tags_of(native, monkeypatch)
    rng = np.random.default_rng(9)
    rows = packets(rng, 60, 8)
    sizes = rng.choice([32, 40, 41, 168, 296, 552, 808, 1064, 1063, 8, 0, 31, 39], 60).astype(np.uint32)
    # A REFUSED has no tag.
    rows[5, 0], sizes[5] = REFUSED, 32
    rows[6, 0], sizes[6] = 0x10 | REFUSED, 40
    right = np.zeros(60, np.bool_)
    for number, size in enumerate(sizes.tolist()):
        if size >= 40 and (size - 40) % 128 == 0 and number % 4:
            rows[number, :size] = np.frombuffer(expected(rows[number, :size]), np.uint8)
            right[number] = True
    right[5] = True
    before = rows.copy()
    if native:
        lengths, segments = sizes.copy(), np.zeros(60, np.int32)
        places = (*(rows.ctypes.data, rows.strides[0]), *(lengths.ctypes.data, 4), *(segments.ctypes.data, 4))
        found = tags.check_messages(places, 60)
    else:
        found = tags.check(rows, sizes)
    assert found == np.count_nonzero(~right & (sizes > 0)) if native else np.count_nonzero(~right)
    before[~right & (sizes > 0), 0] = 0
    lost = sizes > 0
    assert (rows[lost] == before[lost]).all()
    bare = without_tags(rows, sizes)
    assert bare[5] == 32
    assert (bare[right & (sizes != 32)] == sizes[right & (sizes != 32)] - 8).all()


@pytest.mark.cc
def test_datagrams_of_trains_are_checked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    tags = tags_of(True, monkeypatch)
    rows = packets(np.random.default_rng(3), 12, 1)
    tags.write(rows, np.arange(12))
    rows[4, 100] ^= 1
    rows[11, 167] ^= 0x80
    memory = rows.reshape(2, -1).copy()
    lengths, segments = np.array([6 * 168, 6 * 168], np.uint32), np.array([168, 168], np.int32)
    places = (*(memory.ctypes.data, memory.strides[0]), *(lengths.ctypes.data, 4), *(segments.ctypes.data, 4))
    assert tags.check_messages(places, 2) == 2
    after = memory.reshape(12, 168)
    assert np.flatnonzero(after[:, 0] != rows[:, 0]).tolist() == [4, 11]


@NATIVE
def test_every_flipped_bit_is_found(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tags = tags_of(native, monkeypatch)
    row = packets(np.random.default_rng(3), 2, 1)[1:]
    row[0, 0] = 0x21
    tags.write(row, np.zeros(1, np.int64))
    bits = row.shape[1] * 8
    flipped = np.repeat(row, bits, axis=0)
    flipped[np.arange(bits), np.arange(bits) // 8] ^= (0x80 >> np.arange(bits) % 8).astype(np.uint8)
    # In any kind but a worker's own, the worker's number is not hashed: flips of the kind's bits are found by the rest.
    assert tags.check(flipped, np.full(bits, row.shape[1])) == bits


def test_what_is_sealed_opens_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    tags, other = tags_of(False, monkeypatch, recovery=True), tags_of(False, monkeypatch)
    head = b"\x24\x01" + JOB.to_bytes(2, "big") + bytes(range(28))
    for length in (0, 8, 128, 1024):
        datagram = head + bytes(range(256)) * 4
        datagram = datagram[: 32 + length]
        sealed = tags.sealed(datagram)
        assert len(sealed) == len(datagram) + 8
        assert tags.opened(sealed) == datagram
        assert other.opened(sealed) is None
        for bit in (0, len(sealed) * 4, len(sealed) * 8 - 1):
            flipped = bytearray(sealed)
            flipped[bit // 8] ^= 0x80 >> bit % 8
            assert tags.opened(bytes(flipped)) is None
    assert tags.opened(b"") is None
    assert tags.opened(bytes(2000)) is None
