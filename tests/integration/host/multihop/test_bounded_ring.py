# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rings and pairs over real UDP sockets, on links that lose and mark packets by rule."""

from __future__ import annotations

import math
import select
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest
from helpers.waiting import until
from sumwire.dlcp.tags import LayerMagnitude, Tag, tagger
from sumwire.multihop import HopError, Neighbours, PointToPoint
from sumwire.multihop.bounded_ring import BoundedRing, Reduced, Tagger
from sumwire.multihop.transfer import DATA, PACKET, STATE, VALUES

HOST = "127.0.0.1"
TOKEN = 0x1234_5678_9ABC_DEF0
# From linux/in.h.
IP_RECVTOS = 13


@dataclass(frozen=True)
class Seen:
    """A datagram on link number ``link``: whether it goes to the next rank (else it is an answer), its place among
    those
    of this direction, from 0, its bytes and its TOS byte."""

    link: int
    onward: bool
    place: int
    data: bytes
    tos: int


# What becomes of it: the TOS byte that it goes on with, or None if it is lost.
Rule = Callable[[Seen], int | None]


def passes(seen: Seen) -> int | None:
    return seen.tos


@dataclass
class Link:
    """Between two ranks: ``to_next`` is where the one sends values, ``to_before`` where the other sends answers."""

    number: int
    rule: Rule
    seen: list[Seen] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.to_next, self.to_before = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        for end in (self.to_next, self.to_before):
            end.bind((HOST, 0))
            end.setsockopt(socket.IPPROTO_IP, IP_RECVTOS, 1)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)

    def forward(self, sender: tuple[str, int], receiver: tuple[str, int], stop: threading.Event) -> None:
        """Until ``stop``: pass on what comes, from and to these addresses."""
        places = {True: 0, False: 0}
        while not stop.is_set():
            for end in select.select([self.to_next, self.to_before], [], [], 0.05)[0]:
                data, ancillary, _, _ = end.recvmsg(2048, socket.CMSG_SPACE(4))
                tos = next((value[0] for _, kind, value in ancillary if kind == socket.IP_TOS), 0)
                onward = end is self.to_next
                seen = Seen(self.number, onward, places[onward], data, tos)
                places[onward] += 1
                self.seen.append(seen)
                given = self.rule(seen)
                if given is None:
                    continue
                # The ends are connected, so what goes on comes from the other end of the link.
                other, target = (self.to_before, receiver) if onward else (self.to_next, sender)
                control = [(socket.IPPROTO_IP, socket.IP_TOS, bytes([given]))]
                other.sendmsg([data], control, 0, target)


@dataclass
class Ring:
    """``links``: number r is between rank r and the next one."""

    ranks: list[BoundedRing]
    neighbours: list[Neighbours]
    links: list[Link]
    pool: ThreadPoolExecutor

    def reduce(self, values: Sequence[np.ndarray], tag: Tagger | None = None) -> list[Reduced]:
        """All ranks at once."""
        calls = [self.pool.submit(rank.reduce, x, tag) for rank, x in zip(self.ranks, values, strict=True)]
        return [call.result(30) for call in calls]


@contextmanager
def ring(ranks: int, bound: float = 0.0, rule: Rule = passes, silence_s: float = 10.0) -> Iterator[Ring]:
    """A ring of so many ranks in this process; every link has the rule."""
    stop = threading.Event()
    ends = [Neighbours(HOST, silence_s=silence_s) for _ in range(ranks)]
    links = [Link(number, rule) for number in range(ranks)]
    with ThreadPoolExecutor(3 * ranks) as pool:
        for rank, end in enumerate(ends):
            after, link, behind = ends[(rank + 1) % ranks], links[rank], links[rank - 1]
            end.connect(behind.to_before.getsockname(), link.to_next.getsockname(), TOKEN)
            pool.submit(link.forward, (HOST, end.ports.answers), (HOST, after.ports.values), stop)
        try:
            yield Ring([BoundedRing(end, ranks, n, bound) for n, end in enumerate(ends)], ends, links, pool)
        finally:
            list(pool.map(Neighbours.close, ends))
            stop.set()
    for link in links:
        link.to_next.close()
        link.to_before.close()


PACKETS = 24
SIZE = PACKETS * VALUES - 5
PROTECTED = Tag(7).tos


def number_of(seen: Seen) -> int | None:
    """The number of a packet of values; None for anything else."""
    if not seen.onward or len(seen.data) != PACKET.itemsize:
        return None
    packet = np.frombuffer(seen.data, PACKET)[0]
    return int(packet["number"]) if packet["kind"] == DATA else None


def given(ranks: int, size: int = SIZE) -> list[np.ndarray]:
    """Whole numbers, so that sums are exact in any order."""
    return [np.random.default_rng([rank, size]).integers(-99, 99, size).astype(np.float32) for rank in range(ranks)]


class Loses:
    """Loses the first transmission of these packets, on every link."""

    def __init__(self, numbers: set[int]) -> None:
        self.numbers = numbers
        # Link, operation and number of each.
        self.lost: set[tuple[int, int, int]] = set()

    def __call__(self, seen: Seen) -> int | None:
        number = number_of(seen)
        if number not in self.numbers:
            return seen.tos
        which = (seen.link, int(np.frombuffer(seen.data, PACKET)["operation"][0]), number)
        if which in self.lost:
            return seen.tos
        self.lost.add(which)
        return None


def transmissions(link: Link, number: int) -> list[Seen]:
    return [seen for seen in link.seen if number_of(seen) == number]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_all_ranks_get_the_sum(ranks: int) -> None:
    with ring(ranks) as made:
        for size in (0, 1, VALUES, VALUES + 1, SIZE):
            found = made.reduce(given(ranks, size))
            for reduced in found:
                assert np.array_equal(reduced.sums, sum(given(ranks, size)))
                assert np.all(reduced.counts == ranks)
                assert not reduced.kept.any()


def test_a_lost_partial_sum_is_left_out_and_stays_with_its_sender() -> None:
    """Packet 4 is one of the first hop. 5 % of 72 contributions allow one packet of it in each segment."""
    rule = Loses({4})
    with ring(3, 0.05, rule) as made:
        found = made.reduce(given(3))
    assert len(rule.lost) == 3, "one on every link"
    values = given(3)
    for rank, reduced in enumerate(found):
        # A rank sends its own segment first: packets 0 to 7 are its chunks 8 * rank and after.
        lost = slice((8 * rank + 4) * VALUES, min((8 * rank + 5) * VALUES, SIZE))
        assert np.array_equal(reduced.kept[lost], values[rank][lost])
        assert np.array_equal(reduced.sums[lost], sum(values)[lost] - values[rank][lost])
        assert np.all(reduced.counts[lost] == 2)
        assert np.count_nonzero(reduced.kept) == np.count_nonzero(values[rank][lost])
        assert np.array_equal(reduced.sums, found[0].sums)


def test_without_a_bound_it_is_sent_again_and_protected() -> None:
    rule = Loses({4})
    with ring(3, 0.0, rule) as made:
        found = made.reduce(given(3), tagger(LayerMagnitude((7,)), 0.0))
        for link in made.links:
            first, *more = transmissions(link, 4)
            assert first.tos != PROTECTED or Tag.of(first.tos).drop_class == 0
            assert {seen.tos for seen in more} == {PROTECTED}
    for reduced in found:
        assert np.array_equal(reduced.sums, sum(given(3)))
        assert not reduced.kept.any()


@pytest.mark.parametrize("bound", [0.05, 0.1, 0.4])
@pytest.mark.parametrize("ranks", [2, 4])
def test_no_more_than_the_bound_is_missing_and_nothing_is_lost_over_time(ranks: int, bound: float) -> None:
    """Every fifth packet is lost at first, of sums too."""
    rule = Loses(set(range(1, 2 * PACKETS, 5)))
    with ring(ranks, bound, rule) as made:
        found = made.reduce(given(ranks))
        stats = [rank.stats for rank in made.ranks]
    missing = int((ranks - found[0].counts[::VALUES]).sum())
    assert 0 < missing <= math.floor(bound * PACKETS * ranks)
    assert np.array_equal(found[0].sums + sum(reduced.kept for reduced in found), sum(given(ranks)))
    for reduced in found:
        assert np.array_equal(reduced.sums, found[0].sums)
        assert np.array_equal(reduced.counts, found[0].counts)
    assert {one.missing for one in stats} == {missing}
    assert sum(one.left_out for one in stats) <= missing


def test_sums_are_never_left_out() -> None:
    """Three ranks: packets 16 to 31 of each link are sums that go around."""
    rule = Loses(set(range(16, 32)))
    with ring(3, 0.4, rule) as made:
        found = made.reduce(given(3))
    assert len(rule.lost) == 3 * 16
    for reduced in found:
        assert np.array_equal(reduced.sums, sum(given(3)))


def test_packets_are_tagged_by_their_magnitude_and_sums_are_protected() -> None:
    """In a front layer of 24 packets, 40 % rounded up are class 0, 20 % class 1, 10 % class 2 and the rest class 3."""
    falling = np.repeat(np.arange(PACKETS, 0, -1, dtype=np.float32), VALUES)
    with ring(2, 0.05) as made:
        made.reduce([falling, falling], tagger(LayerMagnitude((7,)), 0.0))
        tags = [[Tag.of(transmissions(link, number)[0].tos) for number in range(PACKETS)] for link in made.links]
        # A rank that has not begun says HERE, and does not know the tag.
        answers = {seen.tos for link in made.links for seen in link.seen if not seen.onward and seen.data[2] == STATE}
    expected = [0] * 10 + [1] * 5 + [2] * 2 + [3] * 7
    assert [tag.drop_class for tag in tags[0][:12]] == expected[:12]
    assert [tag.drop_class for tag in tags[1][:12]] == expected[12:]
    assert {tag.drop_class for each in tags for tag in each[12:]} == {0}
    assert {tag.priority for each in tags for tag in each} == {7}
    assert answers == {PROTECTED}


def test_marks_make_the_window_smaller() -> None:
    def marks(seen: Seen) -> int:
        return PROTECTED | 3 if seen.onward else seen.tos

    windows = []
    for rule in (passes, marks):
        with ring(2, 0.0, rule) as made:
            for _ in range(3):
                made.reduce(given(2, 4 * SIZE))
            windows.append(max(end.window for end in made.neighbours))
    assert windows[1] < 10 < windows[0]


def test_answers_may_be_lost() -> None:
    def every_other(seen: Seen) -> int | None:
        return seen.tos if seen.onward or seen.place % 2 else None

    with ring(3, 0.0, every_other) as made:
        for _ in range(3):
            for reduced in made.reduce(given(3)):
                assert np.array_equal(reduced.sums, sum(given(3)))


def test_a_rank_that_is_done_answers_one_that_does_not_know() -> None:
    """The link to rank 1 loses all answers until rank 1 has its result: its thread then answers what comes again.

    Four packets are fewer than the first window.
    """
    values = given(2, 4 * VALUES)
    done: list[int] = []

    def deaf(seen: Seen) -> int | None:
        return seen.tos if seen.onward or done else None

    with ring(2) as made:
        made.links[0].rule = deaf
        calls = [made.pool.submit(rank.reduce, x) for rank, x in zip(made.ranks, values, strict=True)]
        assert np.array_equal(calls[1].result(30).sums, sum(values))
        assert not calls[0].done()
        done.append(1)
        assert np.array_equal(calls[0].result(30).sums, sum(values))


def test_a_rank_that_comes_late_is_waited_for() -> None:
    """Longer than a silent one would be: its thread answers for it."""
    with ring(2, silence_s=0.5) as made:
        early = made.pool.submit(made.ranks[0].reduce, given(2)[0])
        # Ten packets, and then four again after 0.06 s, 0.12 s and so on: some 0.9 s.
        until(lambda: sum(number_of(seen) is not None for seen in made.links[0].seen) > 24)
        assert np.array_equal(made.ranks[1].reduce(given(2)[1]).sums, sum(given(2)))
        assert np.array_equal(early.result(30).sums, sum(given(2)))


def test_a_neighbour_that_is_gone_is_named() -> None:
    with ring(2, silence_s=0.5) as made:
        made.neighbours[1].close()
        with pytest.raises(HopError, match=r"neighbour (after|before) this rank for 0.5 s"):
            made.ranks[0].reduce(given(2)[0])


def test_another_call_is_an_error() -> None:
    with ring(2, silence_s=0.5) as made:
        calls = [made.pool.submit(made.ranks[rank].reduce, np.ones(3 + rank, np.float32)) for rank in range(2)]
        errors = [call.exception(30) for call in calls]
    assert all(isinstance(error, HopError) for error in errors)
    assert "values: this rank has" in " ".join(map(str, errors))


def test_packets_of_others_change_nothing() -> None:
    with ring(2) as made, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        forged = np.zeros(1, PACKET)
        forged["magic"], forged["kind"], forged["length"], forged["values"] = 0x5352, DATA, SIZE, 1e9
        for token in (0, TOKEN + 1):
            forged["token"] = token
            for link in made.links:
                for data in (forged.tobytes(), b"", b"x", forged.tobytes()[:40]):
                    stranger.sendto(data, link.to_next.getsockname())
                    stranger.sendto(data, link.to_before.getsockname())
        for reduced in made.reduce(given(2)):
            assert np.array_equal(reduced.sums, sum(given(2)))


@pytest.fixture
def pair() -> Iterator[tuple[Neighbours, Neighbours, Link]]:
    """Two hosts, and the link from the first to the second."""
    with ring(2) as made:
        yield made.neighbours[0], made.neighbours[1], made.links[0]


def test_one_tensor_from_host_to_host(pair: tuple[Neighbours, Neighbours, Link]) -> None:
    """5 % of 24 packets is one: of two lost ones the first is left out, and the other one sent again."""
    here, there, link = pair
    link.rule = Loses({3, 9})
    sender, receiver = PointToPoint(here, 0.05), PointToPoint(there, 0.05)
    values = given(1)[0]
    with ThreadPoolExecutor(1) as pool:
        for operation in range(2):
            sending = pool.submit(sender.send, values)
            received = receiver.receive(SIZE)
            kept = sending.result(30)
            lost = slice(3 * VALUES, 4 * VALUES)
            assert not received.came[lost].any(), operation
            assert received.came.sum() == SIZE - VALUES
            assert np.array_equal(received.values + kept, values)
            assert np.array_equal(np.flatnonzero(kept), 3 * VALUES + np.flatnonzero(values[lost]))
