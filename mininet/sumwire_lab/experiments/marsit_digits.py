# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Marsit's accuracy on the digits: as README prints it, and with SGD, momentum and Adam at every K."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Final

import sumwire
import torch
from sumwire.training.collective import ThreadsEnd
from sumwire.training.optim import GradientSync, Marsit
from torch import Tensor
from torch.optim import Optimizer

from sumwire_lab.errors import LabError
from sumwire_lab.experiments.replicas import EPOCHS, Digits, Optimizing

Parameters = Iterable[torch.nn.Parameter]
INNER: Final[Mapping[str, Callable[[Parameters], Optimizer]]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.5),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=3e-3),
}
PERIODS: Final = (1, 20, 100, None)
_BEGIN: Final = "optimizer = sumwire.optim.Marsit("


def as_printed(readme: str) -> Optimizing:
    """The optimizer of README's example. Raises LabError if README has none."""
    lines = [line.removeprefix("optimizer = ") for line in readme.splitlines() if line.startswith(_BEGIN)]
    if len(lines) != 1:
        raise LabError(f"README has {len(lines)} lines that begin with {_BEGIN!r}")

    def made(network: torch.nn.Module, end: ThreadsEnd) -> Optimizer:
        names = {"sumwire": sumwire, "torch": torch, "model": network, "job": end}
        optimizer: Optimizer = eval(lines[0], names)
        return optimizer

    return made


def marsit(inner: str, every: int | None, **settings: Any) -> Optimizing:
    """Marsit around an optimizer of INNER."""
    return lambda network, end: Marsit(INNER[inner](network.parameters()), end, full_precision_every=every, **settings)


def ssgd(inner: str) -> Optimizing:
    """An optimizer of INNER on the mean gradient."""

    def made(network: torch.nn.Module, end: ThreadsEnd) -> Optimizer:
        def mean(x: Tensor, number: int) -> tuple[Tensor, Callable[[], Tensor]]:
            return end.mean(x), lambda: torch.zeros_like(x)

        return GradientSync(INNER[inner](network.parameters()), mean, error_feedback=False)

    return made


def accuracies(optimizing: Optimizing, seeds: Sequence[int], epochs: int = EPOCHS) -> list[float]:
    """Test accuracy, seed by seed."""
    return [Digits(optimizing, seed, epochs=epochs).accuracy() for seed in seeds]


def by_period(inner: str, seeds: Sequence[int], epochs: int = EPOCHS) -> dict[str, float]:
    """Mean accuracy of S-SGD and of Marsit by K, for an optimizer of INNER."""
    found = {"S-SGD": fmean(accuracies(ssgd(inner), seeds, epochs))}
    for every in PERIODS:
        found[f"K = {every or 'never'}"] = fmean(accuracies(marsit(inner, every), seeds, epochs))
    return found
