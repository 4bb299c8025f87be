# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Data, model, loss and score of a task. They do not depend on the system."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from sumwire_lab.options.recipes import DIGITS, DIGITS_CNN, TEXT
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.training import digits_data, model, text_data
from sumwire_lab.training.digits_data import Samples


@dataclass(frozen=True)
class Score:
    """Result on the test samples: accuracy, 0 to 1, and mean cross entropy in bits per answer."""

    accuracy: float
    bits: float


_SAMPLES: Final[Mapping[str, Callable[[], Samples]]] = {
    DIGITS.name: digits_data.load,
    DIGITS_CNN.name: digits_data.load,
    TEXT.name: text_data.load,
}
_NETWORKS: Final[Mapping[str, Callable[[int], nn.Module]]] = {
    DIGITS.name: model.mlp,
    DIGITS_CNN.name: model.cnn,
    TEXT.name: text_data.Transformer,
}


def samples(options: TrainOptions) -> Samples:
    """The task's data. The split does not depend on the seed."""
    return _SAMPLES[options.task]()


def network(options: TrainOptions) -> nn.Module:
    """The task's model. Equal weights for equal seeds."""
    torch.manual_seed(options.seed)
    return _NETWORKS[options.task](options.hidden)


def loss(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Mean cross entropy over all answers, in nats."""
    return _cross_entropy(network(x), y)


def score(network: nn.Module, samples: Samples) -> Score:
    """Score on the test samples."""
    with torch.no_grad():
        out = network(samples.test_x)
        right = (out.argmax(dim=-1) == samples.test_y).float().mean()
        return Score(float(right), float(_cross_entropy(out, samples.test_y)) / math.log(2))


def _cross_entropy(out: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(out.flatten(0, -2), y.flatten())
