# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The ring of latest results, and the early ones in it."""

from __future__ import annotations

import random

import numpy as np
import pytest
from golden import model
from helpers.transport.udp_bridge import JOB, configs, job_mapping
from numpy.typing import NDArray
from sumwire.transport.kept_results import USUAL_BYTES, EarlyResults, KeptResults
from sumwire.wire.packets import HEADER_BYTES, headers

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
    rows = np.full((len(datagrams), HEADER_BYTES + USUAL_BYTES + 40), 0xEE, np.uint8)
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


def test_another_op_slot_round_or_run_is_not_found() -> None:
    """A switch that has forgotten its slots can lead a later run to the same rounds."""
    kept = KeptResults(4, least=16)
    put(kept, [9], 4)
    answer = kept.find(1, 2, model.THC, TOKEN)
    assert answer == datagram(9, 4)
    assert kept.find(1, 2, model.MAX32, TOKEN) is None
    for slot, round_ in ((2, 2), (1, 2 + kept.capacity // 4), (4, 2), (65535, 2)):
        assert kept.find(slot, round_, model.THC, TOKEN) is None
    assert kept.find(1, 2, model.THC, TOKEN ^ 1) is None
    assert kept.held(9, 1, TOKEN).tolist() == [0]
    assert kept.held(9, 1, TOKEN ^ 1).tolist() == []
    # An answer is the caller's own.
    answer[:] = bytes(len(answer))
    assert kept.find(1, 2, model.THC, TOKEN) == datagram(9, 4)


def test_results_of_several_lengths_keep_their_own() -> None:
    kept = KeptResults(8, least=8)
    rows, sizes = rows_of([datagram(0, 8, model.MAX32), datagram(1, 8), datagram(2, 8, model.VOTE)])
    kept.put(np.array([0, 1, 2]), rows, sizes)
    assert [
        len(kept.find(slot, 0, op, TOKEN) or b"") for slot, op in enumerate((model.MAX32, model.THC, model.VOTE))
    ] == [32 + 128, 32 + 1024, 32 + 256]


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


# -- results that come before their exchange is begun ---------------------------------------------------

SLOTS = 8
WORKER = 2


def early() -> EarlyResults:
    return EarlyResults(configs({**job_mapping(3, SLOTS), "quorum": 2})[WORKER], KeptResults(SLOTS, least=64))


def result(sequence: int, op: int = model.THC) -> model.Packet:
    words = model.WORDS_DOWN[op]
    place = sequence % SLOTS, WORKER, 2, sequence // SLOTS % ROUNDS
    payload = bytes([sequence % 251]) * (words * 128)
    return model.Packet(model.RESULT, op, JOB, *place, 3, 0, words, 0, 0, payload)


def arrive(ahead: EarlyResults, upcoming: int, datagrams: list[bytes]) -> list[bool]:
    rows, sizes = rows_of(datagrams)
    fits: list[bool] = ahead.put(upcoming, headers(rows), rows, sizes).tolist()
    return fits


def taken(ahead: EarlyResults, first: int, chunks: int) -> dict[int, bytes]:
    places, rows, sizes = ahead.take(first, chunks)
    return {int(k): row[:size].tobytes() for k, row, size in zip(places, rows, sizes, strict=True)}


def test_results_wait_for_their_exchange() -> None:
    ahead = early()
    numbers = [20, 22, 23, 31, 20]
    assert arrive(ahead, 20, [result(k).encode() for k in numbers]) == [True] * 5
    assert ahead.taken == 4
    assert taken(ahead, 20, 4) == {k - 20: result(k).encode() for k in (20, 22, 23)}
    assert taken(ahead, 24, 100) == {7: result(31).encode()}
    assert taken(ahead, 24, 7) == {}
    assert taken(ahead, 32, 100) == {}


def test_reaches_tells_how_far_the_others_are() -> None:
    """A result of fewer than a quorum does not say that they go on."""
    ahead = early()
    arrive(ahead, 20, [result(21)._replace(count=1, flags=0x40).encode()])
    assert not ahead.reaches(0)
    arrive(ahead, 20, [result(20).encode(), result(22)._replace(count=1, flags=0x40).encode()])
    assert ahead.reaches(20)
    assert not ahead.reaches(21)
    assert set(taken(ahead, 20, 5)) == {0, 1, 2}


def test_late_and_too_early_ones_are_left() -> None:
    """Half of the ring is for what peers may still ask for."""
    ahead = early()
    last = 100 + KeptResults(SLOTS, least=64).capacity // 2
    assert arrive(ahead, 100, [result(k).encode() for k in (99, 100, last - 1, last, 3)]) == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert (ahead.taken, ahead.refused) == (2, 1)


def test_all_ops_wait() -> None:
    ahead = early()
    packets = [result(k, op) for k, op in enumerate(model.SHORT_OPS)]
    assert all(arrive(ahead, 0, [packet.encode() for packet in packets]))
    assert taken(ahead, 0, 10) == {k: packet.encode() for k, packet in enumerate(packets)}


def test_the_results_of_long_packets_are_kept_whole() -> None:
    words = model.WORDS_DOWN[model.JUMBO]
    row = np.frombuffer(datagram(3, 4, model.JUMBO), np.uint8)[None]
    kept = KeptResults(4, longest_bytes=words * model.WORD, least=16)
    kept.put(np.array([3], np.int64), row, np.array([row.shape[1]], np.uint32))
    assert found(kept, 3, 4, model.JUMBO) == row.tobytes()


def test_a_result_without_its_low_planes_waits_too() -> None:
    cut = result(4)._replace(words=6, payload=bytes(6 * 128))
    assert arrive(early(), 0, [cut.encode()]) == [True]


def test_rounds_wrap() -> None:
    border = SLOTS * ROUNDS
    ahead = early()
    assert arrive(ahead, border - 2, [result(k).encode() for k in (border - 2, border + 1, border - 3)]) == [
        True,
        True,
        False,
    ]
    assert taken(ahead, border - 2, 9) == {0: result(border - 2).encode(), 3: result(border + 1).encode()}


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": model.CONTRIBUTE},
        {"kind": model.STALE},
        {"version": 1},
        {"token": 1},
        {"op": 77},
        {"job": JOB + 1},
        {"worker": WORKER - 1},
        {"count": 0},
        {"slot": SLOTS},
        {"flags": model.INCOMPLETE},
        {"words": 7},
        {"payload": bytes(1023)},
        {"payload": bytes(1025)},
        {"words": 4, "payload": bytes(512)},
        {"op": model.SUM32, "words": 6, "payload": bytes(6 * 128)},
    ],
)
def test_what_is_no_result_does_not_wait(changed: dict[str, object]) -> None:
    ahead = early()
    bad = result(9)._replace(**changed)  # type: ignore[arg-type]
    assert arrive(ahead, 8, [bad.encode(), result(10).encode()]) == [False, True]
    assert taken(ahead, 8, 20) == {2: result(10).encode()}
