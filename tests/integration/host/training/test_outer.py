# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Outer steps over a job on loopback: 4 and 1 bits, workers that come, go and are late."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import sumwire
import torch
from helpers.aggregator.served import serving
from helpers.training.replicas import INNER, backward, flat, net
from helpers.transport.udp_bridge import Bridge, Impairment, configs, golden_switch, job_mapping, run_workers
from sumwire.errors import OrderError, SumwireError, UsageError
from sumwire.optim import Outer
from sumwire.training.all_reduce import Precision
from torch import Tensor, nn

OPS = ["thc", "max32", "sum32", "sign"]


def mapping_of(workers: int, slots: int = 16) -> dict[str, Any]:
    return {**job_mapping(workers, slots), "ops": OPS}


def job_of(mapping: dict[str, Any], worker: int, **options: Any) -> sumwire.Job:
    return sumwire.Job(configs(mapping)[worker], block=1024, **options)


def steps_of(model: nn.Module, outer: Outer, worker: int, steps: range) -> list[Tensor]:
    seen = []
    for step in steps:
        backward(model, worker, step)
        outer.step()
        seen.append(flat(model))
    return seen


def mean_of(parameters: list[Tensor]) -> torch.optim.Optimizer:
    """An outer step of 1 goes to the mean of the workers' parameters."""
    return torch.optim.SGD(parameters, lr=1.0)


@pytest.mark.parametrize(("precision", "parts"), [("4bit", 1), ("4bit", 2), ("1bit", 1), ("8bit", 1)])
def test_replicas_are_equal_and_nothing_is_lost(precision: Precision, parts: int) -> None:
    """Bit for bit after each outer step, under loss. What was moved and the residuals make the sum of all drifts."""
    mapping = mapping_of(3)

    def work(worker: int) -> tuple[list[Tensor], Tensor, Tensor, Tensor]:
        model = net(torch.float32)
        start, drifts = flat(model), torch.zeros_like(flat(model))
        with job_of(mapping, worker) as job:
            inner = INNER["sgd"](model.parameters())
            outer = Outer(inner, job, every=4, parts=parts, precision=precision, outer=mean_of)
            seen = []
            for step in range(12):
                backward(model, worker, step)
                inner.step()
                model.zero_grad()
                before, shared = flat(model), outer.shared
                outer.step()
                seen.append(outer.shared)
                drifts += torch.where(outer.shared == shared, 0.0, shared - before)
        residual = torch.cat([part.residual for part in outer.parts if part.residual is not None])
        return seen, start - outer.shared, residual, drifts

    with Bridge(mapping, golden_switch(mapping), Impairment(5, drop=0.05)):
        workers = run_workers(work, 3)
    for seen, *_ in workers:
        assert all(torch.equal(one, other) for one, other in zip(seen, workers[0][0], strict=True))
    moved = workers[0][1]
    residual, drifts = (torch.stack([one[place] for one in workers]).mean(0) for place in (2, 3))
    assert residual.abs().max() > 0
    if precision != "1bit":
        # Of several signs the switch draws one: the residual is of what a worker stands for.
        torch.testing.assert_close(moved + residual, drifts, rtol=0, atol=1e-5)


def test_replicas_that_begin_unequal_are_told() -> None:
    mapping = mapping_of(2)

    def work(worker: int) -> str:
        model = net(torch.float32)
        if worker:
            with torch.no_grad():
                next(model.parameters())[0, 0] += 1e-6
        with job_of(mapping, worker, deadline_s=1.5) as job:
            outer = Outer(INNER["sgd"](model.parameters()), job, every=1)
            with pytest.raises(SumwireError) as told:
                steps_of(model, outer, worker, range(1))
        return type(told.value).__name__

    with Bridge(mapping, golden_switch(mapping)):
        found = run_workers(work, 2)
    # Only the worker whose packet comes second learns why.
    assert OrderError.__name__ in found


def test_workers_come_and_go_between_outer_steps() -> None:
    """Two workers, then three, then two again. A newcomer has what the others share, momentum included."""
    mapping = {**mapping_of(3), "workers_min": 2}
    turns = [threading.Barrier(3) for _ in range(3)]

    def work(worker: int) -> list[Tensor]:
        model, ends = net(torch.float32), []
        outer = None
        for number, workers in enumerate((2, 3, 2)):
            turns[number].wait(30)
            if worker >= workers:
                continue
            with job_of(mapping, worker, workers=workers) as job:
                if outer is None:
                    if number:
                        with torch.no_grad():
                            next(model.parameters()).zero_()
                    outer = Outer(INNER["adam"](model.parameters()), job, every=2)
                if number:
                    outer.change(job)
                    ends.append(flat(model))
                steps_of(model, outer, worker, range(10 * number, 10 * number + 4))
                ends.append(flat(model))
                ends.append(outer.parts[0].outer.state[outer.parts[0].shared]["momentum_buffer"].clone())
                assert outer.exchanges == 2 * (number + 1)
        return ends

    with serving(mapping):
        first, second, third = run_workers(work, 3)
    assert len(first) == 8 and all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    assert len(third) == 3 and all(torch.equal(one, other) for one, other in zip(first[2:5], third, strict=True))
    # The second turn begins with the parameters at which the first ended.
    assert torch.equal(first[2], first[0])


def test_a_run_that_goes_on_has_the_bits_of_one_that_was_not_cut() -> None:
    """In new processes' place: another job, model and optimizer. Rounding is drawn by the operation's number."""

    def run(cuts: list[range]) -> list[Tensor]:
        states: dict[int, tuple[Any, Any]] = {}
        mapping = mapping_of(2)

        def work(worker: int, steps: range) -> Tensor:
            model = net(torch.float32)
            with job_of(mapping, worker) as job:
                outer = Outer(INNER["adam"](model.parameters()), job, every=2, parts=2)
                if worker in states:
                    weights, state = states[worker]
                    model.load_state_dict(weights)
                    outer.load_state_dict(state)
                steps_of(model, outer, worker, steps)
                states[worker] = (copy.deepcopy(model.state_dict()), outer.state_dict())
            return flat(model)

        with Bridge(mapping, golden_switch(mapping)):
            ends = [run_workers(lambda worker, steps=steps: work(worker, steps), 2) for steps in cuts]
        return list(ends[-1])

    whole, cut = run([range(8)]), run([range(5), range(5, 8)])
    assert all(torch.equal(one, other) for one, other in zip(whole, cut, strict=True))


def test_a_late_worker_follows_what_the_others_did() -> None:
    mapping = {**mapping_of(3, 64), "quorum": 2}
    done, others, end = threading.Event(), threading.Barrier(2), threading.Barrier(3)

    def work(worker: int) -> tuple[Tensor, Tensor, int]:
        model = net(torch.float32)
        with job_of(mapping, worker) as job:
            outer = Outer(INNER["sgd"](model.parameters()), job, every=2, outer=mean_of)
            # The greeting, which waits for all.
            job.max32(torch.zeros(1).numpy().view("uint32"))
            if worker != 2:
                steps_of(model, outer, worker, range(6))
                others.wait(30)
            if worker == 0:
                done.set()
            if worker == 2:
                assert done.wait(30)
                steps_of(model, outer, worker, range(2))
                assert outer.exchanges == 3
            end.wait(30)
        residual = outer.parts[0].residual
        assert residual is not None
        return flat(model), residual, outer.steps

    with Bridge(mapping, golden_switch(mapping)):
        first, second, third = run_workers(work, 3)
    assert torch.equal(first[0], second[0]) and torch.equal(first[0], third[0])
    assert third[2] == 6 and third[1].abs().max() > first[1].abs().max()


def test_a_quorum_wants_plain_exchanges() -> None:
    mapping = {**mapping_of(3), "quorum": 2}
    with job_of(mapping, 0) as job, pytest.raises(UsageError, match="a straggler follows plain exchanges"):
        Outer(INNER["sgd"](net().parameters()), job, every=2, precision="1bit")
