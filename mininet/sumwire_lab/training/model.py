# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Models for the digits, and the learning-rate schedule.

The models are large for their task on purpose: a run measures communication.
"""

from __future__ import annotations

import hashlib
import math
from typing import Final

import torch

from sumwire_lab.training.digits_data import CLASSES, FEATURES, SIDE

WARM_UP_SHARE: Final = 0.1


def mlp(hidden: int) -> torch.nn.Module:
    """Two hidden layers; with 1024 units 1,126,410 parameters."""
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, CLASSES),
    )


def cnn(hidden: int) -> torch.nn.Module:
    """Two convolutions of 3x3, a maximum over 2x2, a hidden layer; with 256 units 283,786 parameters."""
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
    """Linear warm-up over a tenth of the steps, times half a cosine down to 0 at the end."""
    warm_up = min(1.0, (step + 1) / max(1.0, WARM_UP_SHARE * steps))
    return warm_up * 0.5 * (1.0 + math.cos(math.pi * step / steps))


def fingerprint(model: torch.nn.Module) -> str:
    """SHA-256 over the bytes of all parameters, in their order. Equal for bit-equal replicas, and only for them."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()
