# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The variant that rows about accuracy must fail."""

from __future__ import annotations

import inspect

import pytest
import torch
from sumwire_lab.experiments import signs_alone
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.study.check import absent, at_least, must_fail
from torch._C._distributed_c10d import GradBucket

SMALL = TrainOptions(hidden=32, epochs=4)


def test_signs_lose_what_the_gradient_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each training is done once. With whole gradients the same training is good."""
    bad = signs_alone.by_step(SMALL)
    assert signs_alone.by_step(TrainOptions(hidden=32, epochs=4)) is bad and len(bad) == 40
    monkeypatch.setattr(signs_alone, "_DONE", {})
    monkeypatch.setattr(signs_alone, "signs", lambda gradient: gradient)
    assert signs_alone.accuracy(SMALL) == signs_alone.by_step(SMALL)[-1] > bad[-1] + 0.05


def test_what_is_left_of_a_gradient() -> None:
    gradients = torch.tensor([[4.0, -4.0, 4.0, 4.0], [0.0, 0.0, 0.0, 16.0]])
    assert torch.equal(signs_alone.signs(gradients), torch.tensor([[0.5, -0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 1.0]]))
    torch.manual_seed(1)
    drawn = torch.stack([signs_alone.drawn_signs(gradients) for _ in range(4000)])
    assert set(drawn[:, 1].flatten().tolist()) == {-16.0, 16.0}
    assert torch.allclose(drawn.mean(dim=0), gradients, atol=1.0)


def test_ddp_takes_the_hook() -> None:
    """It compares the annotation with its own type, and a string is none."""
    assert inspect.signature(signs_alone.hook).parameters["bucket"].annotation is GradBucket


def test_a_variant_that_meets_the_bound_does_not_hold() -> None:
    good, bad = (must_fail("x", at_least("y", value, 0.9)) for value in (0.9, 0.8))
    assert (good.holds, bad.holds, bad.target, bad.check) == (False, True, "not: >= 0.9", "y; x, known to be bad")
    assert must_fail("x", absent("y", "z", "no bmv2")).holds is None
