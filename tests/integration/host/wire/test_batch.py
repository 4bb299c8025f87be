# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Batches of datagrams through real sockets: what is sent arrives, each row a datagram, in order."""

from __future__ import annotations

import ctypes
import errno
import random
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sumwire.errors import UsageError
from sumwire.wire import batch
from sumwire.wire.batch import JOINED_ROWS, BatchSocket

ROWS, ROW_BYTES, BATCH = 200, 536, 64


@pytest.fixture
def pair() -> Iterator[tuple[BatchSocket, BatchSocket]]:
    """(sender, receiver) over loopback."""
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect(receiver.getsockname())
    ends = [BatchSocket(sock, row_bytes=2 * ROW_BYTES, batch=BATCH) for sock in (sender, receiver)]
    yield ends[0], ends[1]
    for end in ends:
        end.close()


def rows_of(seed: int = 1, size: int = ROW_BYTES) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (ROWS, size), dtype=np.uint8)


def took(end: BatchSocket, count: int) -> NDArray[np.uint8]:
    assert set(end.sizes[:count].tolist()) <= {ROW_BYTES}
    return end.received[:count, :ROW_BYTES]


@pytest.mark.parametrize("joined", [1, JOINED_ROWS])
@pytest.mark.parametrize("seed", range(10))
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
    sender.load(rows_of())
    sender.send(np.arange(5))
    began = time.monotonic()
    assert receiver.receive(2) == 2
    assert receiver.receive(BATCH) == 3
    assert receiver.receive(BATCH) == 0
    assert time.monotonic() - began < 5.0


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
    assert refused == [BATCH // JOINED_ROWS]


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


def test_other_systems_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    batch.calls.cache_clear()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, pytest.raises(UsageError, match=r"darwin.*Linux"):
        BatchSocket(sock, row_bytes=8, batch=1)


def tagged_receiver() -> socket.socket:
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    receiver.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    receiver.settimeout(5.0)
    return receiver


def took_tagged(receiver: socket.socket, count: int) -> list[tuple[bytes, int]]:
    out = []
    for _ in range(count):
        data, control, _, _ = receiver.recvmsg(2 * ROW_BYTES, 64)
        [(level, kind, tos)] = control
        assert (level, kind) == (socket.IPPROTO_IP, socket.IP_TOS)
        out.append((data, tos[0]))
    return out


@pytest.mark.parametrize("joined", [1, JOINED_ROWS])
def test_every_datagram_has_its_tos(joined: int) -> None:
    """All values of a TOS byte, ECN bits too, also where neighbours in one piece would differ."""
    rows, rng = rows_of(), random.Random(1)
    tos = np.array([rng.choice([2, 254, 96, rng.randrange(256)]) for _ in range(ROWS)], np.uint8)
    tos[50:90] = 0xE2
    with tagged_receiver() as receiver, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(receiver.getsockname())
        sender = BatchSocket(sock, row_bytes=ROW_BYTES, batch=BATCH)
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
    with tagged_receiver() as receiver, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(receiver.getsockname())
        sender = BatchSocket(sock, row_bytes=ROW_BYTES, batch=BATCH)
        sender.load(rows_of(), tos=np.repeat(np.array([0x20, 0x40], np.uint8), ROWS // 2))
        assert sender.send(np.arange(92, 108)) == 16
        assert sender._out.vectors["length"][:2].tolist() == [8 * ROW_BYTES] * 2
        assert [tag for _, tag in took_tagged(receiver, 16)] == [0x20] * 8 + [0x40] * 8
