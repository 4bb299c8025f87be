# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Data, model, loss and score of a task. They do not depend on the system."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from sumwire_lab.options.recipes import DIGITS, DIGITS_CNN, TEXT
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.training import digits_data, text_data
from sumwire_lab.training.digits_data import CLASSES, FEATURES, SIDE, Samples

WARM_UP_SHARE: Final = 0.1


def mlp(hidden: int) -> torch.nn.Module:
    """Return a network of two hidden layers; with 1024 units 1,126,410 parameters."""
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, CLASSES),
    )


def cnn(hidden: int) -> torch.nn.Module:
    """Return a network of two 3x3 convolutions, a 2x2 maximum, and a hidden layer; with 256 units 283,786
    parameters."""
    channels, left = 64, (SIDE // 2) ** 2
    return torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, SIDE, SIDE)),
        torch.nn.Conv2d(1, channels // 2, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(channels // 2, channels, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(channels * left, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, CLASSES),
    )


def learning_rate_factor(step: int, steps: int) -> float:
    """Return the learning-rate factor: linear warm-up over a tenth of the steps, times half a cosine down to 0 at the
    end."""
    warm_up = min(1.0, (step + 1) / max(1.0, WARM_UP_SHARE * steps))
    return warm_up * 0.5 * (1.0 + math.cos(math.pi * step / steps))


def fingerprint(model: torch.nn.Module) -> str:
    """Return the SHA-256 of the bytes of all parameters, in order. Equal for bit-equal replicas, and only for them."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Score:
    """The result on the test samples: accuracy, 0 to 1, and mean cross entropy in bits per answer."""

    accuracy: float
    bits: float


_SAMPLES: Final[Mapping[str, Callable[[], Samples]]] = {
    DIGITS.name: digits_data.load,
    DIGITS_CNN.name: digits_data.load,
    TEXT.name: text_data.load,
}
_NETWORKS: Final[Mapping[str, Callable[[int], nn.Module]]] = {
    DIGITS.name: mlp,
    DIGITS_CNN.name: cnn,
    TEXT.name: text_data.Transformer,
}


def samples(options: TrainOptions) -> Samples:
    """Return the task's data. The split does not depend on the seed."""
    return _SAMPLES[options.task]()


def network(options: TrainOptions) -> nn.Module:
    """Return the task's model, with equal weights for equal seeds."""
    torch.manual_seed(options.seed)
    return _NETWORKS[options.task](options.hidden)


def loss(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """Return the mean cross entropy over all answers, in nats."""
    return _cross_entropy(network(x), y)


def score(network: nn.Module, samples: Samples) -> Score:
    """Return the score on the test samples."""
    with torch.no_grad():
        out = network(samples.test_x)
        right = (out.argmax(dim=-1) == samples.test_y).float().mean()
        return Score(float(right), float(_cross_entropy(out, samples.test_y)) / math.log(2))


def _cross_entropy(out: Tensor, y: Tensor) -> Tensor:
    return nn.functional.cross_entropy(out.flatten(0, -2), y.flatten())
