# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every codec in parts: the same words, result and residual as whole, in any order, straight into packet buffers."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
import torch
from helpers.codec.codecs import CODECS
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sumwire.codec.base import CodecRound
from sumwire.codec.errors import CodecError, CountError, StageError
from torch import Tensor

HEADER_BYTES = 37


def begin(name: str, x: Tensor) -> CodecRound:
    return CODECS[name]().begin(x, sequence=2, bucket=5)


def some_result(round_: CodecRound, name: str, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Words that a switch could send, of any sums, and counts that allow them, some of them 0."""
    generator = np.random.default_rng(seed)
    words = generator.integers(0, 256, (round_.chunks, words_down(name), 128), dtype=np.uint8)
    if name.startswith("thc"):
        words[:, :3] = 0  # sums below 32, from two workers
    if name == "naive4":
        words[:, :4] = 0  # below 16, and two workers may send 28
    counts = generator.integers(0, 3, round_.chunks)
    if name.startswith("thc") or name == "naive4":
        counts[counts == 1] = 2
    return words, counts


def words_down(name: str) -> int:
    return CODECS[name]().info.words_down


def packets(chunks: int, words: int) -> NDArray[np.uint8]:
    """Payloads inside packets of an odd length behind odd headers."""
    frames = np.zeros((chunks, HEADER_BYTES + words * 128 + 6), np.uint8)
    inside = frames[:, HEADER_BYTES : HEADER_BYTES + words * 128].reshape(chunks, words, 128)
    assert not chunks or np.shares_memory(inside, frames)
    return inside


def cut(round_: CodecRound, borders: set[int]) -> list[tuple[int, int]]:
    """Parts with borders at (some multiple of) the grain."""
    inner = {border * round_.grain for border in borders}
    steps = sorted({0, round_.chunks} | {border for border in inner if border < round_.chunks})
    return list(pairwise(steps))


@pytest.mark.parametrize("name", CODECS)
@settings(max_examples=12)
@given(
    length=st.integers(0, 40_000),
    borders=st.sets(st.integers(1, 12), max_size=5),
    order=st.randoms(use_true_random=False),
    seed=st.integers(0, 1000),
)
def test_parts_are_the_whole(name: str, length: int, borders: set[int], order: random.Random, seed: int) -> None:
    x = torch.randn(length, generator=torch.Generator().manual_seed(seed))
    whole, parted = begin(name, x), begin(name, x.clone())
    agreed = whole.preliminary()
    words = whole.encode(agreed)
    parts = cut(parted, borders)
    order.shuffle(parts)
    out = packets(whole.chunks, words.shape[1])
    for first, last in parts:
        parted.encode_into(agreed, first, last, out[first:last])
    assert np.array_equal(out, words)
    down, counts = some_result(whole, name, seed)
    received = packets(whole.chunks, words_down(name))
    received[:] = down
    order.shuffle(parts)
    for first, last in parts:
        parted.decode_into(first, last, received[first:last], counts[first:last])
    assert torch.equal(parted.result, whole.decode(down, counts))
    included = counts > 0
    assert torch.equal(parted.residual(included), whole.residual(included))


@pytest.mark.parametrize("name", CODECS)
def test_borders_are_multiples_of_the_grain(name: str) -> None:
    round_ = begin(name, torch.ones(100_000))
    agreed, grain, words = round_.preliminary(), round_.grain, CODECS[name]().info.words_up
    wrong = [(0, 0), (-grain, grain), (0, round_.chunks + grain), (grain, 0)]
    if grain > 1:
        wrong += [(1, round_.chunks), (0, grain - 1)]
    for first, last in wrong:
        out = np.zeros((max(last - first, 0), words, 128), np.uint8)
        with pytest.raises(StageError, match="no part"):
            round_.encode_into(agreed, first, last, out)
        with pytest.raises(StageError, match="no part"):
            round_.decode_into(first, last, out, np.zeros(len(out), np.int64))


@pytest.mark.parametrize("name", CODECS)
def test_every_step_once_and_in_order(name: str) -> None:
    round_ = begin(name, torch.ones(100_000))
    agreed, grain = round_.preliminary(), round_.grain
    words = np.empty((grain, CODECS[name]().info.words_up, 128), np.uint8)
    zeros, nobody = np.zeros((grain, words_down(name), 128), np.uint8), np.zeros(grain, np.int64)
    with pytest.raises(StageError, match="comes after encode"):
        round_.decode_into(0, grain, zeros, nobody)
    with pytest.raises(StageError, match="comes after encode"):
        round_.residual()
    round_.encode_into(agreed, 0, grain, words)
    with pytest.raises(StageError, match="already encoded"):
        round_.encode_into(agreed, 0, grain, words)
    round_.decode_into(0, grain, zeros, nobody)
    with pytest.raises(StageError, match="already decoded"):
        round_.decode_into(0, grain, zeros, nobody)
    if grain < round_.chunks:
        with pytest.raises(StageError, match=f"{round_.chunks - grain} of {round_.chunks} chunks"):
            _ = round_.result
    else:
        assert not round_.result.any()


@pytest.mark.parametrize("name", CODECS)
def test_buffers_of_another_shape(name: str) -> None:
    round_ = begin(name, torch.ones(3000))
    agreed, chunks = round_.preliminary(), round_.chunks
    up, down = CODECS[name]().info.words_up, words_down(name)
    for out in (
        np.zeros((chunks, up + 1, 128), np.uint8),
        np.zeros((chunks + 1, up, 128), np.uint8),
        np.zeros((chunks, up, 128), np.int8),
        np.zeros((chunks, up, 256), np.uint8)[:, :, ::2],
        np.frombuffer(bytes(chunks * up * 128), np.uint8).reshape(chunks, up, 128),
        np.zeros((chunks, 2 * up, 128), np.uint8)[:, ::2],
    ):
        with pytest.raises(CodecError, match="payload chunks"):
            round_.encode_into(agreed, 0, chunks, out)
    round_.encode(agreed)
    nobody = np.zeros(chunks, np.int64)
    with pytest.raises(CodecError, match="result chunks"):
        round_.decode_into(0, chunks, np.zeros((chunks, down, 127), np.uint8), nobody)
    words = np.zeros((chunks, down, 128), np.uint8)
    for counts in (np.zeros(chunks + 1, np.int64), np.zeros(chunks), np.full(chunks, -1)):
        with pytest.raises(CountError):
            round_.decode_into(0, chunks, words, counts)
    with pytest.raises(CodecError, match="mask"):
        round_.residual(np.ones(chunks + 1, np.bool_))
