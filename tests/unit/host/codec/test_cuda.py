# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every codec on a GPU: the bits of the native kernels, and of torch on a processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pytest
import torch
from helpers.codec.codecs import CODECS
from sumwire.codec.base import GradientCodec
from sumwire.codec.naive import NaiveCodec
from sumwire.codec.oracles import sum_words
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.tables import solve, uniform
from sumwire.codec.tensors import expect_residual
from sumwire.codec.thc import ThcCodec
from sumwire.native import SWITCH
from torch import Tensor

DEVICE = "cpu"

_HALF: Final = (torch.float16, torch.bfloat16)
ALL: dict[str, Callable[[], GradientCodec]] = {
    **CODECS,
    **{
        f"thc {bits} bits": lambda bits=bits: ThcCodec(solve(bits, 2 ** (bits + 1) - 2, 1 / 32), job=3, worker=1)
        for bits in (1, 2, 3)
    },
    "thc-uniform": lambda: ThcCodec(uniform(4, 1 / 32), job=3, worker=1),
    "sum32 clamped": lambda: Sum32Codec(workers=2, clamp=True),
}


def whole_round(make: Callable[[], GradientCodec], x: Tensor, *, expected: bool) -> list[np.ndarray]:
    """Scales, payload, result and residual of one worker, whose contribution is the sum."""
    codec = make()
    round_ = codec.begin(expect_residual(x) if expected else x, sequence=2, bucket=5)
    own = round_.preliminary()
    words = round_.encode(own)
    if isinstance(codec, ThcCodec | NaiveCodec):
        down = sum_words(codec.table, [words])
    else:
        down = np.zeros((round_.chunks, codec.info.words_down, 128), np.uint8)
        few = min(codec.info.words_down, codec.info.words_up)
        down[:, :few] = words[:, :few]
    result = round_.decode(down, np.ones(round_.chunks, np.int64))
    assert result.device == x.device
    included = np.arange(round_.chunks) % 3 > 0
    found = [own, words, _bits(result), _bits(round_.residual())]
    if not expected:
        found.append(_bits(round_.residual(included)))
    return found


def _bits(x: Tensor) -> np.ndarray:
    # Only values have bits that are defined, not NaN.
    return torch.where(x.isnan(), torch.nan, x).cpu().numpy().view(np.uint32)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [torch.float32, *_HALF], ids=str)
@pytest.mark.few(20)
def test_a_gpu_has_the_bits_of_a_processor(name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(7)
    for length in (0, 1, 1000, 5000, 300_001):
        x = (torch.randn(length, generator=generator) * torch.logspace(-6, 2, length)).to(dtype)
        if length == 5000:
            x[17] = torch.nan
        for expected in (False, True):
            here = whole_round(ALL[name], x.clone(), expected=expected)
            there = whole_round(ALL[name], x.to("cpu"), expected=expected)
            monkeypatch.setenv(SWITCH, "0")
            plain = whole_round(ALL[name], x.clone(), expected=expected)
            monkeypatch.delenv(SWITCH)
            what = ("scales", "payload", "result", "residual", "residual of included chunks")
            for part, native, torch_, gpu in zip(what, here, plain, there, strict=False):
                assert np.array_equal(torch_, gpu), f"{part} of {length} values: torch and the GPU"
                assert np.array_equal(native, gpu), f"{part} of {length} values: C and the GPU"
