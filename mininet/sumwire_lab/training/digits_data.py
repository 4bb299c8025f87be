# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's handwritten digits: 1797 images of 8 x 8 pixels, with some held out for the test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

# Fixed, so that every seed is tested on the same images.
_SPLIT_SEED: Final = 7
TEST_SHARE: Final = 0.25
CLASSES: Final = 10
SIDE: Final = 8
FEATURES: Final = SIDE * SIDE


@dataclass(frozen=True)
class Samples:
    """Training and test samples of a task: inputs, and the right answer for each."""

    train_x: torch.Tensor
    train_y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor


def load() -> Samples:
    """Return the digits, in a fixed split that is stratified by class.

    Images are float32[n, 64], standardised with mean and deviation of the training images; labels are int64[n].
    """
    # Takes a second, also of whoever only starts those that train.
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=TEST_SHARE, stratify=labels, random_state=_SPLIT_SEED
    )
    mean, deviation = train_x.mean(), train_x.std()

    def tensor(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(((values - mean) / deviation).astype(np.float32))

    return Samples(tensor(train_x), torch.from_numpy(train_y), tensor(test_x), torch.from_numpy(test_y))


def steps_per_epoch(samples: int, workers: int, batch: int) -> int:
    """Return the whole steps in one pass over the data. Remaining samples take part in the next shuffle."""
    return samples // (workers * batch)


def batch_indices(samples: int, seed: int, step: int, *, rank: int, workers: int, batch: int) -> torch.Tensor:
    """Return the indices of the samples of worker `rank` at `step`: int64[batch].

    All workers shuffle with the same seed and take disjoint parts, so that together they see each sample at most once
    per epoch. This does not depend on the system.
    """
    epoch, index = divmod(step, steps_per_epoch(samples, workers, batch))
    order = np.random.default_rng((seed, epoch)).permutation(samples)
    first = (index * workers + rank) * batch
    return torch.from_numpy(order[first : first + batch])


def shards(labels: torch.Tensor, workers: int, concentration: float, seed: int) -> list[np.ndarray]:
    """Return the indices of each worker's own samples, int64. ``concentration`` 0: sorted by label, in equal parts.
    Above 0: each label's samples are divided by a Dirichlet distribution with this parameter; a worker without any gets
    one."""
    order = np.argsort(labels.numpy(), kind="stable")
    if not concentration:
        return np.array_split(order, workers)
    generator = np.random.default_rng(seed)
    parts: list[list[np.ndarray]] = [[] for _ in range(workers)]
    for label in range(CLASSES):
        members = order[labels.numpy()[order] == label]
        shares = generator.dirichlet([concentration] * workers)
        for part, piece in zip(
            parts, np.split(members, (shares.cumsum()[:-1] * len(members)).astype(int)), strict=True
        ):
            part.append(piece)
    return [np.concatenate(part) if any(map(len, part)) else order[:1] for part in parts]
