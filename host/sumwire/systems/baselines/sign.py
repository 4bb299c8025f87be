# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sign methods without a switch: all workers' signs, eight per byte, by all-gather.

A set bit is plus, the first value is in the most significant bit, and zero of either sign is plus. A message is a
float32 scale and the signs. The scale is NaN if the worker's values are not all finite. Then the result is NaN.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sumwire.job.job import Residual
from sumwire.training.reductions import Peers

_SCALE_BYTES = 4


def pack(plus: Tensor) -> Tensor:
    """Return signs, bool of shape (length,), as uint8 with eight per byte. The rest of the last byte is 0."""
    bits = torch.nn.functional.pad(plus.to(torch.uint8), (0, -len(plus) % 8))
    return (bits.view(-1, 8) << _shifts(plus.device)).sum(1, dtype=torch.uint8)


def unpack(octets: Tensor, length: int) -> Tensor:
    """Return the signs that `pack` has packed: uint8, 0 or 1, shape (length,)."""
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
