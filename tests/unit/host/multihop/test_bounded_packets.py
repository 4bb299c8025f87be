# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which packets between neighbours are waited for, and what a bound allows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sumwire.multihop.bounded_ring import allowances
from sumwire.multihop.schedule import HopError
from sumwire.multihop.transfer import PACKET, VALUES, Incoming, OutgoingTensor, Path, TransferState, here, unpack_state

TOKEN = 7


def test_allowances_by_hand() -> None:
    # 16 of 1600 contributions, 4 for each segment: 1 + 2 for the first two hops, and 1 is left for the first.
    assert allowances(0.01, 400, 4) == [[2, 1, 0]] * 4
    # Two ranks: one hop. 10 % of 2 x 50 contributions, half of them in each segment.
    assert allowances(0.1, 50, 2) == [[5], [5]]
    assert allowances(0.0, 400, 4) == [[0, 0, 0]] * 4
    # 8 of 9: 2, 3 and 3 for the segments, and each has one packet.
    assert allowances(0.9, 3, 3) == [[1, 0], [1, 1], [1, 1]]
    assert allowances(0.5, 10, 1) == [[]]


@pytest.mark.parametrize("ranks", [2, 3, 4, 7])
@pytest.mark.parametrize("bound", [0.01, 0.05, 0.3, 0.99])
def test_allowances_never_exceed_the_bound(ranks: int, bound: float) -> None:
    for chunks in [*range(1, 40), 1000, 12345]:
        spent = sum(
            packets * hop for hops in allowances(bound, chunks, ranks) for hop, packets in enumerate(hops, start=1)
        )
        allowed = math.floor(bound * chunks * ranks)
        assert spent <= allowed
        if chunks >= 1000 and bound < 0.5:
            assert spent > 0.9 * allowed


def test_a_state_survives_its_packet() -> None:
    settled = np.array([True] * 9 + [False, True])
    left_out = np.array([False] * 10 + [True])
    raw = TransferState(3, 70_000, settled, left_out, 12, 5, asks=True).packed(TOKEN)
    assert len(raw) == 32 + 2 + 2
    state = unpack_state(np.frombuffer(raw, np.uint8), TOKEN)
    assert state is not None
    assert (state.operation, state.first, state.arrived, state.marked, state.asks) == (3, 70_000, 12, 5, True)
    assert state.settled.tolist() == settled.tolist()
    assert state.left_out.tolist() == left_out.tolist()


def test_what_is_no_state_of_this_ring_is_none() -> None:
    raw = TransferState(0, 0, np.ones(3, np.bool_), np.zeros(3, np.bool_)).packed(TOKEN)
    for other in (raw[:31], raw[:-1], raw + b"\0", b"\0" + raw[1:], here(0, TOKEN, done=False), b""):
        assert unpack_state(np.frombuffer(other, np.uint8), TOKEN) is None
    assert unpack_state(np.frombuffer(raw, np.uint8), TOKEN + 1) is None


class Taken:
    """What came, and what was left out, by number."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self.left_out: list[int] = []

    def take(self, numbers: np.ndarray, values: np.ndarray, counts: np.ndarray) -> None:
        assert values[:, 0].tolist() == numbers.tolist()
        self.came += numbers.tolist()

    def leave_out(self, numbers: np.ndarray) -> None:
        self.left_out += numbers.tolist()


def packets(*numbers: int, sent_below: int | None = None, length: int = 1) -> np.ndarray:
    """DATA as a sender makes it that sends in order; ``sent_below`` for packets that go again."""
    made = np.zeros(len(numbers), PACKET)
    made["number"], made["values"] = numbers, np.array(numbers)[:, None]
    made["sent_below"] = numbers if sent_below is None else sent_below
    made["length"] = length
    return made


def incoming(count: int, *allowed: int, hop: list[int] | None = None) -> tuple[Incoming, Taken]:
    taken = Taken()
    return Incoming(count, 1, taken, np.array(hop or [0] * count), np.array(allowed)), taken


def arrive(to: Incoming, *numbers: int, sent_below: int | None = None) -> None:
    to.arrive(packets(*numbers, sent_below=sent_below), np.zeros(len(numbers), np.uint8))


def test_three_later_packets_make_one_lost() -> None:
    stream, taken = incoming(8, 1)
    arrive(stream, 0, 2, 3)
    assert taken.left_out == []
    arrive(stream, 4)
    assert taken.left_out == [1]
    assert taken.came == [0, 2, 3, 4]
    # What comes after all is not taken: its sender is told that it was left out.
    arrive(stream, 1)
    assert taken.came == [0, 2, 3, 4]
    state = stream.state(0)
    assert state.settled.tolist() == [True] * 5
    assert state.left_out.tolist() == [False, True, False, False, False]


def test_a_packet_that_the_bound_does_not_allow_is_waited_for() -> None:
    stream, taken = incoming(8, 1)
    arrive(stream, 2, 3, 4, 5, 6, 7)
    assert taken.left_out == [0]
    assert not stream.done
    arrive(stream, 1, sent_below=8)
    assert taken.came == [2, 3, 4, 5, 6, 7, 1]
    assert stream.done


def test_each_hop_has_its_own_allowance() -> None:
    stream, taken = incoming(8, 0, 2, hop=[0, 0, 1, 1, 1, 1, 1, 1])
    arrive(stream, 5, 6, 7)
    assert taken.left_out == [2, 3]


def test_packets_that_go_again_tell_how_far_the_sender_is() -> None:
    """The last packets have none behind them; those that are sent again after them overtake."""
    stream, taken = incoming(6, 3)
    arrive(stream, 0, 1)
    arrive(stream, 0, 1, sent_below=6)
    assert taken.left_out == []
    arrive(stream, 2, sent_below=6)
    assert taken.left_out == [3, 4, 5]
    assert stream.done


def test_a_packet_twice_is_taken_once() -> None:
    stream, taken = incoming(3, 0)
    arrive(stream, 1, 1)
    arrive(stream, 1, 0)
    assert sorted(taken.came) == [0, 1]


def test_a_number_beyond_the_tensor_is_passed_over() -> None:
    stream, taken = incoming(3, 0)
    arrive(stream, 9)
    assert taken.came == []


def test_another_tensor_is_an_error() -> None:
    stream, _ = incoming(3, 0)
    with pytest.raises(HopError, match="tensor of 5 values: this rank has 1"):
        stream.arrive(packets(0, length=5), np.zeros(1, np.uint8))


def outgoing(count: int) -> tuple[OutgoingTensor, Path]:
    made = OutgoingTensor(count, count * VALUES, np.full(count, 0xF8, np.uint8), 0xE2)
    made.fill(np.arange(count), np.zeros((count, VALUES), np.float32), np.ones(count, np.int64))
    return made, Path()


def answer(
    stream: OutgoingTensor, path: Path, settled: str, now: float, *, left_out: str = "", arrived: int = 0
) -> None:
    """A state from number 0 on, of ones and zeros."""
    flags = [np.array([bit == "1" for bit in bits.ljust(len(settled), "0")]) for bits in (settled, left_out)]
    stream.answered(TransferState(0, 0, *flags, arrived), path, now)


def test_packets_go_out_within_the_window_and_again_when_overtaken() -> None:
    stream, path = outgoing(20)
    first = stream.due(path, 0.0)
    assert first.tolist() == list(range(10))
    stream.stamp(first)
    assert stream.packets["sent_below"][:10].tolist() == list(range(10))
    stream.sent(first, 0.0)
    assert stream.due(path, 0.001).tolist() == []
    answer(stream, path, "1101", 0.01, arrived=3)
    assert stream.due(path, 0.01).tolist() == list(range(10, 16)), "two later ones are no sign yet"
    answer(stream, path, "110111", 0.01, arrived=5)
    again = stream.due(path, 0.01)
    assert again.tolist()[0] == 2
    stream.stamp(again)
    stream.sent(again, 0.01)
    assert stream.tos[2] == 0xE2, "protected now"
    assert stream.tos[3] == 0xF8
    assert stream.again == 1
    assert 2 not in stream.due(path, 0.011)


def test_what_the_neighbour_left_out_does_not_go_again() -> None:
    stream, path = outgoing(6)
    stream.sent(stream.due(path, 0.0), 0.0)
    answer(stream, path, "111111", 0.01, left_out="01", arrived=5)
    assert stream.done
    assert stream.left_out.tolist() == [False, True, False, False, False, False]
    assert stream.again == 0


def test_a_silent_neighbour_is_sent_some_packets_again_later_each_time() -> None:
    stream, path = outgoing(8)
    stream.sent(stream.due(path, 0.0), 0.0)
    expiry = stream.expiry(path)
    assert expiry == pytest.approx(0.06)
    again = stream.due(path, 0.0601)
    assert again.tolist() == [0, 1, 2, 3]
    stream.sent(again, 0.0601)
    assert stream.expiry(path) == pytest.approx(0.0601 + 0.12)


def test_only_what_is_known_goes_out() -> None:
    stream, path = outgoing(0)
    assert stream.done
    stream = OutgoingTensor(3, 3 * VALUES, np.zeros(3, np.uint8), 0)
    assert stream.due(path, 0.0).tolist() == []
    stream.fill(np.array([1]), np.ones((1, VALUES), np.float32), np.array([2]))
    due = stream.due(path, 0.0)
    assert due.tolist() == [1]
    stream.stamp(due)
    # Number 0 has not been sent, so nothing may count as sent before.
    assert stream.packets["sent_below"][1] == 0
    assert stream.packets["count"][1] == 2


def test_a_window_that_is_not_used_does_not_grow() -> None:
    path = Path()
    path.results(5, 0, 0.0, marked=0, used=4)
    assert path.limit.chunks == 10
    path.results(5, 0, 0.0, marked=0, used=5)
    assert path.limit.chunks == 15
    path.results(5, 0, 1.0, marked=1, used=0)
    assert path.limit.chunks == 7


@pytest.mark.parametrize(("lost", "smaller"), [(2, False), (3, True)])
def test_only_more_than_2_percent_of_loss_is_a_full_queue(lost: int, smaller: bool) -> None:
    path = Path()
    for now in (0.0, 1.0):
        path.results(100, lost, now, marked=0, used=1000)
    assert (path.limit.chunks < 110) == smaller
