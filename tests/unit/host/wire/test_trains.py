# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which rows go as one train, and how received trains are taken apart."""

from __future__ import annotations

import random

import numpy as np
import pytest
from sumwire.wire.trains import TRAIN_BYTES, TRAIN_ROWS, Arrivals, train_limit, train_starts

ROW_BYTES = 64


def trains(rows: list[int], longest: int, phase: int = 0, tos: list[int] | None = None) -> list[list[int]]:
    tags = None if tos is None else np.array(tos, np.uint8)
    starts = train_starts(np.array(rows), longest, phase, tags).tolist()
    return [rows[first:last] for first, last in zip(starts, [*starts[1:], len(rows)], strict=True)]


@pytest.mark.parametrize(
    ("size", "most", "rows"),
    [
        (536, 64, 64),
        (1048, 64, 32),
        (152, 64, 64),
        (536, 11, 8),
        (536, 4, 4),
        (536, 1, 1),
        (40000, 64, 1),
        (24, 99, 64),
    ],
)
def test_a_train_is_a_power_of_two_and_fits_a_datagram_of_ip(size: int, most: int, rows: int) -> None:
    assert train_limit(size, most) == rows
    assert rows == 1 or rows * size <= TRAIN_BYTES


def test_rows_that_follow_each_other_are_a_train() -> None:
    assert trains([60, 61, 62, 63, 64, 65, 70, 69, 71, 72], 64) == [[60, 61, 62, 63], [64, 65], [70], [69], [71, 72]]
    assert trains([3, 4, 5], 1) == [[3], [4], [5]]
    # Row 0 has slot 7: row 1 is a multiple of 4.
    assert trains(list(range(7)), 4, 7) == [[0], [1, 2, 3, 4], [5, 6]]


def test_priorities_are_never_mixed() -> None:
    assert trains(list(range(6)), 64, 0, [2, 2, 98, 98, 2, 3]) == [[0, 1], [2, 3], [4], [5]]


@pytest.mark.parametrize("seed", range(20))
def test_any_rows_are_cut_by_the_rule(seed: int) -> None:
    rng = random.Random(seed)
    rows, longest, phase = [rng.randrange(500)], 1 << rng.randrange(7), rng.randrange(300)
    while len(rows) < 200:
        rows.append(rows[-1] + 1 if rng.random() < 0.9 else rng.randrange(500))
    tos = [rng.choice([2, 98]) if rng.random() < 0.1 else 2 for _ in rows]
    expected: list[list[int]] = []
    for number, row in enumerate(rows):
        joins = number and row == rows[number - 1] + 1 and tos[number] == tos[number - 1] and (row + phase) % longest
        if joins:
            expected[-1].append(row)
        else:
            expected.append([row])
    assert trains(rows, longest, phase, tos) == expected
    assert max(map(len, expected)) <= longest <= TRAIN_ROWS


def taken(arrivals: Arrivals, messages: list[tuple[bytes, int]]) -> list[bytes]:
    """What becomes of messages, each with the size of its datagrams, 0 for a single one."""
    for place, (data, _) in zip(arrivals.memory, messages, strict=False):
        place[: len(data)] = np.frombuffer(data, np.uint8)
    lengths = np.array([len(data) for data, _ in messages], np.uint32)
    count = arrivals.take_apart(lengths, np.array([size for _, size in messages], np.int32))
    assert len(arrivals.sizes) == count
    counts = [1] * len(messages) if arrivals.counts is None else arrivals.counts.tolist()
    assert counts == [max(1, -(-len(data) // size)) if size else 1 for data, size in messages]
    return [row[:size].tobytes() for row, size in zip(arrivals.rows[:count], arrivals.sizes, strict=True)]


def cut(messages: list[tuple[bytes, int]]) -> list[bytes]:
    out: list[bytes] = []
    for data, size in messages:
        out += [data[at : at + size] for at in range(0, len(data), size)] if size else [data]
    return [one[:ROW_BYTES] for one in out]


@pytest.mark.parametrize("seed", range(50))
def test_any_messages_are_taken_apart(seed: int) -> None:
    """Trains of all sizes with and without a tail, single ones, empty ones, and longer ones than a row."""
    rng = random.Random(seed)
    usual = rng.choice([24, 50, ROW_BYTES])
    arrivals = Arrivals(8, row_bytes=ROW_BYTES, usual_bytes=usual, trains=True)
    for uniform in [False] * 6 + [True] * 4:
        messages = []
        for _ in range(rng.randrange(1, 9)):
            size = (
                usual
                if uniform
                else rng.choice([0, 0, 1, 23, 24, ROW_BYTES - 1, ROW_BYTES, ROW_BYTES + 1, 3 * ROW_BYTES])
            )
            length = rng.choice([0, 1, 50, 200]) if not size else rng.randrange(1, size * TRAIN_ROWS)
            if size and rng.random() < 0.5:
                length = size * rng.randrange(1, TRAIN_ROWS + 1)
            messages.append((rng.randbytes(length), size))
        assert taken(arrivals, messages) == cut(messages)


def test_a_train_that_the_memory_cut_ends_with_a_part() -> None:
    """No kernel gives more than 64 KB, but a short buffer would: what is left of the datagram is too short to pass."""
    arrivals = Arrivals(1, row_bytes=ROW_BYTES, usual_bytes=ROW_BYTES, trains=True)
    data = bytes(range(100))
    assert taken(arrivals, [(data, 60)]) == [data[:60], data[60:]]


def test_single_datagrams_and_a_lone_train_are_not_copied() -> None:
    arrivals = Arrivals(4, row_bytes=ROW_BYTES, usual_bytes=50, trains=True)
    for messages, copied in (
        ([(b"a" * 50, 0), (b"b" * 40, 0)], False),
        ([(b"c" * 200, 50)], False),
        ([(b"d" * 120, 30)], True),
        ([(b"e" * 210, 50)], True),
        ([(b"f" * 400, 200)], True),
        ([(b"g" * 200, 50), (b"h" * 50, 0), (b"i" * 100, 50)], True),
    ):
        assert taken(arrivals, messages) == cut(messages)
        assert np.shares_memory(arrivals.rows, arrivals.memory) != copied
