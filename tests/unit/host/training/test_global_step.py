# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Marsit's step of a sign and its lead, by the published rule: what they follow, their state, the warning."""

from __future__ import annotations

import re

import pytest
import torch
from helpers.logs import events_of
from helpers.training.replicas import INNER, backward, flat, in_threads, net, steps_of
from sumwire.training.global_step import MULTIPLE
from sumwire.training.optim import RULES, Marsit, Rule
from sumwire.training.reductions import Collective, Threads
from sumwire_protocol.events import Event
from torch import nn


def steps_taken(inner: str, steps: int, *, scale: float = 1.0, every: int | None = None) -> tuple[list[float], float]:
    """The step of a sign in every round, by the rule; and the mean over the workers of their first updates' size."""

    def work(worker: int, collective: Collective) -> tuple[list[float], float]:
        model = net()
        marsit = Marsit(INNER[inner](model.parameters()), collective, rule="published", full_precision_every=every)
        first, moved = 0.0, []
        for step in range(steps):
            backward(model, worker, step)
            for p in model.parameters():
                assert p.grad is not None
                p.grad *= scale
            before = flat(model)
            marsit.step()
            first = first or marsit._pace.magnitude
            moved.append(float((before - flat(model)).abs().max()))
        return moved, first

    results = in_threads(work)
    assert all(moved == results[0][0] for moved, _ in results)
    return results[0][0], sum(first for _, first in results) / len(results)


@pytest.mark.parametrize("inner", INNER)
def test_the_step_follows_the_local_updates(inner: str) -> None:
    moved, first = steps_taken(inner, 1)
    assert moved[0] == pytest.approx(MULTIPLE * first, rel=1e-5)


def test_the_step_grows_with_the_updates_and_is_agreed_on_again() -> None:
    small, _ = steps_taken("sgd", 20)
    large, _ = steps_taken("sgd", 1, scale=10.0)
    assert large[0] == pytest.approx(10 * small[0], rel=1e-5)
    # Rounds 0, 1, 2, 4, 8, 16.
    assert len({round(step, 9) for step in small}) == 6


def test_the_rule_and_its_memory_are_in_the_state() -> None:
    def work(worker: int, collective: Collective) -> None:
        model = net()
        marsit = Marsit(INNER["sgd"](model.parameters()), collective, rule="published")
        steps_of(model, marsit, worker, range(4))
        loaded = Marsit(INNER["sgd"](net().parameters()), collective, rule="published", global_lr=1.0)
        loaded.load_state_dict(marsit.state_dict())
        assert loaded.global_lr is None
        assert loaded._pace.kept() == marsit._pace.kept()
        assert loaded._pace.of(4) > 0

    in_threads(work, workers=2)


@pytest.mark.parametrize("rule", RULES)
def test_updates_of_zero_ask_again_and_move_nothing(rule: Rule) -> None:
    def work(worker: int, collective: Collective) -> None:
        weight = nn.Parameter(torch.zeros(3))
        marsit = Marsit(torch.optim.SGD([weight], lr=1.0), collective, rule=rule, full_precision_every=None)
        for gradient in (*[0.0] * 40, 1.0):
            weight.grad = torch.full_like(weight, gradient)
            marsit.step()
            assert bool(weight.detach().any()) == (gradient > 0)

    in_threads(work, workers=2)


def test_a_lead_puts_the_new_update_before_the_compensation() -> None:
    """Compensation +0.5 and update -0.3: alone they sum up to plus, with a lead of 3 to minus. What is left is the
    same."""

    def work(worker: int, collective: Collective) -> None:
        for lead, sign in ((1.0, 1.0), (3.0, -1.0)):
            weight = nn.Parameter(torch.zeros(1))
            inner = torch.optim.SGD([weight], lr=1.0)
            marsit = Marsit(inner, collective, rule="published", global_lr=0.5, full_precision_every=None, lead=lead)
            for gradient in (1.0, -0.3):
                weight.grad = torch.full_like(weight, gradient)
                marsit.step()
            assert marsit.compensation is not None
            assert weight.item() == pytest.approx(-0.5 - 0.5 * sign)
            assert float(marsit.compensation) == pytest.approx(0.7 - 0.5 - 0.5 * sign)

    in_threads(work, workers=2)


@pytest.mark.parametrize(("step", "warned"), [(1e-3, True), (None, False)])
def test_a_compensation_that_outgrows_the_step_is_told_once(
    step: float | None, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    model = net()
    marsit = Marsit(
        INNER["sgd"](model.parameters()), Threads(1).of(0), rule="published", global_lr=step, full_precision_every=None
    )
    steps_of(model, marsit, 0, range(40))
    assert len(caplog.records) == warned
    if warned:
        pattern = r"mean magnitude \S+, \d+ times global_lr = 0.001: .* leave global_lr out, or set it to about"
        assert re.search(pattern, caplog.text)
        assert events_of(caplog.records) == [Event.STEP_TOO_SMALL]
