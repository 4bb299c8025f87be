# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Marsit's optimizer: the compensation identity, its limits, its state; with exact collectives in float64."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from helpers.training.replicas import INNER, WORKERS, backward, flat, in_threads, net, steps_of
from sumwire.errors import NonFiniteError, UsageError
from sumwire.training.optim import Marsit
from sumwire.training.reductions import Collective, Threads
from torch import Tensor, nn

STEPS = 25


class LocalResidual(Marsit):
    """The mistake: each worker keeps what its own sign leaves out, not what the global result leaves out."""

    def _make_round(self, x: Tensor, update: Tensor) -> None:
        g = update
        if self._kept is not None:
            g.add_(self._kept)
        if self.full_precision_next:
            change = self._collective.mean(g)
            self._kept = None
        else:
            change = self._signs(g)
            self._kept = g - torch.where(g >= 0, 1.0, -1.0) * self._pace.of(self.round)
        self._flat.write(x - change)
        self.round += 1


def trajectory(
    kind: type[Marsit], inner: str, every: int | None, steps: int = STEPS
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Per step, over all workers: x after it, the mean compensation after it, the mean of the local updates.

    The local update is made a second time here, by an optimizer of the same kind on a copy of the model.
    """

    def work(worker: int, collective: Collective) -> list[tuple[Tensor, Tensor, Tensor]]:
        model, twin = net(), net()
        marsit = kind(
            INNER[inner](model.parameters()), collective, rule="published", global_lr=0.01, full_precision_every=every
        )
        plain = INNER[inner](twin.parameters())
        rows = []
        for step in range(steps):
            twin.load_state_dict(model.state_dict())
            backward(twin, worker, step)
            before = flat(twin)
            plain.step()
            backward(model, worker, step)
            marsit.step()
            kept = marsit.compensation
            rows.append((flat(model), torch.zeros_like(before) if kept is None else kept.clone(), before - flat(twin)))
        return rows

    workers = in_threads(work)
    for step in range(steps):
        for rows in workers:
            assert torch.equal(rows[step][0], workers[0][step][0]), f"replicas differ after step {step}"
    means = [
        [torch.stack([rows[step][column] for rows in workers]).mean(0) for step in range(steps)] for column in (1, 2)
    ]
    return [row[0] for row in workers[0]], means[0], means[1]


def identity_error(kind: type[Marsit], inner: str, every: int | None) -> float:
    """Largest difference of y = x - mean(c) from the sequence that plain averaging of the same updates makes."""
    x, compensation, update = trajectory(kind, inner, every)
    y = flat(net())
    worst = 0.0
    for step in range(STEPS):
        y = y - update[step]
        worst = max(worst, float((x[step] - compensation[step] - y).abs().max()))
    return worst


@pytest.mark.parametrize("every", [1, 7, None])
@pytest.mark.parametrize("inner", INNER)
def test_identity(inner: str, every: int | None) -> None:
    """x - mean(compensation) moves by exactly the mean of the local updates, resets included."""
    assert identity_error(Marsit, inner, every) < 1e-10


@pytest.mark.parametrize("every", [7, None])
def test_identity_fails_with_a_local_residual(every: int | None) -> None:
    assert identity_error(LocalResidual, "sgd", every) > 1e-3


@pytest.mark.parametrize("inner", ["sgd", "momentum"])
def test_full_precision_always_is_parallel_sgd(inner: str) -> None:
    """K = 1 against one optimizer on the mean gradient: for rules that are linear in the gradient they are the same."""
    x, compensation, _ = trajectory(Marsit, inner, 1)
    together, optimizer = net(), None
    optimizer = INNER[inner](together.parameters())
    for step in range(STEPS):
        grads = []
        for worker in range(WORKERS):
            backward(together, worker, step)
            grads.append([p.grad.clone() for p in together.parameters() if p.grad is not None])
        for p, *pieces in zip(together.parameters(), *grads, strict=True):
            p.grad = torch.stack(pieces).mean(0)
        optimizer.step()
        torch.testing.assert_close(x[step], flat(together), rtol=0, atol=1e-12)
        assert not compensation[step].any()


def test_sign_rounds_move_every_parameter_by_the_global_step() -> None:
    x, _, _ = trajectory(Marsit, "adam", None, steps=3)
    for before, after in zip([flat(net()), *x[:-1]], x, strict=True):
        torch.testing.assert_close((after - before).abs(), torch.full_like(before, 0.01), rtol=1e-10, atol=0)


def test_state_goes_on_where_it_was() -> None:
    """One worker: the merge has nothing to draw."""

    collective = Threads(1).of(0)
    ends = []
    for cut in (None, 4):
        model = net()
        marsit = Marsit(
            INNER["adam"](model.parameters()), collective, rule="published", global_lr=0.01, full_precision_every=6
        )
        steps_of(model, marsit, 0, range(cut or 10))
        if cut:
            other = net()
            other.load_state_dict(model.state_dict())
            loaded = Marsit(INNER["adam"](other.parameters()), collective, rule="published", global_lr=1.0)
            loaded.load_state_dict(marsit.state_dict())
            assert (loaded.round, loaded.global_lr) == (4, 0.01)
            assert loaded.param_groups[0] is loaded.inner.param_groups[0]
            assert loaded.compensation is not None and torch.equal(loaded.compensation, marsit.compensation)
            steps_of(other, loaded, 0, range(cut, 10))
            model = other
        ends.append(flat(model))
    assert torch.equal(ends[0], ends[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_moments_of_half_precision_are_loaded_in_full_precision(dtype: torch.dtype) -> None:
    collective = Threads(1).of(0)
    model = net(dtype)
    marsit = Marsit(
        INNER["adam"](model.parameters()), collective, rule="published", global_lr=0.01, full_precision_every=2
    )
    steps_of(model, marsit, 0, range(3))
    other = net(dtype)
    other.load_state_dict(model.state_dict())
    loaded = Marsit(
        INNER["adam"](other.parameters()), collective, rule="published", global_lr=0.01, full_precision_every=2
    )
    loaded.load_state_dict(marsit.state_dict())
    for one, twin in zip(model.parameters(), other.parameters(), strict=True):
        moment = loaded.inner.state[twin]["exp_avg"]
        assert moment.dtype == torch.float32
        assert torch.equal(moment, marsit.inner.state[one]["exp_avg"])
    steps_of(model, marsit, 0, range(3, 6))
    steps_of(other, loaded, 0, range(3, 6))
    assert torch.equal(flat(model), flat(other))


def test_an_optimizer_is_not_pickled_and_says_what_to_save() -> None:
    marsit = Marsit(INNER["sgd"](net().parameters()), Threads(1).of(0), rule="published", global_lr=0.01)
    with pytest.raises(UsageError, match=r"Marsit: cannot be pickled.* save its state_dict\(\)"):
        copy.deepcopy(marsit)


def test_state_of_another_model_is_refused() -> None:
    collective = Threads(1).of(0)
    model = net()
    marsit = Marsit(
        INNER["sgd"](model.parameters()), collective, rule="published", global_lr=0.01, full_precision_every=None
    )
    steps_of(model, marsit, 0, range(1))
    small = Marsit(INNER["sgd"](nn.Linear(2, 2).parameters()), collective, rule="published", global_lr=0.01)
    with pytest.raises(UsageError, match=r"parameter 0 of shape \(9, 6\): in the model it has \(2, 2\)"):
        small.load_state_dict(marsit.state_dict())


def test_a_learning_rate_schedule_on_either_optimizer_takes_effect() -> None:
    for outer in (True, False):
        model = net()
        marsit = Marsit(
            INNER["sgd"](model.parameters()), Threads(1).of(0), rule="published", global_lr=0.01, full_precision_every=1
        )
        schedule = torch.optim.lr_scheduler.LambdaLR(marsit if outer else marsit.inner, lambda step: 0.5**step)
        sizes = []
        for _ in range(3):
            before = flat(model)
            backward(model, 0, 0)
            grad = torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None])
            marsit.step()
            schedule.step()
            sizes.append(float((before - flat(model)).norm() / grad.norm()))
        assert sizes == pytest.approx([0.05, 0.025, 0.0125])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_parameters_do_not_lose_small_updates(dtype: torch.dtype) -> None:
    """A thousandth of a bfloat16's spacing, a thousand times, arrives; all replicas stay equal."""

    def work(worker: int, collective: Collective) -> Tensor:
        weight = nn.Parameter(torch.full((50,), 256.0, dtype=dtype))
        marsit = Marsit(
            torch.optim.SGD([weight], lr=0.01), collective, rule="published", global_lr=1e-3, full_precision_every=3
        )
        for _ in range(900):
            weight.grad = torch.ones_like(weight)
            marsit.step()
        assert weight.dtype == dtype
        assert weight.grad is not None
        assert weight.grad.dtype == dtype
        return weight.detach().clone()

    results = in_threads(work, workers=2)
    for result in results:
        assert torch.equal(result, results[0])
        torch.testing.assert_close(result.float(), torch.full((50,), 247.0), rtol=0, atol=1.0)


def test_a_half_parameter_written_by_others_is_read_again() -> None:
    weight = nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    marsit = Marsit(
        torch.optim.SGD([weight], lr=0.1), Threads(1).of(0), rule="published", global_lr=1e-3, full_precision_every=1
    )
    weight.grad = torch.full_like(weight, 1e-3)
    marsit.step()
    with torch.no_grad():
        weight[0] = 5.0
    marsit.step()
    assert weight.tolist() == [5.0, 1.0, 1.0, 1.0]
    assert marsit._flat.master is not None
    assert marsit._flat.master.tolist() == pytest.approx([5 - 1e-4, 1 - 2e-4, 1 - 2e-4, 1 - 2e-4])


def test_parameters_without_gradient() -> None:
    """Frozen ones stay as they are and are not sent; one without gradient on some workers takes part with zeros."""
    lengths: list[int] = []

    class Counting:
        def __init__(self, inner: Collective) -> None:
            self.inner = inner

        def sign_merge(self, plus: Tensor, /) -> Tensor:
            lengths.append(len(plus))
            return self.inner.sign_merge(plus)

        def mean(self, x: Tensor, /) -> Tensor:
            lengths.append(len(x))
            return self.inner.mean(x)

        def all_finite(self, finite: bool, /) -> bool:
            return self.inner.all_finite(finite)

    def work(worker: int, collective: Collective) -> tuple[list[float], list[float], list[float]]:
        frozen = nn.Parameter(torch.ones(3), requires_grad=False)
        sparse, used = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))
        marsit = Marsit(
            torch.optim.SGD([frozen, sparse, used], lr=1.0),
            Counting(collective),
            rule="published",
            global_lr=0.1,
            full_precision_every=2,
        )
        for _ in range(2):
            used.grad = torch.ones(1)
            sparse.grad = torch.full((2,), 4.0) if worker == 0 else None
            marsit.step()
            assert sparse.grad is None or worker == 0
        return frozen.tolist(), sparse.tolist(), used.tolist()

    for frozen, sparse, used in in_threads(work, workers=2):
        assert frozen == [1, 1, 1]
        # The mean of 4 and none, then the sign of it: zero is plus.
        assert sparse == pytest.approx([-2.1, -2.1])
        assert used == pytest.approx([-1.1])
    assert set(lengths) == {3}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_bad_gradient_of_one_worker_is_all_workers_and_keeps_the_compensation(value: float) -> None:
    def work(worker: int, collective: Collective) -> list[float]:
        model = net()
        marsit = Marsit(
            INNER["momentum"](model.parameters()),
            collective,
            rule="published",
            global_lr=0.01,
            full_precision_every=None,
        )
        steps_of(model, marsit, worker, range(2))
        kept = marsit.compensation
        assert kept is not None
        before = kept.clone()
        backward(model, worker, 2)
        last = list(model.parameters())[-1]
        assert last.grad is not None
        if worker == 1:
            last.grad[1] = value
        marsit.step()
        assert all(p.grad is not None and p.grad.isnan().all() for p in model.parameters())
        assert marsit.compensation is not None and torch.equal(marsit.compensation, before)
        assert marsit.round == 2
        return flat(model).tolist()

    # As any optimizer's step with such gradients.
    assert all(math.isnan(value) for values in in_threads(work, workers=2) for value in values)


@pytest.mark.parametrize("every", [None, 1])
def test_bad_update_from_good_gradients_is_an_error_and_no_one_waits(every: int | None) -> None:
    def work(worker: int, collective: Collective) -> tuple[list[float], str]:
        model = net()
        inner = torch.optim.SGD(model.parameters(), lr=float("inf") if worker else 0.1)
        marsit = Marsit(inner, collective, rule="published", global_lr=0.01, full_precision_every=every)
        backward(model, worker, 0)
        text = ""
        try:
            marsit.step()
        except NonFiniteError as error:
            text = str(error)
        assert flat(model).isfinite().all()
        return flat(model).tolist(), text

    (first, fine), (second, told) = in_threads(work, workers=2)
    assert first == second
    assert told.startswith("round 1" if every is None else "round 0")
    assert (fine == "") == (every is None)


def test_a_failing_collective_leaves_the_parameters_alone() -> None:
    class Broken:
        def sign_merge(self, plus: Tensor, /) -> Tensor:
            raise TimeoutError("no answer")

        mean = sign_merge

        def all_finite(self, finite: bool, /) -> bool:
            return finite

    model = net()
    pointers = [p.data_ptr() for p in model.parameters()]
    marsit = Marsit(INNER["adam"](model.parameters()), Broken(), rule="published", global_lr=0.01)
    before = flat(model)
    backward(model, 0, 0)
    grads = [p.grad for p in model.parameters()]
    with pytest.raises(TimeoutError):
        marsit.step()
    assert torch.equal(before, flat(model))
    assert [p.data_ptr() for p in model.parameters()] == pointers
    assert all(p.grad is grad for p, grad in zip(model.parameters(), grads, strict=True))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rule": "published", "global_lr": 0.0}, r"global_lr = 0.0 in round 0: must be a finite number above 0"),
        ({"rule": "published", "global_lr": lambda step: float("nan")}, "global_lr = nan"),
        ({"rule": "published", "global_lr": lambda step: None}, "global_lr = None"),
        ({"rule": "published", "global_lr": "0.1"}, "global_lr = '0.1'"),
        (
            {"rule": "published", "global_lr": 0.1, "full_precision_every": 0},
            "full_precision_every = 0: must be a whole number of rounds",
        ),
        ({"full_precision_every": 2.5}, "full_precision_every = 2.5: must be a whole number of rounds"),
        ({"full_precision_every": float("nan")}, "full_precision_every = nan"),
        ({"full_precision_every": "100"}, "full_precision_every = '100'"),
        ({"rule": "fixed"}, "rule = 'fixed': must be one of 'adaptive', 'published'"),
        ({"global_lr": 0.1}, "global_lr = 0.1: must be left out with the adaptive rule, or go with rule='published'"),
        ({"lead": 1.0}, "lead = 1.0: must be left out with the adaptive rule"),
        ({"rule": "published", "lead": "3"}, "lead = '3': must be a finite number"),
        ({"rule": "published", "lead": 0.5}, "lead = 0.5: must be a finite number from 1 on"),
    ],
)
def test_impossible_settings_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        Marsit(INNER["sgd"](net().parameters()), Threads(1).of(0), **options)


def test_what_is_no_optimizer_or_no_collective_is_refused() -> None:
    inner = INNER["sgd"](net().parameters())
    end = Threads(1).of(0)
    with pytest.raises(UsageError, match="optimizer = Sequential: must be an optimizer of torch"):
        Marsit(net(), end)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="optimizer = Marsit: must be one that does not communicate itself"):
        Marsit(Marsit(inner, end), end)
    for collective in (None, "job.json"):
        rule = "must be a job, a process group, or have the calls sign_merge, mean, all_finite"
        with pytest.raises(UsageError, match=rule):
            Marsit(inner, collective)  # type: ignore[arg-type]


def test_a_model_without_values_makes_rounds() -> None:
    nothing = torch.nn.Parameter(torch.zeros(0))
    marsit = Marsit(torch.optim.SGD([nothing], lr=0.1), Threads(1).of(0))
    for _ in range(3):
        nothing.grad = torch.zeros(0)
        marsit.step()
    assert marsit.round == 3


def test_parameters_of_other_kinds_are_refused() -> None:
    collective = Threads(1).of(0)
    whole = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    with pytest.raises(UsageError, match="complex64"):
        Marsit(torch.optim.SGD([whole], lr=0.1), collective, rule="published", global_lr=0.1)
    marsit = Marsit(INNER["sgd"](net().parameters()), collective, rule="published", global_lr=0.1)
    with pytest.raises(UsageError, match="fixed layout"):
        marsit.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})


def test_closure_is_evaluated_once() -> None:
    model = net()
    marsit = Marsit(INNER["sgd"](model.parameters()), Threads(1).of(0), rule="published", global_lr=0.1)
    calls: list[float] = []

    def closure() -> float:
        assert torch.is_grad_enabled()
        calls.append(backward(model, 0, 0))
        return calls[-1]

    assert marsit.step(closure) == calls[0]
    assert len(calls) == 1
