# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Orthonormal bases of good and bad factors."""

from __future__ import annotations

import pytest
import torch
from sumwire.errors import NonFiniteError
from sumwire.lowrank.orthogonal import orthonormal
from torch import Tensor

DTYPES = [torch.float32, torch.float64]


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
