# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Orthonormal bases of factors, equal on all workers for every factor.

A library's QR decomposition has arbitrary signs. For columns that depend on others it gives directions made of rounding
noise, which may differ between machines. Here R's diagonal is positive, and columns that depend on others are replaced
by drawn ones, equal on all workers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from sumwire.errors import NonFiniteError

# The rest of a column, without its parts along other columns, counts as rounding noise below this many
# sqrt(rows) x machine precision of its largest part.
_NOISE = 8.0


def orthonormal(factor: Tensor, fill: Callable[[], Tensor]) -> Tensor:
    """Return an orthonormal basis of the columns of a (rows, rank) factor, rank <= rows.

    The basis' first j columns span the same as the factor's first j columns. A column that is zero or depends on those
    before it is replaced by the same column of ``fill()``, made orthonormal to the others. ``fill()`` has the factor's
    shape and is equal on all workers. Raises NonFiniteError for NaN or infinity.
    """
    q, r = torch.linalg.qr(factor)
    diagonal = r.diagonal()
    # Not "<=": NaN must count as weak.
    if bool((diagonal.abs() > _tolerance(factor) * r.abs().amax(0)).all()):
        return _signed(q, diagonal)
    if not bool(torch.isfinite(factor).all()):
        raise NonFiniteError(f"factor of shape {tuple(factor.shape)}: must be finite to be orthonormalised")
    return _completed(factor, fill())


def _completed(factor: Tensor, fill: Tensor) -> Tensor:
    """Return the basis of a factor with dependent columns: those are decomposed last, with values of ``fill``."""
    scaled = _scaled(factor)
    strong, weak = _sorted_columns(scaled)
    q, r = torch.linalg.qr(torch.cat([scaled[:, strong], fill[:, weak]], dim=1))
    basis = torch.empty_like(factor)
    basis[:, strong + weak] = _signed(q, r.diagonal())
    return basis


def _sorted_columns(factor: Tensor) -> tuple[list[int], list[int]]:
    """Return (independent columns, dependent columns), by Gram-Schmidt, twice over each column."""
    rows, columns = factor.shape
    basis = factor.new_empty(rows, 0)
    strong: list[int] = []
    for column in range(columns):
        rest = factor[:, column]
        for _ in range(2):
            rest = rest - basis @ (basis.T @ rest)
        length = float(torch.linalg.vector_norm(rest))
        if length > _tolerance(factor) * float(torch.linalg.vector_norm(factor[:, column])):
            strong.append(column)
            basis = torch.cat([basis, (rest / length)[:, None]], dim=1)
    return strong, [column for column in range(columns) if column not in strong]


def _scaled(factor: Tensor) -> Tensor:
    """Return each column times a power of two that brings it near 1, so that no square leaves the dtype's range."""
    exponents = torch.frexp(factor.abs().amax(0)).exponent
    # In two steps: a float32 of 2^-149 needs a factor that float32 does not have.
    half = exponents // 2
    return torch.ldexp(torch.ldexp(factor, -half), half - exponents)


def _signed(q: Tensor, diagonal: Tensor) -> Tensor:
    """Return Q with the signs for which R's diagonal is positive."""
    return q * torch.where(diagonal < 0, -1.0, 1.0).to(q.dtype)


def _tolerance(factor: Tensor) -> float:
    return _NOISE * math.sqrt(factor.shape[0]) * torch.finfo(factor.dtype).eps
