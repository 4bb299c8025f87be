# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every codec by name, and what their tests give them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire.codec.base import GradientCodec
from sumwire.codec.naive import NaiveCodec
from sumwire.codec.sign import EfSignCodec, SignCodec, SsdmCodec, VoteCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.tables import solve, uniform
from sumwire.codec.thc import ThcCodec, UnbiasedThcCodec
from sumwire.codec.thc_wide import wide_codec
from torch import Tensor

TABLE: Final = solve(4, 30, 1 / 32)
CODECS: dict[str, Callable[[], GradientCodec]] = {
    **{
        f"thc {block}": lambda block=block: ThcCodec(TABLE, job=3, worker=1, block=block)
        for block in (1024, 4096, 8192, None)
    },
    "thc-unbiased": lambda: UnbiasedThcCodec(TABLE, job=3, worker=1),
    "thc-wide": lambda: wide_codec(workers=2, job=3, worker=1),
    "thc-wide of many": lambda: wide_codec(workers=100, job=3, worker=1),
    "naive4": lambda: NaiveCodec(uniform(4, 1 / 32)),
    "sum32": lambda: Sum32Codec(workers=2),
    "sign": SignCodec,
    "vote": VoteCodec,
    "ef-sign": lambda: EfSignCodec(workers=2),
    "ssdm": lambda: SsdmCodec(job=3, worker=1),
}


def gaussian(length: int, seed: int = 0) -> Tensor:
    """Normal values, equal for an equal seed."""
    return torch.randn(length, generator=torch.Generator().manual_seed(seed))


def add_elements(contributions: Sequence[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """What a switch makes of SUM32 packets: big-endian elements of 32 bits. Fails if a sum leaves int32."""
    total = np.sum([words.view(">i4").astype(np.int64) for words in contributions], axis=0)
    assert np.abs(total).max(initial=0) <= 2**31 - 1, "a sum leaves int32"
    return np.asarray(total).astype(">i4").view(np.uint8)
