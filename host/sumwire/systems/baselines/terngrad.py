# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""TernGrad (Wen et al., NeurIPS 2017): a worker sends -1, 0 or 1 for each value, drawn so that the mean has no bias."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from sumwire.checkpoint import Content, Saved
from sumwire.codec.seeds import RoundingStream
from sumwire.errors import UsageError
from sumwire.job.job import Residual
from sumwire.training.reductions import Peers

# Sums of so many signs fit a signed byte.
WORKERS_MAX: Final = 127
# Values beyond so many standard deviations are clipped before, as the authors do.
_DEVIATIONS: Final = 2.5
_DRAWN_TOGETHER: Final = 32


class TernGrad(Saved):
    """Sums signs as bytes by all-reduce, after an all-reduce of the largest magnitude, which all workers scale by.

    Raises UsageError for more than 127 workers.
    """

    def __init__(self, peers: Peers, seed: int) -> None:
        if peers.workers > WORKERS_MAX:
            raise UsageError(
                f"terngrad with {peers.workers} workers: must be at most {WORKERS_MAX}, for sums in a byte"
            )
        self._peers = peers
        self._seed = seed
        self._calls = 0

    def kept(self) -> Content:
        """Return the number of calls, by which random bits are drawn."""
        return Content(rest={"operations": self._calls})

    def restore(self, content: Content, /) -> None:
        self._calls = content.rest["operations"]

    def reduce(self, x: Tensor, number: int) -> tuple[Tensor, Residual]:
        """Return the mean of what all workers sent, float32, and a function for what it leaves out of x.

        All of it is NaN if any worker has NaN or infinity.
        """
        x = x.detach().to(torch.float32)
        if x.numel() == 0:
            return x.clone(), lambda: torch.zeros_like(x)
        sequence, self._calls = self._calls, self._calls + 1
        edge = _DEVIATIONS * x.std(correction=0)
        clipped = x.clamp(-edge, edge)
        # Bits of magnitudes order as they do, NaN above all.
        largest = clipped.abs().amax().reshape(1).view(torch.int32)
        scale = self._peers.largest_(largest).view(torch.float32)
        stream = RoundingStream.of(self._seed, self._peers.rank, sequence, number, x.device)
        drawn = stream.uniform(0, -(-len(x) // _DRAWN_TOGETHER) * _DRAWN_TOGETHER)[: len(x)]
        signs = ((drawn * scale < clipped.abs()) * clipped.sign()).nan_to_num_(0.0)
        total = self._peers.add_(signs.to(torch.int8)).to(torch.float32)
        return total * (scale / self._peers.workers), lambda: x - signs * scale
