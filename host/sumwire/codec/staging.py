# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors of GPUs that processors encode.

Packets are made and read by processors, so what a codec sends and receives lies in their memory. With kernels, a codec
that rotates or rounds is faster there too, the copies both ways included, than as operations of torch on the GPU
(docs/measurements.md).
"""

from __future__ import annotations

import torch
from torch import Tensor

from sumwire.codec.base import GradientCodec
from sumwire.codec.kernels import kernels
from sumwire.codec.values import expect_residual, residual_expected


def staged(codec: GradientCodec, x: Tensor) -> Tensor:
    """Return what the codec is to be given for a flat tensor: itself, or for one on a GPU its copy in pinned memory, if
    that is faster. Results have the same bits."""
    if not x.is_cuda or not codec.staged or x.layout != torch.strided:
        return x
    if kernels(torch.empty(0, dtype=x.dtype, device="cpu")) is None:
        return x
    # Pinned memory belongs to a context: that of this GPU, whichever is the thread's current one.
    with torch.cuda.device(x.device):
        host = torch.empty(x.shape, dtype=x.dtype, pin_memory=True, device="cpu")
    host.copy_(x.detach())
    return expect_residual(host) if residual_expected(x) else host
