# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The mean by a ring over gloo that sends a byte a value, as published code for outer steps does.

Every hop sends 8-bit integers with a float32 scale for each block of values. Sums are rounded again at each hop, means
once, so all ranks have the same bits.
"""

from __future__ import annotations

from typing import Final

import torch
import torch.distributed as dist
from torch import Tensor

BLOCK: Final = 4096
_LARGEST: Final = 127.0
_SCALE_BYTES: Final = 4


def packed(x: Tensor) -> Tensor:
    """float32 (blocks, BLOCK) as bytes: the scales, then a signed byte for each value."""
    scales = x.abs().amax(1, keepdim=True).clamp_(min=torch.finfo(torch.float32).tiny) / _LARGEST
    values = (x / scales).round_().to(torch.int8)
    return torch.cat([scales.reshape(-1).view(torch.uint8), values.reshape(-1).view(torch.uint8)])


def unpacked(content: Tensor) -> Tensor:
    """What :func:`packed` has packed, as rounded: float32 (blocks, BLOCK)."""
    blocks = len(content) // (BLOCK + _SCALE_BYTES)
    scales = content[: _SCALE_BYTES * blocks].view(torch.float32)
    return content[_SCALE_BYTES * blocks :].view(torch.int8).view(blocks, BLOCK).to(torch.float32) * scales[:, None]


def ring_mean(x: Tensor) -> Tensor:
    """The mean of all ranks' flat float32 tensors, with equal bits on all of them."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    blocks = -(-len(x) // (ranks * BLOCK))
    pieces = torch.zeros(ranks, blocks, BLOCK)
    pieces.view(-1)[: len(x)] = x
    for hop in range(ranks - 1):
        mine, theirs = (rank - hop) % ranks, (rank - hop - 1) % ranks
        pieces[theirs] += unpacked(_passed_on(packed(pieces[mine])))
    own = (rank + 1) % ranks
    content = packed(pieces[own] / ranks)
    pieces[own] = unpacked(content)
    for hop in range(ranks - 1):
        content = _passed_on(content)
        pieces[(rank - hop) % ranks] = unpacked(content)
    return pieces.view(-1)[: len(x)]


def _passed_on(content: Tensor) -> Tensor:
    """Send to the next rank, and return what the one before sends."""
    ranks, rank = dist.get_world_size(), dist.get_rank()
    received = torch.empty_like(content)
    sending = dist.isend(content, (rank + 1) % ranks)
    dist.recv(received, (rank - 1) % ranks)
    assert sending is not None
    sending.wait()
    return received
