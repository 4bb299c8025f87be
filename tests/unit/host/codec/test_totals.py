# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Results that are sums instead of means."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.codec.codecs import TABLE, gaussian
from sumwire.codec.base import CodecRound, GradientCodec
from sumwire.codec.errors import CodecError, StageError
from sumwire.codec.oracles import sum_words
from sumwire.codec.sign import SignCodec, pack_signs
from sumwire.codec.sum32 import Sum32Codec, pack_elements
from sumwire.codec.thc import ThcCodec

WORKERS = 3


@pytest.mark.parametrize("native", ["1", "0"])
@pytest.mark.parametrize("missing", [(), (1, 6)])
def test_a_sum_by_thc(monkeypatch: pytest.MonkeyPatch, native: str, missing: tuple[int, ...]) -> None:
    """Of the workers' own parts. Where one is missing, the mean of the others counts for it."""
    monkeypatch.setenv("SUMWIRE_NATIVE", native)
    xs = [gaussian(10_000, seed) for seed in range(WORKERS)]
    rounds: list[CodecRound] = [
        ThcCodec(TABLE, job=1, worker=worker, block=1024).begin(x, 0, 0) for worker, x in enumerate(xs)
    ]
    agreed = np.maximum.reduce([one.preliminary() for one in rounds])
    up = [one.encode(agreed) for one in rounds]
    words, counts = sum_words(TABLE, up), np.full(rounds[0].chunks, WORKERS)
    for chunk in missing:
        words[chunk] = sum_words(TABLE, up[:2])[chunk]
        counts[chunk] = 2
    rounds[0].multiply_by(WORKERS)
    total = rounds[0].decode(words, counts)
    parts = [x - one.residual() for x, one in zip(xs, rounds, strict=True)]
    expected = parts[0] + parts[1] + parts[2]
    for chunk in missing:
        here = slice(1024 * chunk, 1024 * (chunk + 1))
        expected[here] = (parts[0] + parts[1])[here] * WORKERS / 2
    torch.testing.assert_close(total, expected, rtol=0, atol=1e-5)


def test_a_sum_of_integers_part_by_part() -> None:
    """Chunk by chunk, over the tensor itself."""
    x = torch.tensor([3.0, -5.0]).repeat_interleave(256)
    one = Sum32Codec(workers=2).begin(x, 0, 0)
    words = one.encode(one.preliminary())
    one.multiply_by(2)
    one.write_to(x)
    for chunk in (1, 0):
        one.decode_into(chunk, chunk + 1, words[chunk : chunk + 1], np.array([1]))
    assert torch.equal(x, torch.tensor([6.0, -10.0]).repeat_interleave(256))


def test_a_sum_with_a_value_that_is_not_finite() -> None:
    x = torch.ones(300)
    x[280] = torch.inf
    one = Sum32Codec(workers=2).begin(x, 0, 0)
    one.encode(one.preliminary())
    one.multiply_by(2)
    one.decode_into(0, 2, pack_elements(np.zeros(512, np.int32)), np.array([2, 2]))
    assert one.result[:256].tolist() == [0.0] * 256
    assert bool(one.result[256:].isnan().all())


def test_a_sum_of_signs() -> None:
    x = torch.where(torch.arange(9000) % 3 == 0, 1.0, -1.0)
    one = SignCodec().begin(x, 0, 0)
    one.encode(np.zeros(0, np.uint32))
    one.multiply_by(4)
    words = pack_signs((x > 0).numpy(), SignCodec.info.words_down)
    assert torch.equal(one.decode(words, np.full(one.chunks, 4)), 4 * x)


@pytest.mark.parametrize("codec", [ThcCodec(TABLE, job=1, worker=0), Sum32Codec(workers=2)])
def test_factors_that_are_refused(codec: GradientCodec) -> None:
    one = codec.begin(torch.ones(10), 0, 0)
    with pytest.raises(CodecError, match="factor=0"):
        one.multiply_by(0)
    one.encode(one.preliminary())
    one.decode(np.zeros((1, codec.info.words_down, 128), np.uint8), np.array([2]))
    with pytest.raises(StageError, match="before decode"):
        one.multiply_by(2)
