# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Runs Marsit's two rules on tasks that neither was tuned on: `make verify-papers PAPERS_FLAGS="--rows marsit-tasks"`.

The task is the digits, with the lab's network of two hidden layers and with a small convolutional one. Workers draw
from all images, from shards sorted by label, or from shards by a Dirichlet distribution. There are 4 workers as
threads, and more in some tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from torch import nn

from sumwire_lab.experiments.digits_accuracy import EPOCHS, WORKERS, Optimizing, Training, marsit, mlp, ssgd
from sumwire_lab.training import digits_data

INNER: Final = "momentum"
DIRICHLET: Final = 0.1


def small_cnn() -> nn.Module:
    """Two convolutions with batch normalisation; 10,026 parameters."""
    return nn.Sequential(
        nn.Unflatten(1, (1, digits_data.SIDE, digits_data.SIDE)),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16, track_running_stats=False),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32, track_running_stats=False),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (digits_data.SIDE // 2) ** 2, digits_data.CLASSES),
    )


@dataclass(frozen=True)
class Task:
    """One task. ``published_fails``: the published rule is known to fail here, so the task can distinguish rules."""

    network: Callable[[], nn.Module]
    concentration: float | None = None
    workers: int = WORKERS
    published_fails: bool = True

    def accuracies(self, optimizing: Optimizing, seeds: Sequence[int], epochs: int = EPOCHS) -> list[float]:
        """Test accuracies, seed by seed. With more workers an epoch has fewer steps, so there are more epochs."""
        more = self.workers // WORKERS
        return [
            Training(
                optimizing, seed, self.workers, epochs * more, network=self.network, concentration=self.concentration
            ).accuracy()
            for seed in seeds
        ]  # fmt: skip

    def by_rule(self, seeds: Sequence[int], epochs: int = EPOCHS) -> dict[str, list[float]]:
        """Return test accuracies of S-SGD, of Marsit with both K, and of the published rule."""
        rules = {
            SSGD: ssgd(INNER),
            **{f"K = {every}": marsit(INNER, every) for every in (20, 100)},
            PUBLISHED: marsit(INNER, 100, rule="published"),
        }
        return {name: self.accuracies(optimizing, seeds, epochs) for name, optimizing in rules.items()}


SSGD: Final = "S-SGD"
PUBLISHED: Final = "published, K = 100"
TASKS: Final[Mapping[str, Task]] = {
    "MLP": Task(mlp, published_fails=False),
    "MLP, sorted by label": Task(mlp, 0.0),
    "MLP, Dirichlet 0.1": Task(mlp, DIRICHLET),
    "CNN": Task(small_cnn),
    "CNN, sorted by label": Task(small_cnn, 0.0),
    "CNN, Dirichlet 0.1": Task(small_cnn, DIRICHLET),
    "CNN, 8 workers": Task(small_cnn, workers=8),
    "CNN, 16 workers": Task(small_cnn, workers=16),
    "CNN, sorted by label, 8 workers": Task(small_cnn, 0.0, workers=8),
}
