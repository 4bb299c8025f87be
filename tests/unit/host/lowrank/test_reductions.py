# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""ACP-SGD through fixed point and through THC, against exact sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.lowrank.lockstep import Barrier, Combine, exact, flat, loss_of, net, sum32, thc, together
from sumwire.lowrank.sync import AcpSgd
from torch import Tensor

WORKERS = 4
TRANSPORTS: dict[str, Combine] = {"sum32": sum32, "thc": thc}


def train(combine: Combine, steps: int = 12) -> list[Tensor]:
    """Each worker's parameters after some steps."""

    def work(worker: int, reduce: Callable[..., Any]) -> Tensor:
        model = net()
        inner = torch.optim.SGD(model.parameters(), lr=0.05)
        optimizer = AcpSgd(model, inner, reduce, rank=4, min_compression=0.0, threshold_bytes=4000)
        for step in range(steps):
            optimizer.zero_grad()
            loss_of(model, worker, step).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        return flat(model)

    return together(Barrier(WORKERS, combine), WORKERS, work)


@pytest.fixture(scope="module")
def exactly() -> list[Tensor]:
    return train(exact)


def test_replicas_are_equal_bit_by_bit(exactly: list[Tensor]) -> None:
    for parameters in (exactly, train(sum32), train(thc)):
        assert all(torch.equal(parameters[0], other) for other in parameters[1:])


def test_fixed_point_follows_exact_sums_closely(exactly: list[Tensor]) -> None:
    moved = float((exactly[0] - flat(net())).norm())
    assert moved > 0.1
    assert float((train(sum32)[0] - exactly[0]).norm()) < 1e-4 * moved
    # THC has 4 bits: near, and not the same.
    assert 1e-4 * moved < float((train(thc)[0] - exactly[0]).norm()) < 0.5 * moved


@pytest.mark.parametrize("name", TRANSPORTS)
def test_error_feedback_sees_what_was_really_sent(name: str) -> None:
    """Constant gradients: outputs and errors of all steps must add up, however coarse the transport."""
    steps, combine = 30, TRANSPORTS[name]

    def work(worker: int, reduce: Callable[..., Any]) -> tuple[Tensor, Tensor, Tensor]:
        weight = torch.nn.Parameter(torch.zeros(40, 30))
        bias = torch.nn.Parameter(torch.zeros(40))
        optimizer = AcpSgd([weight, bias], torch.optim.SGD([weight, bias], lr=1.0), reduce, rank=2)
        generator = torch.Generator().manual_seed(worker)
        constants = torch.randn(40, 30, generator=generator), torch.randn(40, generator=generator)
        for _ in range(steps):
            weight.grad, bias.grad = constants[0].clone(), constants[1].clone()
            optimizer.step()
        errors = [state.error for state in optimizer.states]
        assert all(error is not None for error in errors)
        done = torch.cat([-weight.detach().flatten(), -bias.detach()])
        kept = torch.cat([error.flatten() for error in errors if error is not None])
        return done, kept, torch.cat([constants[0].flatten(), constants[1]])

    results = together(Barrier(WORKERS, combine), WORKERS, work)
    done = results[0][0]
    wanted = sum(constant for _, _, constant in results) * steps / WORKERS
    kept = sum(error for _, error, _ in results) / WORKERS
    assert float((done + kept - wanted).abs().max()) < 1e-4 * float(wanted.abs().max())
    assert float(kept.norm()) < float(wanted.norm())


@pytest.mark.parametrize("value", [1.0, 2.0**-30, 2.0**100, 1.0 - 2.0**-24])
def test_fixed_point_has_room_for_all_workers_at_their_largest(value: float) -> None:
    """All workers' factors alike and as large as their exponent allows: `sum32` here fails where a sum leaves int32."""

    def work(worker: int, reduce: Callable[..., Any]) -> Tensor:
        weight = torch.nn.Parameter(torch.zeros(8, 8))
        optimizer = AcpSgd([weight], torch.optim.SGD([weight], lr=1.0), reduce, rank=8, min_compression=0.0)
        for _ in range(2):
            weight.grad = torch.full((8, 8), value)
            optimizer.synchronize()
        assert weight.grad is not None
        return weight.grad.clone()

    for result in together(Barrier(WORKERS, sum32), WORKERS, work):
        torch.testing.assert_close(result, torch.full((8, 8), value), rtol=1e-5, atol=0)
