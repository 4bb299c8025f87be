# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Replies as messages: who gets what in which order, laid out by numpy and by C, with and without cutting."""

from __future__ import annotations

import ctypes
import errno
import random
import socket
import sys
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest
from commonlib.events import ProgramEvent
from helpers.logs import events_of
from sumwire.aggregator.batches import ROW_BYTES, Batch, Refusal, Replies
from sumwire.aggregator.kernels import kernels
from sumwire.aggregator.sockets import CONTROL, ReplySender, UdpReceiver
from sumwire.aggregator.state import packed_address
from sumwire.wire.messages import UDP_SEGMENT

PLACES = 5
# Priority 0, which the socket has by itself, and two others; all may be marked.
TOS = (0x02, 0x62, 0xE2)


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.cc)], ids=["numpy", "native"])
def native(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def receivers() -> Iterator[list[socket.socket]]:
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(PLACES)]
    for udp in sockets:
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)
        udp.bind(("127.0.0.1", 0))
    yield sockets
    for udp in sockets:
        udp.close()


@pytest.fixture
def udp() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock


def test_received_datagrams_have_their_tos(receivers: list[socket.socket], udp: socket.socket, native: bool) -> None:
    """Also where a call brings fewer than the one before, and more than that again."""
    receiver = UdpReceiver(receivers[0], 8, kernels() if native else None)
    for sent in ([0x00, 0x03, 0xE2, 0x58], [0x01], [0x1C, 0xB8, 0x00, 0x03, 0x03]):
        for tos in sent:
            udp.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
            udp.sendto(b"x", receivers[0].getsockname())
        assert receiver.receive().only().tos.tolist() == sent


def data_of(batch: Batch) -> list[bytes]:
    """The datagrams themselves."""
    sizes = np.minimum(batch.sizes[: batch.count], ROW_BYTES).tolist()
    return [ctypes.string_at(int(at), size) for at, size in zip(batch.addresses()[: batch.count], sizes, strict=True)]


def test_trains_come_in_one_piece_with_sender_and_tos(
    receivers: list[socket.socket], udp: socket.socket, native: bool
) -> None:
    """And datagrams of other senders and TOS among them as they are."""
    receiver = UdpReceiver(receivers[0], 8, kernels() if native else None)
    there = receivers[0].getsockname()
    rows = np.random.default_rng(1).integers(0, 256, (40, 536), np.uint8)
    for tos in (0x02, 0xE2):
        train = [(socket.IPPROTO_UDP, UDP_SEGMENT, (536).to_bytes(2, sys.byteorder))]
        train.append((socket.IPPROTO_IP, socket.IP_TOS, tos.to_bytes(4, sys.byteorder)))
        udp.sendmsg([rows.tobytes()[:-100]], train, 0, there)
        receivers[1].sendto(rows[7].tobytes(), there)
    for _ in range(2):
        batch = receiver.receive().only()
        if not batch.count:
            break
        assert (batch.count, batch.longest) == (2 * 41, 40)
        ports = [udp.getsockname()[1]] * 40 + [receivers[1].getsockname()[1]]
        assert batch.ports.tolist() == 2 * ports
        assert batch.tos.tolist() == [0x02] * 40 + [0] + [0xE2] * 40 + [0]
        assert batch.sizes.tolist() == 2 * ([536] * 39 + [436, 536])
        sent = [*(row.tobytes() for row in rows[:39]), rows[39, :436].tobytes(), rows[7].tobytes()]
        assert data_of(batch) == 2 * sent
        assert [row[:32].tobytes() for row in batch.rows] == [data[:32] for data in 2 * sent]
        assert [data for part in batch.parts(30) for data in data_of(part)] == 2 * sent
        parts = list(batch.parts(30))
        assert [part.count for part in parts] == [30, 30, 22]
        assert np.concatenate([part.tos for part in parts]).tolist() == batch.tos.tolist()


def test_replies_are_sent_in_trains(receivers: list[socket.socket], udp: socket.socket) -> None:
    """As many messages as there are trains of at most 64 KB, at both ends, and no longer than asked for."""
    replies = Replies(400)
    replies.count = 200
    replies.sizes[:] = 1048
    replies.tos[:] = TOS[0]
    receiver = UdpReceiver(receivers[0], 400)
    for longest, trains in ((64, [62, 62, 62, 14]), (40, [40] * 5), (1, [16] * 12 + [8])):
        sender = ReplySender(udp, [receivers[0].getsockname()], replies, kernels())
        sender.send(longest)
        batch = receiver.receive()
        assert receiver._arrivals.counts is not None
        assert receiver._arrivals.counts.tolist() == trains
        assert (batch.count, batch.longest) == (200, trains[0])


@pytest.mark.parametrize("seed", range(5))
def test_any_messages_become_datagrams(receivers: list[socket.socket], native: bool, seed: int) -> None:
    """Trains of all sizes with and without a tail, single ones, empty ones, and longer ones than a row."""
    rng = random.Random(seed)
    receiver = UdpReceiver(receivers[0], 8, kernels() if native else None)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.connect(receivers[0].getsockname())
        for _ in range(20):
            sent: list[bytes] = []
            for _ in range(rng.randrange(1, 5)):
                size = rng.choice([1, 31, 32, 544, 1056, ROW_BYTES, ROW_BYTES + 1, 3000])
                data = rng.randbytes(rng.choice([0, 1, size, rng.randrange(1, min(64 * size, 60000))]))
                other.sendmsg([data], [(socket.IPPROTO_UDP, UDP_SEGMENT, size.to_bytes(2, sys.byteorder))])
                sent += [data[at : at + size] for at in range(0, len(data), size)] or [b""]
            batch = receiver.receive()
            assert data_of(batch) == [data[:ROW_BYTES] for data in sent]
            assert [min(size, ROW_BYTES) for size in batch.sizes[: batch.count].tolist()] == [
                min(len(data), ROW_BYTES) for data in sent
            ]


def test_received_datagrams_have_their_senders(
    receivers: list[socket.socket], udp: socket.socket, native: bool
) -> None:
    receiver = UdpReceiver(receivers[0], 8, kernels() if native else None)
    for sender in (udp, receivers[1], udp):
        sender.sendto(b"x", receivers[0].getsockname())
    batch = receiver.receive().only()
    assert batch.ports.tolist() == [sender.getsockname()[1] for sender in (udp, receivers[1], udp)]
    assert set(batch.sources.tolist()) == {packed_address("127.0.0.1")}


def test_a_refusal_that_cannot_be_sent_is_counted(receivers: list[socket.socket], udp: socket.socket) -> None:
    """Nobody has port 0."""
    sender = ReplySender(udp, [receivers[0].getsockname()], Replies(1), None)
    sender.tell([Refusal(b"first", ("127.0.0.1", 0), 0x02), Refusal(b"second", receivers[0].getsockname(), 0x62)])
    assert (sender.sent, sender.unsent) == (1, 1)
    assert got(receivers) == {0: [(0x62, b"second")]}


def random_replies(rng: np.random.Generator, count: int) -> Replies:
    replies = Replies(400)
    replies.count = count
    replies.places[:count] = rng.integers(0, PLACES, count)
    replies.sizes[:count] = rng.choice([32, 160, 1056], count, p=[0.1, 0.2, 0.7])
    replies.tos[:count] = rng.choice(TOS, count)
    replies.heads[:count] = rng.integers(0, 256, replies.heads[:count].shape, np.uint8)
    # Some of them are shared.
    replies.payloads[:count] = rng.integers(0, 256, replies.payloads[:count].shape, np.uint8)
    replies.payload_of[:count] = rng.integers(0, max(count, 1), count)
    return replies


Sent = tuple[int, bytes]


def wanted(replies: Replies) -> dict[int, list[Sent]]:
    """By place: TOS and data."""
    by_place = defaultdict(list)
    for k in range(replies.count):
        by_place[int(replies.places[k])].append((int(replies.tos[k]), replies.data(k)))
    return by_place


def got(sockets: list[socket.socket]) -> dict[int, list[Sent]]:
    batches = {k: UdpReceiver(sock, 400).receive().only() for k, sock in enumerate(sockets)}
    return {
        k: [(int(tos), row[:size].tobytes()) for tos, row, size in zip(b.tos, b.rows, b.sizes, strict=True)]
        for k, b in batches.items()
        if b.count
    }


@pytest.mark.parametrize("count", [0, 1, 3, 300])
def test_everyone_gets_theirs_in_order(
    receivers: list[socket.socket], udp: socket.socket, native: bool, count: int
) -> None:
    replies = random_replies(np.random.default_rng(count), count)
    places = [receiver.getsockname() for receiver in receivers]
    sender = ReplySender(udp, places, replies, kernels() if native else None)
    sender.send()
    assert got(receivers) == wanted(replies)
    assert (sender.sent, sender.unsent) == (count, 0)


@pytest.mark.cc
@pytest.mark.parametrize("joined", [1, 4, 16, 64])
@pytest.mark.parametrize("count", [0, 1, 33, 400])
def test_c_lays_messages_out_as_numpy_does(udp: socket.socket, joined: int, count: int) -> None:
    replies = random_replies(np.random.default_rng(joined), count)
    sender = ReplySender(udp, [("127.0.0.1", 9 + k) for k in range(PLACES)], replies, kernels())

    def layout() -> tuple[object, ...]:
        made = sender.arrange(joined)
        header = sender._messages["header"][:made]
        assert header["vectors_length"].max(initial=0) <= 2 * joined
        used = header["control_length"] // CONTROL.itemsize
        controls = [
            [(int(c["length"]), int(c["level"]), int(c["type"]), int(c["size"])) for c in both[:many]]
            for both, many in zip(sender._controls[:made], used.tolist(), strict=True)
        ]
        return header.tolist(), sender._vectors[:count].tolist(), controls

    native = layout()
    sender._library = None
    sender._messages[:] = 0
    sender._controls[:] = 0
    assert layout() == native


def test_a_kernel_that_does_not_cut_gets_one_reply_a_message(
    receivers: list[socket.socket], udp: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    replies = random_replies(np.random.default_rng(1), 100)
    sender = ReplySender(udp, [receiver.getsockname() for receiver in receivers], replies, None)
    real = sender._send

    def refuses(descriptor: int, address: int, count: int, flags: int) -> int:
        # A reply of priority 0 that is not joined with others has no control message at all.
        if (sender._messages["header"]["vectors_length"][:count] > 2).any():
            ctypes.set_errno(errno.EIO)
            return -1
        return int(real(descriptor, address, count, flags))

    sender._send = refuses
    for _ in range(2):
        sender.send()
        assert got(receivers) == wanted(replies)
    [said] = caplog.messages
    assert "one by one" in said and "ethtool" in said
    assert events_of(caplog.records) == [ProgramEvent.TRAINS_MISSING]
    assert not sender.sends_trains


def test_a_place_that_cannot_be_reached_costs_the_others_nothing(
    receivers: list[socket.socket], udp: socket.socket
) -> None:
    replies = random_replies(np.random.default_rng(2), 60)
    places = [receiver.getsockname() for receiver in receivers]
    # A broadcast address, which this socket may not send to.
    places[2] = ("255.255.255.255", 9)
    sender = ReplySender(udp, places, replies, kernels())
    sender.send()
    expected = wanted(replies)
    lost = len(expected.pop(2))
    assert got(receivers) == expected
    assert (sender.sent, sender.unsent) == (60 - lost, lost)
