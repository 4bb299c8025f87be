# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients over lanes: DDP's buckets, plain models, residuals, and a straggler that follows."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
import torch
from helpers.dlcp.fake_jobs import GRAIN, FakeJob, MakeLanes, coarse
from helpers.training.replicas import flat
from helpers.transport.udp_bridge import run_workers
from sumwire.dlcp.lanes import Lanes
from sumwire.dlcp.sync import LaneState, LaneSync, lane_hook
from sumwire.errors import UsageError
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

WIDTH = 32


def deep() -> nn.Sequential:
    """Four layers of equal size."""
    torch.manual_seed(4)
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(4)))


def numbers_of(lanes: Lanes) -> list[list[int]]:
    return [[bucket for bucket, _ in job.sent] for job in cast(list[FakeJob], lanes.jobs)]


class Bucket:
    """What DDP hands over."""

    def __init__(self, index: int, parameters: list[Tensor], gradient: Tensor, last: bool) -> None:
        self._index, self._parameters, self._buffer, self._last = index, parameters, gradient, last

    def index(self) -> int:
        return self._index

    def buffer(self) -> Tensor:
        return self._buffer

    def parameters(self) -> list[Tensor]:
        return self._parameters

    def is_last(self) -> bool:
        return self._last


def submit(state: LaneState, *groups: tuple[list[Tensor], Tensor]) -> list[Tensor]:
    """One step's buckets, in order; their results."""
    buckets = [Bucket(i, ps, x, i == len(groups) - 1) for i, (ps, x) in enumerate(groups)]
    futures = [state.submit(cast(Any, bucket)) for bucket in buckets]
    return [future.wait() for future in futures]


def test_the_last_bucket_of_ddp_holds_the_front_layers(one_rank: None, make_lanes: MakeLanes) -> None:
    lanes = make_lanes()
    network = deep()
    layer_mb = (WIDTH * WIDTH + WIDTH) * 4 / (1 << 20)
    model = DistributedDataParallel(network, bucket_cap_mb=layer_mb)
    state = LaneState(lanes, network)
    model.register_comm_hook(state, lane_hook)
    assert not state.communicating
    for _ in range(3):
        model(torch.randn(8, WIDTH)).square().mean().backward()
    numbers = numbers_of(lanes)
    # After the first step, which DDP groups otherwise, each layer is a bucket, and the last one is the most urgent.
    assert [sorted(set(lane[-2:])) for lane in numbers] == [[3], [2], [1], [0]]
    assert state.communicating
    lanes.close()
    assert not state.communicating


def test_a_buckets_place_is_the_middle_of_its_values(make_lanes: MakeLanes) -> None:
    state = LaneState(make_lanes(), [nn.Parameter(torch.zeros(n)) for n in (100, 300, 600)])
    assert state.position(((0, 100),)) == 0.05
    assert state.position(((2, 600), (1, 300))) == 0.55
    assert state.position(((2, 600), (1, 300), (0, 100))) == 0.5


def test_training_is_that_of_the_mean_gradients(make_lanes: MakeLanes) -> None:
    """Plain models of three workers against one model by hand, with the residuals of what is rounded away."""
    made = [make_lanes(worker, workers=3) for worker in range(3)]
    # Seeds are the process's.
    lock = threading.Lock()

    def gradients(model: nn.Module, worker: int, step: int) -> None:
        torch.manual_seed(10 * step + worker)
        model.zero_grad()
        (10 * model(torch.randn(8, WIDTH))).square().mean().backward()

    def work(worker: int) -> Tensor:
        model = models[worker]
        optimizer = LaneSync(torch.optim.SGD(model.parameters(), lr=0.001), LaneState(made[worker], model))
        for step in range(4):
            with lock:
                gradients(model, worker, step)
            optimizer.step()
        return flat(model)

    models = [deep() for _ in range(3)]
    outcomes = run_workers(work, 3)
    model, residuals = deep(), [torch.zeros(flat(deep()).numel()) for _ in range(3)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for step in range(4):
        sent = []
        for worker in range(3):
            gradients(model, worker, step)
            x = torch.cat([cast(Tensor, p.grad).reshape(-1) for p in model.parameters()]) + residuals[worker]
            sent.append(coarse(x))
            residuals[worker] = x - sent[-1]
        mean, start = torch.stack(sent).mean(0), 0
        for p in model.parameters():
            p.grad = mean[start : start + p.numel()].view(p.shape).clone()
            start += p.numel()
        optimizer.step()
    for outcome in outcomes:
        assert torch.equal(outcome, outcomes[0])
        torch.testing.assert_close(outcome, flat(model), rtol=0, atol=1e-6)
    assert all(set(lane) == {number} for number, lane in enumerate(reversed(numbers_of(made[0]))))


def test_residuals_follow_parameters_into_other_lanes(make_lanes: MakeLanes) -> None:
    """DDP regroups its buckets after the first step."""
    lanes = make_lanes()
    front, back = nn.Parameter(torch.zeros(1000)), nn.Parameter(torch.zeros(1000))
    state = LaneState(lanes, [front, back])
    x = torch.full((1000,), 0.1)
    submit(state, ([back, front], torch.cat([x, 2 * x])))
    # 0.1 rounds to 0 and leaves 0.1; 0.2 rounds to 0.25 and leaves -0.05.
    results = submit(state, ([back], x.clone()), ([front], 2 * x))
    assert torch.equal(results[0], torch.full((1000,), 0.25)) and torch.equal(results[1], torch.full((1000,), 0.25))
    results = submit(state, ([back], x.clone()), ([front], 2 * x))
    assert torch.equal(results[0], torch.zeros(1000)), "0.2 - 0.25 + 0.1 = 0.05"
    assert [len(lane) for lane in numbers_of(lanes)] == [0, 2, 1, 2]
    lanes.close()


def test_a_residual_is_waited_for_in_another_lane(make_lanes: MakeLanes) -> None:
    lanes = make_lanes()
    front, back = nn.Parameter(torch.zeros(1000)), nn.Parameter(torch.zeros(1000))
    state = LaneState(lanes, [front, back])
    middle = cast(FakeJob, lanes.jobs[2])
    middle.residuals.clear()
    submit(state, ([back, front], torch.full((2000,), 0.1)))
    timer = threading.Timer(0.2, middle.residuals.set)
    timer.start()
    for result in submit(state, ([back], torch.full((1000,), 0.1)), ([front], torch.full((1000,), 0.1))):
        assert torch.equal(result, torch.full((1000,), 0.25)), "0.1 + 0.1 rounds up"
    timer.join()


def test_buckets_of_different_lanes_are_under_way_together(make_lanes: MakeLanes) -> None:
    lanes = make_lanes()
    front, back = nn.Parameter(torch.zeros(1000)), nn.Parameter(torch.zeros(1000))
    state = LaneState(lanes, [front, back])
    back_may_go = threading.Event()
    cast(FakeJob, lanes.jobs[3]).table.gates[43] = back_may_go
    late = state.submit(cast(Any, Bucket(0, [back], torch.ones(1000), False)))
    soon = state.submit(cast(Any, Bucket(1, [front], torch.ones(1000), True)))
    soon.wait()
    assert not late.done()
    back_may_go.set()
    late.wait()


def test_without_error_feedback(make_lanes: MakeLanes) -> None:
    lanes = make_lanes()
    weight = nn.Parameter(torch.zeros(1000))
    state = LaneState(lanes, [weight], error_feedback=False)
    for _ in range(3):
        assert torch.equal(submit(state, ([weight], torch.full((1000,), 0.1)))[0], torch.zeros(1000))


def test_a_bad_bucket_leaves_the_residuals_of_all_lanes(make_lanes: MakeLanes) -> None:
    """The lanes work at the same time; one of them has infinity."""
    lanes = make_lanes()
    front, back = nn.Parameter(torch.zeros(500)), nn.Parameter(torch.zeros(500))
    state = LaneState(lanes, [front, back])
    good = torch.linspace(0.0, 1.0, 500)
    submit(state, ([back], good.clone()), ([front], good.clone()))
    state.settle()
    assert state.feedback is not None
    before = [cast(Tensor, state.feedback.residual(number)).clone() for number in (0, 1)]
    assert all(residual.any() for residual in before)
    for bad in (0, 1):
        gradients = [good.clone(), good.clone()]
        gradients[bad][7] = float("inf")
        submit(state, ([back], gradients[0]), ([front], gradients[1]))
        state.settle()
        for number, kept in enumerate(before):
            assert torch.equal(cast(Tensor, state.feedback.residual(number)), kept)
    lanes.close()


def test_a_straggler_follows(make_lanes: MakeLanes) -> None:
    """Two of three workers close; the third does step 0 with them, then is two steps late."""
    made = [make_lanes(worker, workers=3, quorum=2) for worker in range(3)]
    weights = [[nn.Parameter(torch.zeros(500)), nn.Parameter(torch.zeros(500))] for _ in range(3)]
    states = [LaneState(lanes, own) for lanes, own in zip(made, weights, strict=True)]

    def step(worker: int, number: int) -> list[Tensor]:
        front, back = weights[worker]
        x = torch.full((500,), float(10 * number + worker))
        return submit(states[worker], ([back], x + 0.1), ([front], x + 100))

    assert not any(state.behind() for state in states)
    run_workers(lambda worker: step(worker, 0), 3)
    run_workers(lambda worker: [step(worker, number) for number in (1, 2)], 2)
    straggler = states[2]
    assert straggler.feedback is not None
    straggler.settle()
    kept = [straggler.feedback.residual(number) for number in (0, 1)]
    for number in (1, 2):
        assert straggler.behind()
        straggler.follow()
        # The mean of workers 0 and 1.
        front, back = weights[2]
        assert torch.equal(cast(Tensor, front.grad), torch.full((500,), 10 * number + 100.5))
        assert cast(Tensor, back.grad).mean() == pytest.approx(10 * number + 0.6, abs=GRAIN)
    assert not straggler.behind()
    assert None not in kept
    assert all(straggler.feedback.residual(number) is residual for number, residual in enumerate(kept))
    assert [record.lane for record in made[2].take_records()][-4:].count(1) == 2
    for lanes in made:
        lanes.close()


def test_what_is_refused(make_lanes: MakeLanes) -> None:
    lanes = make_lanes()
    with pytest.raises(UsageError, match="no parameters"):
        LaneState(lanes, [])
    state = LaneState(lanes, deep())
    stranger = nn.Parameter(torch.zeros(7))
    with pytest.raises(UsageError, match=r"parameter of shape \(7,\) is not one of the model's"):
        submit(state, ([stranger], torch.zeros(7)))


def test_an_error_of_one_lane_comes_out(make_lanes: MakeLanes) -> None:
    lanes = make_lanes()
    weight = nn.Parameter(torch.zeros(50))
    state = LaneState(lanes, [weight])
    lanes.jobs[state.lanes.lane_of(0.5)].reduce = broken  # type: ignore[method-assign]
    with pytest.raises(ConnectionError, match="gone"):
        submit(state, ([weight], torch.zeros(50)))


def broken(*_: Any, **__: Any) -> Any:
    raise ConnectionError("gone")
