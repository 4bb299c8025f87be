# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Naive quantization: what travels, what comes back, and what is left."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.codec.codecs import gaussian
from sumwire.codec.errors import CodecError, CountError
from sumwire.codec.layout import GROUP_VALUES, unpack_index_planes
from sumwire.codec.naive import NaiveCodec
from sumwire.codec.oracles import sum_words
from sumwire.codec.tables import uniform
from torch import Tensor

TABLE = uniform(4, 1 / 32)
LENGTH = 2500


def exchanged(contributions: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """The mean, and what each worker keeps."""
    rounds = [NaiveCodec(TABLE).begin(x, 0, 0) for x in contributions]
    agreed = np.maximum.reduce([one.preliminary() for one in rounds])
    summed = sum_words(TABLE, [one.encode(agreed) for one in rounds])
    mean = rounds[0].decode(summed, np.full(len(summed), len(rounds)))
    return mean, [one.residual() for one in rounds]


def test_a_value_is_the_nearest_of_15_levels_of_its_group() -> None:
    x = torch.zeros(LENGTH)
    x[:5] = torch.tensor([7.0, 3.4, -3.6, -7.0, 0.4])
    x[GROUP_VALUES] = 0.7
    round_ = NaiveCodec(TABLE).begin(x, 0, 0)
    indices = unpack_index_planes(round_.encode(round_.preliminary())).reshape(-1)
    assert indices[:6].tolist() == [14, 10, 3, 0, 7, 7]
    assert indices[GROUP_VALUES] == 14, "a group has its own scale"
    torch.testing.assert_close(round_.residual()[:6], torch.tensor([0.0, 0.4, 0.4, 0.0, 0.4, 0.0]))


def test_a_mean_and_what_is_left_make_up_the_whole() -> None:
    contributions = [gaussian(LENGTH, seed) * 10 ** (seed - 2) for seed in range(4)]
    mean, left = exchanged(contributions)
    whole = torch.stack(contributions).mean(0)
    torch.testing.assert_close(mean + torch.stack(left).mean(0), whole)
    steps = torch.stack(contributions).abs().amax(0).max() / 7
    assert 0 < float((mean - whole).abs().max()) <= float(steps) / 2


def test_what_does_not_fit_is_refused() -> None:
    codec = NaiveCodec(TABLE)
    round_ = codec.begin(gaussian(LENGTH), 0, 0)
    with pytest.raises(CodecError, match="magnitudes of shape"):
        round_.encode(np.zeros(3, np.uint32))
    words = sum_words(TABLE, [round_.encode(round_.preliminary())])
    with pytest.raises(CountError, match=f"count {TABLE.max_workers + 1}: must be 0"):
        round_.decode(words, np.full(len(words), TABLE.max_workers + 1))
    words[0, 0, 0] = 255
    with pytest.raises(CodecError, match="a contributor adds at most 14"):
        round_.decode(words, np.ones(len(words), np.int64))


def test_a_worker_without_part_in_the_agreement_sends_the_largest_level() -> None:
    round_ = NaiveCodec(TABLE).begin(torch.full((LENGTH,), 10.0), 0, 0)
    agreed = np.full(round_.preliminary().shape, np.float32(7.0).view(np.uint32))
    indices = unpack_index_planes(round_.encode(agreed)).reshape(-1)[:LENGTH]
    assert set(indices.tolist()) == {14}
    torch.testing.assert_close(round_.residual(), torch.full((LENGTH,), 3.0))
