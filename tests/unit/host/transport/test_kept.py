# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The ring of latest results, against a dictionary of all of them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from golden import model
from numpy.typing import NDArray
from sumwire.transport.kept_results import ROW_BYTES, KeptResults

ROUNDS = 1 << 32
TOKEN = 0x1234_5678_9ABC_DEF0


def datagram(sequence: int, slots: int, op: int = model.THC) -> bytes:
    """A result as the switch sends it to worker 2, with a payload of its own."""
    words = model.WORDS_DOWN[op]
    payload = random.Random(sequence).randbytes(words * model.WORD)
    place = sequence % slots, 2, 3, sequence // slots % ROUNDS
    return model.Packet(model.RESULT, op, 7, *place, 7, 0, words, 5, 0, payload, token=TOKEN).encode()


def rows_of(datagrams: list[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """As a socket's memory has them: what is behind a datagram's end is of an earlier one."""
    rows = np.full((len(datagrams), ROW_BYTES + 40), 0xEE, np.uint8)
    for row, data in zip(rows, datagrams, strict=True):
        row[: len(data)] = np.frombuffer(data, np.uint8)
    return rows, np.array([len(data) for data in datagrams], np.uint32)


def put(kept: KeptResults, sequences: list[int], slots: int, op: int = model.THC) -> None:
    rows, sizes = rows_of([datagram(sequence, slots, op) for sequence in sequences])
    kept.put(np.array(sequences, np.int64), rows, sizes)


def found(kept: KeptResults, sequence: int, slots: int, op: int = model.THC) -> bytes | None:
    answer = kept.find(sequence % slots, sequence // slots % ROUNDS, op, TOKEN)
    return None if answer is None else bytes(answer)


@pytest.mark.parametrize("slots", [2, 5, 64])
def test_the_latest_results_are_found_and_no_others(slots: int) -> None:
    kept = KeptResults(slots, least=100)
    assert kept.capacity >= 100
    total = 3 * kept.capacity + 1
    for first in range(0, total, 7):
        put(kept, list(range(first, min(first + 7, total))), slots)
    for sequence in range(total + 2 * slots):
        here = total - kept.capacity <= sequence < total
        assert found(kept, sequence, slots) == (datagram(sequence, slots) if here else None)


def test_another_op_slot_or_round_is_not_found() -> None:
    kept = KeptResults(4, least=16)
    put(kept, [9], 4)
    assert kept.find(1, 2, model.THC, TOKEN) == datagram(9, 4)
    assert kept.find(1, 2, model.MAX32, TOKEN) is None
    assert kept.find(2, 2, model.THC, TOKEN) is None
    assert kept.find(1, 2 + kept.capacity // 4, model.THC, TOKEN) is None
    assert kept.find(4, 2, model.THC, TOKEN) is None
    assert kept.find(65535, 2, model.THC, TOKEN) is None


def test_results_of_several_lengths_keep_their_own() -> None:
    kept = KeptResults(8, least=8)
    rows, sizes = rows_of([datagram(0, 8, model.MAX32), datagram(1, 8), datagram(2, 8, model.VOTE)])
    kept.put(np.array([0, 1, 2]), rows, sizes)
    assert [
        len(kept.find(slot, 0, op, TOKEN) or b"") for slot, op in enumerate((model.MAX32, model.THC, model.VOTE))
    ] == [
        32 + 128,
        32 + 1024,
        32 + 256,
    ]


def test_rounds_wrap_after_32_bits() -> None:
    slots = 5
    kept = KeptResults(slots, least=40)
    border = slots * ROUNDS
    put(kept, list(range(border - 6, border + 6)), slots)
    for sequence in range(border - 6, border + 6):
        assert found(kept, sequence, slots) == datagram(sequence, slots)


def test_held_and_get_agree_with_what_was_put() -> None:
    kept = KeptResults(4, least=32)
    put(kept, [40, 42, 43, 50], 4)
    assert kept.held(40, 10, TOKEN).tolist() == [0, 2, 3]
    assert kept.held(41, 1_000_000, TOKEN).tolist() == [1, 2, 9]
    assert kept.held(8, 3, TOKEN).tolist() == []
    rows, sizes = kept.get(np.array([43, 40]))
    assert [row[:size].tobytes() for row, size in zip(rows, sizes, strict=True)] == [datagram(43, 4), datagram(40, 4)]


def test_an_answer_is_the_callers_own() -> None:
    kept = KeptResults(4, least=8)
    put(kept, [3], 4)
    answer = kept.find(3, 0, model.THC, TOKEN)
    assert answer is not None
    answer[:] = bytes(len(answer))
    assert found(kept, 3, 4) == datagram(3, 4)


def test_results_of_another_run_are_not_found() -> None:
    """A switch that has forgotten its slots can lead a later run to the same rounds."""
    kept = KeptResults(4, least=16)
    put(kept, [9], 4)
    assert kept.find(1, 2, model.THC, TOKEN) == datagram(9, 4)
    assert kept.find(1, 2, model.THC, TOKEN ^ 1) is None
    assert kept.held(9, 1, TOKEN).tolist() == [0]
    assert kept.held(9, 1, TOKEN ^ 1).tolist() == []
