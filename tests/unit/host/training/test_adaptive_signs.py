# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Marsit's adaptive rule: what it makes of unequal workers, unequal tensors and Adam; its state. Exact collectives."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.training.replicas import INNER, WORKERS, backward, flat, in_threads, net
from sumwire.checkpoint import Place, unpacked
from sumwire.errors import UsageError
from sumwire.training import adaptive_signs
from sumwire.training.adaptive_signs import AdaptiveSigns, divides_by_squares
from sumwire.training.optim import Marsit
from sumwire.training.reductions import Collective, Threads
from torch import Tensor, nn

Forgetting = Callable[[AdaptiveSigns], None]


def pulled(targets: list[Tensor], rounds: int, forget: Forgetting = lambda rule: None, **options: Any) -> list[Any]:
    """Each worker pulls the parameter towards a target of its own. Where it ends, and how many rounds were exact, from
    each worker. ``forget``: what the rule loses after every round."""

    def work(worker: int, collective: Collective) -> tuple[Tensor, int]:
        weight = nn.Parameter(torch.zeros_like(targets[worker]))
        marsit = Marsit(torch.optim.SGD([weight], lr=0.05), collective, **options)
        exact = 0
        for _ in range(rounds):
            exact += marsit.full_precision_next
            weight.grad = weight.detach() - targets[worker]
            marsit.step()
            assert marsit._adaptive is not None
            forget(marsit._adaptive)
        return weight.detach(), exact

    return in_threads(work)


def targets_of(spread: float) -> list[Tensor]:
    drawn = torch.Generator().manual_seed(3)
    return [torch.ones(400) + spread * torch.randn(400, generator=drawn) for _ in range(WORKERS)]


def distance(ends: list[Any], targets: list[Tensor]) -> float:
    """From the mean of the targets, where plain averaging ends; root mean square."""
    assert all(torch.equal(end, ends[0][0]) for end, _ in ends), "replicas differ"
    return float((ends[0][0] - torch.stack(targets).mean(0)).square().mean().sqrt())


def lose_shift(rule: AdaptiveSigns) -> None:
    rule._shift = None


def lose_error(rule: AdaptiveSigns) -> None:
    rule.error = None


def test_unequal_workers_meet_at_their_mean_and_not_without_shifts() -> None:
    targets = targets_of(10.0)
    found = {
        name: distance(pulled(targets, 300, forget, full_precision_every=50), targets)
        for name, forget in (("whole", lambda rule: None), ("no shift", lose_shift))
    }
    assert found["whole"] < 0.3
    assert found["no shift"] > 3 * found["whole"]


@pytest.mark.parametrize(("forget", "right"), [(lambda rule: None, True), (lose_error, False)])
def test_what_an_own_sign_leaves_out_is_carried(forget: Forgetting, right: bool) -> None:
    """Values whose updates are a tenth of their tensor's largest get there as fast as they should."""

    def work(worker: int, collective: Collective) -> float:
        weight = nn.Parameter(torch.zeros(100))
        marsit = Marsit(torch.optim.SGD([weight], lr=0.1), collective, full_precision_every=None)
        for _ in range(60):
            weight.grad = torch.cat([torch.full((90,), -0.1), torch.full((10,), -1.0)])
            marsit.step()
            assert marsit._adaptive is not None
            forget(marsit._adaptive)
        return float(weight.detach()[:90].mean())

    for moved in in_threads(work):
        assert (moved == pytest.approx(60 * 0.01, rel=0.2)) == right


@pytest.mark.parametrize(("spread", "early"), [(0.0, False), (10.0, True)])
def test_rounds_are_exact_earlier_where_workers_differ_beyond_their_shifts(spread: float, early: bool) -> None:
    ends = pulled(targets_of(spread), 100, lose_shift, full_precision_every=100)
    assert (ends[0][1] > 1) == early
    assert len({exact for _, exact in ends}) == 1


def test_never_exact_is_kept_to() -> None:
    assert pulled(targets_of(10.0), 40, full_precision_every=None)[0][1] == 0


def test_each_tensor_has_a_step_from_its_own_updates() -> None:
    def work(worker: int, collective: Collective) -> list[float]:
        small, large = nn.Parameter(torch.zeros(64)), nn.Parameter(torch.zeros(8))
        marsit = Marsit(torch.optim.SGD([small, large], lr=1.0), collective, full_precision_every=None)
        small.grad, large.grad = torch.full((64,), 1e-6), torch.full((8,), 10.0)
        marsit.step()
        return [float(p.detach().abs().max()) for p in (small, large)]

    for small, large in in_threads(work):
        assert small == pytest.approx(adaptive_signs.STEP * 1e-6, rel=1e-3)
        assert large == pytest.approx(adaptive_signs.STEP * 10.0, rel=1e-3)


@pytest.mark.parametrize(("inner", "divides"), [("sgd", False), ("momentum", False), ("adam", True)])
def test_scale_and_step_are_those_of_optimizers_that_divide_by_squares(inner: str, divides: bool) -> None:
    """Noise of each worker's own makes Adam's mean update about half as long with four workers."""

    def work(worker: int, collective: Collective) -> tuple[float, float]:
        weight = nn.Parameter(torch.zeros(4000))
        marsit = Marsit(INNER[inner]([weight]), collective, full_precision_every=None)
        noise = torch.Generator().manual_seed(worker)
        for _ in range(9):
            weight.grad = torch.randn(4000, generator=noise)
            marsit.step()
        assert divides_by_squares(marsit.inner) == divides
        rule = marsit._adaptive
        assert rule is not None and rule._squares is not None
        return rule._scale, float(rule._step[0] / rule._squares[0].sqrt())

    (scale, step), *others = in_threads(work)
    assert {other for other, _ in others} == {scale}
    assert scale == (pytest.approx(WORKERS**0.5, rel=0.2) if divides else 1.0)
    assert step == pytest.approx(adaptive_signs.STEP_SCALED if divides else adaptive_signs.STEP, rel=0.2)


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("cut", [1, 4, 9])
def test_state_goes_on_where_it_was(inner: str, cut: int) -> None:
    """One worker: the merge has nothing to draw."""
    collective = Threads(1).of(0)

    def go(model: nn.Module, marsit: Marsit, steps: range) -> None:
        for step in steps:
            backward(model, step % 3, step)
            marsit.step()

    whole = net()
    go(whole, Marsit(INNER[inner](whole.parameters()), collective, full_precision_every=6), range(20))
    first = net()
    marsit = Marsit(INNER[inner](first.parameters()), collective, full_precision_every=6)
    go(first, marsit, range(cut))
    second = net()
    second.load_state_dict(first.state_dict())
    loaded = Marsit(INNER[inner](second.parameters()), collective)
    loaded.load_state_dict(marsit.state_dict())
    go(second, loaded, range(cut, 20))
    assert torch.equal(flat(whole), flat(second))


def test_shifts_of_another_number_of_workers_add_up_to_zero() -> None:
    def saved(worker: int, collective: Collective) -> dict[str, Any]:
        model = net()
        marsit = Marsit(INNER["sgd"](model.parameters()), collective, full_precision_every=2)
        for step in range(3):
            backward(model, worker, step)
            marsit.step()
        state = marsit.state_dict()
        (entry,) = state.values()
        return {f"worker{worker}": (entry[0], {**entry[1], "worker": worker, "workers": WORKERS})}

    states = {key: entry for state in in_threads(saved) for key, entry in state.items()}
    shifts = []
    for worker in range(2):
        loaded = Marsit(INNER["sgd"](net().parameters()), Threads(2).of(worker), full_precision_every=2)
        loaded.restore(unpacked(loaded.kind(), Place(worker, 2), states))
        assert loaded._adaptive is not None
        assert loaded._adaptive._shift is not None
        shifts.append(loaded._adaptive._shift)
    assert float(shifts[0].abs().max()) > 1e-3
    torch.testing.assert_close(shifts[0] + shifts[1], torch.zeros_like(shifts[0]), atol=1e-12, rtol=0)


def test_state_of_the_other_rule_is_refused() -> None:
    collective = Threads(1).of(0)
    adaptive = Marsit(INNER["sgd"](net().parameters()), collective)
    published = Marsit(INNER["sgd"](net().parameters()), collective, rule="published")
    for one, other, rule in ((adaptive, published, "adaptive"), (published, adaptive, "published")):
        with pytest.raises(UsageError, match=f"saved with rule '{rule}'"):
            other.load_state_dict(one.state_dict())


@pytest.mark.parametrize("failing", ["mean", "sign_merge"])
def test_a_round_that_failed_is_made_again_as_if_it_had_not_been(failing: str) -> None:
    """Rounds 0 and 5 are exact; in rounds 1, 2 and 4 of signs workers agree."""

    class Broken:
        def __init__(self, end: Collective) -> None:
            self.end, self.broken = end, False

        def call(self, name: str, x: Tensor) -> Tensor:
            if self.broken and name == failing:
                raise TimeoutError("no answer")
            result: Tensor = getattr(self.end, name)(x)
            return result

        def mean(self, x: Tensor, /) -> Tensor:
            return self.call("mean", x)

        def sign_merge(self, plus: Tensor, /) -> Tensor:
            return self.call("sign_merge", plus)

        def all_finite(self, finite: bool, /) -> bool:
            return finite

    ends = []
    for breaks in (False, True):
        weight, collective = nn.Parameter(torch.zeros(50)), Broken(Threads(1).of(0))
        marsit = Marsit(torch.optim.SGD([weight], lr=0.1), collective, full_precision_every=5)
        for step in range(12):
            weight.grad = torch.linspace(-1, 1, 50) - weight.detach()
            collective.broken = breaks
            with contextlib.suppress(TimeoutError):
                marsit.step()
            if marsit.round == step:
                collective.broken = False
                marsit.step()
        assert marsit._adaptive is not None
        ends.append((marsit._adaptive._since, weight.detach()))
    assert ends[0][0] == ends[1][0]
    torch.testing.assert_close(ends[0][1], ends[1][1], atol=0.2, rtol=0)
