# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""An exchange's memory: runs of results through C or numpy, flags that stay, and pools whose memory is used again."""

from __future__ import annotations

import itertools
import resource
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.transport.udp_bridge import configs, job_mapping
from numpy.typing import NDArray
from sumwire.transport.buffers import Buffers, Pool, Run, Runs
from sumwire.transport.retransmission import SendKind
from sumwire.transport.steady import kernels
from sumwire.wire.messages import MESSAGE, MessagePlaces, address_of
from sumwire.wire.packets import headers, heads
from sumwire_protocol import constants as p4

pytestmark = pytest.mark.cc
CHUNKS = 40
BYTES = 32 + 8 * 128
ROOM = 64 * BYTES


class Rig:
    """An exchange of THC by worker 1 of 3, and messages in memory."""

    def __init__(self, complete: int = 3) -> None:
        self.buffers = Buffers(
            configs(job_mapping(3, 16))[1],
            p4.OP_THC,
            CHUNKS,
            bucket=7,
            first_sequence=5,
            up=Pool(),
            down=Pool(),
            complete=complete,
        )
        self.buffers.results.words[:] = 0
        self.flying = np.ones(CHUNKS, np.bool_)
        self.memory = np.zeros((8, ROOM), np.uint8)
        self.messages, self.segments = np.zeros(8, MESSAGE), np.zeros(8, np.int32)
        found = kernels()
        assert found is not None
        places = MessagePlaces(
            *(address_of(self.memory), ROOM),
            *(address_of(self.messages["length"]), MESSAGE.itemsize),
            *(address_of(self.segments), self.segments.itemsize),
        )
        self.runs = Runs(found, places, self.buffers, self.flying)
        self.rng = np.random.default_rng(1)

    def results(self, first: int, last: int) -> NDArray[np.uint8]:
        """Datagrams with results of these chunks."""
        rows = self.rng.integers(0, 256, (last - first, BYTES), np.uint8)
        rows[:, :32] = self.buffers.packets[first:last, :32]
        records = headers(rows)
        records["version_kind"] = p4.SUMWIRE_VERSION << 4 | p4.KIND_RESULT
        records["words"], records["count"], records["contributors"] = 8, 3, 0x01020304 + np.arange(last - first)
        return rows

    def put(self, *trains: NDArray[np.uint8]) -> int:
        """Lay trains into memory, single datagrams without a size."""
        for i, train in enumerate(trains):
            self.memory[i, : train.size] = train.reshape(-1)
            self.messages["length"][i] = train.size
            self.segments[i] = BYTES if len(train) > 1 else 0
        return len(trains)

    def stored(self) -> list[Any]:
        results = self.buffers.results
        return [results.words.tolist(), results.counts.tolist(), results.contributors.tolist()]


@pytest.mark.parametrize("complete", [0, 3])
@pytest.mark.parametrize("borders", [[3, 4], [0, 40], [7, 8, 9, 31, 32], [0, 1, 2, 3]])
def test_a_run_is_stored_as_numpy_does(complete: int, borders: list[int]) -> None:
    native, plain = Rig(complete), Rig(complete)
    rows = native.results(borders[0], borders[-1])
    cuts = [border - borders[0] for border in borders]
    trains = [rows[first:last] for first, last in itertools.pairwise(cuts)]
    longest = max(map(len, trains))
    assert native.runs.take(native.put(*trains)) == Run(borders[0], len(rows), longest, BYTES)
    assert plain.buffers.plain_run(heads(rows), np.full(len(rows), BYTES, np.uint32)) == borders[0]
    plain.buffers.accept_run(borders[0], rows, headers(rows))
    assert native.stored() == plain.stored()
    assert native.buffers.results.words[borders[0] : borders[-1]].reshape(-1, 1024).tolist() == rows[:, 32:].tolist()


def _field(name: str, value: int) -> Callable[[Rig, NDArray[np.uint8]], None]:
    def change(rig: Rig, rows: NDArray[np.uint8]) -> None:
        headers(rows)[name][2] = value

    return change


def _landed(rig: Rig, rows: NDArray[np.uint8]) -> None:
    rig.flying[12] = False


def _out_of_turn(rig: Rig, rows: NDArray[np.uint8]) -> None:
    rows[[2, 3]] = rows[[3, 2]]


CHANGES: dict[str, Callable[[Rig, NDArray[np.uint8]], None]] = {
    "landed already": _landed,
    "out of turn": _out_of_turn,
    **{
        name: _field(name, value)
        for name, value in {
            "version_kind": p4.SUMWIRE_VERSION << 4 | p4.KIND_STALE,
            "op": p4.OP_SUM32,
            "job": 9,
            "slot": 15,
            "worker": 2,
            "count": 2,
            "round": 99,
            "flags": p4.FLAG_OVERFLOW,
            "words": 6,
            "bucket": 8,
            "cut_chunk": 11,
        }.items()
    },
}


@pytest.mark.parametrize("what", CHANGES)
def test_anything_else_is_left_to_numpy(what: str) -> None:
    rig = Rig()
    before, rows = rig.stored(), rig.results(10, 16)
    CHANGES[what](rig, rows)
    assert rig.runs.take(rig.put(rows[:3], rows[3:])) is None
    assert rig.stored() == before


def test_no_count_at_all_is_no_result() -> None:
    rig = Rig(complete=0)
    rows = rig.results(10, 16)
    headers(rows)["count"][4] = 0
    assert rig.runs.take(rig.put(rows)) is None


@pytest.mark.parametrize(
    ("length", "segment"), [(BYTES - 1, 0), (BYTES + 1, 0), (2 * BYTES, 0), (2 * BYTES, 600), (0, 0)]
)
@pytest.mark.parametrize("place", [0, 1])
def test_other_sizes_are_left_to_numpy(length: int, segment: int, place: int) -> None:
    rig = Rig()
    before = rig.stored()
    count = rig.put(rig.results(10, 12), rig.results(12, 14))
    rig.messages["length"][place], rig.segments[place] = length, segment
    assert rig.runs.take(count) is None
    assert rig.stored() == before


def test_a_run_beyond_the_last_chunk_is_left_to_numpy() -> None:
    rig = Rig()
    rows = rig.results(36, 40)
    rows = np.concatenate([rows, rows[-1:]])
    headers(rows)["cut_chunk"][4] = 40
    assert rig.runs.take(rig.put(rows)) is None
    rig.put(rows[:1])
    headers(rig.memory[:1, :BYTES])["cut_chunk"][0] = p4.CHUNKS_MAX - 1
    assert rig.runs.take(1) is None


def test_without_a_compiler_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMWIRE_NATIVE", "0")
    assert kernels() is None


@pytest.mark.parametrize("kind", [kind for kind in SendKind if kind.name != "PROBE"])
def test_marked_contributions_keep_their_flags(kind: SendKind) -> None:
    buffers = Buffers(configs(job_mapping(2, 8))[0], p4.OP_SIGN, 3, bucket=0, first_sequence=0, up=Pool(), down=Pool())
    buffers.mark(1, np.array([p4.FLAG_OVERFLOW], np.uint8))
    flags = headers(buffers.packets)["flags"]
    assert flags.tolist() == [0, p4.FLAG_OVERFLOW, 0]
    buffers.prepare(np.arange(3), kind, 1)
    assert (headers(buffers.packets)["flags"] & p4.FLAG_OVERFLOW).tolist() == [0, p4.FLAG_OVERFLOW, 0]
    assert (headers(buffers.packets)["flags"] & p4.FLAG_RESYNC).all()
    closing = headers(buffers.closing_flush(1).reshape(1, -1))["flags"][0]
    assert closing & p4.FLAG_OVERFLOW
    assert closing & p4.FLAG_FLUSH


SIZE = 8 << 20


def faults() -> int:
    """Pages that the system has given to this thread."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


def test_a_pools_memory_has_its_pages() -> None:
    """An exchange that writes to it has to wait for none. There are four of them at least."""
    memory = Pool().take(SIZE)
    before = faults()
    memory[:] = 1
    assert faults() - before < 2


def test_a_smaller_exchange_has_the_same_memory() -> None:
    pool = Pool()
    at = pool.take(SIZE).ctypes.data
    assert pool.take(SIZE // 2).ctypes.data == at
    assert (pool.take(0).size, pool.size >= SIZE) == (0, True)
    assert pool.take(2 * SIZE).size == 2 * SIZE
