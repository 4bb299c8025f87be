# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The training tasks by name: their sizes, and how long to train. `training.workload` has data and models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Task:
    """The defaults of one task; `TrainOptions` explains the fields that a run can change."""

    name: str
    title: str
    """Model and data, for reports."""
    target: float
    """Test accuracy, 0 to 1, to reach: the run records the time to it."""
    epochs: int
    batch: int
    hidden: int
    max_steps: int | None
    adam: bool
    """Whether mean gradients are applied by AdamW; else by SGD with Nesterov momentum."""
    learning_rate: float
    """Of systems that aggregate the mean gradient; `recipes` has those of the others."""
    weight_decay: float
    rank: int
    """Of the low-rank systems."""
    evaluate_every: int = 1
    """Steps between two evaluations of the test accuracy."""


DIGITS: Final = Task(
    "digits",
    "MLP on handwritten digits",
    target=0.95,
    epochs=10,
    batch=32,
    hidden=1024,
    max_steps=None,
    adam=False,
    learning_rate=0.1,
    weight_decay=1e-4,
    rank=4,
)
DIGITS_CNN: Final = Task(
    "digits-cnn",
    "convolutional network on handwritten digits",
    target=0.96,
    epochs=20,
    batch=64,
    hidden=256,
    max_steps=None,
    adam=False,
    learning_rate=0.05,
    weight_decay=1e-4,
    rank=4,
)
TEXT: Final = Task(
    "text",
    "character transformer on Python's own help texts",
    target=0.42,
    epochs=10,
    batch=4,
    hidden=192,
    max_steps=150,
    adam=True,
    learning_rate=3e-3,
    weight_decay=0.0,
    rank=16,
    evaluate_every=10,
)
TASKS: Final[Mapping[str, Task]] = {task.name: task for task in (DIGITS, DIGITS_CNN, TEXT)}
DEFAULT_TASK: Final = DIGITS.name
