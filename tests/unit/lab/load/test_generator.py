# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The load generator: its frames, judged by the golden switch, and which slots it may use."""

from __future__ import annotations

import socket
from collections import deque

import numpy as np
import pytest
from golden import model as golden
from sumwire.wire.packets import Header
from sumwire_lab.bench.switch import GENERATOR, GENERATOR_TRAINS, entry_of, ratios, text
from sumwire_lab.load import malformed
from sumwire_lab.load.generator import LoadSpec, OpenSlots, results_of, templates
from sumwire_lab.load.malformed import Endpoints
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import BY_CODE

MAC = "02:53:57:00:00:64"
SLOTS = 6


def ends(worker: int) -> Endpoints:
    return Endpoints(f"00:00:00:00:00:{worker + 1:02x}", MAC, f"10.0.0.{worker + 1}", "10.0.0.100")


def spec(op: int, words: int) -> LoadSpec:
    return LoadSpec(
        ["a"] * 4,
        [ends(k) for k in range(4)],
        op,
        words,
        slots=SLOTS,
        window=6,
        batch=3,
        seconds=1,
        listen=True,
    )


def switch() -> golden.GoldenSwitch:
    hosts = tuple(
        golden.Host(k + 1, bytes.fromhex(ends(k).src_mac.replace(":", "")), socket.inet_aton(ends(k).src_ip))
        for k in range(4)
    )
    table = (0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30)
    job = golden.Job(1, hosts, 0, 256, 4, table, ops=frozenset(golden.WORDS_UP))
    aggregator = golden.Host(0, bytes.fromhex(MAC.replace(":", "")), socket.inet_aton("10.0.0.100"))
    return golden.GoldenSwitch(aggregator, hosts, (job,))


@pytest.mark.parametrize(("op", "words"), sorted(golden.WORDS_UP.items()))
def test_the_frames_sum_up(op: int, words: int) -> None:
    made = templates(spec(op, words))
    into = switch()
    for slot in range(SLOTS):
        for worker in range(4):
            into.receive(worker + 1, made[worker, slot].tobytes())
    assert into.verdicts == {"FIRST": SLOTS, "ADD": 2 * SLOTS, "LAST": SLOTS}
    assert len({made[worker, 0, 66:].tobytes() for worker in range(4)}) == 4, "no two workers send the same payload"
    assert BY_CODE[op].up.words == words


def head(kind: int, slot: int, round_: int) -> bytes:
    return malformed.sumwire(Header(kind, p4.OP_THC, 1, slot, 0, round=round_, words=0))


def test_results_are_told_from_other_frames() -> None:
    told = [head(p4.KIND_RESULT, 7, 70_000), head(p4.KIND_STALE, 8, 1), head(p4.KIND_RESULT, 259, 2)]
    slots, rounds = results_of(np.stack([np.frombuffer(one, np.uint8) for one in told]))
    assert (slots.tolist(), rounds.tolist()) == ([7, 259], [70_000, 2])


def close(slots: OpenSlots, *pairs: tuple[int, int]) -> int:
    return slots.close(np.array([slot for slot, _ in pairs]), np.array([round_ for _, round_ in pairs]))


def test_no_batch_beyond_the_window_and_no_slot_before_its_result() -> None:
    slots = OpenSlots(8, window=6, batch=2)
    assert [slots.take() for _ in range(4)] == [(0, 0), (2, 0), (4, 0), None]
    # Two results make room for the batch 6, 7; then it is the turn of 0, 1, of which one is still open.
    assert close(slots, (0, 0), (2, 0)) == 2
    assert slots.take() == (6, 0)
    assert close(slots, (3, 0), (4, 0), (5, 0)) == 3
    assert slots.count == 3
    assert slots.take() is None, "slot 1 waits for its result"
    assert slots.waiting().tolist() == [1, 6, 7]
    assert close(slots, (1, 0)) == 1
    assert slots.take() == (0, 1)


def test_repeated_and_late_results_count_once() -> None:
    slots = OpenSlots(4, window=4, batch=2)
    slots.take()
    assert close(slots, (0, 0), (0, 0), (1, 5), (3, 0), (60_000, 0)) == 1
    assert slots.waiting().tolist() == [1]


def test_rounds_grow_by_one_with_every_turn() -> None:
    slots = OpenSlots(8, window=4, batch=4)
    turns = deque(slots.take_blindly() for _ in range(6))
    assert list(turns) == [(0, 0), (4, 0), (0, 1), (4, 1), (0, 2), (4, 2)]


def test_rates_are_compared_with_the_native_engine() -> None:
    rates = {"native": 400.0, "native-trains": 1600.0, "python": 50.0, "bmv2": 20.0}
    assert ratios(rates) == {"native / python": 8.0, "native / bmv2": 20.0, "native-trains / native": 4.0}
    assert ratios({"native": 400.0, "python": 50.0}) == {"native / python": 8.0}
    assert ratios({"python": 50.0, "bmv2": 20.0}) == {}
    alone = {GENERATOR: 6e5, GENERATOR_TRAINS: 4e6}
    rows = [
        {"op": "thc", "contender": name, "packets_per_second": rate, "cpu_us": 2.5}
        for name, rate in {**alone, **rates}.items()
    ]
    entry = entry_of(rows, tuple(rates))
    line, times = text({"ops": {"thc": entry}}).splitlines()
    assert times.endswith("native 2.50, native-trains 2.50, python 2.50, bmv2 2.50")
    assert [run["contender"] for run in entry["runs"]] == list(rates), "no generator"
    assert "generator alone 600,000, generator alone, trains 4,000,000" in line
    assert line.endswith("native / python 8.00, native / bmv2 20.00, native-trains / native 4.00")
    assert list(entry) == [
        *("packets_per_second", "cpu_us", "ratios", "generator_alone", "generator_alone_trains", "runs"),
    ]
