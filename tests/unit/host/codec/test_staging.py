# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which tensors are brought to a processor: test_cuda and tests/integration have a GPU for it."""

from __future__ import annotations

import torch
from sumwire.codec.base import staged
from sumwire.codec.sign import EfSignCodec, SignCodec, VoteCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.tables import solve
from sumwire.codec.thc import ThcCodec
from sumwire.codec.thc_wide import wide_codec


def test_a_processor_keeps_its_tensors() -> None:
    x = torch.ones(100)
    assert staged(ThcCodec(solve(4, 30, 1 / 32), job=3, worker=1), x) is x


def test_codecs_of_many_operations_want_it() -> None:
    """Signs are one comparison a value, which a GPU does on the way."""
    codecs = [ThcCodec(solve(4, 30, 1 / 32), job=3, worker=1), wide_codec(workers=2, job=3, worker=1)]
    assert all(codec.staged for codec in (*codecs, Sum32Codec(workers=2)))
    assert not any(codec.staged for codec in (SignCodec(), VoteCodec(), EfSignCodec(workers=2)))
