# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which parameters are sent how, and in which buffer."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from helpers.lowrank.lockstep import Barrier, exact, flat, loss_of, net, thc, together
from sumwire.errors import UsageError
from sumwire.job.job import Residual
from sumwire.lowrank import fusion, sync
from sumwire.lowrank.fusion import BufferSearch, Phase, Plan, make_plan, phase_of
from sumwire.lowrank.sync import AcpSgd
from torch import Tensor, nn

SHAPES = [(32, 32)] * 16
SETTINGS: dict[str, Any] = {"rank": 2, "min_compression": 0.0}
WHOLE_SEARCH = 60


def vectors(*sizes: int, threshold: int) -> list[list[int]]:
    """Groups of 1-D tensors of these sizes, as sizes; nothing is compressed, so the threshold is not scaled."""
    plan = make_plan([(size,) for size in sizes], 1, threshold_bytes=threshold)
    assert plan.groups[Phase.P] == plan.groups[Phase.Q]
    return [[sizes[number] for number in group] for group in plan.groups[Phase.P]]


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


class Clock:
    """Seconds that pass when a test says so, on each thread for itself."""

    def __init__(self) -> None:
        self._now: Counter[int] = Counter()

    def __call__(self) -> float:
        return float(self._now[threading.get_ident()])

    def passes(self, seconds: float) -> None:
        self._now[threading.get_ident()] += seconds  # type: ignore[assignment]


def plan_of(threshold_bytes: int) -> Plan:
    return make_plan(SHAPES, 2, threshold_bytes=threshold_bytes)


def search_of(clock: Clock) -> BufferSearch:
    return BufferSearch(fusion.candidates(plan_of, plan_of(0).dense_bytes), clock)


def test_sizes_of_one_two_four_buffers_and_so_on_are_tried_and_equal_ones_once() -> None:
    plans = fusion.candidates(plan_of, plan_of(0).dense_bytes)
    # 16 equal tensors make at most 16 buffers: 32 are no other plan.
    assert [len(plan.groups[0]) for plan in plans] == [1, 2, 4, 8, 16]
    single = partial(make_plan, [(8, 8)], 1)
    assert len(fusion.candidates(lambda size: single(threshold_bytes=size), 256)) == 1
    assert BufferSearch([single()]).steps == 0


@pytest.mark.parametrize(("start", "wait", "buffers"), [(1.0, 0.0, 1), (0.0, 1.0, 16), (1.0, 16.0, 4)])
def test_fastest_size_is_chosen_whatever_a_single_slow_step_says(start: float, wait: float, buffers: int) -> None:
    clock = Clock()
    search = search_of(clock)
    for step in range(search.steps):
        count = len(search.plan.groups[0])
        # A start for each buffer, and what waits for the last one.
        clock.passes(start * count + wait / count)
        # The right size has one slow step in each phase, in different rounds.
        clock.passes(100.0 * (count == buffers and step in (2 * fusion.WARM_UP_STEPS, search.steps - 1)))
        if search.last:
            slower = search.slower(phase_of(step))
            assert len(search.chosen(slower).groups[0]) == buffers
            assert min(slower) == 0.0 and max(slower) <= 1.0
        search.made(phase_of(step))
    assert step + 1 == search.steps == fusion.WARM_UP_STEPS + 2 * 2 * 5


def costly(
    clock: Clock, reduce: Callable[..., Any], start: float, value: float
) -> Callable[..., tuple[Tensor, Residual]]:
    """``reduce``, during which seconds pass: for a start, and for each value of the largest buffer."""

    def taking(x: Tensor, number: int) -> tuple[Tensor, Residual]:
        clock.passes(start + value * len(x) ** 2)
        found: tuple[Tensor, Residual] = reduce(x, number)
        return found

    return taking


def train(model: nn.Module, optimizer: AcpSgd, worker: int, steps: int) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, worker, step).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


@pytest.mark.parametrize("combine", [exact, thc])
def test_workers_that_measured_different_times_choose_the_size_that_is_best_in_the_mean(
    combine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(sync, "BufferSearch", lambda plans: BufferSearch(plans, clock))

    def work(worker: int, reduce: Callable[..., Any]) -> tuple[AcpSgd, Tensor]:
        model = net()
        # Starts cost worker 0 a little; worker 1 gains much more by small buffers.
        taking = costly(clock, reduce, *((1.0, 0.0), (0.1, 1.0))[worker])
        optimizer = AcpSgd(model, torch.optim.SGD(model.parameters(), lr=0.1), taking, threshold_bytes=None, **SETTINGS)
        assert optimizer.seeking
        train(model, optimizer, worker, WHOLE_SEARCH)
        return optimizer, flat(model)

    barrier = Barrier(2, combine)
    (first, mine), (second, others) = together(barrier, 2, work)
    assert not first.seeking and not second.seeking
    assert first.plan == second.plan
    assert torch.equal(mine, others)
    assert len({length for _, length in barrier.log}) > 3, "several sizes were tried"


def test_chosen_size_is_kept_in_a_checkpoint_and_a_search_that_is_not_over_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(sync, "BufferSearch", lambda plans: BufferSearch(plans, clock))

    def alone(x: Tensor, number: int) -> tuple[Tensor, Residual]:
        clock.passes(1.0)
        return x.clone(), lambda: torch.zeros_like(x)

    def new() -> tuple[nn.Module, AcpSgd]:
        model = net()
        inner = torch.optim.SGD(model.parameters(), lr=0.1)
        return model, AcpSgd(model, inner, alone, threshold_bytes=None, **SETTINGS)

    (model, done), (_, after), (_, again) = new(), new(), new()
    train(model, done, 0, 5)
    again.load_state_dict(done.state_dict())
    assert again.seeking
    train(model, done, 0, WHOLE_SEARCH)
    # Every buffer takes a second, so one buffer is the best.
    assert not done.seeking and [len(groups) for groups in done.plan.groups] == [1, 1]
    after.load_state_dict(done.state_dict())
    assert not after.seeking and after.plan == done.plan


def test_step_that_fails_in_the_agreement_changes_nothing_and_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(sync, "BufferSearch", lambda plans: BufferSearch(plans, clock))
    broken = True

    def alone(x: Tensor, number: int) -> tuple[Tensor, Residual]:
        clock.passes(1.0)
        if broken and number >= 2 * len(optimizer.plan.groups[optimizer.phase]):
            raise UsageError("the agreement's buffer is lost")
        return x.clone(), lambda: torch.zeros_like(x)

    model = net()
    optimizer = AcpSgd(model, torch.optim.SGD(model.parameters(), lr=0.1), alone, threshold_bytes=None, **SETTINGS)
    with pytest.raises(UsageError, match="agreement's buffer"):
        train(model, optimizer, 0, WHOLE_SEARCH)
    before = optimizer.steps
    assert optimizer.seeking and before < WHOLE_SEARCH - 1
    broken = False
    train(model, optimizer, 0, 1)
    assert optimizer.steps == before + 1 and not optimizer.seeking
