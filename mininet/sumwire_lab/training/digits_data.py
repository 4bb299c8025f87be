# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's handwritten digits: 1797 images of 8 x 8, a part of them held out for the test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

# The split is part of the task, not of a run's randomness: every seed is tested on the same images.
_SPLIT_SEED: Final = 7
TEST_SHARE: Final = 0.25
CLASSES: Final = 10
SIDE: Final = 8
FEATURES: Final = SIDE * SIDE


@dataclass(frozen=True)
class Samples:
    """What a task trains and is tested on: inputs, and the right answer to each."""

    train_x: torch.Tensor
    train_y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor


def load() -> Samples:
    """The digits, split by class (stratified) and always in the same way.

    Images as float32[n, 64], standardised by the training part's mean and deviation; labels as int64[n].
    """
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=TEST_SHARE, stratify=labels, random_state=_SPLIT_SEED
    )
    mean, deviation = train_x.mean(), train_x.std()

    def tensor(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(((values - mean) / deviation).astype(np.float32))

    return Samples(tensor(train_x), torch.from_numpy(train_y), tensor(test_x), torch.from_numpy(test_y))


def steps_per_epoch(samples: int, workers: int, batch: int) -> int:
    """Whole steps in one pass over the data; the rest of the samples waits for the next shuffle."""
    return samples // (workers * batch)


def batch_indices(samples: int, seed: int, step: int, *, rank: int, workers: int, batch: int) -> torch.Tensor:
    """Which samples worker `rank` takes at `step`: int64[batch].

    All workers shuffle alike and take their own part, so that together they see each sample at most once an
    epoch, whatever the system that sums their gradients.
    """
    epoch, index = divmod(step, steps_per_epoch(samples, workers, batch))
    order = np.random.default_rng((seed, epoch)).permutation(samples)
    first = (index * workers + rank) * batch
    return torch.from_numpy(order[first : first + batch])
