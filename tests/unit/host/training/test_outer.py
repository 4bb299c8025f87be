# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Outer steps, and a state told to all workers."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from helpers.logs import events_of
from helpers.training.replicas import INNER, WORKERS, backward, flat, in_threads, net
from numpy.typing import NDArray
from sumwire.checkpoint import Content, Saved
from sumwire.errors import UsageError
from sumwire.job.job import Job
from sumwire.training.ddp import Reduce
from sumwire.training.hierarchical import NodeJob
from sumwire.training.optim import GradientSync, Marsit
from sumwire.training.outer import Outer, broadcast_state
from sumwire.training.reductions import Collective, Threads
from sumwire_protocol.events import Event
from torch import Tensor, nn

EVERY = 4


def exact(collective: Collective) -> Reduce:
    return lambda x, _: (collective.mean(x), lambda: torch.zeros_like(x))


def plain(lr: float) -> Callable[[list[Tensor]], torch.optim.Optimizer]:
    return lambda parameters: torch.optim.SGD(parameters, lr=lr)


def outer_of(model: nn.Module, collective: Collective, inner: str = "sgd", **options: Any) -> Outer:
    optimizer = INNER[inner](model.parameters())
    return Outer(optimizer, None, **({"every": EVERY, "reduce": exact(collective)} | options))


def steps_of(model: nn.Module, outer: Outer, worker: int, steps: range) -> list[Tensor]:
    """Parameters after each step."""
    seen = []
    for step in steps:
        backward(model, worker, step)
        outer.step()
        seen.append(flat(model))
    return seen


def by_hand(inner: str, outer_steps: int) -> list[Tensor]:
    """The parameters after each outer step. Nesterov's momentum: v = 0.9 v + g, x -= 0.7 (g + 0.9 v)."""
    models = [net() for _ in range(WORKERS)]
    optimizers = [INNER[inner](model.parameters()) for model in models]
    x = flat(models[0])
    velocity = torch.zeros_like(x)
    found = []
    for number in range(outer_steps):
        for worker, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            for step in range(number * EVERY, (number + 1) * EVERY):
                backward(model, worker, step)
                optimizer.step()
        gradient = torch.stack([x - flat(model) for model in models]).mean(0)
        velocity = 0.9 * velocity + gradient
        x = x - 0.7 * (gradient + 0.9 * velocity)
        for model in models:
            torch.nn.utils.vector_to_parameters(x.clone(), model.parameters())
        found.append(x)
    return found


@pytest.mark.parametrize("inner", ["sgd", "adam"])
def test_it_is_diloco(inner: str) -> None:
    def work(worker: int, collective: Collective) -> list[Tensor]:
        model = net()
        return steps_of(model, outer_of(model, collective, inner), worker, range(3 * EVERY))

    expected = by_hand(inner, 3)
    workers = in_threads(work)
    for number, x in enumerate(expected, start=1):
        for seen in workers:
            assert torch.equal(seen[number * EVERY - 1], workers[0][number * EVERY - 1])
            # Pseudo-gradients are float32.
            torch.testing.assert_close(seen[number * EVERY - 1], x, rtol=0, atol=1e-6)
    assert not torch.equal(workers[0][EVERY - 2], workers[1][EVERY - 2]), "local steps are local"


def test_parts_come_in_turn_each_after_every_steps() -> None:
    """Four parameters in two parts, every 4 steps: one part after 2, 6, 10 steps, the other after 4, 8, 12."""

    def work(worker: int, collective: Collective) -> list[list[Tensor]]:
        model = net()
        outer = outer_of(model, collective, parts=2)
        seen = []
        for step in range(12):
            backward(model, worker, step)
            outer.step()
            seen.append([torch.cat([p.detach().reshape(-1) for p in part.flat.parameters]) for part in outer.parts])
        return seen

    workers = in_threads(work, workers=2)
    equal = [[torch.equal(*pieces) for pieces in zip(*both, strict=True)] for both in zip(*workers, strict=True)]
    assert [step for step, (first, _) in enumerate(equal, 1) if first] == [2, 6, 10]
    assert [step for step, (_, second) in enumerate(equal, 1) if second] == [4, 8, 12]


@pytest.mark.parametrize("mix", [0.0, 0.25])
def test_overlap_lands_later_and_mixes(mix: float) -> None:
    """The outer step has the pseudo-gradient of step 4, and is made after step 6, when local values have gone on."""

    def work(worker: int, collective: Collective) -> tuple[Tensor, ...]:
        model, twin = net(), net()
        outer = outer_of(model, collective, overlap=2, mix=mix, outer=plain(1.0))
        local = steps_of(twin, outer_of(twin, collective, every=100), worker, range(6))
        seen = steps_of(model, outer, worker, range(6))
        for step in (3, 4):
            assert torch.equal(seen[step], local[step])
        return local[3], local[5], outer.shared, seen[5]

    workers = in_threads(work)
    # A plain outer step of 1 is the mean of the workers' parameters.
    mean = torch.stack([sent for sent, *_ in workers]).mean(0)
    for _, last, shared, end in workers:
        assert torch.equal(shared, workers[0][2])
        torch.testing.assert_close(shared, mean, rtol=0, atol=1e-6)
        torch.testing.assert_close(end, mix * last + (1 - mix) * shared, rtol=0, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"parts": 2, "overlap": 1}, {"overlap": 3, "mix": 0.5}])
def test_state_goes_on_where_it_was(options: dict[str, Any]) -> None:
    """Cut after 5 of 11 steps, with pseudo-gradients under way."""

    def work(worker: int, collective: Collective) -> None:
        ends = []
        for cut in (11, 5):
            model = net()
            outer = outer_of(model, collective, "adam", **options)
            steps_of(model, outer, worker, range(cut))
            if cut < 11:
                other = net()
                other.load_state_dict(model.state_dict())
                loaded = outer_of(other, collective, "adam", **options)
                loaded.load_state_dict(outer.state_dict())
                assert loaded.param_groups[0] is loaded.inner.param_groups[0]
                steps_of(other, loaded, worker, range(cut, 11))
                model = other
            ends.append(flat(model))
        assert torch.equal(ends[0], ends[1])

    in_threads(work, workers=2)


def test_residuals_are_sent_later() -> None:
    """A reduction that loses the upper half of every tensor: with feedback nothing is lost for ever."""

    def halving(collective: Collective, lost: list[Tensor]) -> Reduce:
        def reduce(x: Tensor, _: int) -> tuple[Tensor, Callable[[], Tensor]]:
            kept = x.clone()
            kept[len(x) // 2 :] = 0.0
            lost.append(x - kept)
            return collective.mean(kept), lambda: x - kept

        return reduce

    def work(worker: int, collective: Collective) -> tuple[Tensor, Tensor]:
        model, lost = net(), []
        reduce = halving(collective, lost)
        outer = Outer(INNER["sgd"](model.parameters()), None, every=2, outer=plain(1.0), reduce=reduce)
        start = shared = flat(model)
        drifts = torch.zeros_like(start)
        for step in range(6):
            backward(model, worker, step)
            outer.inner.step()
            before = flat(model)
            # The optimizer's own local step then changes nothing.
            model.zero_grad()
            outer.step()
            if step % 2:
                drifts += shared - before
            shared = outer.shared
        return start - shared, drifts - lost[-1]

    workers = in_threads(work)
    moved, sent = workers[0][0], torch.stack([sent for _, sent in workers]).mean(0)
    torch.testing.assert_close(moved, sent, rtol=0, atol=1e-6)
    assert moved[: len(moved) // 2].abs().min() > 0 and not moved[len(moved) // 2 :].any()


@pytest.mark.parametrize("inner", ["momentum", "adam"])
def test_one_workers_nan_gradient_does_not_end_the_training(inner: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its inner optimizer keeps NaN as momentum. Later steps would bring that back, and all go back again and again."""

    def work(worker: int, collective: Collective) -> list[Tensor]:
        model = net()
        outer = outer_of(model, collective, inner)
        found = []
        for step in range(3 * EVERY):
            backward(model, worker, step)
            if worker == 1 and step == 1:
                for p in model.parameters():
                    p.grad = torch.full_like(p, torch.nan)
            outer.step()
            if (step + 1) % EVERY == 0:
                found.append(outer.shared)
        return found

    for shared in in_threads(work):
        first, second, third = shared
        assert torch.isfinite(third).all()
        assert torch.equal(first, flat(net()))
        assert not torch.equal(second, first) and not torch.equal(third, second)
    assert set(events_of(caplog.records)) == {Event.STEP_REVERTED}


def test_optimizers_that_need_a_closure_are_refused() -> None:
    def work(_: int, collective: Collective) -> None:
        lbfgs = torch.optim.LBFGS(net().parameters())
        for make in (
            lambda: Outer(lbfgs, None, every=2, reduce=exact(collective)),
            lambda: GradientSync(lbfgs, exact(collective)),
            lambda: Marsit(lbfgs, collective),
        ):
            with pytest.raises(UsageError, match="optimizer = LBFGS: must be one whose step needs no closure"):
                make()
        once = GradientSync(torch.optim.SGD(net().parameters(), lr=0.1), exact(collective))
        with pytest.raises(UsageError, match="must be one that does not communicate itself"):
            GradientSync(once, exact(collective))

    in_threads(work)


def test_half_precision_parameters_do_not_lose_small_steps() -> None:
    """A thousandth of a bfloat16's spacing per outer step adds up."""

    def work(worker: int, collective: Collective) -> Tensor:
        weight = nn.Parameter(torch.full((50,), 256.0, dtype=torch.bfloat16))
        inner = torch.optim.SGD([weight], lr=1.0)
        outer = Outer(inner, None, every=1, outer=plain(1e-3), reduce=exact(collective))
        for _ in range(1500):
            weight.grad = torch.full_like(weight, 2.0)
            outer.step()
        return weight.detach().float()

    for end in in_threads(work, workers=2):
        torch.testing.assert_close(end, torch.full((50,), 253.0), rtol=0, atol=1.0)


def test_a_scaler_skips_local_steps_and_not_the_count() -> None:
    def work(worker: int, collective: Collective) -> tuple[Tensor, int]:
        model = net(torch.float32)
        outer = outer_of(model, collective, every=2)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for step in range(4):
            x = torch.full((3, 6), torch.inf if worker == 0 and step == 1 else 0.5 + worker)
            outer.zero_grad()
            scaler.scale(model(x).square().mean()).backward()
            scaler.step(outer)
            scaler.update()
        return flat(model), outer.exchanges

    (one, count), (other, _) = in_threads(work, workers=2)
    assert torch.equal(one, other) and bool(one.isfinite().all()) and count == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"every": 0}, "every = 0: must be 1 or more"),
        ({"every": 2, "parts": 3}, "no less than parts = 3"),
        ({"parts": 5, "every": 9}, "parts = 5: must be 1 to 4"),
        ({"overlap": 4}, "overlap = 4: must be 0 to 3"),
        ({"mix": 1.5}, "mix = 1.5: must be 0 to 1"),
        ({"precision": "2bit"}, "precision = '2bit'"),
        ({"reduce": None}, "need a job, or a reduction"),
    ],
)
def test_what_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        outer_of(net(), Threads(1).of(0), **options)


def test_parameters_that_are_unfrozen_later_are_refused() -> None:
    """Nobody would exchange them, and the workers' models would go apart without a word."""

    def work(collective: Collective) -> None:
        makes: list[Callable[[torch.optim.Optimizer], Outer | Marsit | GradientSync]] = [
            lambda inner: Outer(inner, None, every=2, reduce=exact(collective)),
            lambda inner: Marsit(inner, collective, rule="published", global_lr=0.1),
            lambda inner: GradientSync(inner, exact(collective)),
        ]
        for make in makes:
            model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
            model[0].requires_grad_(False)
            optimizer = make(torch.optim.SGD(model.parameters(), lr=0.1))
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            model[0].requires_grad_(True)
            before = flat(model)
            with pytest.raises(
                UsageError, match=r"parameter 0 of shape \(4, 4\) was in no group, or needed no gradients"
            ):
                optimizer.step()
            model[0].requires_grad_(False)
            more = {"params": [nn.Parameter(torch.ones(3))]}
            with pytest.raises(UsageError, match="add_param_group: make a new "):
                optimizer.add_param_group(more)
            inner = optimizer.inner
            inner.add_param_group(more)
            with pytest.raises(UsageError, match=r"parameter 4 of shape \(3,\) was in no group"):
                optimizer.step()
            assert torch.equal(flat(model), before)

    in_threads(lambda _, collective: work(collective))


def test_a_node_s_first_rank_keeps_its_jobs_state() -> None:
    """So that a checkpoint goes on where each rank is a worker."""

    class Job(Saved):
        def kept(self) -> Content:
            return Content(rest={"operations": 7})

        def restore(self, content: Content, /) -> None:
            pass

    for leads in (True, False):
        job = NodeJob("nodes", cast("Any", Job() if leads else None), cast("Any", SimpleNamespace(leads=leads)), 2)
        outer = Outer(torch.optim.SGD(net().parameters(), lr=0.1), job, every=2)
        assert outer.kept().rest.get("reduction") == ({"operations": 7} if leads else None)


def test_state_of_other_parts_is_refused() -> None:
    collective = Threads(1).of(0)
    state = outer_of(net(), collective, parts=2).state_dict()
    with pytest.raises(UsageError, match="has 2 parts, here are 1"):
        outer_of(net(), collective).load_state_dict(state)
    with pytest.raises(UsageError, match="its parts have a fixed layout"):
        outer_of(net(), collective).add_param_group({"params": [nn.Parameter(torch.ones(1))]})
    with pytest.raises(UsageError, match="needs a Job with a rank for each worker"):
        outer_of(net(), collective).change(None)  # type: ignore[arg-type]


def test_parts_are_about_equal() -> None:
    def work(worker: int, collective: Collective) -> list[int]:
        layers = nn.Sequential(*(nn.Linear(10, 10) for _ in range(6)))
        return [len(part.shared) for part in outer_of(layers, collective, parts=3, every=6).parts]

    assert in_threads(work, workers=1) == [[220, 220, 220]]


class Alone:
    """A job of one worker: sums are what it gives."""

    workers = 1

    class config:  # noqa: N801
        worker = 0
        quorum = 1

    def max32(self, values: NDArray[np.uint32], bucket: int) -> NDArray[np.uint32]:
        return values

    def sum32(self, values: NDArray[np.int32], bucket: int) -> NDArray[np.int32]:
        return values


def test_tensors_of_a_gpu_arrive_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    state: dict[str, Any] = {"shared": torch.arange(5.0), "counters": [1, 2]}
    # As of a GPU with this number, without which torch loads nothing there.
    monkeypatch.setattr(torch.serialization, "location_tag", lambda _: "cuda:7")
    told = broadcast_state(cast("Job", Alone()), 0, state)
    assert told["shared"].device.type == "cpu"
    assert torch.equal(told["shared"], state["shared"])
    assert told["counters"] == [1, 2]


def test_nodes_of_different_sizes_are_refused() -> None:
    node: Any = SimpleNamespace(size=1, leads=True, gather=lambda x: lambda: x, give_parts=lambda make: make())
    job: Any = SimpleNamespace(workers=2)
    whole = torch.tensor([1.0, 2.0])
    even = NodeJob("even", job, node, 2).mean_of_shards(whole)
    assert even(lambda _, x: (2 * x, lambda: x)).tolist() == [2.0, 4.0]
    odd = NodeJob("odd", job, node, 3).mean_of_shards(whole)
    with pytest.raises(UsageError, match="3 ranks on 2 nodes, 1 on this one: shards need as many ranks on every node"):
        odd(lambda _, x: (x, lambda: x))
