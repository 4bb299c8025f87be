# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Methods that Sumwire is compared with, over a process group of torch.distributed: Top-k, TernGrad and signs.

The systems of `gradients` use them, and the lab's experiments. Torch's own hooks are in `hooks`.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from sumwire.checkpoint import Content, Saved
from sumwire.codec.seeds import RoundingStream
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
    """Top-k by all-gather (Aji and Heafield, EMNLP 2017): sends the largest values of every worker, and their
    positions.

    ``k`` is the fraction of a flat tensor that is sent, at least one value. The rest is the residual, for error
    feedback. Raises UsageError unless 0 < k <= 1.
    """

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


# Sums of so many signs fit a signed byte.
WORKERS_MAX: Final = 127
# Values beyond so many standard deviations are clipped before, as the authors do.
_DEVIATIONS: Final = 2.5
_DRAWN_TOGETHER: Final = 32


class TernGrad(Saved):
    """TernGrad (Wen et al., NeurIPS 2017): sends -1, 0 or 1 for each value, at random so that the mean has no bias.

    It sums signs as bytes by all-reduce, after an all-reduce of the largest magnitude, by which all workers scale.

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


_SCALE_BYTES = 4


# -- signs: eight to a byte, by all-gather -------------------------------------------------------------
# A set bit is plus, the first value is in the most significant bit, and zero of either sign is plus. A message is a
# float32 scale and the signs. The scale is NaN if the worker's values are not all finite. Then the result is NaN.


def pack(plus: Tensor) -> Tensor:
    """Return signs, bool of shape (length,), as uint8 with eight per byte. The rest of the last byte is 0."""
    bits = torch.nn.functional.pad(plus.to(torch.uint8), (0, -len(plus) % 8))
    return (bits.view(-1, 8) << _shifts(plus.device)).sum(1, dtype=torch.uint8)


def unpack(octets: Tensor, length: int) -> Tensor:
    """Return the signs that `pack` packed: uint8, 0 or 1, shape (length,)."""
    return ((octets[:, None] >> _shifts(octets.device)) & 1).view(-1)[:length]


def majority_vote(peers: Peers, x: Tensor, number: int) -> tuple[Tensor, Residual]:
    """Reduce by signSGD with majority vote (Bernstein et al., ICML 2018): +-1, float32; a tie is plus. No residual.

    All of it is NaN if any worker has NaN or infinity.
    """
    scale = torch.where(torch.isfinite(x).all(), 1.0, torch.nan)
    votes = torch.zeros(len(x), dtype=torch.int32, device=x.device)
    finite = True
    for theirs, plus in _everyone(peers, x, scale):
        votes += plus
        finite = finite and bool(torch.isfinite(theirs))
    majority = (2 * votes >= peers.workers).to(torch.float32).mul_(2).sub_(1)
    return majority if finite else majority.fill_(torch.nan), lambda: torch.zeros_like(majority)


def ef_sign(peers: Peers, x: Tensor, number: int) -> tuple[Tensor, Residual]:
    """Reduce by EF-signSGD (Karimireddy et al., ICML 2019): a worker sends (|x|_1 / length) sign(x).

    Returns the mean of that over the workers, float32, and a function for what it leaves out of x. All of the mean is
    NaN if any worker has NaN or infinity.
    """
    x = x.detach().to(torch.float32)
    # Sums of large float32 values may be beyond float32, and their means are not.
    magnitude = x.abs().mean(dtype=torch.float64).to(torch.float32)
    scale = torch.where(torch.isfinite(magnitude), magnitude, torch.nan)
    total = torch.zeros_like(x)
    for theirs, plus in _everyone(peers, x, scale):
        total += _signed(plus, theirs / peers.workers)
    return total, lambda: x - _signed((x >= 0).to(torch.uint8), scale)


def _everyone(peers: Peers, x: Tensor, scale: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return every worker's scale and signs, by rank."""
    message = torch.cat([scale.to(torch.float32).reshape(1).view(torch.uint8), pack(x >= 0)])
    messages = peers.gather(message)
    scales = torch.stack([one[:_SCALE_BYTES] for one in messages]).view(torch.float32).view(-1)
    signs = (unpack(one[_SCALE_BYTES:], len(x)) for one in messages)
    return list(zip(scales, signs, strict=True))


def _signed(plus: Tensor, scale: Tensor) -> Tensor:
    """Return +-scale by signs, float32."""
    return plus.to(torch.float32).mul_(2).sub_(1).mul_(scale)


def _shifts(device: torch.device) -> Tensor:
    return torch.arange(7, -1, -1, dtype=torch.uint8, device=device)
