# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every form of the merge is unbiased and its draws are independent, for 2 to 16 workers; wrong ones are caught.

Thresholds and the chance of a false alarm: sumwire.multihop.statistics. All sources here are seeded: what passes once
passes again, until something changes.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from sumwire.multihop import sign_hops as hops
from sumwire.multihop.sign_hops import Bits, Draws, SimulatedSigns, merge, reservoir_form
from sumwire.multihop.statistics import BIAS_MAX, Signs, Source, judge, largest_value_bias

from .networks import Network, Node, soft_network

WORKERS = tuple(range(2, 17))
# Powers of two and primes; between them lie further cases.
EACH = [n if n in (2, 3, 4, 5, 7, 8, 11, 16) else pytest.param(n, marks=pytest.mark.long) for n in WORKERS]
SHAPES = [(2, 2), (2, 3), (3, 2), (5, 2), (3, 4), (4, 4)]
SHAPES += [pytest.param(shape, marks=pytest.mark.long) for shape in ((2, 4), (3, 3), (2, 7), (5, 3))]  # type: ignore[misc]
ROUNDS = 480
AT_ONCE = 64
STARS = tuple(Node("a", n) for n in WORKERS)


def uneven(n: int) -> Node:
    """Two leaves below a spine: 1 + 1, 1 + 2, ..., 3 + 5, ..., 6 + 10."""
    few = max(1, 3 * n // 8)
    return Node("s", below=(Node("a", few), Node("b", n - few)))


LEAF_SPINES = tuple(uneven(n) for n in WORKERS)
# Three levels, with hosts on two of them: 3 + (1 + 2 + 5), and 3 + (1 + 4 + 5) + 3.
DEEP = tuple(
    Node("r", below=(Node("c", 3), Node("m", 1, (Node("d", d), Node("e", 5))), *more))
    for d, more in ((2, ()), (4, (Node("f", 3),)))
)


def simulated(ranks: int, rows: int | None = None, at_once: int = AT_ONCE) -> Source:
    """A ring or torus; some rounds at once, on arrays with an axis more."""
    form = SimulatedSigns(ranks, rows, seed=ranks)

    def source(signs: Signs, rounds: int) -> Signs:
        packed = np.packbits(signs, axis=1)[:, None, :]
        parts = [
            form.sign_merge(np.repeat(packed, min(at_once, rounds - k), axis=1)) for k in range(0, rounds, at_once)
        ]
        return np.unpackbits(np.concatenate(parts), axis=1).astype(np.bool_)

    return source


def check(source: Source, workers: int, rounds: int = ROUNDS) -> None:
    outcome = judge(source, workers, rounds=rounds)
    assert outcome.unbiased, outcome
    assert outcome.uncorrelated, outcome
    assert outcome.false_alarm < 1e-5


@pytest.mark.parametrize("workers", EACH)
@pytest.mark.few(4)
def test_ring(workers: int) -> None:
    check(simulated(workers), workers)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.few(3)
def test_torus(shape: tuple[int, int]) -> None:
    rows, cols = shape
    check(simulated(rows * cols, rows), rows * cols)


@pytest.mark.parametrize(
    ("workers", "rows"), [(2, None), (3, None), (8, 2), pytest.param(16, None, marks=pytest.mark.long)]
)
def test_every_single_value_is_within_the_target(workers: int, rows: int | None) -> None:
    """Half a million rounds of 128 values: here 2^-8 holds value by value, not only in the mean over values."""
    bias, false_alarm = largest_value_bias(simulated(workers, rows, at_once=1 << 15), workers, rounds=1 << 19)
    assert bias <= BIAS_MAX
    assert false_alarm < 1e-5


@pytest.fixture(scope="module")
def stars() -> Iterator[Network]:
    with soft_network(STARS, seed=1) as network:
        yield network


@pytest.fixture(scope="module")
def leaf_spines() -> Iterator[Network]:
    with soft_network(LEAF_SPINES, seed=2) as network:
        yield network


@pytest.mark.parametrize("workers", EACH)
@pytest.mark.few(4)
def test_one_switch(stars: Network, workers: int) -> None:
    check(lambda signs, rounds: stars.rounds(WORKERS.index(workers), signs, rounds), workers)


@pytest.mark.parametrize("workers", EACH)
@pytest.mark.few(4)
def test_leaf_spine(leaf_spines: Network, workers: int) -> None:
    check(lambda signs, rounds: leaf_spines.rounds(WORKERS.index(workers), signs, rounds), workers)


@pytest.mark.long
def test_three_levels() -> None:
    with soft_network(DEEP, seed=3) as network:
        for job, tree in enumerate(DEEP):
            check(lambda signs, rounds, job=job: network.rounds(job, signs, rounds), tree.total)


def test_a_switch_repeats_a_run_of_the_same_seed() -> None:
    signs = np.random.default_rng(1).random((4, 8192)) < 0.5

    def run(seed: int) -> bytes:
        with soft_network([Node("a", 4)], seed=seed) as network:
            return network.rounds(0, signs, 3).tobytes()

    assert run(5) == run(5)
    assert run(5) != run(6)


# -- what must fail ------------------------------------------------------------------------------------


def half_weight(first: Bits, second: Bits, first_weight: int, second_weight: int, draws: Draws) -> Bits:
    """The known wrong: both sides count alike, however many workers they stand for."""
    return merge(first, second, 1, 1, draws)


def one_draw(first: Bits, second: Bits, first_weight: int, second_weight: int, draws: Draws) -> Bits:
    """Unbiased, but one draw for a whole packet."""
    share = second_weight / (first_weight + second_weight)
    take = draws.uniform(len(first))[:, None] < share
    return reservoir_form(first, second, np.broadcast_to(np.where(take, 0xFF, 0).astype(np.uint8), first.shape))


@pytest.mark.parametrize(("workers", "rows"), [(4, None), (16, None), (6, 2), (6, 3), (16, 2)])
def test_half_weight_fails(monkeypatch: pytest.MonkeyPatch, workers: int, rows: int | None) -> None:
    monkeypatch.setattr(hops, "merge", half_weight)
    assert not judge(simulated(workers, rows), workers, rounds=ROUNDS).unbiased


def test_half_weight_of_three_workers_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hops, "merge", half_weight)
    assert not judge(simulated(3), 3, rounds=ROUNDS).unbiased


def test_half_weight_of_two_by_two_workers_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """All merges of this torus are of equals: the test blames the weight, not the form."""
    monkeypatch.setattr(hops, "merge", half_weight)
    check(simulated(4, 2), 4)


@pytest.mark.parametrize("workers", [2, 3, 16])
def test_one_draw_for_a_packet_fails(monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    monkeypatch.setattr(hops, "merge", one_draw)
    assert not judge(simulated(workers), workers, rounds=ROUNDS).uncorrelated


@pytest.mark.parametrize("tree", [Node("a", 3), uneven(8)], ids=["one switch", "leaf-spine"])
def test_half_weight_in_a_switch_fails(tree: Node) -> None:
    """Weight 1/2 as a switch would have it: hosts in order, each merged with what is there by a fair coin."""
    draws = Draws(1, 0)

    def fold(node: Node, packed: Bits) -> Bits:
        parts = [*packed[: node.hosts]]
        start = node.hosts
        for below in node.below:
            parts.append(fold(below, packed[start : start + below.total]))
            start += below.total
        held = parts[0]
        for part in parts[1:]:
            held = merge(held, part, 1, 1, draws)
        return held

    def source(signs: Signs, rounds: int) -> Signs:
        packed = np.repeat(np.packbits(signs, axis=1)[:, None, :], rounds, axis=1)
        return np.unpackbits(fold(tree, packed), axis=1).astype(np.bool_)

    outcome = judge(source, tree.total, rounds=ROUNDS)
    assert outcome.pooled_bias > BIAS_MAX
    assert not outcome.unbiased
