# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The classifier and its schedule. Large for its task on purpose: communication is what a run measures."""

from __future__ import annotations

import hashlib
import math
from typing import Final

import torch

from sumwire_lab.data import CLASSES, FEATURES

WARM_UP_SHARE: Final = 0.1


def build(hidden: int, seed: int) -> torch.nn.Module:
    """Two hidden layers; with 1024 units 1,126,410 parameters. Equal weights for equal seeds."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, CLASSES),
    )


def learning_rate_factor(step: int, steps: int) -> float:
    """Linear warm-up over a tenth of the steps, times half a cosine down to 0 at the end."""
    warm_up = min(1.0, (step + 1) / max(1.0, WARM_UP_SHARE * steps))
    return warm_up * 0.5 * (1.0 + math.cos(math.pi * step / steps))


def accuracy(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """Share of right answers, 0 to 1."""
    with torch.no_grad():
        return float((model(x).argmax(dim=1) == y).float().mean())


def fingerprint(model: torch.nn.Module) -> str:
    """SHA-256 over the bytes of all parameters, in their order: equal exactly for bit-equal replicas."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()
