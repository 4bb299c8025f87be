# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Batches of datagrams through real sockets: what is sent arrives, each row a datagram, in order."""

from __future__ import annotations

import ctypes
import errno
import os
import random
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sumwire.errors import UsageError
from sumwire.native import SWITCH
from sumwire.wire import batch, messages
from sumwire.wire.batch import BatchSocket
from sumwire.wire.messages import UDP_SEGMENT
from sumwire.wire.trains import TRAIN_ROWS

ROWS, ROW_BYTES, BATCH = 200, 536, 64


@contextmanager
def ends(sender_bytes: int = 2 * ROW_BYTES, **receiver: Any) -> Iterator[tuple[BatchSocket, BatchSocket]]:
    """(sender, receiver) over loopback."""
    far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    far.bind(("127.0.0.1", 0))
    near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    near.connect(far.getsockname())
    made = (
        BatchSocket(near, row_bytes=sender_bytes, batch=BATCH),
        BatchSocket(far, row_bytes=2 * ROW_BYTES, batch=BATCH, **receiver),
    )
    yield made
    for end in made:
        end.close()


@pytest.fixture(params=["0", "1"], ids=["python", "c"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, request.param)


@pytest.fixture
def pair(form: None) -> Iterator[tuple[BatchSocket, BatchSocket]]:
    with ends() as made:
        yield made


def rows_of(seed: int = 1, size: int = ROW_BYTES) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (ROWS, size), dtype=np.uint8)


def took(end: BatchSocket, count: int) -> NDArray[np.uint8]:
    assert set(end.sizes[:count].tolist()) <= {ROW_BYTES}
    return end.received[:count, :ROW_BYTES]


@pytest.mark.parametrize("joined", [1, 8, TRAIN_ROWS])
@pytest.mark.parametrize("seed", range(5))
def test_any_selection_of_rows_arrives_in_order(pair: tuple[BatchSocket, BatchSocket], joined: int, seed: int) -> None:
    """Runs of neighbours of all lengths, which may be handed over in one piece, and rows that stand alone.

    Loopback delivers at once.
    """
    sender, receiver = pair
    rows, rng = rows_of(), random.Random(seed)
    sender.load(rows, joined=joined)
    chosen: list[int] = []
    while len(chosen) < BATCH:
        first = rng.randrange(ROWS)
        chosen += range(first, min(ROWS, first + rng.choice([1, 2, 15, 16, 17, 40])))
    wanted = np.array(chosen[: rng.randrange(1, BATCH + 1)])
    assert sender.send(wanted) == len(wanted)
    assert (sender._out.vectors["length"] <= joined * ROW_BYTES).all()
    assert receiver.receive() == len(wanted)
    assert (took(receiver, len(wanted)) == rows[wanted]).all()
    assert receiver.receive() == 0


def test_rows_cross_the_kernel_in_trains(pair: tuple[BatchSocket, BatchSocket]) -> None:
    """Both ways: fails where either end moves datagrams one by one."""
    sender, receiver = pair
    rows = rows_of()
    sender.load(rows)
    assert sender.send(np.arange(128)) == receiver.receive() == 128
    assert (took(receiver, 128) == rows[:128]).all()
    assert (sender.messages_sent, receiver.messages_received) == (2, 2)
    assert (sender.sends_trains, receiver.receives_trains) == (True, True)
    # Shorter where the link asks for it, and only as long as the longest datagram.
    assert sender.send(np.arange(128), 20) == receiver.receive() == 128
    assert (sender.messages_sent, receiver.messages_received) == (10, 10)
    sender.load(np.zeros((ROWS, 1048), np.uint8))
    assert sender.send(np.arange(128)) == receiver.receive() == 128
    assert (sender.messages_sent, receiver.messages_received) == (14, 14)


def test_trains_begin_where_slots_do(pair: tuple[BatchSocket, BatchSocket]) -> None:
    """Row 0 has slot 50, so a train of 14 comes first."""
    sender, receiver = pair
    sender.load(rows_of(), phase=50)
    assert sender.send(np.arange(150)) == receiver.receive() == 150
    assert sender._out.vectors["length"][:4].tolist() == [14 * ROW_BYTES, 64 * ROW_BYTES, 64 * ROW_BYTES, 8 * ROW_BYTES]


def test_a_kernel_that_does_not_join_gives_datagrams_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "UDP_GRO", 9999)
    with ends() as (sender, receiver):
        assert not receiver.receives_trains
        rows = rows_of()
        sender.load(rows)
        assert sender.send(np.arange(100)) == 100
        assert [receiver.receive(), receiver.messages_received] == [BATCH, BATCH]
        assert (took(receiver, BATCH) == rows[:BATCH]).all()
        assert receiver.receive() == 100 - BATCH


def test_a_kernel_without_the_option_sends_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "UDP_SEGMENT", 9999)
    with ends() as (sender, receiver):
        rows = rows_of()
        sender.load(rows)
        # A call takes at most a batch of messages.
        assert sender.send(np.arange(100)) == receiver.receive() == BATCH
        assert not sender.sends_trains
        assert (took(receiver, BATCH) == rows[:BATCH]).all()


@pytest.mark.parametrize("seed", range(5))
def test_trains_and_datagrams_of_any_sizes_arrive(pair: tuple[BatchSocket, BatchSocket], seed: int) -> None:
    """Equal neighbours, short tails, empty ones, too long ones: what the kernel gives in one piece is taken apart."""
    _, receiver = pair
    rng = random.Random(seed)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.connect(receiver._socket.getsockname())
        sent: list[bytes] = []
        got: list[bytes] = []
        for number in range(40):
            size = rng.choice([1, 23, 24, 152, 536, 1048, 2 * ROW_BYTES, 3000])
            data = rng.randbytes(rng.randrange(1, min(TRAIN_ROWS * size, 60000)))
            if rng.random() < 0.3:
                data = data[: rng.randrange(size + 1)]
            other.sendmsg([data], [(socket.IPPROTO_UDP, UDP_SEGMENT, size.to_bytes(2, sys.byteorder))])
            sent += [data[at : at + size] for at in range(0, len(data), size)] or [b""]
            # As much as any socket holds.
            count = receiver.receive() if number % 2 else 0
            got += [
                row[:size].tobytes()
                for row, size in zip(receiver.received[:count], receiver.sizes[:count], strict=True)
            ]
    assert got == [data[: 2 * ROW_BYTES] for data in sent]
    assert receiver.messages_received == 40


def test_a_train_that_came_alone_stays_where_it_is() -> None:
    with ends(ROW_BYTES, usual_bytes=ROW_BYTES) as (sender, receiver):
        rows = rows_of()
        sender.load(rows)
        for trains, in_place in ((1, True), (2, False), (1, True)):
            count = trains * TRAIN_ROWS
            assert sender.send(np.arange(count)) == receiver.receive() == count
            assert (took(receiver, count) == rows[:count]).all()
            assert np.shares_memory(receiver.received, receiver._arrivals.memory) == in_place


def test_rows_of_another_size_may_follow(pair: tuple[BatchSocket, BatchSocket]) -> None:
    sender, receiver = pair
    for size in (ROW_BYTES, 152, 1048, ROW_BYTES):
        rows = rows_of(size, size)
        sender.load(rows)
        assert sender.send(np.arange(40)) == 40
        assert receiver.receive() == 40
        assert set(receiver.sizes[:40].tolist()) == {size}
        assert (receiver.received[:40, :size] == rows[:40]).all()


def test_a_longer_datagram_is_cut(pair: tuple[BatchSocket, BatchSocket]) -> None:
    sender, receiver = pair
    sender.load(np.ones((1, 5 * ROW_BYTES), np.uint8))
    sender.send(np.arange(1))
    assert receiver.receive(1) == 1
    assert receiver.sizes[0] == 2 * ROW_BYTES


def test_waiting_ends_with_silence(pair: tuple[BatchSocket, BatchSocket]) -> None:
    sender, receiver = pair
    sender.load(rows_of(), joined=1)
    sender.send(np.arange(5))
    began = time.monotonic()
    # With those that are wanted come all that are there.
    assert receiver.receive(2) == 5
    sender.send(np.arange(3))
    assert receiver.receive(BATCH) == 3
    assert receiver.receive(BATCH) == 0
    assert time.monotonic() - began < 60.0


def test_a_full_queue_takes_the_first_ones() -> None:
    """A local socket's queue holds few datagrams, and says so."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender, receiver = (BatchSocket(sock, row_bytes=ROW_BYTES, batch=BATCH) for sock in (near, far))
    rows = rows_of()
    sender.load(rows, joined=1)
    sent = got = 0
    while got < ROWS:
        wanted = np.arange(sent, min(ROWS, sent + BATCH))
        count = sender.send(wanted) if len(wanted) else 0
        sent += count
        if count == len(wanted) == BATCH:
            continue
        if sent < ROWS:
            with pytest.raises(BlockingIOError):
                sender.send(np.arange(sent, ROWS)[:BATCH])
        count = receiver.receive()
        assert count > 0
        assert (took(receiver, count) == rows[got : got + count]).all()
        got += count
    assert sent == ROWS
    sender.close()
    receiver.close()


@pytest.mark.parametrize("number", [errno.EIO, errno.EINVAL])
def test_a_kernel_that_does_not_cut_gets_rows_one_by_one(
    pair: tuple[BatchSocket, BatchSocket], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    sender, receiver = pair
    rows, real, refused = rows_of(), sender._sendmmsg, []

    def send(fd: int, messages: int, count: int, flags: int) -> Any:
        if (sender._out.vectors["length"][:count] > ROW_BYTES).any():
            refused.append(count)
            ctypes.set_errno(number)
            return -1
        return real(fd, messages, count, flags)

    monkeypatch.setattr(sender, "_sendmmsg", send)
    sender.load(rows)
    for _ in range(2):
        assert sender.send(np.arange(BATCH)) == BATCH
        assert receiver.receive() == BATCH
        assert (took(receiver, BATCH) == rows[:BATCH]).all()
    assert refused == [1]
    assert not sender.sends_trains
    sender.load(rows)
    assert sender.send(np.arange(BATCH)) == receiver.receive() == BATCH
    assert refused == [1], "asked once more"


def test_errors_have_their_number(pair: tuple[BatchSocket, BatchSocket]) -> None:
    """Nobody listens any more: the first send leaves an ICMP error behind, which the next call reports."""
    sender, receiver = pair
    sender.load(rows_of())
    receiver.close()
    sender.send(np.arange(1))
    with pytest.raises(ConnectionRefusedError):
        sender.send(np.arange(1))
    sender.send(np.arange(1))
    with pytest.raises(ConnectionRefusedError):
        sender.receive()


def test_an_error_costs_nothing_that_has_arrived(pair: tuple[BatchSocket, BatchSocket]) -> None:
    """The second message cannot be written to memory: an error as it may come between a receive's two calls."""
    sender, receiver = pair
    rows = rows_of()
    sender.load(rows)
    sender.send(np.arange(1))
    bases = receiver._in.vectors["base"]
    kept, bases[1] = bases[1], 8
    sender.send(np.arange(1, 2))
    assert receiver.receive(wanted=1) == 1
    np.testing.assert_array_equal(took(receiver, 1), rows[:1])
    bases[0], bases[1] = 8, kept
    sender.send(np.arange(1))
    with pytest.raises(OSError, match=os.strerror(errno.EFAULT)):
        receiver.receive()


def test_other_systems_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    messages.calls.cache_clear()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, pytest.raises(UsageError, match=r"darwin.*Linux"):
        BatchSocket(sock, row_bytes=8, batch=1)


@contextmanager
def tagged() -> Iterator[tuple[BatchSocket, socket.socket]]:
    """A sender, and a receiver that tells TOS bytes."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
    ):
        receiver.bind(("127.0.0.1", 0))
        receiver.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        receiver.settimeout(5.0)
        sock.connect(receiver.getsockname())
        yield BatchSocket(sock, row_bytes=ROW_BYTES, batch=BATCH), receiver


def took_tagged(receiver: socket.socket, count: int) -> list[tuple[bytes, int]]:
    out = []
    for _ in range(count):
        data, control, _, _ = receiver.recvmsg(2 * ROW_BYTES, 64)
        [(level, kind, tos)] = control
        assert (level, kind) == (socket.IPPROTO_IP, socket.IP_TOS)
        out.append((data, tos[0]))
    return out


@pytest.mark.parametrize("joined", [1, TRAIN_ROWS])
def test_every_datagram_has_its_tos(joined: int) -> None:
    """All values of a TOS byte, ECN bits too, also where neighbours in one piece would differ."""
    rows, rng = rows_of(), random.Random(1)
    tos = np.array([rng.choice([2, 254, 96, rng.randrange(256)]) for _ in range(ROWS)], np.uint8)
    tos[50:90] = 0xE2
    with tagged() as (sender, receiver):
        sender.load(rows, joined=joined, tos=tos)
        for first in range(0, ROWS, BATCH):
            chosen = np.arange(first, min(first + BATCH, ROWS))
            assert sender.send(chosen) == len(chosen)
            expected = [(rows[row].tobytes(), int(tos[row])) for row in chosen]
            assert took_tagged(receiver, len(chosen)) == expected
        assert (sender._out.vectors["length"] <= joined * ROW_BYTES).all()
        # A change counts from the next send on; rows without tags have the socket's own.
        tos[:3] = 0x62
        sender.send(np.arange(3))
        assert [tag for _, tag in took_tagged(receiver, 3)] == [0x62] * 3
        sender.load(rows, joined=joined)
        sender.send(np.arange(3))
        assert [tag for _, tag in took_tagged(receiver, 3)] == [0] * 3


def test_equal_tags_go_in_one_piece() -> None:
    with tagged() as (sender, receiver):
        sender.load(rows_of(), tos=np.repeat(np.array([0x20, 0x40], np.uint8), ROWS // 2))
        assert sender.send(np.arange(92, 108)) == 16
        assert sender._out.vectors["length"][:2].tolist() == [8 * ROW_BYTES] * 2
        assert [tag for _, tag in took_tagged(receiver, 16)] == [0x20] * 8 + [0x40] * 8


@pytest.mark.cc
@pytest.mark.parametrize("seed", range(20))
def test_c_cuts_as_numpy_does(seed: int) -> None:
    """Both lay the same rows into the same messages, also where these are too few for all rows."""
    rng = random.Random(seed)
    rows = [rng.randrange(500)]
    while len(rows) < 200:
        rows.append((rows[-1] + 1) % 500 if rng.random() < 0.9 else rng.randrange(500))
    numbers = np.array(rows)
    packets = np.zeros((500, ROW_BYTES), np.uint8)
    tos = np.array([98 if rng.random() < 0.1 else 2 for _ in packets], np.uint8) if seed % 2 else None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        end = BatchSocket(udp, row_bytes=ROW_BYTES, batch=rng.choice([1, 5, 20, 256]))
        assert end._kernels is not None
        end.load(packets, tos=tos, phase=rng.randrange(300))
        for longest in (1, 4, 64):
            count, taken = end._cut(numbers, longest)
            messages = end._out.vectors[:count].tolist(), end._out.controls[:count].tolist()
            end._out.vectors[:], end._out.controls[:] = 0, 7
            assert end._cut_by_numpy(numbers, longest) == (count, taken)
            assert (end._out.vectors[:count].tolist(), end._out.controls[:count].tolist()) == messages


@pytest.fixture
def told(form: None) -> Iterator[tuple[BatchSocket, BatchSocket]]:
    """(sender, receiver that tells marks)."""
    with ends(ROW_BYTES, usual_bytes=ROW_BYTES, tells_marks=True) as made:
        yield made


@pytest.mark.parametrize("joined", [1, TRAIN_ROWS])
@pytest.mark.parametrize("seed", range(3))
def test_marks_are_told_of_the_datagrams_that_have_them(
    told: tuple[BatchSocket, BatchSocket], joined: int, seed: int
) -> None:
    """In trains, in single datagrams between them, and in one after a call that had marks."""
    sender, receiver = told
    rows, rng = rows_of(), random.Random(seed)
    tos = np.array([rng.choice([0xE2, 0xE3, 0xE0, 0xE1]) for _ in range(ROWS)], np.uint8)
    tos[20:60], tos[60:100] = 0xE3, 0xE2
    sender.load(rows, joined=joined, tos=tos)
    for first in (0, 30, 60, 10):
        chosen = np.arange(first, first + 40)
        assert sender.send(chosen) == len(chosen)
        got = 0
        while got < len(chosen):
            count = receiver.receive()
            here = chosen[got : got + count]
            assert (receiver.received[:count, :ROW_BYTES] == rows[here]).all()
            wanted = tos[here] & 3 == 3
            assert (receiver.marked is None) == (not wanted.any())
            if receiver.marked is not None:
                assert receiver.marked.tolist() == wanted.tolist()
            got += count


def test_who_does_not_ask_is_told_no_marks(pair: tuple[BatchSocket, BatchSocket]) -> None:
    sender, receiver = pair
    rows = rows_of()
    sender.load(rows, tos=np.full(ROWS, 0xE3, np.uint8))
    assert sender.send(np.arange(40)) == receiver.receive() == 40
    assert (took(receiver, 40) == rows[:40]).all()
    assert receiver.marked is None
