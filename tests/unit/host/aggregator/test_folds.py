# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""SIGN's random bits: every worker's sign has the same chance, in whatever order the packets come."""

from __future__ import annotations

import numpy as np
import pytest
from golden import model
from helpers.aggregator.streams import Datagram, aggregator, play
from helpers.packet.play import contribution
from helpers.packet.star import EVERY, HOSTS
from sumwire.aggregator import folds

WORDS = 4096


@pytest.mark.parametrize("count", range(2, 17))
def test_a_draw_is_one_in_count(count: int) -> None:
    drawn = folds.random_bits(np.array([7, 8], np.uint64), count, WORDS)
    bits = np.unpackbits(drawn.view(np.uint8))
    # Five standard deviations, and what a probability in 65536ths is off by at most.
    bound = 5 * ((count - 1) / count**2 / bits.size) ** 0.5 + 2.0**-17
    assert abs(bits.mean() - 1 / count) < bound


def test_draws_of_two_keys_and_of_neighbours_have_nothing_to_do_with_each_other() -> None:
    bits = (
        np.unpackbits(folds.random_bits(np.array([1, 2], np.uint64), 2, WORDS).view(np.uint8), axis=1).astype(float)
        - 0.5
    )
    pairs = (bits[0] * bits[1], bits[0, 1:] * bits[0, :-1], bits[0, 64:] * bits[0, :-64])
    for products in pairs:
        # Each product is 1/4 or -1/4.
        assert abs(products.mean()) < 5 * 0.25 / products.size**0.5


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)])
def test_every_worker_has_the_same_say(native: bool, order: tuple[int, ...]) -> None:
    """One worker says plus, the others minus: a quarter of the merged signs is plus, whichever that is."""
    served = aggregator(native=native)
    rounds = 4
    for lone in range(4):
        plus = 0
        for round_ in range(rounds):
            payloads = [b"\xff" * 1024 if worker == lone else bytes(1024) for worker in range(4)]
            stream = [
                Datagram(
                    HOSTS[worker].ip, contribution(EVERY, worker, lone, round_, payloads[worker], model.SIGN).encode()
                )
                for worker in order
            ]
            replies = play(served, stream, np.random.default_rng(0), 4).replies
            plus += int(np.unpackbits(np.frombuffer(replies[0].data[model.HEADER :], np.uint8)).sum())
        values = rounds * 8192
        assert abs(plus / values - 0.25) < 5 * (0.25 * 0.75 / values) ** 0.5


def test_two_servers_and_two_rounds_draw_differently() -> None:
    payloads = (b"\xff" * 1024, bytes(1024), b"\xff" * 1024, bytes(1024))
    stream, next_round = (
        [
            Datagram(HOSTS[worker].ip, contribution(EVERY, worker, 0, round_, payload, model.SIGN).encode())
            for worker, payload in enumerate(payloads)
        ]
        for round_ in (0, 16)
    )
    rng = np.random.default_rng(0)
    first, second = aggregator(native=False), aggregator(native=False)
    second.state.seed += 1
    results = [play(first, stream, rng, 4), play(second, stream, rng, 4)]
    results.append(play(first, next_round, rng, 4))
    assert len({played.replies[0].data[model.HEADER :] for played in results}) == 3
