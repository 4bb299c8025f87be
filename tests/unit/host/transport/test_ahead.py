# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Results that come before their exchange is begun."""

from __future__ import annotations

import numpy as np
import pytest
from golden import model
from helpers.transport.udp_bridge import JOB, configs, job_mapping
from sumwire.config import JobConfig
from sumwire.transport.kept_results import ROW_BYTES, EarlyResults, KeptResults
from sumwire.wire.packets import headers

SLOTS = 8
WORKER = 2
ROUNDS = 1 << 32


def config() -> JobConfig:
    return configs({**job_mapping(3, SLOTS), "quorum": 2})[WORKER]


def result(sequence: int, op: int = model.THC) -> model.Packet:
    words = model.WORDS_DOWN[op]
    place = sequence % SLOTS, WORKER, 2, sequence // SLOTS % ROUNDS
    payload = bytes([sequence % 251]) * (words * 128)
    return model.Packet(model.RESULT, op, JOB, *place, 3, 0, words, 0, 0, payload)


def put(ahead: EarlyResults, upcoming: int, datagrams: list[bytes]) -> list[bool]:
    rows = np.zeros((len(datagrams), 2 * ROW_BYTES), np.uint8)
    for row, data in zip(rows, datagrams, strict=True):
        row[: len(data)] = np.frombuffer(data, np.uint8)
    sizes = np.array([len(data) for data in datagrams], np.uint32)
    fits: list[bool] = ahead.put(upcoming, headers(rows), rows, sizes).tolist()
    return fits


def taken(ahead: EarlyResults, first: int, chunks: int) -> dict[int, bytes]:
    places, rows, sizes = ahead.take(first, chunks)
    return {int(k): row[:size].tobytes() for k, row, size in zip(places, rows, sizes, strict=True)}


def test_results_wait_for_their_exchange() -> None:
    ahead = EarlyResults(config(), KeptResults(SLOTS, least=64))
    numbers = [20, 22, 23, 31, 20]
    assert put(ahead, 20, [result(k).encode() for k in numbers]) == [True] * 5
    assert ahead.taken == 4
    assert taken(ahead, 20, 4) == {k - 20: result(k).encode() for k in (20, 22, 23)}
    assert taken(ahead, 24, 100) == {7: result(31).encode()}
    assert taken(ahead, 24, 7) == {}
    assert taken(ahead, 32, 100) == {}


def test_reaches_tells_how_far_the_others_are() -> None:
    ahead = EarlyResults(config(), KeptResults(SLOTS, least=64))
    assert not ahead.reaches(0)
    put(ahead, 20, [result(21).encode()])
    assert ahead.reaches(20)
    assert ahead.reaches(21)
    assert not ahead.reaches(22)


def test_a_result_of_fewer_than_a_quorum_does_not_say_that_the_others_go_on() -> None:
    ahead = EarlyResults(config(), KeptResults(SLOTS, least=64))
    put(ahead, 20, [result(21)._replace(count=1, flags=0x40).encode()])
    assert not ahead.reaches(20)
    put(ahead, 20, [result(20).encode(), result(22)._replace(count=1, flags=0x40).encode()])
    assert ahead.reaches(20)
    assert not ahead.reaches(21)
    assert set(taken(ahead, 20, 5)) == {0, 1, 2}


def test_late_and_too_early_ones_are_left() -> None:
    """Half of the ring is for what peers may still ask for."""
    kept = KeptResults(SLOTS, least=64)
    ahead = EarlyResults(config(), kept)
    last = 100 + kept.capacity // 2
    assert put(ahead, 100, [result(k).encode() for k in (99, 100, last - 1, last, 3)]) == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert (ahead.taken, ahead.refused) == (2, 1)


def test_all_ops_wait() -> None:
    ahead = EarlyResults(config(), KeptResults(SLOTS, least=64))
    packets = [result(k, op) for k, op in enumerate(model.WORDS_DOWN)]
    assert all(put(ahead, 0, [packet.encode() for packet in packets]))
    assert taken(ahead, 0, 10) == {k: packet.encode() for k, packet in enumerate(packets)}


def test_a_result_without_its_low_planes_waits_too() -> None:
    cut = result(4)._replace(words=6, payload=bytes(6 * 128))
    assert put(EarlyResults(config(), KeptResults(SLOTS)), 0, [cut.encode()]) == [True]


def test_rounds_wrap() -> None:
    border = SLOTS * ROUNDS
    ahead = EarlyResults(config(), KeptResults(SLOTS, least=64))
    assert put(ahead, border - 2, [result(k).encode() for k in (border - 2, border + 1, border - 3)]) == [
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
    ahead = EarlyResults(config(), KeptResults(SLOTS, least=64))
    bad = result(9)._replace(**changed)  # type: ignore[arg-type]
    assert put(ahead, 8, [bad.encode(), result(10).encode()]) == [False, True]
    assert taken(ahead, 8, 20) == {2: result(10).encode()}
