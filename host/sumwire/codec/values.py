# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of the tensors that codecs without rotation take."""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from sumwire.codec.errors import CodecError, NonFiniteError

DTYPES: Final = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def check_kind(x: Tensor) -> Tensor:
    """Return the flat tensor, detached. Raises CodecError for another shape or dtype."""
    if x.dim() != 1 or x.dtype not in DTYPES:
        raise CodecError(f"{x.dtype} tensor of shape {tuple(x.shape)}: needs a flat one of {DTYPES}")
    return x.detach()


def check_values(x: Tensor, where: str) -> Tensor:
    """Return the flat tensor, detached. Raises CodecError as `check_kind`, and NonFiniteError for NaN or Inf."""
    x = check_kind(x)
    # Both ends are NaN if any value is. This takes one pass, isfinite several.
    if len(x) and not all(math.isfinite(end) for end in torch.aminmax(x)):
        raise non_finite(x, where)
    return x


def non_finite(x: Tensor, where: str) -> NonFiniteError:
    """Return the error that counts x's NaN and Inf and names the first. x must have some."""
    bad = ~torch.isfinite(x)
    nans = int(torch.isnan(x).sum())
    return NonFiniteError(nans, int(bad.sum()) - nans, int(bad.nonzero()[0, 0]), where)


def result_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype of results: float64 for float64, else float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32
