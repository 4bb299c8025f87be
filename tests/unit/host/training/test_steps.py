# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Residuals of a step with several buckets: all are kept, or none; in DDP's hook over one thread and over lanes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, cast

import pytest
import torch
from sumwire.codec.feedback import ParameterFeedback
from sumwire.errors import NonFiniteError, UsageError
from sumwire.training.ddp import DdpState
from sumwire.training.steps import Step
from torch import Tensor

PARTS = [[(0, 2)], [(1, 3)]]


def residuals(feedback: ParameterFeedback) -> list[list[float] | None]:
    found = [feedback.residual(number) for number in range(2)]
    return [None if residual is None else residual.tolist() for residual in found]


def step_of(feedback: ParameterFeedback, former: Step | None = None) -> Step:
    step = Step(feedback, former)
    step.hand_over(last=False)
    step.hand_over(last=True)
    return step


def test_residuals_are_kept_with_the_last_bucket() -> None:
    feedback = ParameterFeedback()
    step = step_of(feedback)
    step.stage(PARTS[1], torch.ones(3))
    assert residuals(feedback) == [None, None]
    step.stage(PARTS[0], torch.ones(2))
    step.wait()
    assert residuals(feedback) == [[1.0] * 2, [1.0] * 3]


@pytest.mark.parametrize("drop_first", [False, True])
def test_one_dropped_bucket_drops_all(drop_first: bool) -> None:
    feedback = ParameterFeedback()
    step = step_of(feedback)
    if drop_first:
        step.drop()
    step.stage(PARTS[0], torch.ones(2))
    if not drop_first:
        step.drop()
    step.wait()
    step.stage(PARTS[1], torch.ones(3))
    assert residuals(feedback) == [None, None]


def test_the_next_step_waits_and_gets_the_error() -> None:
    feedback = ParameterFeedback()
    former = step_of(feedback)
    step = step_of(feedback, former)
    waiting = threading.Thread(target=step.await_former)
    waiting.start()
    former.stage(PARTS[0], torch.ones(2))
    former.stage(PARTS[1], torch.ones(3))
    waiting.join(10)
    assert not waiting.is_alive()
    failed = step_of(feedback)
    failed.drop(OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        Step(feedback, failed).await_former()


def test_a_step_without_its_last_bucket_is_abandoned() -> None:
    feedback = ParameterFeedback()
    step = Step(feedback, None)
    step.hand_over(last=False)
    step.stage(PARTS[0], torch.ones(2))
    step.abandon()
    step.wait()
    assert residuals(feedback) == [None, None]


class Bucket:
    """What DDP hands over."""

    def __init__(self, index: int, parameter: Tensor, gradient: Tensor, last: bool) -> None:
        self._index, self._parameter, self._buffer, self._last = index, parameter, gradient, last

    def index(self) -> int:
        return self._index

    def buffer(self) -> Tensor:
        return self._buffer

    def parameters(self) -> list[Tensor]:
        return [self._parameter]

    def is_last(self) -> bool:
        return self._last


def submit(state: DdpState, parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> list[Any]:
    buckets = [Bucket(i, p, g.clone(), i == 2) for i, (p, g) in enumerate(zip(parameters, gradients, strict=True))]
    return [state.submit(cast(Any, bucket)) for bucket in buckets]


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
    before = [cast(Tensor, state.feedback.residual(number)).clone() for number in range(3)]
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
        assert torch.equal(cast(Tensor, state.feedback.residual(number)), before[number])
    for future, kept, gradient in zip(submit(state, parameters, good), before, good, strict=True):
        assert torch.equal(future.wait(), (gradient + kept) / 2)
    state.close()


def test_a_step_that_backward_gave_up_is_forgotten() -> None:
    state = DdpState(None, reduce=lambda x, number: (x, lambda: x))
    parameter, other = torch.zeros(4), torch.zeros(4)
    state.submit(cast(Any, Bucket(0, parameter, torch.ones(4), last=False))).wait()
    state.submit(cast(Any, Bucket(0, parameter, torch.full((4,), 5.0), last=False))).wait()
    state.submit(cast(Any, Bucket(1, other, torch.ones(4), last=True))).wait()
    state.settle()
    assert state.feedback is not None
    assert cast(Tensor, state.feedback.residual(0)).tolist() == [5.0] * 4
    state.close()


def test_complex_parameters_are_refused_with_feedback() -> None:
    """Their buckets have twice as many values. Without residuals nothing needs to know."""
    parameter = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))

    def reduce(x: Tensor, _: int) -> tuple[Tensor, Any]:
        return x.clone(), lambda: torch.zeros_like(x)

    bucket = cast(Any, Bucket(0, parameter, torch.ones(6), True))
    with pytest.raises(UsageError, match=r"complex parameters: have no residuals here.*error_feedback=False"):
        DdpState(None, reduce=reduce).submit(bucket)
    state = DdpState(None, reduce=reduce, error_feedback=False)
    assert state.submit(bucket).wait().tolist() == [1.0] * 6
    state.close()
