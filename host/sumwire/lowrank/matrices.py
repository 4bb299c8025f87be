# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One worker's state of one parameter, and one step of ACP-SGD's equations on it.

A step of a matrix M (n x m) with factors P (n x r), Q (m x r) and the error E (n x m):

      P step (even)                          Q step (odd)
1.    Q = orthonormal basis of Q             P = orthonormal basis of P
2.    P = (M + E) Q                          Q = (M + E)^T P
3.    P's mean over the workers, by the reduction (or Q's)
4.    E = M + E - (the P that was sent) Q^T  E = M + E - P (the Q that was sent)^T
5.    gradient = P Q^T, with the mean        gradient = P Q^T, with the mean

What was sent is this worker's factor minus what the reduction's own compression left out, so E includes that too. If
the reduction gives the mean of what was sent, the sum over the workers of (M + old E - new E) is workers x gradient in
every step.

A step is `compress`, `restore`, then `commit`; without `commit` it changes nothing.

The orthonormal basis of step 1 is equal on all workers for every factor. A library's QR decomposition has arbitrary
signs, and for columns that depend on others it gives directions of rounding noise, which may differ between machines.
Here R's diagonal is positive, and dependent columns are replaced by drawn ones, equal on all workers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire.checkpoint import OTHER
from sumwire.errors import NonFiniteError, UsageError
from sumwire.lowrank.fusion import Item, Phase, phase_of

# The rest of a column, without its parts along other columns, counts as rounding noise below this many
# sqrt(rows) x machine precision of its largest part.
_NOISE = 8.0
# Key of the draws at the start. Draws for weak columns have the number of the step, from 1, instead.
_START: Final = 0
HALVES: Final = (torch.float16, torch.bfloat16)


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


def draw_factor(
    seed: int, number: int, phase: Phase, shape: tuple[int, int], after: int = _START
) -> NDArray[np.float64]:
    """Return standard normal values of shape (rows, rank), equal on all machines.

    They are numpy's, since torch's depend on device and processor. ``number`` is the parameter's; ``after`` is 0 at the
    start, then the number of steps made so far.
    """
    return np.random.default_rng([seed, number, int(phase), after]).standard_normal(shape)


class ParameterState(ABC):
    """The state of one parameter. All tensors have its working dtype: float32 for half precision, else its own.

    ``error_feedback``: whether what a step leaves out is added to the next gradient.
    """

    def __init__(self, item: Item, parameter: Tensor, *, error_feedback: bool = True) -> None:
        self.item = item
        self._error_feedback = error_feedback
        self._dtype = torch.float32 if parameter.dtype in HALVES else parameter.dtype
        self._device = parameter.device

    @abstractmethod
    def compress(self, gradient: Tensor | None, step: int) -> Tensor:
        """Return what to send in this step, flat. None stands for a gradient of zeros."""

    @abstractmethod
    def restore(self, mean: Tensor, residual: Tensor, gradient: Tensor) -> None:
        """Write the synchronised gradient to ``gradient``.

        ``mean`` is that of what the workers sent, ``residual`` what the reduction left out of this worker's
        contribution; both flat, of the length that `compress` returned.
        """

    @abstractmethod
    def commit(self) -> None:
        """Make the step's new state the current one."""

    @abstractmethod
    def rescale(self, factor: float) -> None:
        """Multiply the error: gradients have another unit from now on."""

    @abstractmethod
    def state(self) -> dict[str, Tensor | None]:
        """Return copies of the tensors that are kept between steps."""

    @abstractmethod
    def load(self, state: Mapping[str, Tensor | None], where: str) -> None:
        """Restore what `state` returned. Raises UsageError for other names or shapes, or values that are not finite."""

    def _own(
        self, state: Mapping[str, Tensor | None], shapes: Mapping[str, tuple[int, ...]], where: str
    ) -> list[Tensor | None]:
        if set(state) != set(shapes):
            raise UsageError(f"{where}: holds {sorted(state)}: must be {sorted(shapes)}")
        for name, shape in shapes.items():
            tensor = state[name]
            if tensor is not None and tuple(tensor.shape) != shape:
                raise UsageError(f"{where}: {name} of shape {tuple(tensor.shape)}: must be {shape}: {OTHER}")
            if tensor is not None and not bool(torch.isfinite(tensor).all()):
                raise UsageError(f"{where}: {name}: must be finite")
        tensors = (state[name] for name in shapes)
        return [None if t is None else t.to(self._device, self._dtype, copy=True) for t in tensors]


class WholeState(ParameterState):
    """The state of a parameter that is sent whole: 1-D, or a matrix too small to gain. It keeps the reduction's
    residual."""

    def __init__(self, item: Item, parameter: Tensor, *, error_feedback: bool = True) -> None:
        super().__init__(item, parameter, error_feedback=error_feedback)
        self.error: Tensor | None = None
        self._next: Tensor | None = None

    def compress(self, gradient: Tensor | None, step: int) -> Tensor:
        if gradient is None:
            x = torch.zeros(self.item.values, dtype=self._dtype, device=self._device)
        else:
            x = gradient.detach().reshape(-1).to(self._dtype, copy=True)
        return x if self.error is None else x.add_(self.error)

    def restore(self, mean: Tensor, residual: Tensor, gradient: Tensor) -> None:
        gradient.copy_(mean.view(self.item.shape))
        # A copy, since the residual is a view of the whole buffer's.
        self._next = residual.to(self._dtype, copy=True)

    def commit(self) -> None:
        self.error, self._next = self._next if self._error_feedback else None, None

    def rescale(self, factor: float) -> None:
        if self.error is not None:
            self.error.mul_(factor)

    def state(self) -> dict[str, Tensor | None]:
        return {"error": None if self.error is None else self.error.clone()}

    def load(self, state: Mapping[str, Tensor | None], where: str) -> None:
        (self.error,) = self._own(state, {"error": (self.item.values,)}, where)


class MatrixState(ParameterState):
    """The state of a matrix that is sent as one of its factors.

    ``reuse``: whether the basis comes from the last step's result; else it is drawn anew in every step.
    """

    def __init__(
        self,
        item: Item,
        parameter: Tensor,
        *,
        seed: int,
        number: int,
        error_feedback: bool = True,
        reuse: bool = True,
    ) -> None:
        super().__init__(item, parameter, error_feedback=error_feedback)
        self._reuse = reuse
        self._seed = seed
        self._number = number
        self.factors = [self._draw(phase, _START) for phase in Phase]
        self.error = torch.zeros(item.rows, item.columns, dtype=self._dtype, device=self._device)
        # M + E, then the next E. A tensor of its own, as large as the gradient: a failed step leaves E as it was.
        self._total = torch.empty_like(self.error)
        self._phase = Phase.P
        self._basis = self._sent = self._mean = self.error.new_empty(0)

    def compress(self, gradient: Tensor | None, step: int) -> Tensor:
        self._phase = phase_of(step)
        other = Phase(1 - self._phase)
        known = self.factors[other] if self._reuse else self._draw(other, step + 1)
        self._basis = orthonormal(known, lambda: self._draw(other, step + 1))
        if gradient is None:
            self._total.copy_(self.error)
        else:
            torch.add(self.error, gradient.detach().reshape(self.error.shape), out=self._total)
        self._sent = self._facing(self._total) @ self._basis
        return self._sent.reshape(-1)

    def restore(self, mean: Tensor, residual: Tensor, gradient: Tensor) -> None:
        self._mean = mean.to(self._dtype, copy=True).view(self._sent.shape)
        sent = self._sent - residual.to(self._dtype).view(self._sent.shape)
        self._facing(self._total).addmm_(sent, self._basis.T, alpha=-1)
        pair = (self._mean, self._basis.T) if self._phase is Phase.P else (self._basis, self._mean.T)
        if gradient.dtype == self._dtype and gradient.is_contiguous():
            torch.mm(*pair, out=gradient.view(self.error.shape))
        else:
            gradient.copy_(torch.mm(*pair).view(self.item.shape))

    def commit(self) -> None:
        self.factors[self._phase] = self._mean
        self.factors[1 - self._phase] = self._basis
        if self._error_feedback:
            self.error, self._total = self._total, self.error

    def rescale(self, factor: float) -> None:
        # Of P and Q only the columns' directions are used.
        self.error.mul_(factor)

    def state(self) -> dict[str, Tensor | None]:
        p, q = self.factors
        return {"p": p.clone(), "q": q.clone(), "error": self.error.clone()}

    def load(self, state: Mapping[str, Tensor | None], where: str) -> None:
        item = self.item
        shapes = {"p": (item.rows, item.rank), "q": (item.columns, item.rank), "error": (item.rows, item.columns)}
        p, q, error = self._own(state, shapes, where)
        if p is None or q is None or error is None:
            raise UsageError(f"{where}: p, q and error: must be there")
        self.factors, self.error = [p, q], error

    def _facing(self, matrix: Tensor) -> Tensor:
        """Return the matrix, transposed in a Q step: its rows are then those of the factor that is sent."""
        return matrix if self._phase is Phase.P else matrix.T

    def _draw(self, phase: Phase, after: int) -> Tensor:
        rows = self.item.rows if phase is Phase.P else self.item.columns
        values = draw_factor(self._seed, self._number, phase, (rows, self.item.rank), after)
        return torch.from_numpy(values).to(self._device, self._dtype)


def make_state(
    item: Item, parameter: Tensor, *, seed: int, number: int, error_feedback: bool = True, reuse: bool = True
) -> ParameterState:
    """Return the state of a parameter at the start, of the kind that its item in the plan says."""
    if item.rank == 0:
        return WholeState(item, parameter, error_feedback=error_feedback)
    return MatrixState(item, parameter, seed=seed, number=number, error_feedback=error_feedback, reuse=reuse)
