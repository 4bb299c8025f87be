# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Tags: their bits, and who gets which."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sumwire.dlcp import tags
from sumwire.dlcp.tags import LayerMagnitude, Policy, Tag, check_priorities, default_priorities, tagger, tos_bytes
from sumwire.errors import ConfigError, UsageError

FRONT, BACK = 0.0, 1.0


def magnitudes(chunks: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(sigma=1.5, size=chunks).astype(np.float32)


def mean_class(position: float, sizes: np.ndarray, policy: Policy | None = None) -> float:
    return float((policy or LayerMagnitude()).drop_classes(position, sizes).mean())


@pytest.mark.parametrize(
    ("priority", "drop_class", "tos"),
    [
        # DSCP 0b111000 and ECT(0); 0b111110 and not-ECT; 0b000000 and ECT(0); 0b011010 and not-ECT.
        (7, 0, 0b11100010),
        (7, 3, 0b11111000),
        (0, 0, 0b00000010),
        (3, 1, 0b01101000),
        (0, 2, 0b00010000),
    ],
)
def test_bits(priority: int, drop_class: int, tos: int) -> None:
    tag = Tag(priority, drop_class)
    assert tag.tos == tos
    assert tag.dscp == tos >> 2 and tag.ecn == tos & 3
    assert tos_bytes(priority, np.array([drop_class], np.uint8)).tolist() == [tos]


def test_every_tag_is_read_back_whatever_the_network_marks() -> None:
    for priority in range(8):
        for drop_class in range(4):
            tag = Tag(priority, drop_class)
            assert Tag.of(tag.tos) == tag
            assert Tag.of(tag.tos | 3) == tag, "congestion experienced"


def test_untagged_traffic_is_served_last() -> None:
    assert Tag.of(0).priority == 0


@pytest.mark.parametrize(("priority", "drop_class"), [(8, 0), (-1, 0), (0, 4), (0, -1), (1.5, 0), (True, 0)])
def test_no_other_tags(priority: Any, drop_class: Any) -> None:
    with pytest.raises(ConfigError, match=r"tag: (priority|drop_class) = "):
        Tag(priority, drop_class)


def test_priority_front_layers_come_first() -> None:
    policy = LayerMagnitude()
    order = [policy.priority(position) for position in np.linspace(0, 1, 101)]
    assert order == sorted(order, reverse=True)
    assert (order[0], order[-1]) == (7, 1)
    assert [order.count(value) for value in (7, 5, 3, 1)] == [25, 25, 25, 26]


def test_drop_preference_front_layers_are_lost_first() -> None:
    sizes = magnitudes(400)
    steps = [mean_class(position, sizes) for position in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert steps == sorted(steps, reverse=True) and steps[0] > steps[-1]


def test_drop_preference_small_magnitudes_are_lost_first() -> None:
    sizes = magnitudes(400)
    for position in (FRONT, 0.5, BACK):
        classes = LayerMagnitude().drop_classes(position, sizes)
        smallest = [sizes[classes == drop_class].min() for drop_class in range(4)]
        largest = [sizes[classes == drop_class].max() for drop_class in range(4)]
        for drop_class in range(3):
            assert smallest[drop_class] >= largest[drop_class + 1]


def test_front_layers_are_urgent_and_yet_dropped_first() -> None:
    """The two directions of one tag point apart: this is easy to get wrong."""
    policy, sizes = LayerMagnitude(), magnitudes(100)
    assert policy.priority(FRONT) > policy.priority(BACK)
    assert mean_class(FRONT, sizes) > mean_class(BACK, sizes)


def test_large_magnitudes_of_any_layer_are_protected() -> None:
    sizes = magnitudes(100)
    for position in np.linspace(0, 1, 11):
        classes = LayerMagnitude().drop_classes(position, sizes)
        assert classes[int(sizes.argmax())] == 0
        assert tagger(LayerMagnitude(), position)(sizes)[int(sizes.argmax())] & 3 == 2, "ECT(0)"


def test_shares_are_kept() -> None:
    policy = LayerMagnitude((7,), (0.4, 0.2, 0.1, 0.3), (0.8, 0.0, 0.0, 0.2))
    assert np.bincount(policy.drop_classes(FRONT, magnitudes(1000))).tolist() == [400, 200, 100, 300]
    assert np.bincount(policy.drop_classes(BACK, magnitudes(1000))).tolist() == [800, 0, 0, 200]
    assert np.bincount(policy.drop_classes(0.5, magnitudes(1000))).tolist() == [600, 100, 50, 250]


@pytest.mark.parametrize("chunks", [0, 1, 2, 3, 5])
def test_small_tensors_round_in_favour_of_protection(chunks: int) -> None:
    expected = {0: [], 1: [0], 2: [0, 1], 3: [0, 0, 2], 5: [0, 0, 1, 2, 3]}[chunks]
    sizes = np.arange(chunks, 0, -1).astype(np.float32)
    assert LayerMagnitude((7,), (0.4, 0.2, 0.1, 0.3)).drop_classes(FRONT, sizes).tolist() == expected


def test_equal_magnitudes_and_zeros() -> None:
    assert LayerMagnitude((7,), (0.5, 0.0, 0.0, 0.5)).drop_classes(FRONT, np.ones(4, np.float32)).tolist() == [
        0,
        0,
        3,
        3,
    ]
    assert LayerMagnitude((7,), (1, 0, 0, 0)).drop_classes(FRONT, np.array([0, 1], np.float32)).tolist() == [3, 0]


def test_a_tensors_packets_have_one_priority() -> None:
    tos = tagger(LayerMagnitude(), 0.3)(magnitudes(50))
    assert tos.dtype == np.uint8 and tos.shape == (50,)
    assert {int(byte) >> 5 for byte in tos} == {5}
    assert {int(byte) >> 3 & 3 for byte in tos} == {0, 1, 2, 3}


class Flat:
    """A user's policy."""

    priorities = (6,)

    def priority(self, position: float) -> int:
        return 6

    def drop_classes(self, position: float, magnitudes: np.ndarray) -> np.ndarray:
        return np.full(len(magnitudes), 2, np.uint8)


def test_any_object_may_decide() -> None:
    assert tagger(Flat(), 0.9)(magnitudes(2)).tolist() == [0b11010000] * 2


def test_a_policys_nonsense_is_refused() -> None:
    with pytest.raises(ConfigError, match="drop_classes"):
        tos_bytes(7, np.array([4], np.uint8))
    with pytest.raises(ConfigError, match="priority = 8"):
        tos_bytes(8, np.array([0], np.uint8))


def test_default_priorities_fall_from_seven() -> None:
    assert [default_priorities(lanes) for lanes in (1, 2, 4, 8)] == [
        (7,),
        (7, 3),
        (7, 5, 3, 1),
        tuple(range(7, -1, -1)),
    ]
    for lanes in range(1, 9):
        assert check_priorities(default_priorities(lanes), lanes) == LayerMagnitude.for_lanes(lanes).priorities
    for lanes in (0, 9):
        with pytest.raises(ConfigError, match=f"lanes = {lanes}: must be 1..8"):
            default_priorities(lanes)


@pytest.mark.parametrize(
    ("priorities", "lanes", "rule"),
    [
        ((7, 5, 3), 4, "lane 3 of 4 has none"),
        ({0: 7, 2: 3, 3: 1}, 4, "lane 1 of 4 has none"),
        ((7, None, 3), 3, "lane 1 of 3 has none"),
        ((), 1, "lane 0 of 1 has none"),
        ((7, 5), 1, "lane 1 is none of the job's 1"),
        ((7, 7, 3), 3, "lanes 0 and 1 share 7"),
        ((3, 7), 2, "lane 1 has 7, above lane 0's 3"),
        ((8, 1), 2, "lane 0 has 8"),
        ((7, -1), 2, "lane 1 has -1"),
        ((7, 2.5), 2, "lane 1 has 2.5"),
        ((1, True), 2, "lane 1 has True"),
    ],
)
def test_a_map_with_holes_is_refused(priorities: Any, lanes: int, rule: str) -> None:
    with pytest.raises(ConfigError, match="policy: priorities = .*" + rule):
        check_priorities(priorities, lanes)


def test_a_map_without_holes() -> None:
    assert check_priorities({1: 2, 0: 6}, 2) == (6, 2)


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.5, 0.5, 0.5, 0.5), (1.2, -0.2, 0, 0), (0.4, 0.2, 0.1, "x")])
def test_shares_that_are_none(shares: Any) -> None:
    with pytest.raises(ConfigError, match=r"front = .*that make 1 together"):
        LayerMagnitude(front=shares)
    with pytest.raises(ConfigError, match="back = "):
        LayerMagnitude(back=shares)


@pytest.mark.parametrize("position", [-0.1, 1.1, float("nan")])
def test_positions_are_places_in_the_model(position: float) -> None:
    with pytest.raises(UsageError, match=r"must be in 0..1"):
        LayerMagnitude().priority(position)
    with pytest.raises(UsageError, match=r"must be in 0..1"):
        LayerMagnitude().drop_classes(position, magnitudes(3))


def test_default_shares_make_one() -> None:
    for shares in (tags.FRONT_SHARES, tags.BACK_SHARES):
        assert sum(shares) == pytest.approx(1)
