# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""When gradients are compressed and buffers sent, and what an optimizer owes its user."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.lowrank.lockstep import Barrier, exact, flat, loss_of, net, together
from sumwire.checkpoint import Place, packed
from sumwire.errors import UsageError
from sumwire.job.job import Residual
from sumwire.lowrank import check
from sumwire.lowrank.fusion import Phase
from sumwire.lowrank.matrices import MatrixState
from sumwire.lowrank.sync import AcpSgd
from torch import Tensor, nn
from torch.futures import Future

OPTIONS: dict[str, Any] = {"rank": 4, "min_compression": 0.0, "threshold_bytes": 1500}


class Alone:
    """The transport of one worker; ``log`` has (number, length) of every buffer."""

    def __init__(self) -> None:
        self.log: list[tuple[int, int]] = []
        self.fail_at: int | None = None

    def __call__(self, x: Tensor, number: int) -> tuple[Tensor, Residual]:
        self.log.append((number, len(x)))
        if len(self.log) - 1 == self.fail_at:
            raise OSError("the wire is cut")
        return x.clone(), lambda: torch.zeros_like(x)


class Held:
    """A `submit` whose calls wait until `release`."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], None], Future[None]]] = []

    def __call__(self, call: Callable[[], None]) -> Future[None]:
        self.waiting.append((call, Future()))
        return self.waiting[-1][1]

    def release(self) -> None:
        for call, future in self.waiting:
            call()
            future.set_result(None)
        self.waiting.clear()


def sgd(model: nn.Module, lr: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=lr)


def backward(loss: Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


def train(model: nn.Module, optimizer: AcpSgd, steps: range, worker: int = 0) -> Tensor:
    for step in steps:
        optimizer.zero_grad()
        backward(loss_of(model, worker, step))
        optimizer.step()
    return flat(model)


def test_equations_hold_for_four_workers_in_lock_step() -> None:
    found = check.in_lock_step()
    assert check.difference(found, check.by_reference()) <= 1e-9
    assert check.replicas_equal(found)


@pytest.mark.parametrize(("seeds", "equal"), [((1, 1), True), ((1, 2), False)])
def test_replicas_stay_equal_with_one_seed_and_not_with_two(seeds: tuple[int, int], equal: bool) -> None:
    def work(worker: int, reduce: Callable[..., Any]) -> Tensor:
        model = net()
        return train(model, AcpSgd(model, sgd(model), reduce, seed=seeds[worker], **OPTIONS), range(10), worker)

    one, other = together(Barrier(2, exact), 2, work)
    assert torch.equal(one, other) == equal


def test_buffers_leave_during_backward_in_the_plan_s_order() -> None:
    model, held, reduce = net(), Held(), Alone()
    optimizer = AcpSgd(model, sgd(model), reduce, submit=held, **OPTIONS)
    groups = optimizer.plan.groups[Phase.P]
    assert len(groups) > 2
    seen: list[int] = []
    first = next(model.parameters())
    first.register_hook(lambda gradient: seen.append(len(held.waiting)))
    backward(loss_of(model, 0, 0))
    # Before the first layer's gradient, all buffers without that layer have left; after it, all.
    assert seen == [sum(not {0, 1} & set(group) for group in groups)]
    assert seen[0] > 0
    assert len(held.waiting) == len(groups)
    held.release()
    optimizer.step()
    items = optimizer.plan.items
    sizes = [sum(items[member].sent(Phase.P) for member in group) for group in groups]
    assert reduce.log == [(2 * number, size) for number, size in enumerate(sizes)]


def test_order_does_not_depend_on_which_gradient_comes_first() -> None:
    """Two workers whose layers are used in different order; `Barrier` fails if they reduce different things."""

    class Branches(nn.Module):
        def __init__(self, backwards: bool) -> None:
            super().__init__()
            torch.manual_seed(1)
            self.layers = nn.ModuleList(nn.Linear(9, 9 + number) for number in range(4))
            self.backwards = backwards

        def forward(self, x: Tensor) -> Tensor:
            order = list(self.layers)
            return torch.stack([layer(x).mean() for layer in (reversed(order) if self.backwards else order)]).sum()

    # Before the threads start: they share one generator.
    models = [Branches(False), Branches(True)]

    def work(worker: int, reduce: Callable[..., Any]) -> Tensor:
        model = models[worker]
        optimizer = AcpSgd(model, sgd(model), reduce, rank=2, threshold_bytes=0, min_compression=0.0)
        for step in range(4):
            optimizer.zero_grad()
            backward(model(torch.randn(5, 9, generator=torch.Generator().manual_seed(step + 10 * worker))))
            optimizer.step()
        return flat(model)

    barrier = Barrier(2, exact)
    one, other = together(barrier, 2, work)
    assert torch.equal(one, other)
    assert [number for number, _ in barrier.log] == [*range(0, 16, 2), *range(1, 16, 2)] * 2


def test_transport_may_work_in_the_buffer_it_was_given() -> None:
    """As an in-place all-reduce does; here of two workers of which the other has zeros."""
    results = []
    for halve in (lambda x: x / 2, lambda x: x.div_(2)):
        model = net()
        options = {**OPTIONS, "threshold_bytes": 0}
        optimizer = AcpSgd(model, sgd(model), lambda x, _, h=halve: (h(x), lambda: torch.zeros_like(x)), **options)
        results.append(train(model, optimizer, range(4)))
    assert torch.equal(*results)


def test_parameter_without_gradient_takes_part_as_zeros() -> None:
    used, idle = nn.Parameter(torch.ones(6, 6)), nn.Parameter(torch.ones(6, 5))
    frozen = nn.Parameter(torch.ones(7, 7), requires_grad=False)
    reduce = Alone()
    optimizer = AcpSgd([used, frozen, idle], torch.optim.SGD([used, idle], lr=1.0), reduce, rank=2, min_compression=0.0)
    for _ in range(2):
        optimizer.zero_grad()
        backward(used.sum())
        optimizer.step()
    assert [length for _, length in reduce.log] == [2 * 6 + 2 * 6, 2 * 6 + 2 * 5]
    assert idle.grad is not None
    assert not bool(idle.grad.any())
    assert bool((idle == 1).all())
    assert frozen.grad is None
    assert bool((used != 1).any())


@pytest.mark.parametrize("accumulation", [3, None])
def test_accumulated_gradients_are_sent_once_and_whole(accumulation: int | None) -> None:
    model, whole, reduce = net(torch.float64), net(torch.float64), Alone()
    optimizer = AcpSgd(model, sgd(model), reduce, accumulation=accumulation, **OPTIONS)
    expected = AcpSgd(whole, sgd(whole), Alone(), **OPTIONS)
    for step in range(4):
        optimizer.zero_grad()
        expected.zero_grad()
        for part in range(3):
            assert len(reduce.log) == sum(len(optimizer.plan.groups[earlier % 2]) for earlier in range(step))
            backward(loss_of(model, part, step) / 3)
        optimizer.step()
        backward(torch.stack([loss_of(whole, part, step) for part in range(3)]).mean())
        expected.step()
        torch.testing.assert_close(flat(model), flat(whole), rtol=0, atol=1e-10)


def test_fewer_backward_passes_than_announced_are_sent_by_step() -> None:
    model, other = net(), net()
    optimizer = AcpSgd(model, sgd(model), Alone(), accumulation=4, **OPTIONS)
    assert torch.equal(
        train(model, optimizer, range(3)), train(other, AcpSgd(other, sgd(other), Alone(), **OPTIONS), range(3))
    )


def test_more_backward_passes_than_announced_are_refused() -> None:
    model = net()
    _ = AcpSgd(model, sgd(model), Alone(), **OPTIONS)
    backward(loss_of(model, 0, 0))
    with pytest.raises(UsageError, match=r"parameter 7: 2 backward passes in step 0, with accumulation = 1: .*None"):
        backward(loss_of(model, 0, 0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_worked_on_in_float32(dtype: torch.dtype) -> None:
    weight, bias = nn.Parameter(torch.zeros(20, 20, dtype=dtype)), nn.Parameter(torch.zeros(20, dtype=dtype))
    seen: list[torch.dtype] = []

    def reduce(x: Tensor, number: int) -> tuple[Tensor, Residual]:
        seen.append(x.dtype)
        return x.clone(), lambda: torch.zeros_like(x)

    optimizer = AcpSgd([weight, bias], torch.optim.SGD([weight, bias], lr=1.0), reduce, rank=2)
    generator, total, given = torch.Generator().manual_seed(1), torch.zeros(20, 20), torch.zeros(20, 20)
    for _ in range(20):
        weight.grad, bias.grad = torch.randn(20, 20, generator=generator).to(dtype), torch.ones(20, dtype=dtype)
        given += weight.grad.float()
        optimizer.synchronize()
        assert weight.grad.dtype == bias.grad.dtype == dtype
        total += weight.grad.float()
    state = optimizer.states[0]
    assert isinstance(state, MatrixState)
    assert {state.error.dtype, *seen} == {torch.float32}
    # The outputs are rounded to the parameter's type, and nothing else is.
    assert float((total + state.error - given).abs().max()) < 20 * 8 * torch.finfo(dtype).eps


def test_mixed_precisions_share_buffers() -> None:
    parameters = [nn.Parameter(torch.zeros(8, 8, dtype=dtype)) for dtype in (torch.float64, torch.float32)]
    optimizer = AcpSgd(parameters, torch.optim.SGD(parameters, lr=1.0), Alone(), rank=8, min_compression=0.0)
    given = [torch.randn(8, 8, generator=torch.Generator().manual_seed(1)).to(p.dtype) for p in parameters]
    for parameter, gradient in zip(parameters, given, strict=True):
        parameter.grad = gradient.clone()
    optimizer.step()
    torch.testing.assert_close(-parameters[0].detach(), given[0], rtol=0, atol=1e-13)
    torch.testing.assert_close(-parameters[1].detach(), given[1])


def test_gradients_in_another_memory_order_are_the_same() -> None:
    plain, last = net(), net().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    results = [train(model, AcpSgd(model, sgd(model), Alone(), **OPTIONS), range(4)) for model in (plain, last)]
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize(
    "shapes", [[(7,)], [(), (3,), (5,)], [(1, 1)], [(9, 1), (1,)], [(4, 3, 2, 2), (0, 5), (2, 0), (6,)]]
)
def test_degenerate_models(shapes: list[tuple[int, ...]]) -> None:
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in shapes]
    optimizer = AcpSgd(parameters, torch.optim.SGD(parameters, lr=1.0), Alone(), rank=1, min_compression=0.0)
    for _ in range(3):
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    for state, parameter in zip(optimizer.states, [p for p in parameters if p.numel()], strict=True):
        error = state.error.view(parameter.shape) if isinstance(state, MatrixState) else torch.zeros(parameter.shape)
        torch.testing.assert_close(error - parameter.detach(), torch.full(parameter.shape, 3.0))


def test_failure_of_the_transport_comes_out_of_step_and_ends_it() -> None:
    model, twin, reduce = net(), net(), Alone()
    optimizer = AcpSgd(model, sgd(model), reduce, **OPTIONS)
    expected = AcpSgd(twin, sgd(twin), Alone(), **OPTIONS)
    train(model, optimizer, range(1))
    train(twin, expected, range(1))
    before, groups = flat(model), len(optimizer.plan.groups[1])
    reduce.fail_at = len(reduce.log) + 1
    with pytest.raises(OSError, match="the wire is cut"):
        train(model, optimizer, range(1, 2))
    # What is behind the failed buffer is not sent: the other workers could take it for another.
    assert groups > 2
    assert len(reduce.log) == reduce.fail_at + 1
    assert torch.equal(flat(model), before)
    # The same step again is as if nothing had been.
    assert torch.equal(train(model, optimizer, range(1, 4)), train(twin, expected, range(1, 4)))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_step_with_a_bad_gradient_of_one_worker_leaves_the_state_of_all_as_it_was(value: float) -> None:
    def work(worker: int, reduce: Callable[..., Any]) -> Tensor:
        model = net()
        optimizer = AcpSgd(model, sgd(model), reduce, **OPTIONS)
        train(model, optimizer, range(3), worker)
        backward(loss_of(model, worker, 3) * (value if worker else 1.0))
        optimizer.synchronize()
        assert optimizer.steps == 3
        assert all(p.grad is not None and p.grad.isnan().all() for p in model.parameters())
        return train(model, optimizer, range(3, 6), worker)

    def without(worker: int, reduce: Callable[..., Any]) -> Tensor:
        model = net()
        return train(model, AcpSgd(model, sgd(model), reduce, **OPTIONS), range(6), worker)

    results = together(Barrier(2, exact), 2, work) + together(Barrier(2, exact), 2, without)
    # zero_grad of the next step clears what that one left behind.
    assert all(torch.equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("cut", [1, 2])
def test_state_goes_on_where_it_was(cut: int) -> None:
    def make() -> tuple[nn.Module, AcpSgd]:
        model = net()
        inner = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        return model, AcpSgd(model, inner, Alone(), **OPTIONS)

    model, optimizer = make()
    train(model, optimizer, range(cut))
    other, resumed = make()
    other.load_state_dict(model.state_dict())
    # Copied: torch's own optimizers share their momentum with whoever loads it.
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert resumed.phase == cut % 2
    assert torch.equal(train(model, optimizer, range(cut, 5)), train(other, resumed, range(cut, 5)))


def test_state_of_other_settings_or_in_mid_step_is_refused() -> None:
    model = net()
    optimizer = AcpSgd(model, sgd(model), Alone(), **OPTIONS)
    other = AcpSgd(model, sgd(model), Alone(), **{**OPTIONS, "rank": 3})
    with pytest.raises(UsageError, match=r"state of parameter 0: p of shape \(6, 3\): must be \(6, 4\)"):
        optimizer.load_state_dict(other.state_dict())
    other.close()
    other = AcpSgd(model, sgd(model), Alone(), **{**OPTIONS, "seed": 9})
    with pytest.raises(UsageError, match=r"seed = 9: must be 1: make AcpSgd with the seed"):
        optimizer.load_state_dict(other.state_dict())
    other.close()
    backward(loss_of(model, 0, 0))
    with pytest.raises(UsageError, match="in the middle of step 0"):
        optimizer.load_state_dict(optimizer.state_dict())


def test_one_worker_takes_the_mean_error_of_two() -> None:
    entries: dict[str, Any] = {}
    errors = []
    for worker in range(2):
        model = net()
        optimizer = AcpSgd(model, sgd(model), Alone(), **OPTIONS)
        for step in range(2):
            backward(loss_of(model, worker, step))
            optimizer.synchronize()
            optimizer.zero_grad()
        entries |= packed("AcpSgd", Place(worker, 2), optimizer.kept())
        errors.append([state.state()["error"] for state in optimizer.states])
    model = net()
    alone = AcpSgd(model, sgd(model), Alone(), **OPTIONS)
    alone.load_state_dict(entries)
    assert alone.steps == 2
    for state, pair in zip(alone.states, zip(*errors, strict=True), strict=True):
        given = [error for error in pair if error is not None]
        error = state.state()["error"]
        assert (error is None) == (not given)
        if error is not None:
            torch.testing.assert_close(error, torch.stack(given).mean(0))


def test_autocast_does_not_reach_the_factors() -> None:
    plain, other = net(), net()
    expected = train(plain, AcpSgd(plain, sgd(plain), Alone(), **OPTIONS), range(2))
    optimizer = AcpSgd(other, sgd(other), Alone(), accumulation=None, **OPTIONS)
    for step in range(2):
        optimizer.zero_grad()
        backward(loss_of(other, 0, step))
        with torch.autocast("cpu", torch.bfloat16):
            optimizer.step()
    torch.testing.assert_close(flat(other), expected)


def test_closed_optimizer_leaves_the_parameters_alone() -> None:
    model, reduce = net(), Alone()
    AcpSgd(model, sgd(model), reduce, **OPTIONS).close()
    backward(loss_of(model, 0, 0))
    assert reduce.log == []


def test_closure_is_evaluated_once() -> None:
    model, calls = net(), []
    optimizer = AcpSgd(model, sgd(model), Alone(), **OPTIONS)

    def closure() -> Tensor:
        calls.append(1)
        loss = loss_of(model, 0, 0)
        backward(loss)
        return loss

    assert float(optimizer.step(closure).detach()) > 0
    assert calls == [1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rank": 0}, "rank = 0"),
        ({"accumulation": 0}, "accumulation = 0"),
        ({"accumulation": 1.5}, "accumulation = 1.5: must be a whole number of backward passes"),
        ({"seed": -1}, "seed = -1"),
        ({"model": []}, "parameters = none"),
        ({"model": nn.Flatten()}, "parameters = none"),
        ({"model": [nn.Parameter(torch.zeros(3), requires_grad=False)]}, "parameters = none"),
        ({"model": [nn.Parameter(torch.zeros(30, 30))]}, r"optimizer's parameter 0 of shape \(6, 2, 3, 3\)"),
        ({"model": [nn.Parameter(torch.zeros(30, 30, dtype=torch.complex64))]}, "complex64"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], message: str) -> None:
    model = net()
    arguments: dict[str, Any] = {"model": model, "optimizer": sgd(model), "reduce": Alone(), "rank": 1, **change}
    with pytest.raises(UsageError, match=message):
        AcpSgd(**arguments)


def test_parameter_named_twice_added_late_or_with_sparse_gradient_is_refused() -> None:
    weight = nn.Parameter(torch.zeros(30, 30))
    inner = torch.optim.SGD([weight], lr=1.0)
    with pytest.raises(UsageError, match="named once"):
        AcpSgd([weight, weight], inner, Alone())
    optimizer = AcpSgd([weight], inner, Alone())
    with pytest.raises(UsageError, match="fixed layout"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
    weight.grad = torch.eye(30).to_sparse()
    with pytest.raises(UsageError, match="sparse"):
        optimizer.step()


def test_transport_that_gives_back_another_shape_is_refused() -> None:
    weight = nn.Parameter(torch.zeros(30, 30))
    optimizer = AcpSgd([weight], torch.optim.SGD([weight], lr=1.0), lambda x, _: (x, lambda: torch.zeros(1)), rank=2)
    weight.grad = torch.ones(30, 30)
    with pytest.raises(UsageError, match=r"residual of shape \(1,\): must be \(60,\)"):
        optimizer.step()
