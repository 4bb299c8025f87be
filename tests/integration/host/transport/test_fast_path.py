# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""An exchange by C: it does what Python does, and returns at each thing that is not usual."""

from __future__ import annotations

import errno
import math
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.transport.udp_bridge import aggregator_of, configs, job_mapping
from sumwire.native import SWITCH
from sumwire.transport.exchange import Exchange, FastPath
from sumwire.transport.options import Delivery, ExchangeOptions, TransportOptions
from sumwire.transport.retransmission import RttEstimator
from sumwire.transport.steady import Outcome
from sumwire.transport.udp import Transport
from sumwire.wire import packets as wire
from sumwire.wire.authentication import Tags, key_record
from sumwire_protocol import constants as p4

pytestmark = pytest.mark.cc
SLOTS = 32
WINDOW = SLOTS // 2
CHUNKS = 400
KEY = bytes(range(32))


class Rig:
    """The only worker of a job, an exchange whose first window is sent, and the switch's end of its socket."""

    def __init__(self, transport: Transport, chunks: int, filled: int, options: ExchangeOptions) -> None:
        self.transport = transport
        config = transport._config
        record = key_record(config.key, config.job, config.aggregator)
        self.tags = None if config.key is None else Tags(record)
        self.switch = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.switch.bind(transport.link.udp.getpeername())
        self.switch.connect(transport.link.udp.getsockname())
        self.switch.settimeout(5)
        self.exchange: Exchange = transport.open(p4.OP_THC, chunks, options=options)
        self.exchange.payload[:] = np.arange(self.exchange.payload.size, dtype=np.uint8).reshape(
            self.exchange.payload.shape
        )
        self.exchange.ready(filled)
        self.outcomes: list[Outcome] = []
        self.sent = {header.chunk: header for header in self.heard(min(WINDOW, filled))}

    @property
    def path(self) -> FastPath:
        assert self.exchange._fast_path is not None
        return self.exchange._fast_path

    def heard(self, count: int) -> list[wire.Header]:
        """The next so many contributions. Single ones and trains arrive alike, since the socket takes no trains."""
        heard = [self.switch.recv(1 << 16) for _ in range(count)]
        if self.tags is not None:
            assert all(self.tags.opened(datagram) for datagram in heard)
            heard = [datagram[: -p4.TAG_BYTES] for datagram in heard]
        return [wire.unpack(datagram)[0] for datagram in heard]

    def answer(
        self, chunks: Sequence[int], to: socket.socket | None = None, *, flipped: int = 0, **changes: int
    ) -> None:
        """Results of contributions: the sums are twice the four planes. ``flipped``: bits of the last byte."""
        for chunk in chunks:
            head = self.sent[chunk]
            fields = {"kind": p4.KIND_RESULT, "words": 8, "contributors": 1} | changes
            result = wire.Header(**{name: getattr(head, name) for name in head.__slots__} | fields)
            up = self.exchange.payload[chunk].tobytes()
            datagram = bytearray(wire.pack(result, up + up))
            if self.tags is not None:
                datagram[:] = self.tags.sealed(datagram)
            datagram[-1] ^= flipped
            (to or self.switch).send(datagram)

    def go(self, upto: int = CHUNKS) -> bool:
        """Whether C came to its end."""
        return self.path.go(upto, self.exchange._wake_at(), block=True) == Outcome.ENOUGH


@contextmanager
def rig(
    monkeypatch: pytest.MonkeyPatch,
    *,
    chunks: int = CHUNKS,
    filled: int | None = None,
    key: bytes | None = None,
    bounded: bool = False,
) -> Iterator[Rig]:
    mapping = job_mapping(1, SLOTS)
    # A machine that stands still for a moment sends nothing again, and asks nothing.
    patient = RttEstimator(initial_s=60.0, min_s=60.0, max_s=60.0)
    config = replace(configs(mapping)[0], key=key)
    delivery = Delivery(loss_bound=0.1, congestion=False) if bounded else None
    options = ExchangeOptions(bounded_from=0 if bounded else None)
    with Transport(config, TransportOptions(silence_s=600.0, delivery=delivery), rtt=patient) as transport:
        made = Rig(transport, chunks, chunks if filled is None else filled, options)
        assert made.switch.getsockname()[0] == aggregator_of(mapping)
        if made.exchange._fast_path is not None:
            run: Callable[[Any], int] = made.path._run

            def noted(state: Any) -> int:
                made.outcomes.append(Outcome(run(state)))
                return int(made.outcomes[-1])

            monkeypatch.setattr(made.path, "_run", noted)
        try:
            yield made
        finally:
            made.switch.close()


def state(made: Rig) -> list[Any]:
    """All that later decisions depend on, but for times."""
    w, stats = made.transport.window, made.transport.stats
    flight, turns = w._flight, w._turns
    arrays = (flight.flying, flight.landed, flight.first, flight.latest, flight.log[: flight.end])
    numbers = [flight.count, flight.last_first, flight.end, turns.taken, turns.to, w.open_chunks, w.completed()]
    numbers += [w._fast.threshold, w._fast.latest, w._results, flight.oldest()]
    counted = [stats.packets_sent, stats.packets_received, stats.bytes_sent, stats.bytes_received]
    results = made.exchange.results
    done = flight.landed
    stored = [results.words[done].tolist(), results.counts[done].tolist(), results.contributors[done].tolist()]
    if (catch_up := made.transport.catch_up) is not None:
        here = catch_up.kept.held(w.base, w.chunks, made.exchange._buffers.token)
        stored += [here.tolist(), *(array.tolist() for array in catch_up.kept.get(w.base + here))]
    return [
        *(array.tolist() for array in arrays),
        turns.ready[: turns.to].tolist(),
        numbers,
        counted,
        *stored,
        w.counters,
    ]


@pytest.mark.parametrize("bounded", [False, True], ids=["complete", "bounded"])
@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "keyed"])
def test_c_does_what_python_does(key: bytes | None, bounded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of results, whole windows and single ones, each followed by what it lets go. Where slots may close early,
    results are kept for other workers."""
    runs = [range(5), range(5, 6), range(6, 16), range(16, 32), range(32, 40)]
    after: list[list[Any]] = []
    for by_c in (True, False):
        with rig(monkeypatch, key=key, bounded=bounded) as made:
            for run in runs:
                made.answer(run)
                while made.transport.window.completed() < run.stop:
                    if by_c:
                        assert made.go(run.stop)
                    else:
                        made.exchange._fast_path = None
                        made.exchange.progress(block=True)
                made.sent |= {header.chunk: header for header in made.heard(len(run))}
            after.append(state(made))
            assert made.outcomes == [Outcome.ENOUGH] * len(runs) * by_c
    assert after[0] == after[1]
    assert not bounded or after[0][-2] != after[0][-3]


def window_by_window(made: Rig) -> None:
    """The whole exchange: each window is answered at once."""
    for first in range(0, CHUNKS, WINDOW):
        made.answer(range(first, first + WINDOW))
        made.exchange.progress(block=True, upto=first + WINDOW)
        left = min(WINDOW, CHUNKS - first - WINDOW)
        made.sent |= {header.chunk: header for header in made.heard(left)}
    assert made.transport.window.done


def test_nearly_all_of_an_exchange_goes_by_c_and_what_may_be_sent_is_sent_before_a_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C itself keeps the limit of how far ahead chunks may be sent. With nothing in flight, nothing ends a wait but a
    question to the switch, a quarter of a second later."""
    with rig(monkeypatch) as made:
        monkeypatch.setattr(made.exchange, "_wait", lambda: pytest.fail("it waits, and has something to send"))
        window_by_window(made)
        assert not made.go(), "it would wait for what nobody sends"
        assert set(made.outcomes) <= {Outcome.ENOUGH, Outcome.FEW_LEFT}
        # Now and then Python looks how far ahead chunks may be sent.
        assert made.outcomes.count(Outcome.ENOUGH) >= CHUNKS // WINDOW - 2


def test_an_overtaken_chunk_is_sent_again_before_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    with rig(monkeypatch) as made:
        monkeypatch.setattr(made.exchange, "_wait", lambda: pytest.fail("it waits, and has something to send"))
        made.answer(range(1, WINDOW))
        made.exchange.progress(block=True, upto=CHUNKS)
        assert made.outcomes == [Outcome.OVERTAKEN]
        assert made.heard(WINDOW)[0].chunk == 0
        assert made.transport.window.counters.resent_quick == 1


def test_after_two_windows_python_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the round trip, the congestion window and the length of trains."""
    with rig(monkeypatch) as made:
        made.answer(range(3))
        assert made.go(3)
        monkeypatch.setattr(made.transport.window, "wake_at", lambda *_: made.transport.window.progress_at)
        made.go(CHUNKS)
        assert made.path._state.until_prefix == 3 + SLOTS


def test_a_timer_is_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    with rig(monkeypatch) as made:
        monkeypatch.setattr(made.transport.window, "wake_at", lambda *_: made.transport.window.progress_at)
        assert not made.go()
        assert made.outcomes == [Outcome.TIME_OVER]


@pytest.mark.parametrize("changes", [{"flags": p4.FLAG_CE}, {"bucket": 1}, {"count": 0}, {"kind": p4.KIND_STALE}])
def test_other_messages_are_left_to_python(changes: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes in what it can use, and refuses what it would refuse."""
    with rig(monkeypatch) as made:
        made.answer([0], **changes)
        if "bucket" in changes:
            with pytest.raises(Exception, match="bucket 1"):
                made.exchange.progress(block=True)
        else:
            made.exchange.progress(block=True)
        assert made.outcomes == [Outcome.OTHER_MESSAGES]
        assert made.transport.window.completed() == int("flags" in changes)
        assert made.transport.stats.packets_received == 1


@pytest.mark.parametrize("right", [0, 3])
def test_a_wrong_tag_is_counted_and_not_taken(right: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beside right ones, which are taken."""
    with rig(monkeypatch, key=KEY) as made:
        made.answer([0], flipped=1)
        made.answer(range(1, 1 + right))
        made.exchange.progress(block=True)
        assert made.outcomes == [Outcome.OTHER_MESSAGES]
        assert made.transport.stats.forged == 1
        assert made.transport.window._flight.landed[:5].tolist() == [False] + [True] * right + [False] * (4 - right)
        made.answer([0])
        made.exchange.progress(block=True, upto=1 + right)
        assert made.transport.window.completed() == 1 + right
        assert made.transport.stats.forged == 1


def test_for_the_last_few_chunks_python_sets_the_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    """An overtaken one of them is left to it, too: nothing follows that could overtake it three times."""
    with rig(monkeypatch, chunks=WINDOW) as made:
        made.answer(range(WINDOW - 4))
        assert not made.go()
        monkeypatch.setattr(made.transport.window, "wake_at", lambda *_: made.transport.window.progress_at + 60)
        made.answer([WINDOW - 1])
        assert not made.go()
        made.answer(range(WINDOW - 4, WINDOW - 1))
        assert made.go()
        assert made.outcomes == [Outcome.FEW_LEFT, Outcome.OVERTAKEN, Outcome.ENOUGH]
        assert made.transport.window.done


def test_a_part_that_is_not_filled_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with rig(monkeypatch, filled=WINDOW) as made:
        made.answer(range(5))
        assert made.go(5)
        made.exchange.ready(CHUNKS)
        assert [header.chunk for header in made.heard(5)] == [16, 17, 18, 19, 20]


def test_what_a_full_socket_does_not_take_is_sent_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket of another family, since no UDP socket on loopback is ever full."""
    with rig(monkeypatch) as made:
        made.answer(range(3))
        assert made.go(3)
        made.sent |= {header.chunk: header for header in made.heard(3)}
        worker, peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with worker, peer:
            full = fill(worker)
            # As of every socket of a worker.
            worker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, 3000))
            made.path._socket.descriptor = worker.fileno()
            made.transport.link.socket.joined = 1
            for _ in range(3):
                peer.recv(1)
            made.answer(range(3, 8), peer)
            assert not made.go()
            assert made.outcomes[-1] == Outcome.HELD
            taken = [wire.unpack(packet)[0].chunk for packet in rest(peer, full - 3)]
        held = made.transport.window.held.tolist()
        assert 0 < len(held) < 5
        assert taken + held == [19, 20, 21, 22, 23]
        made.exchange._sender.send()
        assert [header.chunk for header in made.heard(len(held))] == held
        assert made.transport.window.counters.sent == WINDOW + 8
        assert made.transport.stats.packets_sent == WINDOW + 8


def fill(worker: socket.socket) -> int:
    """Send single bytes until there is no room. Returns how many."""
    for sent in range(1 << 16):
        try:
            worker.send(b"x", socket.MSG_DONTWAIT)
        except BlockingIOError:
            return sent
    raise AssertionError("a socket without bounds")


def rest(peer: socket.socket, padding: int) -> list[bytes]:
    """What has arrived, but for the first so many."""
    peer.setblocking(False)
    packets = []
    try:
        while True:
            packets.append(peer.recv(1 << 16))
    except BlockingIOError:
        return packets[padding:]


def test_a_switch_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with rig(monkeypatch) as made:
        made.answer(range(3))
        assert made.go(3)
        made.switch.close()
        # Its packet meets no socket, and the kernel remembers that.
        made.transport.link.udp.send(b"")
        assert not made.go()
        assert made.outcomes[-1] == Outcome.RECEIVE_FAILED
        assert "refused" in made.transport.link.last_failure
        assert made.transport.stats.send_failures == 1


@pytest.mark.parametrize(("number", "lost"), [(errno.EAGAIN, 0), (errno.EIO, 0), (errno.ENOBUFS, 1)])
def test_an_error_of_sending_loses_at_most_its_packet(number: int, lost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with rig(monkeypatch) as made:
        assert made.transport.link.failed(number, sending=True) == lost
        assert made.transport.stats.send_failures == lost


def test_python_goes_on_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a compiler, with another clock, and while the window has other things to do."""
    with rig(monkeypatch) as made:
        made.transport.window._urgent.append(3)
        assert not made.go()
        assert made.outcomes == []
    mapping = job_mapping(1, SLOTS)
    with Transport(configs(mapping)[0], clock=lambda: math.pi) as transport:
        assert transport.open(p4.OP_THC, 1)._fast_path is None
    monkeypatch.setenv(SWITCH, "0")
    with Transport(configs(mapping)[0]) as transport:
        assert transport.open(p4.OP_THC, 1)._fast_path is None
