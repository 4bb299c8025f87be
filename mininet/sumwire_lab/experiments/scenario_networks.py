# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Small networks of many kinds for the digits, for :mod:`sumwire_lab.experiments.training_scenarios`.

Each takes images, float32[n, 64], and returns float32[n, 10]. A network that wants a sequence takes the images' rows.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from sumwire_lab.training.digits_data import CLASSES, FEATURES, SIDE

HIDDEN: Final = 96


class Rows(nn.Module):
    """Makes a sequence of an image's rows: (n, 64) to (n, 8, 8)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.view(-1, SIDE, SIDE)


class Encoder(nn.Module):
    """A transformer over the rows."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 96, dropout=0.0, batch_first=True)
        self.into, self.body = nn.Linear(SIDE, 32), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(32, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        read: Tensor = self.out(self.body(self.into(x.view(-1, SIDE, SIDE))).mean(dim=1))
        return read


class Recurrent(nn.Module):
    """A GRU over the rows, whose parameters are views of one buffer where cuDNN has them."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.out = nn.GRU(SIDE, 64, batch_first=True), nn.Linear(64, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        read: Tensor = self.out(self.body(x.view(-1, SIDE, SIDE))[0][:, -1])
        return read


class Tokens(nn.Module):
    """An embedding of each pixel's shade and place. ``sparse``: of sparse gradients."""

    def __init__(self, *, sparse: bool = False) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(FEATURES * 17, 32, mode="sum", sparse=sparse)
        self.out = nn.Linear(32, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        shades = (x.clamp(-1, 2) * 5 + 5).long().clamp(0, 16)
        read: Tensor = self.out(self.table(shades + 17 * torch.arange(FEATURES)) / SIDE)
        return read


class Tied(nn.Module):
    """Two layers that share one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, FEATURES)
        self.two.weight = self.one.weight
        self.out = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        read: Tensor = self.out(self.two(self.one(x).relu()).relu())
        return read


class Branches(nn.Module):
    """Two branches, of which a call uses one, and a parameter that no call uses."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.ModuleList([mlp(), mlp()])
        self.idle = nn.Parameter(torch.zeros(5000))
        self.turn = 0

    def forward(self, x: Tensor) -> Tensor:
        read: Tensor = self.both[self.turn](x)
        return read


class Checkpointed(nn.Module):
    """Computes its activations once more in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.out = mlp(HIDDEN), nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        read: Tensor = self.out(checkpoint(self.body, x, use_reentrant=False))
        return read


class Odd(nn.Module):
    """Parameters of one value, of a prime number of values, and of none."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.empty = nn.Parameter(torch.ones(())), nn.Parameter(torch.zeros(0, 3))
        self.body = nn.Sequential(nn.Linear(FEATURES, 101), nn.ReLU(), nn.Linear(101, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        read: Tensor = self.body(x) * self.scale + self.empty.sum()
        return read


class Cast(nn.Module):
    """A network in another type, for images in float32."""

    def __init__(self, inner: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.inner, self.dtype = inner.to(dtype), dtype

    def forward(self, x: Tensor) -> Tensor:
        read: Tensor = self.inner(x.to(self.dtype))
        return read.float()


def mlp(out: int = CLASSES) -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, out))


def cnn() -> nn.Module:
    return nn.Sequential(
        Rows(), nn.Unflatten(1, (1, SIDE)),
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(), nn.Linear(512, CLASSES),
    )  # fmt: skip
