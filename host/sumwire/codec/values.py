# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What codecs without rotation ask of a tensor."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from sumwire.codec.errors import CodecError, NonFiniteError

DTYPES: Final = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def check_kind(x: Tensor) -> Tensor:
    """The flat tensor, detached. Raises CodecError for another shape or dtype."""
    if x.dim() != 1 or x.dtype not in DTYPES:
        raise CodecError(f"{x.dtype} tensor of shape {tuple(x.shape)}: needs a flat one of {DTYPES}")
    return x.detach()


def check_values(x: Tensor, where: str) -> Tensor:
    """`check_kind`, and NonFiniteError for NaN or Inf."""
    x = check_kind(x)
    # NaN passes through both; one pass, where isfinite would take several.
    if len(x) and not all(math.isfinite(end) for end in torch.aminmax(x)):
        raise non_finite(x, where)
    return x


def non_finite(x: Tensor, where: str) -> NonFiniteError:
    """The error that counts and places x's NaN and Inf, of which there must be some."""
    bad = ~torch.isfinite(x)
    nans = int(torch.isnan(x).sum())
    return NonFiniteError(nans, int(bad.sum()) - nans, int(bad.nonzero()[0, 0]), where)


def result_dtype(x: Tensor) -> torch.dtype:
    """Of what comes back: float64 is kept, all else is float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32
