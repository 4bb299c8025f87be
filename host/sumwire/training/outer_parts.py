# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The parts of a model that outer steps exchange in turn: the fragments of streaming DiLoCo (arXiv 2501.18512)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.optim import Optimizer

from sumwire.errors import UsageError
from sumwire.training.flat import FlatParameters

# Makes the optimizer of the outer steps from the tensors that it shall change.
MakeOuter = Callable[[list[Tensor]], Optimizer]


class OuterPart:
    """Some of a model's parameters. ``shared``: their values after the latest outer step, flat, float32 or float64,
    with equal bits on all workers. ``outer``: the optimizer that moves them. ``residual``: what the latest
    pseudo-gradient lost, float32, this worker's own. ``compared``: whether workers have compared ``shared``."""

    def __init__(self, number: int, parameters: Sequence[Tensor], make: MakeOuter) -> None:
        self.number = number
        self.flat = FlatParameters(parameters)
        self.shared = self.flat.read()
        self.outer = make([self.shared])
        self.residual: Tensor | None = None
        self.compared = False

    def drift(self) -> Tensor:
        """Return how far the local steps have gone: shared minus parameters, float32."""
        return (self.shared - self.flat.read()).to(torch.float32)

    def pseudo_gradient(self) -> Tensor:
        """Return the drift and what the last one has lost, a new tensor."""
        drift = self.drift()
        return drift if self.residual is None else drift.add_(self.residual)

    def move(self, mean: Tensor) -> None:
        """Make the outer step with the workers' mean pseudo-gradient, flat."""
        # A copy: the job's results must not be changed.
        self.shared.grad = mean.to(self.shared.device, self.shared.dtype, copy=True)
        self.outer.step()
        self.shared.grad = None

    def adopt(self, mix: float = 0.0) -> None:
        """Set the parameters to ``mix`` times themselves and the rest of ``shared``."""
        values = self.shared.clone()
        if mix:
            values.lerp_(self.flat.read(), mix)
        self.flat.write(values)

    def digest(self) -> str:
        """Return 64 bits of a hash of ``shared``, as hexadecimal digits."""
        return hashlib.blake2b(self.shared.cpu().numpy().tobytes(), digest_size=8).hexdigest()


def parts_of(parameters: Sequence[Tensor], count: int, make: MakeOuter) -> list[OuterPart]:
    """Cut parameters, in their order, into so many parts of about equal size. Raises UsageError for too many."""
    if not 1 <= count <= len(parameters):
        raise UsageError(f"parts = {count}: must be 1 to {len(parameters)}, the model's parameters")
    whole = sum(p.numel() for p in parameters)
    cut: list[list[Tensor]] = [[] for _ in range(count)]
    number = taken = 0
    for place, parameter in enumerate(parameters):
        left = len(parameters) - place
        # Each later part needs a parameter of its own.
        if cut[number] and number + 1 < count and (taken * count >= whole * (number + 1) or left == count - number - 1):
            number += 1
        cut[number].append(parameter)
        taken += parameter.numel()
    return [OuterPart(number, piece, make) for number, piece in enumerate(cut)]
