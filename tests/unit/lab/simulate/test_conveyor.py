# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Chunks on a conveyor: by hand, against the formula where nothing is passed twice, and from chunk to chunk."""

from __future__ import annotations

import numpy as np
import pytest
from sumwire_lab.options.fabric import Fabric
from sumwire_lab.simulate import conveyor, packets
from sumwire_lab.simulate.conveyor import Visit, passed_twice, seconds_of
from sumwire_lab.simulate.costs import Costs
from sumwire_lab.simulate.flows import Pace, exchange
from sumwire_lab.simulate.systems import system_of
from sumwire_lab.simulate.workloads import Bucket


def test_a_host_that_sends_and_receives_takes_turns() -> None:
    """Sending and receiving take 1 each, the way 3. Four chunks, all under way: sent at 1, 2, 3, 4; the first result
    comes at 4 and waits for nobody, the others as well: 5, 6, 7, 8."""
    visits = (Visit("host", 1.0, 3.0), Visit("host", 1.0))
    assert seconds_of(visits, 4, 4) == 8
    # With two under way the third is sent when the first is there, at 5, and is received behind the second.
    assert seconds_of(visits, 2, 2) == 6
    assert seconds_of(visits, 4, 2) == 12


def test_results_wait_behind_contributions() -> None:
    """A switch takes 2 for a contribution, which come every 1, and 1 for a result, which is back 1 later.

    Contribution 1 comes at 1 and is done at 3, number 2 at 5, number 3 at 7. Result 1 is back at 4 and waits until 7.
    Contributions 4 and 5 came at 4 and 5, and are done at 10 and 12. Results 2 to 5 follow one another from there.
    """
    visits = (Visit("uplink", 1.0), Visit("switch", 2.0, 1.0), Visit("switch", 1.0))
    assert conveyor._ends(visits, 5, 5) == [8, 13, 14, 15, 16]


def test_ways_take_chunks_in_turns() -> None:
    assert seconds_of((Visit("spine", 4.0, ways=2),), 4, 4) == 8
    assert seconds_of((Visit("spine", 4.0),), 4, 4) == 16


@pytest.mark.parametrize("seed", range(40))
def test_it_is_the_formula_where_nothing_is_passed_twice(seed: int) -> None:
    random = np.random.default_rng(seed)
    visits = tuple(
        Visit(str(index), float(random.uniform(0.1, 3)), float(random.uniform(0, 2)))
        for index in range(int(random.integers(1, 7)))
    )
    assert not passed_twice(visits)
    first, gap = sum(one.seconds + one.then_s for one in visits), max(one.seconds for one in visits)
    chunks, slots = int(random.integers(1, 5000)), int(random.integers(2, 300))
    assert seconds_of(visits, chunks, slots // 2) == pytest.approx(Pace(first, gap, "", 1).seconds(chunks, slots))


def test_a_place_without_time_does_not_count() -> None:
    assert not passed_twice((Visit("host", 0.0), Visit("host", 0.0), Visit("link", 1.0)))
    assert passed_twice((Visit("host", 1.0), Visit("link", 1.0), Visit("host", 1.0)))
    assert not passed_twice((Visit("host", 1.0), Visit("link", 1.0), Visit("host", 0.0)))


@pytest.mark.parametrize("window", [8, 100, 700])
def test_many_chunks_go_on_as_the_first_ones(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    visits = (Visit("uplink", 1.0, 5.0), Visit("leaf", 1.5, 5.0), Visit("leaf", 0.2, 5.0), Visit("downlink", 1.6, 5.0))
    short = seconds_of(visits, 20_000, window)
    monkeypatch.setattr(conveyor, "_CHUNKS_LEAST", 20_000)
    assert short == pytest.approx(seconds_of(visits, 20_000, window), rel=0.01)


@pytest.mark.parametrize("levels", [(), (8, 4)])
@pytest.mark.parametrize(("rate_bit_s", "slots"), [(1e9, 256), (1.5e9, 128), (1e10, 512)])
def test_packets_take_as_long(levels: tuple[int, ...], rate_bit_s: float, slots: int) -> None:
    """A leaf's processor and its hosts' links are nearly as slow as each other: results wait behind contributions."""
    fabric = Fabric(workers=32, levels=levels, rate_bit_s=rate_bit_s)
    costs = Costs(send_s=2e-7, receive_s=3e-7, encode_s=4e-10, decode_s=5e-10, add_s=8e-7)
    played = packets.train(
        fabric, system_of("thc"), packets.Passes(0.0, 0.0, [Bucket(600_000, 0.0)]), costs, slots=slots
    )
    found = exchange(fabric, system_of("thc"), 600_000, costs, slots)
    assert found.seconds == pytest.approx(played.comm_s[0], rel=0.01)
