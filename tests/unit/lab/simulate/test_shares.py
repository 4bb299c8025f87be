# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Max-min fair shares: against a slow reference in fractions, and against their definition; and links of a fabric."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from sumwire_lab.errors import OptionError
from sumwire_lab.options.fabric import Fabric
from sumwire_lab.simulate.shares import Uses, capacities, fair_rates, flows_between, job_uses


def uses_of(flows: list[dict[int, int]]) -> Uses:
    entries = [(flow, link, bits) for flow, links in enumerate(flows) for link, bits in links.items()]
    flow, link, bits = zip(*entries, strict=True)
    return Uses(np.array(flow), np.array(link), np.array(bits, float))


def filled_slowly(capacity: list[int], flows: list[dict[int, int]], most: list[Fraction | None]) -> list[Fraction]:
    """Raises all levels together and stops at the first thing that is full, in exact numbers."""
    level = [Fraction(0)] * len(flows)
    rising = set(range(len(flows)))
    while rising:
        steps = []
        for link, room in enumerate(capacity):
            load = sum(level[f] * bits[link] / max(bits.values()) for f, bits in enumerate(flows) if link in bits)
            slope = sum(Fraction(flows[f][link], max(flows[f].values())) for f in rising if link in flows[f])
            if slope:
                steps.append(((room - load) / slope, {f for f in rising if link in flows[f]}))
        for f in rising:
            if (limit := most[f]) is not None:
                steps.append((limit * max(flows[f].values()) - level[f], {f}))
        step = min(found for found, _ in steps)
        for f in rising:
            level[f] += step
        rising -= set().union(*(stopped for found, stopped in steps if found == step))
    return [found / max(bits.values()) for found, bits in zip(level, flows, strict=True)]


@pytest.mark.parametrize("seed", range(40))
def test_rates_are_those_of_a_slow_reference(seed: int) -> None:
    random = np.random.default_rng(seed)
    links = int(random.integers(1, 7))
    capacity = [int(one) for one in random.integers(1, 50, links)]
    flows, most = [], []
    for _ in range(int(random.integers(1, 9))):
        path = random.choice(links, int(random.integers(1, links + 1)), replace=False)
        flows.append({int(link): int(random.integers(1, 4)) for link in path})
        most.append(Fraction(int(random.integers(1, 20)), 4) if random.random() < 0.4 else None)
    expected = filled_slowly(capacity, flows, most)
    limits = [math.inf if one is None else float(one) for one in most]
    assert fair_rates(capacity, uses_of(flows), limits) == pytest.approx([float(one) for one in expected], rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_every_flow_has_a_full_link_on_which_nobody_has_more(seed: int) -> None:
    random = np.random.default_rng(100 + seed)
    capacity = random.uniform(1, 10, 30)
    uses = uses_of([{int(link): 1 for link in random.choice(30, 4, replace=False)} for _ in range(200)])
    rates = fair_rates(capacity, uses)
    load = np.bincount(uses.links, rates[uses.flows], minlength=30)
    assert (load <= capacity * (1 + 1e-9)).all()
    most = np.zeros(30)
    np.maximum.at(most, uses.links, rates[uses.flows])
    bound = (load[uses.links] >= capacity[uses.links] * (1 - 1e-9)) & (
        rates[uses.flows] >= most[uses.links] * (1 - 1e-9)
    )
    assert set(uses.flows[bound]) == set(range(200))


def test_the_example_of_the_docstring() -> None:
    assert fair_rates([10, 4], uses_of([{0: 1}, {0: 1, 1: 1}, {1: 1}])) == pytest.approx([8, 2, 2])


def test_flows_are_compared_by_bits_not_by_units() -> None:
    """A unit of 1000 bits and one of 10 share a link half and half."""
    assert fair_rates([2000], uses_of([{0: 1000}, {0: 10}])) == pytest.approx([1, 100])


def test_a_limit_without_a_link_is_kept() -> None:
    nothing = Uses(np.zeros(0, int), np.zeros(0, int), np.zeros(0))
    assert fair_rates([1.0], nothing, [3.0, math.inf]).tolist() == [3.0, math.inf]


TREE = Fabric(workers=8, levels=(2, 2, 2), rate_bit_s=1e9, trunk_bit_s=3e9, spines=2)


def test_links_of_a_tree() -> None:
    # 8 hosts, 4 leaves with one link each, 2 middle switches with a link to each of two spines; and the same downward.
    assert capacities(TREE).tolist() == [1e9] * 8 + [3e9] * 8 + [1e9] * 8 + [3e9] * 8


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (0, 0, {}),
        (0, 1, {0: 1, 17: 1}),
        (0, 2, {0: 1, 8: 1, 18: 1, 25: 1}),
        (7, 0, {7: 1, 11: 1, 14: 0.5, 15: 0.5, 16: 1, 24: 1, 28: 0.5, 29: 0.5}),
    ],
)
def test_messages_take_the_lowest_way(source: int, target: int, expected: dict[int, float]) -> None:
    uses = flows_between(TREE, [source], [target])
    assert dict(zip(uses.links.tolist(), uses.bits.tolist(), strict=True)) == expected


def test_a_job_adds_up_on_the_way() -> None:
    """Of hosts 0, 1 and 2: two leaves, one middle switch, which is the root of its tree."""
    uses = job_uses(TREE, [0, 1, 2], (10.0, 20.0, 30.0))
    assert dict(zip(uses.links.tolist(), uses.bits.tolist(), strict=True)) == {
        0: 10, 1: 10, 2: 10, 16: 30, 17: 30, 18: 30, 8: 20, 9: 20, 24: 30, 25: 30,
    }  # fmt: skip


def test_a_server_gets_every_contribution() -> None:
    uses = job_uses(TREE, [0, 1, 2], (10.0, 20.0, 30.0), summed=False)
    found = dict(zip(uses.links.tolist(), uses.bits.tolist(), strict=True))
    assert {link: found[link] for link in (8, 9, 24, 25)} == {8: 20, 9: 10, 24: 60, 25: 30}
    # The middle switch's links to two spines carry half each.
    assert {link: found[link] for link in (12, 13, 28, 29)} == {12: 15, 13: 15, 28: 45, 29: 45}


def test_a_host_that_is_not_there_is_refused() -> None:
    for wrong, number in (([8], 8), ([-1], -1)):
        with pytest.raises(OptionError, match=f"host={number}: must be 0 to 7"):
            flows_between(TREE, wrong, [0])
