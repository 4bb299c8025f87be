# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A variant of THC for all workers at once: the mean that comes back, and what each worker keeps.

It is written after the paper, not after the codec, so that parts can be left out; a test holds the two together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from sumwire.codec.rotation import hadamard_
from sumwire_protocol import tables
from sumwire_protocol.ops import THC
from torch import Tensor

from sumwire_lab.options.thc_variants import GLOBAL, MINMAX, Variant

_CHUNK = THC.values


@dataclass(frozen=True)
class _Range:
    """What grid position 0 stands for, and the width of a grid cell, both by block."""

    low: Tensor
    cell: Tensor


class Sums:
    """The sums of one job. `draws` gives all random numbers."""

    def __init__(self, variant: Variant, workers: int, draws: torch.Generator) -> None:
        values = tables.made(variant.table, variant.bits, variant.p, workers, variant.granularity)
        self._variant = variant
        self._draws = draws
        self._granularity = values[-1]
        # Without the repeated ones.
        self._levels = torch.tensor(values[: values.index(values[-1]) + 1], dtype=torch.float32)
        self._threshold = tables.threshold(variant.p)

    def mean(self, x: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean of the workers' rows, and what the sum lacks of each row.

        `present` (workers, chunks): the chunks that got to the sum. A chunk that nobody's is gives zeros.
        """
        workers, length = x.shape
        block = self._block(length)
        blocks = torch.nn.functional.pad(x, (0, -length % block)).view(workers, -1, block)
        signs = torch.randint(0, 2, blocks.shape[1:], generator=self._draws) * 2.0 - 1
        v = self._rotated(blocks, signs)
        span = self._span(blocks, v)
        q = self._rounded((v - span.low) / span.cell) * span.cell + span.low
        chunk = min(_CHUNK, block)
        counted = present[:, : blocks[0].numel() // chunk].repeat_interleave(chunk, dim=1).view_as(q)
        q = torch.where(counted, q, 0.0)
        mean = q.sum(dim=0) / counted.sum(dim=0).clamp(min=1)
        left = x - self._back(q, signs).reshape(workers, -1)[:, :length]
        return self._back(mean[None], signs).reshape(-1)[:length], left

    def chunks(self, length: int) -> int:
        """Return how many chunks a tensor has."""
        return max(1, math.ceil(length / self._block(length)) * self._block(length) // _CHUNK)

    def _block(self, length: int) -> int:
        return self._variant.block or max(_CHUNK, 1 << (length - 1).bit_length())

    def _rotated(self, blocks: Tensor, signs: Tensor) -> Tensor:
        if not self._variant.rotation:
            return blocks
        d = blocks.shape[-1]
        return hadamard_((blocks * signs).reshape(-1, d).contiguous()).view_as(blocks) / math.sqrt(d)

    def _back(self, v: Tensor, signs: Tensor) -> Tensor:
        if not self._variant.rotation:
            return v
        d = v.shape[-1]
        return hadamard_(v.reshape(-1, d).clone()).view_as(v) / math.sqrt(d) * signs

    def _span(self, blocks: Tensor, v: Tensor) -> _Range:
        """What the workers agree on: the largest norm, or the least and the largest value."""
        together = (0, 1, 2) if self._variant.norms == GLOBAL else (0, 2)
        if self._variant.range == MINMAX:
            low, high = v.amin(dim=together, keepdim=True), v.amax(dim=together, keepdim=True)
            return _Range(low, ((high - low) / self._granularity).clamp(min=1e-30))
        squares = blocks.square()
        norms = squares.sum(dim=(1, 2) if self._variant.norms == GLOBAL else 2, keepdim=True).sqrt()
        values = blocks[0].numel() if self._variant.norms == GLOBAL else blocks.shape[-1]
        edge = self._threshold * norms.amax(dim=0, keepdim=True) / math.sqrt(values)
        return _Range(-edge, (2 * edge / self._granularity).clamp(min=1e-30))

    def _rounded(self, position: Tensor) -> Tensor:
        """Clip a grid position, and round it at random to one of the two levels around it."""
        w = position.clamp(0, self._granularity).contiguous()
        lower = (torch.searchsorted(self._levels, w, right=True) - 1).clamp(max=len(self._levels) - 2)
        low, high = self._levels[lower], self._levels[lower + 1]
        up = torch.rand(w.shape, generator=self._draws) < (w - low) / (high - low)
        return torch.where(up, high, low)


def without(workers: int, chunks: int, left_out: int, loss: float, draws: np.random.Generator) -> Tensor:
    """Return which chunks of which workers get to the sum: all but those of late workers, and lost ones."""
    present = draws.random((workers, chunks)) >= loss
    present[draws.permutation(workers)[:left_out]] = False
    return torch.from_numpy(present)
