# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""DDP's buckets after a restart, and the residuals of a step."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
import torch
from sumwire.checkpoint import Place, packed, unpacked
from sumwire.codec.feedback import ParameterFeedback
from sumwire.errors import NonFiniteError, UsageError
from sumwire.training.buckets import Bucket, StepResiduals, living_models
from sumwire.training.ddp import DdpState, GradBucket
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


class Coarse:
    """Rounds to whole numbers. It notes the buckets that it gets."""

    def __init__(self) -> None:
        self.given: list[tuple[int, list[float]]] = []

    def __call__(self, x: Tensor, number: int) -> tuple[Tensor, Callable[[], Tensor]]:
        self.given.append((number, x.tolist()))
        sent = x.round()
        return sent, lambda: x - sent


def net(sizes: Sequence[int] = (2, 3, 1, 2)) -> nn.Module:
    return nn.ParameterDict({"abcdef"[number]: torch.zeros(size) for number, size in enumerate(sizes)})


def step(state: DdpState, model: nn.Module, grouping: Sequence[str], gradient: float) -> dict[str, list[float]]:
    """Hand over gradients in buckets of these parameters. Returns the results by parameter."""
    named = dict(model.named_parameters())
    waits = []
    for number, names in enumerate(grouping):
        members = tuple(named[name] for name in names)
        flat = torch.cat(
            [torch.full((p.numel(),), gradient + ord(name)) for name, p in zip(names, members, strict=True)]
        )
        bucket = Bucket(number, number == len(grouping) - 1, flat, members)
        waits.append((names, members, state.submit(cast("GradBucket", bucket))))
    found = {}
    for names, members, future in waits:
        pieces = torch.split(future.wait(), [p.numel() for p in members])
        found.update({name: piece.tolist() for name, piece in zip(names, pieces, strict=True)})
    return found


FIRST, LATER = ("dc", "ba"), ("d", "bc", "a")


def test_the_step_after_a_restart_is_reduced_in_the_buckets_of_the_checkpoint() -> None:
    model, reduce = net(), Coarse()
    state = DdpState(None, reduce=reduce, model=model)
    for grouping in (FIRST, LATER):
        step(state, model, grouping, 0.25)
    saved = state.state_dict()
    expected = step(state, model, LATER, 0.25)
    state.close()

    again, fresh = net(), Coarse()
    other = DdpState(None, reduce=fresh, model=again)
    other.load_state_dict(saved)
    assert other.state_dict()["worker0"][1]["rest"]["hook"]["buckets"] == [[3], [1, 2], [0]]
    assert step(other, again, FIRST, 0.25) == expected
    assert fresh.given == reduce.given[-3:]
    # From then on DDP's own buckets are those of the process before.
    step(other, again, LATER, 0.25)
    assert [number for number, _ in fresh.given] == [0, 1, 2] * 2
    other.close()


def test_without_a_regrouping_the_residuals_follow_the_names() -> None:
    model, reduce = net(), Coarse()
    state = DdpState(None, reduce=reduce, model=model)
    step(state, model, FIRST, 0.25)
    saved = state.state_dict()
    residuals = saved["worker0"][1]["residuals"]["hook"]
    assert {name: tuple(one.shape) for name, one in residuals.items()} == {"a": (2,), "b": (3,), "c": (1,), "d": (2,)}
    assert all(bool((one == 0.25).all()) for one in residuals.values())
    state.close()


def test_three_workers_divide_the_residuals_of_two() -> None:
    entries: dict[str, Any] = {}
    for worker, gradient in enumerate((0.125, 0.25)):
        model = net()
        state = DdpState(None, reduce=Coarse(), model=model)
        step(state, model, FIRST, gradient)
        entries |= packed("DdpState", Place(worker, 2), state.kept())
        state.close()
    shares = [unpacked("DdpState", Place(worker, 3), entries) for worker in range(3)]
    for share, expected in zip(shares, (0.1875, 0.375, 0.0), strict=True):
        state = DdpState(None, reduce=Coarse(), model=net())
        state.restore(share)
        residuals = state.kept().residuals["hook"]
        assert all(bool((one == expected).all()) for one in residuals.values())
        assert sorted(residuals) == ["a", "b", "c", "d"]


def test_a_parameter_that_the_checkpoint_does_not_have_makes_a_bucket_more() -> None:
    model = net()
    state = DdpState(None, reduce=Coarse(), model=model)
    step(state, model, ("dc", "ba"), 0.25)
    more, reduce = net((2, 3, 1, 2, 4)), Coarse()
    other = DdpState(None, reduce=reduce, model=more)
    other.load_state_dict(state.state_dict())
    results = step(other, more, ("edc", "ba"), 0.5)
    assert results["e"] == torch.full((4,), ord("e") + 0.5).round().tolist()
    assert [number for number, _ in reduce.given] == [0, 1, 2]
    assert results["a"] == [ord("a") + 1.0] * 2
    for one in (state, other):
        one.close()


def test_an_error_reaches_every_bucket_that_it_concerns() -> None:
    model = net()
    state = DdpState(None, reduce=Coarse(), model=model)
    for _ in range(2):
        step(state, model, LATER, 0.125)

    def fail(x: Tensor, number: int) -> tuple[Tensor, Callable[[], Tensor]]:
        if number == 1:
            raise OSError("cut")
        return x, lambda: torch.zeros_like(x)

    other = DdpState(None, reduce=fail, model=model)
    other.load_state_dict(state.state_dict())
    named = dict(model.named_parameters())
    futures = []
    for number, names in enumerate(("d", "c", "b", "a")):
        members = (named[names],)
        bucket = Bucket(number, names == "a", torch.ones(members[0].numel()), members)
        futures.append(other.submit(cast("GradBucket", bucket)))
    assert futures[0].wait().tolist() == [1.25, 1.25]
    for future in futures[1:3]:
        with pytest.raises(OSError, match="cut"):
            future.wait()
    assert futures[3].wait().tolist() == [1.25, 1.25]
    for one in (state, other):
        one.close()


def test_a_hook_without_a_model_says_how_to_give_it_one() -> None:
    state = DdpState(None, reduce=Coarse())
    with pytest.raises(UsageError, match=r"DdpState: .* make it with model="):
        state.state_dict()


def test_another_model_is_refused_by_the_parameter() -> None:
    state = DdpState(None, reduce=Coarse(), model=net())
    other = DdpState(None, reduce=Coarse(), model=net((2, 3, 5, 2)))
    with pytest.raises(
        UsageError, match=r"parameter c of shape \(1,\): in the model it has \(5,\): load the state into"
    ):
        other.load_state_dict(state.state_dict())


@pytest.mark.parametrize(("known", "name"), [(True, "'table.weight' "), (False, "")], ids=["named", "without a model"])
def test_a_sparse_gradient_is_refused_by_name(known: bool, name: str) -> None:
    model = nn.ModuleDict({"table": nn.Embedding(3, 2, sparse=True)})
    model["table"](torch.tensor([1])).sum().backward()
    parameter = next(model.parameters())
    assert parameter.grad is not None
    bucket = cast("GradBucket", Bucket(0, True, parameter.grad, (parameter,)))
    state = DdpState(None, reduce=Coarse(), model=model if known else None)
    with pytest.raises(UsageError) as raised:
        state.submit(bucket)
    state.close()
    assert str(raised.value).startswith(f"sparse gradient of parameter {name}of shape (3, 2): must be dense: make")
    assert "sparse=False" in str(raised.value)


PARTS = [[(0, 2)], [(1, 3)]]


def residuals(feedback: ParameterFeedback) -> list[list[float] | None]:
    found = [feedback.residual(number) for number in range(2)]
    return [None if residual is None else residual.tolist() for residual in found]


def step_of(feedback: ParameterFeedback, former: StepResiduals | None = None) -> StepResiduals:
    step = StepResiduals(feedback, former)
    step.hand_over(last=False)
    step.hand_over(last=True)
    return step


def test_the_next_step_waits_and_gets_the_error() -> None:
    feedback = ParameterFeedback()
    former = step_of(feedback)
    step = step_of(feedback, former)
    waiting = threading.Thread(target=step.await_former)
    waiting.start()
    former.stage(PARTS[0], torch.ones(2))
    former.stage(PARTS[1], torch.ones(3))
    waiting.join(60)
    assert not waiting.is_alive()
    failed = step_of(feedback)
    failed.drop(OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        StepResiduals(feedback, failed).await_former()


def submit(state: DdpState, parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> list[Any]:
    buckets = [Bucket(i, i == 2, g.clone(), (p,)) for i, (p, g) in enumerate(zip(parameters, gradients, strict=True))]
    return [state.submit(cast("Any", bucket)) for bucket in buckets]


@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize("raises", [False, True])
def test_a_bad_bucket_leaves_the_residuals_of_all(bad: int, raises: bool) -> None:
    def half(x: Tensor, number: int) -> tuple[Tensor, Any]:
        if raises and not x.isfinite().all():
            raise NonFiniteError("bad")
        return x / 2, lambda: x - x / 2

    parameters = [torch.zeros(4), torch.zeros(5), torch.zeros(6)]
    good = [torch.full_like(p, 1.0 + i) for i, p in enumerate(parameters)]
    state = DdpState(None, reduce=half)
    for future in submit(state, parameters, good):
        future.wait()
    state.settle()
    assert state.feedback is not None
    before = [cast("Tensor", state.feedback.residual(number)).clone() for number in range(3)]
    poisoned = [g.clone() for g in good]
    poisoned[bad][1] = float("inf")
    for number, future in enumerate(submit(state, parameters, poisoned)):
        if raises and number == bad:
            with pytest.raises(NonFiniteError, match="bad"):
                future.wait()
        else:
            assert future.wait().isfinite().all() == (number != bad)
    state.settle()
    for number in range(3):
        assert torch.equal(cast("Tensor", state.feedback.residual(number)), before[number])
    for future, kept, gradient in zip(submit(state, parameters, good), before, good, strict=True):
        assert torch.equal(future.wait(), (gradient + kept) / 2)
    state.close()


def test_a_step_that_backward_gave_up_is_forgotten() -> None:
    state = DdpState(None, reduce=lambda x, number: (x, lambda: x))
    parameter, other = torch.zeros(4), torch.zeros(4)
    state.submit(cast("Any", Bucket(0, False, torch.ones(4), (parameter,)))).wait()
    state.submit(cast("Any", Bucket(0, False, torch.full((4,), 5.0), (parameter,)))).wait()
    state.submit(cast("Any", Bucket(1, True, torch.ones(4), (other,)))).wait()
    state.settle()
    assert state.feedback is not None
    assert cast("Tensor", state.feedback.residual(0)).tolist() == [5.0] * 4
    state.close()


def test_complex_parameters_are_refused_with_feedback() -> None:
    """Their buckets have twice as many values. Without residuals nothing needs to know."""
    parameter = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))

    def reduce(x: Tensor, _: int) -> tuple[Tensor, Any]:
        return x.clone(), lambda: torch.zeros_like(x)

    bucket = cast("Any", Bucket(0, True, torch.ones(6), (parameter,)))
    with pytest.raises(UsageError, match=r"complex parameters: have no residuals here.*error_feedback=False"):
        DdpState(None, reduce=reduce).submit(bucket)
    state = DdpState(None, reduce=reduce, error_feedback=False)
    assert state.submit(bucket).wait().tolist() == [1.0] * 6
    state.close()


def in_turns(
    states: Sequence[DdpState], models: Sequence[nn.Module], buckets: Sequence[tuple[int, str, int]]
) -> list[Any]:
    """Hand over buckets in this order: of a model, the names of its parameters, and how many buckets the model has.

    Returns the results, once all are there. ``states``: of the models.
    """
    waits, counts = [], Counter[int]()
    for number, names, count in buckets:
        members = tuple(dict(models[number].named_parameters())[name] for name in names)
        flat = torch.cat([torch.full((p.numel(),), 0.3 + number) for p in members])
        bucket = Bucket(counts[number], counts[number] == count - 1, flat, members)
        counts[number] += 1
        waits.append(states[number].submit(cast(GradBucket, bucket)))
    return [future.wait().tolist() for future in waits]


def test_several_models_share_a_state_in_one_backward_pass() -> None:
    """Each step of each model has its residuals, as with a state of its own, whatever the order of the buckets."""
    models = net(), net()
    alone = [DdpState(None, reduce=Coarse()) for _ in models]
    shared = DdpState(None, reduce=Coarse())
    steps = [[(0, "dcba", 1), (1, "dcba", 1)]] * 2
    steps += [[(1, "dc", 2), (0, "d", 3), (0, "cb", 3), (1, "ba", 2), (0, "a", 3)]] * 3
    found, expected = ([in_turns(states, models, step) for step in steps] for states in ([shared] * 2, alone))
    assert found == expected
    assert found[0] != found[1]
    for state in (shared, *alone):
        state.close()


def test_models_that_take_turns_and_a_model_wrapped_again() -> None:
    state, models = DdpState(None, reduce=Coarse()), (net(), net((4,)))
    for number, names in ((0, "dcba"), (1, "a"), (0, "dcba"), (0, "dcba")):
        assert in_turns([state] * 2, models, [(number, names, 1)])
    assert len(state._models.all) == 2
    state.close()


def test_a_model_wrapped_again_with_a_parameter_more_is_the_same_one() -> None:
    """Its first bucket may have the new parameter alone. No residual is dropped."""
    model = net()
    states = DdpState(None, reduce=Coarse()), DdpState(None, reduce=Coarse(), model=model)
    groupings = [("cb", "a")] * 2 + [("d", "cb", "a")] * 4 + [("dc", "b", "a")] * 2
    steps = [[(0, names, len(grouping)) for names in grouping] for grouping in groupings]
    found, expected = ([in_turns([state], [model], step) for step in steps] for state in states)
    assert found == expected
    assert any(value for results in found[2:6] for value in results[0])
    for state in states:
        state.close()


def test_a_bucket_that_may_be_of_several_models_is_refused_at_once() -> None:
    state, models = DdpState(None, reduce=Coarse()), (net(), net())
    with pytest.raises(UsageError, match="give each its own"):
        in_turns([state] * 2, models, [(0, "dc", 2), (1, "dc", 2), (0, "ba", 2)])
    state.close()


class Own(DistributedDataParallel):
    """A user's."""


def test_models_are_found_while_other_threads_make_tuples() -> None:
    """Python enlarges a tuple that it makes of a generator, which it cannot while anybody else holds it."""
    models = {id(model): model for model in (kind.__new__(kind) for kind in (DistributedDataParallel, Own))}
    assert models.keys() <= {id(model) for model in living_models()}
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            living_models()

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(20):
            # sleep(0) hands the interpreter's lock over, so that the other thread looks in the midst of it.
            assert tuple(time.sleep(0) or number for number in range(11)) == tuple(range(11))
    finally:
        ended.set()
        looking.join(60)
    assert not looking.is_alive()
