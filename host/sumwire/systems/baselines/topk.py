# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Top-k: the largest values of every worker and their positions, by all-gather (Aji and Heafield, EMNLP 2017).

What a worker does not send is its residual, for error feedback.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sumwire.errors import UsageError
from sumwire.job.job import Residual
from sumwire.numeric import is_number
from sumwire.training.reductions import Peers

# Positions travel as int32.
_VALUES_MAX = 1 << 31


def check_fraction(k: float) -> float:
    """Return k. Raises UsageError unless it is a fraction of a tensor's values, above 0 and at most 1."""
    if not is_number(k) or not 0 < k <= 1:
        raise UsageError(f"k = {k!r}: must be a share of the values, above 0 and at most 1")
    return k


class TopK:
    """Sends the fraction ``k`` of a flat tensor, at least one value. Raises UsageError unless 0 < k <= 1."""

    def __init__(self, peers: Peers, k: float) -> None:
        self._peers = peers
        self._fraction = check_fraction(k)

    def count(self, length: int) -> int:
        """Return how many values of a tensor of ``length`` values are sent."""
        return min(length, max(1, math.floor(self._fraction * length)))

    def reduce(self, x: Tensor, number: int) -> tuple[Tensor, Residual]:
        """Return the sum of what all workers sent, divided by their number, and what this worker kept; float32.

        NaN and infinity are the largest values, so they reach all workers. Raises UsageError for 2**31 values or more.
        """
        if x.numel() >= _VALUES_MAX:
            raise UsageError(f"tensor of {x.numel()} values: must be below {_VALUES_MAX}, a position's range")
        x = x.detach().to(torch.float32)
        # NaN counts as the largest.
        positions = torch.topk(x.abs(), self.count(x.numel()), sorted=False).indices
        message = torch.cat([x[positions].view(torch.int32), positions.to(torch.int32)])
        everyone = torch.stack(self._peers.gather(message)).view(self._peers.workers, 2, len(positions))
        values = everyone[:, 0].contiguous().view(torch.float32)
        total = torch.zeros_like(x)
        # One worker after the other: a worker names no position twice, so the order of additions is fixed.
        for own, places in zip(values, everyone[:, 1].to(torch.int64), strict=True):
            total.index_add_(0, places, own)
        return total.div_(self._peers.workers), lambda: x.index_fill(0, positions, 0.0)
