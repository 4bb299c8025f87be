# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which parameters are sent how, and in which buffer."""

from __future__ import annotations

from typing import Any

import pytest
from sumwire.errors import UsageError
from sumwire.lowrank.fusion import Phase, make_plan, phase_of


def vectors(*sizes: int, threshold: int) -> list[list[int]]:
    """Groups of 1-D tensors of these sizes, as sizes; nothing is compressed, so the threshold is not scaled."""
    plan = make_plan([(size,) for size in sizes], 1, threshold_bytes=threshold)
    assert plan.groups[Phase.P] == plan.groups[Phase.Q]
    return [[sizes[number] for number in group] for group in plan.groups[Phase.P]]


def test_even_steps_send_p_and_odd_ones_q() -> None:
    assert [phase_of(step) for step in range(4)] == [Phase.P, Phase.Q, Phase.P, Phase.Q]


def test_groups_go_from_the_last_parameter_to_the_first() -> None:
    assert vectors(5, 4, 3, 2, 1, threshold=4 * 6) == [[1, 2, 3], [4], [5]]


@pytest.mark.parametrize(
    ("threshold", "groups"),
    [(4 * 6, [[3, 3], [3]]), (4 * 6 - 1, [[3], [3], [3]]), (4 * 9, [[3, 3, 3]]), (0, [[3], [3], [3]])],
)
def test_a_total_at_the_threshold_is_within_it(threshold: int, groups: list[list[int]]) -> None:
    assert vectors(3, 3, 3, threshold=threshold) == groups


def test_a_tensor_above_the_threshold_is_alone() -> None:
    assert vectors(1, 1, 100, 1, 1, threshold=8) == [[1, 1], [100], [1, 1]]


def test_threshold_is_scaled_by_each_phase() -> None:
    # P: 40, 40 values; Q: 10, 10; M: 400, 400. A threshold of all M but one value takes one matrix a buffer.
    shapes, one_short = [(40, 10), (40, 10)], 4 * 799
    plan = make_plan(shapes, 1, threshold_bytes=one_short, min_compression=0.0)
    assert plan.groups == (((1,), (0,)), ((1,), (0,)))
    whole = make_plan(shapes, 1, threshold_bytes=one_short + 4, min_compression=0.0)
    assert whole.groups == (((1, 0),), ((1, 0),))
    assert (whole.scaled_threshold(Phase.P), whole.scaled_threshold(Phase.Q)) == (4 * 80, 4 * 20)


def test_phases_have_groups_of_their_own() -> None:
    # P sends 200, 1 and 50 values, Q sends 1, 200 and 50: half of 251 fits them differently.
    plan = make_plan([(200, 1), (1, 200), (50,)], 1, threshold_bytes=900, min_compression=0.0)
    assert plan.groups[Phase.P] == ((2, 1), (0,))
    assert plan.groups[Phase.Q] == ((2,), (1,), (0,))


def test_every_parameter_is_in_one_group() -> None:
    plan = make_plan([(64, 3, 7, 7), (64,), (256, 64), (), (10, 256), (10,)], 4, threshold_bytes=20_000)
    for phase in Phase:
        assert [number for group in plan.groups[phase] for number in group] == [5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("shape", "sent"),
    [
        ((64, 3, 7, 7), (64 * 4, 147 * 4)),
        ((3, 50), (3 * 3, 50 * 3)),
        ((50, 2), (50 * 2, 2 * 2)),
        ((7, 1), (7, 1)),
        ((1, 1), (1, 1)),
        ((9,), (9, 9)),
        ((), (1, 1)),
    ],
)
def test_what_is_sent_without_a_minimum(shape: tuple[int, ...], sent: tuple[int, int]) -> None:
    item = make_plan([shape, (10, 10)], 4, min_compression=0.0).items[0]
    assert (item.sent(Phase.P), item.sent(Phase.Q)) == sent


@pytest.mark.parametrize(
    ("side", "minimum", "rank"), [(16, 2.0, 0), (17, 2.0, 4), (8, 1.0, 0), (9, 1.0, 4), (4, 0.0, 4)]
)
def test_minimum_compression(side: int, minimum: float, rank: int) -> None:
    # (n + m) r c < n m with n = m and r = 4: n > 8 c.
    assert make_plan([(side, side)], 4, min_compression=minimum).items[0].rank == rank


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank = 0: must be a whole number, 1 or more"),
        ({"rank": -3}, "rank = -3: must"),
        ({"rank": 2.0}, "rank = 2.0: must"),
        ({"rank": True}, "rank = True: must"),
        ({"shapes": []}, "parameters = none"),
        ({"threshold_bytes": -1}, "threshold_bytes = -1"),
        ({"threshold_bytes": 2.5}, "threshold_bytes = 2.5: must be a whole number"),
        ({"threshold_bytes": "25 MB"}, "threshold_bytes = '25 MB'"),
        ({"min_compression": "2"}, "min_compression = '2'"),
        ({"min_compression": -0.5}, "min_compression = -0.5"),
        ({"min_compression": float("nan")}, "min_compression = nan"),
    ],
)
def test_bad_input_is_refused(options: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"shapes": [(6, 8), (100, 2), (3,)], "rank": 1, **options}
    with pytest.raises(UsageError, match=message):
        make_plan(**arguments)


@pytest.mark.parametrize("rank", [6, 7, 1000])
def test_rank_above_a_smaller_side_is_that_side(rank: int) -> None:
    ranks = [item.rank for item in make_plan([(6, 8), (100, 2), (3,)], rank, min_compression=0.0).items]
    assert ranks == [6, 2, 0]
