# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A model's parameters as one flat vector, in a precision that optimizers can use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor
from torch.optim import Optimizer

from sumwire.codec.tensors import all_finite
from sumwire.errors import UsageError

_HALVES = (torch.float16, torch.bfloat16)


class Exchanged:
    """The parameters that workers exchange for an optimizer: those of its groups that need gradients now.

    ``owner``: the object that exchanges them, for the error.
    """

    def __init__(self, optimizer: Optimizer, owner: object) -> None:
        self._optimizer = optimizer
        self._owner = type(owner).__name__
        self.parameters: list[Tensor] = [p for p in self._all() if p.requires_grad]
        self._known = {id(p) for p in self.parameters}

    def check(self) -> None:
        """Raise UsageError if the groups by now have a further parameter that needs gradients."""
        for number, p in enumerate(self._all()):
            if p.requires_grad and id(p) not in self._known:
                raise UsageError(
                    f"{self._owner}: parameter {number} of shape {tuple(p.shape)} was in no group, or needed no "
                    f"gradients, when this {self._owner} was made, so that workers would not exchange it: make a new "
                    "one after adding or unfreezing parameters"
                )

    def _all(self) -> Iterator[Tensor]:
        return (p for group in self._optimizer.param_groups for p in group["params"])


def check_covered(parameters: Sequence[Tensor], optimizer: Optimizer) -> None:
    """Raise UsageError if the optimizer trains a parameter that is not among these, which are exchanged."""
    known = {id(parameter) for parameter in parameters}
    trained = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad and p.numel()]
    for number, parameter in enumerate(trained):
        if id(parameter) not in known:
            rule = "must be one of those to synchronise, or the workers drift apart"
            raise UsageError(f"optimizer's parameter {number} of shape {tuple(parameter.shape)}: {rule}")


class FlatParameters:
    """Values of parameters, in their order: float64 if any parameter is, else float32.

    Parameters of half precision have master values here, so that updates too small for the parameter add up. A
    parameter is its master value, rounded. If something else writes a parameter, `read` takes the new value.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        if not parameters:
            raise UsageError("no parameters: nothing to optimize; give some that need gradients")
        for number, parameter in enumerate(parameters):
            if parameter.dtype not in (torch.float32, torch.float64, *_HALVES):
                raise UsageError(f"parameter {number} of {parameter.dtype}: must be a floating-point one")
        if len({parameter.device for parameter in parameters}) > 1:
            raise UsageError("parameters on several devices: must be one")
        self.parameters = list(parameters)
        self.dtype = torch.float64 if any(p.dtype == torch.float64 for p in parameters) else torch.float32
        bounds = accumulate((p.numel() for p in parameters), initial=0)
        self._slices = [slice(start, stop) for start, stop in pairwise(bounds)]
        self._halves = any(p.dtype in _HALVES for p in parameters)
        self.master: Tensor | None = None

    @property
    def length(self) -> int:
        """Number of values of all parameters together."""
        return self._slices[-1].stop

    def read(self) -> Tensor:
        """Return all values, a new flat tensor."""
        flat = torch.cat([p.detach().reshape(-1).to(self.dtype) for p in self.parameters])
        if self._halves and self.master is not None:
            # A parameter that is not its master value, rounded, was written by something else.
            for p, piece in zip(self.parameters, self._slices, strict=True):
                kept = self.master[piece]
                if p.dtype in _HALVES:
                    flat[piece] = torch.where(kept.to(p.dtype).to(self.dtype) == flat[piece], kept, flat[piece])
        return flat

    def write(self, flat: Tensor) -> None:
        """Set all parameters. If there are master values, the tensor itself is kept as these."""
        with torch.no_grad():
            for p, piece in zip(self.parameters, self._slices, strict=True):
                p.copy_(flat[piece].view(p.shape))
        if self._halves:
            self.master = flat

    def finite_gradients(self) -> bool:
        """Return whether no gradient has NaN or infinity."""
        return all(p.grad is None or all_finite(p.grad) for p in self.parameters)

    def spoil_gradients(self) -> None:
        """Make all gradients NaN."""
        for p in self.parameters:
            p.grad = torch.full_like(p, torch.nan)

    @contextlib.contextmanager
    def standing_in(self, flat: Tensor) -> Iterator[None]:
        """Context in which parameters are views of ``flat`` and gradients have its dtype; restores both at its end."""
        kept = [(p.data, p.grad) for p in self.parameters]
        try:
            for p, piece in zip(self.parameters, self._slices, strict=True):
                grad, p.grad = p.grad, None
                p.data = flat[piece].view(p.shape)
                p.grad = None if grad is None else grad.to(self.dtype)
            yield
        finally:
            for p, (data, grad) in zip(self.parameters, kept, strict=True):
                p.grad = None
                p.data = data
                p.grad = grad
