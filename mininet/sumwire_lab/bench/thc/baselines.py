# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What THC's authors compare it with, for all workers at once: TernGrad, Top-k, Deep Gradient Compression."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

import torch
from torch import Tensor

TERNGRAD: Final = "TernGrad"
TOP_K: Final = "Top-k 10 %"
DGC: Final = "DGC 0.1 %"


class Baseline(ABC):
    """`momentum`: whether it has the optimizer's momentum within it."""

    momentum: ClassVar = False

    @abstractmethod
    def mean(self, x: Tensor, step: int) -> Tensor:
        """The mean that the workers' gradients, a row each, become. What is left out is kept here."""


class TernGrad(Baseline):
    """Wen et al., NeurIPS 2017, arXiv 1705.07878: -s, 0 or s, without bias; s is a layer's largest magnitude of all
    workers, after clipping at 2.5 standard deviations. No error feedback."""

    CLIP: Final = 2.5

    def __init__(self, sizes: Sequence[int], draws: torch.Generator) -> None:
        self._sizes = list(sizes)
        self._draws = draws

    def mean(self, x: Tensor, step: int) -> Tensor:
        return torch.cat([self._layer(one) for one in torch.split(x, self._sizes, dim=1)], dim=1).mean(dim=0)

    def _layer(self, x: Tensor) -> Tensor:
        edge = self.CLIP * x.std(dim=1, keepdim=True, correction=0)
        clipped = x.clamp(-edge, edge)
        scale = clipped.abs().amax().clamp(min=1e-30)
        drawn = torch.rand(x.shape, generator=self._draws) < clipped.abs() / scale
        return clipped.sign() * drawn * scale


class TopK(Baseline):
    """Aji and Heafield, EMNLP 2017, arXiv 1704.05021: the largest values of each worker; the others are kept."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._kept: Tensor | float = 0.0

    def mean(self, x: Tensor, step: int) -> Tensor:
        x = x + self._kept
        sent = largest(x, self._share)
        self._kept = x * ~sent
        return (x * sent).mean(dim=0)


class Dgc(Baseline):
    """Lin et al., ICLR 2018, arXiv 1712.01887: Top-k of gradients whose momentum each worker has added before; where it
    sends, what is kept and its momentum begin anew. The share falls to `share` by quarters, one a pass."""

    momentum: ClassVar = True

    def __init__(self, share: float, factor: float, steps_per_pass: int) -> None:
        self._share = share
        self._factor = factor
        self._pass = steps_per_pass
        self._speed: Tensor | float = 0.0
        self._kept: Tensor | float = 0.0

    def mean(self, x: Tensor, step: int) -> Tensor:
        speed = self._factor * self._speed + x
        total = self._kept + speed
        sent = largest(total, max(self._share, 0.25 ** (1 + step // self._pass)))
        self._speed, self._kept = speed * ~sent, total * ~sent
        return (total * sent).mean(dim=0)


def largest(x: Tensor, share: float) -> Tensor:
    """Return where each row has its largest magnitudes, at least one."""
    count = max(1, int(share * x.shape[1]))
    return torch.zeros_like(x, dtype=torch.bool).scatter_(1, x.abs().topk(count, dim=1).indices, value=True)
