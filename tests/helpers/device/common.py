# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What ranks on a device have in common: a model, its batches, their job. They share one GPU, or are on a processor.

``device`` is "cuda" or "cpu".
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import sumwire
import torch
from helpers.transport.udp_bridge import SILENCE_S
from sumwire.training.hierarchical import AnyJob
from torch import Tensor, nn

STEPS = 20
WIDTH = 64
LENGTH = 20_000


class Net(nn.Module):
    """``spare`` takes part in every second step only. The same weights at every call."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first = nn.Linear(WIDTH, 4 * WIDTH)
        self.spare = nn.Linear(4 * WIDTH, 4 * WIDTH)
        self.last = nn.Linear(4 * WIDTH, 8)

    def forward(self, x: Tensor, use_spare: bool = True) -> Tensor:
        x = torch.tanh(self.first(x))
        out: Tensor = self.last(torch.tanh(self.spare(x)) if use_spare else x)
        return out


def batch(rank: int, step: int, device: str) -> tuple[Tensor, Tensor]:
    x = torch.randn(32, WIDTH, generator=torch.Generator().manual_seed(1000 * rank + step))
    return x.to(device), (x[:, :8] * x[:, 8:16]).to(device)


def digest(tensors: Iterable[Tensor]) -> str:
    """Of their bits."""
    found = hashlib.blake2b(digest_size=8)
    for x in tensors:
        found.update(x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


@contextlib.contextmanager
def opened(options: dict[str, Any], **more: Any) -> Iterator[AnyJob]:
    with sumwire.init(quiet=True, block=1024, silence_s=SILENCE_S, **options, **more) as job:
        yield job


def flat_gradient(model: nn.Module) -> Tensor:
    return torch.cat([p.grad.reshape(-1).float() for p in model.parameters() if p.grad is not None])


def alone(rank: int) -> Tensor:
    """The gradient of one rank's batch, on a processor."""
    model = Net()
    x, y = batch(rank, 0, "cpu")
    (model(x) - y).square().mean().backward()  # type: ignore[no-untyped-call]
    return flat_gradient(model)
