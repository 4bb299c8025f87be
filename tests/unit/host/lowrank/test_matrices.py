# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Invariants of the equations, one parameter at a time, with all workers in lock-step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from helpers.lowrank.lockstep import Combine, exact
from sumwire.errors import NonFiniteError, UsageError
from sumwire.lowrank import matrices
from sumwire.lowrank.fusion import Phase, make_plan
from sumwire.lowrank.matrices import MatrixState, ParameterState, WholeState, draw_factor, make_state, orthonormal
from torch import Tensor

SHAPES = [(1, 1), (7, 1), (1, 7), (6, 6), (9, 4), (4, 9), (5, 2, 3, 3), (8,), ()]
DTYPES = [torch.float32, torch.float64]


def new_state(shape: tuple[int, ...], rank: int = 2, dtype: torch.dtype = torch.float64) -> ParameterState:
    largest = min(shape[0], int(np.prod(shape[1:]))) if len(shape) > 1 else rank
    plan = make_plan([shape], min(rank, largest), min_compression=0.0)
    return make_state(plan.items[0], torch.zeros(shape, dtype=dtype), seed=1, number=0)


def gradient(shape: tuple[int, ...], worker: int, step: int) -> Tensor:
    return torch.from_numpy(np.asarray(np.random.default_rng([worker, step]).normal(size=shape)))


def error_of(one: ParameterState) -> Tensor:
    kept = one.error if isinstance(one, MatrixState | WholeState) else None
    return torch.zeros(one.item.shape) if kept is None else kept.reshape(one.item.shape).clone()


def lock_step(
    states: Sequence[ParameterState], gradients: Sequence[Tensor | None], step: int, combine: Combine = exact
) -> list[Tensor]:
    """One step of all workers; what each puts into its gradient."""
    sent = [one.compress(given, step) for one, given in zip(states, gradients, strict=True)]
    outputs = []
    for one, (mean, residual) in zip(states, combine(sent, step, 0), strict=True):
        outputs.append(torch.empty(one.item.shape, dtype=sent[0].dtype))
        one.restore(mean, residual, outputs[-1])
        one.commit()
    return outputs


@pytest.mark.parametrize(("shape", "exact_in"), [((5, 5), (0, 1)), ((9, 4), (0,)), ((4, 9), (1,))])
def test_full_rank_is_exact_in_both_steps_only_for_square_matrices(
    shape: tuple[int, int], exact_in: tuple[int, ...]
) -> None:
    one = new_state(shape, rank=min(shape))
    for step in range(6):
        lock_step([one], [gradient(shape, 0, step)], step)
        assert (float(error_of(one).abs().max()) < 1e-12) == (step % 2 in exact_in), step


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("workers", [1, 3])
def test_sum_of_inputs_less_errors_is_workers_times_output(shape: tuple[int, ...], workers: int) -> None:
    states = [new_state(shape) for _ in range(workers)]
    for step in range(6):
        gradients, before = (
            [gradient(shape, worker, step) for worker in range(workers)],
            [error_of(one) for one in states],
        )
        outputs = lock_step(states, gradients, step)
        total = sum(g + e - error_of(one) for g, e, one in zip(gradients, before, states, strict=True))
        torch.testing.assert_close(total, workers * outputs[0], rtol=0, atol=1e-12)
        assert all(torch.equal(outputs[0], other) for other in outputs)


def test_what_is_sent_alternates_and_what_is_orthonormalised_is_the_last_aggregate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs: list[Tensor] = []
    original = matrices.orthonormal
    monkeypatch.setattr(
        matrices, "orthonormal", lambda factor, fill: (inputs.append(factor.clone()), original(factor, fill))[1]
    )
    states, means = [new_state((9, 4)) for _ in range(2)], []

    def kept(given: Sequence[Tensor], sequence: int, number: int) -> Any:
        means.append(torch.stack(list(given)).mean(0))
        return exact(given, sequence, number)

    for step in range(5):
        lock_step(states, [gradient((9, 4), worker, step) for worker in range(2)], step, kept)
    assert [len(mean) for mean in means] == [18, 8, 18, 8, 18]
    # One basis a worker and step. The first is the drawn Q.
    assert torch.equal(inputs[0], torch.from_numpy(draw_factor(1, 0, Phase.Q, (4, 2))))
    assert len(inputs) == 10
    for step in range(1, 5):
        assert all(torch.equal(one.reshape(-1), means[step - 1]) for one in inputs[2 * step : 2 * step + 2])


@pytest.mark.parametrize("shape", [(6, 6), (12, 5), (5, 12)])
def test_constant_gradient_arrives_in_the_mean(shape: tuple[int, int]) -> None:
    one, constant, total = new_state(shape, rank=1), gradient(shape, 0, 0), torch.zeros(shape, dtype=torch.float64)
    largest = 0.0
    for step in range(400):
        total += lock_step([one], [constant], step)[0]
        largest = max(largest, float(error_of(one).norm()))
    torch.testing.assert_close(total + error_of(one), 400 * constant, rtol=1e-9, atol=1e-9)
    assert largest < 30 * float(constant.norm())
    assert float((total / 400 - constant).norm()) < 0.08 * float(constant.norm())


def test_left_out_by_the_transport_is_in_the_error() -> None:
    """A transport that halves: without the residual the other half would be lost for good."""

    def halves(given: Sequence[Tensor], sequence: int, number: int) -> Any:
        return [(torch.stack(list(given)).mean(0) / 2, x / 2) for x in given]

    for shape in [(6, 6), (8,)]:
        states = [new_state(shape) for _ in range(2)]
        for step in range(8):
            gradients, before = [gradient(shape, w, step) for w in range(2)], [error_of(one) for one in states]
            outputs = lock_step(states, gradients, step, halves)
            total = sum(g + e - error_of(one) for g, e, one in zip(gradients, before, states, strict=True))
            torch.testing.assert_close(total, 2 * outputs[0], rtol=0, atol=1e-12)


def test_dead_matrix_comes_alive() -> None:
    """Zero gradients make zero factors; the bases that replace them must carry what comes later."""
    one, zero, constant = new_state((6, 6)), torch.zeros(6, 6, dtype=torch.float64), gradient((6, 6), 0, 0)
    for step in range(4):
        assert not bool(lock_step([one], [zero], step)[0].any())
    total = sum(lock_step([one], [constant], step)[0] for step in range(4, 204))
    assert float((total / 200 - constant).norm()) < 0.1 * float(constant.norm())


def test_without_commit_nothing_has_happened() -> None:
    for shape in [(9, 4), (8,)]:
        one, twin = new_state(shape), new_state(shape)
        for step in range(3):
            abandoned = one.compress(gradient(shape, 7, step) * float("nan"), step)
            one.restore(abandoned, torch.zeros_like(abandoned), torch.empty(shape, dtype=torch.float64))
            given = gradient(shape, 0, step)
            assert torch.equal(lock_step([one], [given], step)[0], lock_step([twin], [given], step)[0])


def test_drawn_factors_depend_on_seed_parameter_and_side_alone() -> None:
    keys = [(1, 0, Phase.P), (1, 0, Phase.Q), (1, 1, Phase.P), (2, 0, Phase.P)]
    drawn = [draw_factor(*key, (50, 3)) for key in keys]
    for i, key in enumerate(keys):
        assert np.array_equal(drawn[i], draw_factor(*key, (50, 3)))
        assert all(abs(np.corrcoef(drawn[i].ravel(), other.ravel())[0, 1]) < 0.4 for other in drawn[:i])
    values = draw_factor(3, 0, Phase.P, (5000, 4))
    assert abs(values.mean()) < 0.03 and abs(values.std() - 1) < 0.03


@pytest.mark.parametrize("shape", [(9, 4), (8,)])
def test_state_goes_on_where_it_was(shape: tuple[int, ...]) -> None:
    one, twin = new_state(shape), new_state(shape)
    for step in range(3):
        lock_step([one], [gradient(shape, 0, step)], step)
    twin.load(one.state(), "state")
    for step in range(3, 6):
        given = [gradient(shape, 0, step)]
        assert torch.equal(lock_step([one], given, step)[0], lock_step([twin], given, step)[0])


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"p": torch.zeros(9, 2)}, r"state: holds \['p'\]: must be \['error', 'p', 'q'\]"),
        ({"p": torch.zeros(8, 2), "q": None, "error": None}, r"p of shape \(8, 2\): must be \(9, 2\)"),
        ({"p": torch.full((9, 2), float("nan")), "q": None, "error": None}, "p: must be finite"),
        ({"p": torch.zeros(9, 2), "q": torch.zeros(4, 2), "error": None}, "must be there"),
    ],
)
def test_foreign_state_is_refused(state: dict[str, Tensor | None], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        new_state((9, 4)).load(state, "state")


def test_without_error_feedback_what_a_step_leaves_out_is_forgotten() -> None:
    for shape in [(9, 6), (8,)]:
        plan = make_plan([shape], 2, min_compression=0.0)
        zeros = torch.zeros(shape, dtype=torch.float64)
        one = make_state(plan.items[0], zeros, seed=1, number=0, error_feedback=False)
        for step in range(3):
            given = gradient(shape, 0, step)
            sent = one.compress(given, step)
            one.restore(sent, torch.full_like(sent, 0.25), torch.empty(shape, dtype=torch.float64))
            one.commit()
            assert not bool(error_of(one).any())


def test_without_reuse_the_basis_is_drawn_anew_in_every_step() -> None:
    shape = (9, 6)
    plan = make_plan([shape], 2, min_compression=0.0)
    zeros = torch.zeros(shape, dtype=torch.float64)
    one = make_state(plan.items[0], zeros, seed=1, number=0, reuse=False)
    for step in range(4):
        given, before = gradient(shape, 0, step), error_of(one)
        (output,) = lock_step([one], [given], step)
        phase = Phase(1 - step % 2)
        drawn = draw_factor(1, 0, phase, (shape[phase], 2), step + 1)
        basis = torch.from_numpy(np.linalg.qr(drawn)[0])
        total = given + before
        wanted = total @ basis @ basis.T if phase is Phase.Q else basis @ basis.T @ total
        torch.testing.assert_close(output, wanted, rtol=0, atol=1e-12)


def normal(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def no_fill() -> Tensor:
    raise AssertionError("a factor of full rank needs no fill")


def check_orthonormal(basis: Tensor) -> None:
    limit = 50 * torch.finfo(basis.dtype).eps
    assert float((basis.T @ basis - torch.eye(basis.shape[1], dtype=basis.dtype)).abs().max()) < limit


def outside(vector: Tensor, basis: Tensor) -> float:
    """Share of the vector that the basis does not span."""
    rest = vector - basis @ (basis.T @ vector)
    return float(torch.linalg.vector_norm(rest) / torch.linalg.vector_norm(vector))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 1), (6, 6), (200, 4), (40, 32)])
def test_basis_of_full_rank(shape: tuple[int, int], dtype: torch.dtype) -> None:
    factor = normal(*shape, dtype=dtype)
    basis = orthonormal(factor, no_fill)
    check_orthonormal(basis)
    # Upper triangular with a positive diagonal: the one QR there is.
    r = basis.T @ factor
    assert bool((r.diagonal() > 0).all())
    torch.testing.assert_close(basis @ r.triu(), factor)


@pytest.mark.parametrize("scale", [1e-35, 1e-20, 1e20, 1e35])
def test_scale_does_not_matter(scale: float) -> None:
    factor = normal(30, 4, dtype=torch.float32)
    torch.testing.assert_close(orthonormal(factor * scale, no_fill), orthonormal(factor, no_fill))


@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_factor_gets_the_fill(dtype: torch.dtype) -> None:
    fill = normal(9, 3, seed=2, dtype=dtype)
    basis = orthonormal(torch.zeros(9, 3, dtype=dtype), lambda: fill)
    assert torch.equal(basis, orthonormal(fill, no_fill))


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
def test_dependent_columns_are_replaced_and_the_others_kept(scale: float) -> None:
    a, b = normal(50, 1, dtype=torch.float32), normal(50, 1, seed=5, dtype=torch.float32)
    # Zero first: a library's QR puts unit vectors there, which take away from the columns behind.
    factor = torch.cat([torch.zeros_like(a), a, 3 * a, b, a - b], dim=1) * scale
    fill = normal(50, 5, seed=2, dtype=torch.float32)
    basis = orthonormal(factor, lambda: fill)
    check_orthonormal(basis)
    good = orthonormal(torch.cat([a, b], dim=1), no_fill)
    torch.testing.assert_close(basis[:, [1, 3]], good)
    assert max(outside(fill[:, column], torch.cat([good, basis[:, [0, 2, 4]]], dim=1)) for column in (0, 2, 4)) < 1e-5


def test_noise_does_not_choose_directions() -> None:
    a, fill = normal(64, 1, dtype=torch.float32), normal(64, 3, seed=2, dtype=torch.float32)
    factor = torch.cat([a, a / 3, a * 7], dim=1)
    noisy = factor * (1 + 1e-7 * normal(64, 3, seed=9, dtype=torch.float32))
    torch.testing.assert_close(orthonormal(factor, lambda: fill), orthonormal(noisy, lambda: fill), rtol=0, atol=1e-5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_non_finite_factor_is_refused(bad: float) -> None:
    factor = normal(6, 2)
    factor[3, 1] = bad
    with pytest.raises(NonFiniteError, match=r"factor of shape \(6, 2\)"):
        orthonormal(factor, lambda: normal(6, 2))
