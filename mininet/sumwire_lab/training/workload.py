# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Data, model, loss and score of a task, the same for every system and every worker."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.options.tasks import DIGITS, DIGITS_CNN, TEXT
from sumwire_lab.training import digits_data as data
from sumwire_lab.training import model
from sumwire_lab.training import text_data as text
from sumwire_lab.training.digits_data import Samples


@dataclass(frozen=True)
class Score:
    """On the test samples: share of right answers, 0 to 1, and mean cross entropy in bits an answer."""

    accuracy: float
    bits: float


_SAMPLES: Final[Mapping[str, Callable[[], Samples]]] = {
    DIGITS.name: data.load,
    DIGITS_CNN.name: data.load,
    TEXT.name: text.load,
}
_NETWORKS: Final[Mapping[str, Callable[[int], nn.Module]]] = {
    DIGITS.name: model.mlp,
    DIGITS_CNN.name: model.cnn,
    TEXT.name: text.Transformer,
}


def samples(options: TrainOptions) -> Samples:
    """The task's data, split in the same way for every seed."""
    return _SAMPLES[options.task]()


def network(options: TrainOptions) -> nn.Module:
    """The task's model. Equal weights for equal seeds."""
    torch.manual_seed(options.seed)
    return _NETWORKS[options.task](options.hidden)


def loss(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross entropy over all answers, nats."""
    return _cross_entropy(network(x), y)


def score(network: nn.Module, samples: Samples) -> Score:
    """Of the test samples."""
    with torch.no_grad():
        out = network(samples.test_x)
        right = (out.argmax(dim=-1) == samples.test_y).float().mean()
        return Score(float(right), float(_cross_entropy(out, samples.test_y)) / math.log(2))


def _cross_entropy(out: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(out.flatten(0, -2), y.flatten())
