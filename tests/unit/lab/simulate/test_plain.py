# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""All-reduces among hosts: exact cases, and trees that their messages cross."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sumwire.systems.cost import TCP_FRAME, TCP_PAYLOAD
from sumwire_lab.options.fabric import Fabric
from sumwire_lab.simulate.costs import Costs
from sumwire_lab.simulate.flows import exchange
from sumwire_lab.simulate.systems import SYSTEMS

VALUES = 1_000_000
WHOLE = 4 * VALUES * TCP_FRAME / TCP_PAYLOAD * 8
FRAME = TCP_FRAME * 8 * (1500 / TCP_PAYLOAD)
RING, HALVING, SERVER = (SYSTEMS[name] for name in ("gloo", "halving-doubling", "parameter-server"))


def seconds(fabric: Fabric, name: str, costs: Costs | None = None) -> float:
    return exchange(fabric, SYSTEMS[name], VALUES, costs or Costs()).seconds


@pytest.mark.parametrize("name", ["gloo", "fp16", "halving-doubling", "parameter-server"])
def test_one_worker_sends_nothing(name: str) -> None:
    found = exchange(Fabric(workers=1), SYSTEMS[name], VALUES, Costs())
    assert (found.seconds, found.up_bytes) == (0, 0)


@pytest.mark.parametrize("workers", [2, 4, 7, 64])
def test_a_ring_moves_2_n_minus_1_parts(workers: int) -> None:
    fabric = Fabric(workers=workers, rate_bit_s=1e9, delay_s=1e-4)
    wait = 2e-4 + FRAME / 1e9
    expected = 2 * (workers - 1) * (WHOLE / workers / 1e9 + wait)
    assert seconds(fabric, "gloo") == pytest.approx(expected, rel=1e-3)


def test_half_the_bits_take_half_the_time() -> None:
    fabric = Fabric(workers=4, delay_s=0.0)
    assert seconds(fabric, "fp16") == pytest.approx(seconds(fabric, "gloo") / 2, rel=0.01)


def test_halving_doubling_has_fewer_waits() -> None:
    fabric = Fabric(workers=64, delay_s=1e-3)
    ring, halving = seconds(fabric, "gloo"), seconds(fabric, "halving-doubling")
    assert ring - halving == pytest.approx((2 * 63 - 2 * 6) * (2e-3 + FRAME / 1e9), rel=1e-3)


def test_workers_beyond_a_power_of_two_cost_two_more_messages() -> None:
    eight, nine = (seconds(Fabric(workers=workers, delay_s=0.0), "halving-doubling") for workers in (8, 9))
    assert nine - eight == pytest.approx(2 * WHOLE / 1e9, rel=0.01)


def test_a_parameter_server_gets_all_and_then_sends_all() -> None:
    fabric = Fabric(workers=8, delay_s=0.0)
    assert seconds(fabric, "parameter-server") == pytest.approx(2 * 8 * WHOLE / 1e9, rel=1e-3)
    assert seconds(replace(fabric, server_bit_s=1e10), "parameter-server") == pytest.approx(2 * WHOLE / 1e9, rel=1e-2)


def test_a_tree_with_narrow_trunks_slows_pairs_more_than_a_ring() -> None:
    """Of eight hosts at each of eight leaves. In a ring one message crosses each trunk; at distance 8, eight do."""
    wide = Fabric(workers=64, levels=(8, 8), rate_bit_s=1e9, trunk_bit_s=8e9, delay_s=0.0)
    narrow = replace(wide, trunk_bit_s=1e9)
    assert seconds(narrow, "gloo") == pytest.approx(seconds(wide, "gloo"), rel=0.02)
    distances = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64]
    own, crossing = sum(distances[:3]), sum(distances[3:])
    assert seconds(narrow, "halving-doubling") == pytest.approx(2 * WHOLE / 1e9 * (own + 8 * crossing), rel=0.02)
    assert seconds(wide, "halving-doubling") == pytest.approx(2 * WHOLE / 1e9 * (own + crossing), rel=0.02)


def test_spines_widen_trunks() -> None:
    narrow = Fabric(workers=64, levels=(8, 8), rate_bit_s=1e9, trunk_bit_s=2e9, delay_s=0.0)
    assert seconds(replace(narrow, spines=4), "halving-doubling") < 0.8 * seconds(narrow, "halving-doubling")


def test_a_slow_host_is_the_limit() -> None:
    found = exchange(Fabric(workers=4, rate_bit_s=1e12), RING, VALUES, Costs(plain_s=1e-8))
    assert (found.seconds, found.limit) == (pytest.approx(1e-2, rel=0.01), "host")
    shared = exchange(Fabric(workers=4, rate_bit_s=1e12), RING, VALUES, Costs(plain_s=1e-8, cores=2))
    assert shared.seconds == pytest.approx(2e-2, rel=0.01)


@pytest.mark.parametrize(("name", "messages"), [("gloo", 14), ("halving-doubling", 6), ("parameter-server", 2)])
def test_messages_and_tensors_cost_time_of_their_own(name: str, messages: int) -> None:
    fabric, costs = Fabric(workers=8, rate_bit_s=1e12), Costs(plain_s=1e-8)
    assert seconds(fabric, name, replace(costs, trip_s=1e-3)) - seconds(fabric, name, costs) == pytest.approx(
        messages * 1e-3
    )
    assert seconds(fabric, name, replace(costs, operation_s=1e-3)) - seconds(fabric, name, costs) == pytest.approx(1e-3)


@pytest.mark.parametrize("name", ["gloo", "halving-doubling", "parameter-server"])
def test_more_rate_is_never_slower(name: str) -> None:
    found = [
        seconds(Fabric(workers=48, levels=(8, 8), rate_bit_s=rate, trunk_bit_s=2e9), name) for rate in (1e8, 1e9, 1e10)
    ]
    assert found == sorted(found, reverse=True)


def test_what_decides_is_named() -> None:
    def limit(fabric: Fabric, name: str) -> str:
        return exchange(fabric, SYSTEMS[name], VALUES, Costs()).limit

    assert limit(Fabric(workers=4), "gloo") == "uplink"
    assert limit(Fabric(workers=1000, rate_bit_s=1e11, delay_s=1e-3), "gloo") == "steps"
    assert limit(Fabric(workers=64, levels=(8, 8), rate_bit_s=1e9, trunk_bit_s=1e8), "gloo") == "shared link"
    assert limit(Fabric(workers=8), "parameter-server") == "server's link"
    assert (RING.way, HALVING.way, SERVER.way) == ("ring", "halving-doubling", "parameter server")
