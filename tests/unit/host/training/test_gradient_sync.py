# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients replaced by their aggregate before the optimizer's step."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from sumwire.training.optim import GradientSync
from torch import Tensor, nn


class Halves:
    """Gives back half of what it gets, and calls the other half left out."""

    def __init__(self) -> None:
        self.given: list[Tensor] = []
        self.asked = 0

    def __call__(self, x: Tensor, bucket: int) -> tuple[Tensor, Callable[[], Tensor]]:
        self.given.append(x.clone())
        return x / 2, lambda: self.left_out(x)

    def left_out(self, x: Tensor) -> Tensor:
        self.asked += 1
        return x / 2


def test_what_was_left_out_is_added_to_the_next() -> None:
    weight, reduce = nn.Parameter(torch.zeros(3)), Halves()
    sync = GradientSync(torch.optim.SGD([weight], lr=1.0), reduce)
    for _ in range(3):
        weight.grad = torch.tensor([8.0, -4.0, 0.0])
        sync.step()
    assert [given.tolist() for given in reduce.given] == [[8, -4, 0], [12, -6, 0], [14, -7, 0]]
    assert weight.tolist() == [-17, 8.5, 0]


def test_without_error_feedback_it_is_dropped() -> None:
    weight, reduce = nn.Parameter(torch.zeros(1)), Halves()
    sync = GradientSync(torch.optim.SGD([weight], lr=1.0), reduce, error_feedback=False)
    for _ in range(3):
        weight.grad = torch.ones(1)
        sync.step()
    assert [given.tolist() for given in reduce.given] == [[1.0]] * 3
    assert reduce.asked == 0, "work for nothing"


def test_parameters_without_gradient_take_part_and_frozen_ones_do_not() -> None:
    used, idle = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    frozen = nn.Parameter(torch.ones(5), requires_grad=False)
    reduce = Halves()
    sync = GradientSync(torch.optim.SGD([frozen, idle, used], lr=1.0), reduce)
    used.grad = torch.full((2,), 2.0)
    sync.step()
    assert [given.tolist() for given in reduce.given] == [[0, 2, 2]]
    assert idle.grad is not None
    assert idle.grad.dtype == torch.bfloat16
    assert used.tolist() == [0, 0]


@pytest.mark.parametrize("cut", [1, 2])
def test_state_goes_on_where_it_was(cut: int) -> None:
    ends = []
    for interrupted in (False, True):
        weight = nn.Parameter(torch.zeros(4))
        sync = GradientSync(torch.optim.SGD([weight], lr=0.5, momentum=0.9), Halves())
        for step in range(4):
            if interrupted and step == cut:
                state = sync.state_dict()
                sync = GradientSync(torch.optim.SGD([weight], lr=9.0, momentum=0.9), Halves())
                sync.load_state_dict(state)
            weight.grad = torch.arange(4.0) - step
            sync.step()
        ends.append(weight.detach().clone())
    assert torch.equal(ends[0], ends[1])
