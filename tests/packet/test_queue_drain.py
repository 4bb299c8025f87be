# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How a virtual queue drains: on both engines of the soft switch with a clock that the test sets."""

from __future__ import annotations

import pytest
from golden.model import Queue, udp_frame
from helpers.packet.play import Clock, Game
from helpers.packet.rigs import EnginesRig
from helpers.packet.star import HOSTS

FAR = 2**31


@pytest.fixture
def timed(engines: EnginesRig) -> tuple[Game, Clock]:
    return Game(engines), engines.clock


def begin(timed: tuple[Game, Clock], rate: int, threshold: int) -> None:
    """A queue at port 2 that loses everything above `threshold`, and has one frame of 42 bytes in it."""
    game, clock = timed
    queue = Queue(rate, FAR, (FAR,) * 4, threshold, False)
    game.limit((2, queue), first=42)
    queue.backlog, queue.seen = [1024 * 42] * 2, [clock.now] * 2


def passes(timed: tuple[Game, Clock], length: int, wait_us: int) -> bool:
    game, clock = timed
    clock.now += wait_us
    game.golden.now = clock.now
    return bool(game.frame(HOSTS[0].port, udp_frame(HOSTS[0], HOSTS[1], bytes(length - 42))))


def test_drains_at_its_rate_to_the_byte(timed: tuple[Game, Clock]) -> None:
    """100 bytes in 1024 us, so 1 byte in 10.24 us."""
    begin(timed, rate=100, threshold=500)
    assert passes(timed, 1042, 0)
    assert not passes(timed, 100, 5_959)  # 42 + 1042 - 581.9...: 502
    assert passes(timed, 100, 21)  # 583.98 gone: 500.02 left, which is 500 whole bytes


def test_a_length_at_the_threshold_is_not_above_it(timed: tuple[Game, Clock]) -> None:
    begin(timed, rate=1024, threshold=500)  # a byte in a microsecond
    assert passes(timed, 1000, 42)
    assert not passes(timed, 100, 499)
    assert passes(timed, 100, 1)


def test_never_holds_less_than_nothing(timed: tuple[Game, Clock]) -> None:
    begin(timed, rate=1024, threshold=900)
    assert passes(timed, 1000, 10_000_000)
    assert not passes(timed, 1000, 99)
    assert passes(timed, 1000, 1)


@pytest.mark.parametrize("rate", [1, 1024, 2**32 - 1])
@pytest.mark.parametrize("pause_us", [1, 1 << 30, (1 << 30) + 1, 1 << 40, (1 << 48) - 2_000_000])
def test_long_pauses_and_fast_links_do_not_wrap(timed: tuple[Game, Clock], rate: int, pause_us: int) -> None:
    begin(timed, rate, threshold=100_000)
    for wait in (0, pause_us, 0, 0):
        assert passes(timed, 1400, wait)
    timed[0].check_counters()


def test_a_time_and_a_rate_whose_product_is_64_bits_and_more(timed: tuple[Game, Clock]) -> None:
    """2^33 us at 2^31 bytes in 1024 us: modulo 2^64 that is nothing."""
    begin(timed, rate=1 << 31, threshold=1000)
    assert passes(timed, 1400, 0)
    assert passes(timed, 1400, 1 << 33)


def test_a_link_of_100_mbit_carries_100_mbit(timed: tuple[Game, Clock]) -> None:
    """Twice as much for a second: half of it gets through, and a queue's length more."""
    begin(timed, rate=12_800, threshold=30_000)
    sent = sum(1250 for _ in range(20_000 // 10) if passes(timed, 1250, 50))
    expected = 12_800 / 1024e-6 * 2_000 * 50e-6
    assert expected - 1250 < sent < expected + 30_000 + 2 * 1250
