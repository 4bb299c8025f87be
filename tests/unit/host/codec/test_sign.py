# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packing of sign bits, and the codecs on them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch
from helpers.codec.codecs import add_elements
from numpy.typing import NDArray
from sumwire.codec.base import CodecRound
from sumwire.codec.errors import CodecError
from sumwire.codec.sign import EfSignCodec, SignCodec, SsdmCodec, VoteCodec, pack_signs, signs, unpack_signs
from sumwire.codec.tensors import result_dtype
from sumwire.job.codec_operation import CodecOperation, CodecOptions
from sumwire.job.gloo import Fallback
from sumwire.job.operations import HandedOut
from sumwire.transport.stats import JobStats
from torch import Tensor

LENGTHS = [0, 1, 7, 8, 9, 1024, 2047, 2048, 2049, 8191, 8192, 8193, 30_000]


def random_signs(length: int) -> NDArray[np.bool_]:
    return np.random.default_rng(length).random(length) < 0.5


@pytest.mark.parametrize("words", [2, 8])
@pytest.mark.parametrize("length", LENGTHS)
def test_every_sign_has_its_bit(length: int, words: int) -> None:
    """Value i is bit i from the left over the words of its chunk; what pads the last chunk is not read."""
    plus = random_signs(length)
    packed = pack_signs(plus, words)
    per_chunk = words * 1024
    assert packed.shape == (-(-length // per_chunk), words, 128)
    for i in {*range(min(length, 20)), *range(max(0, length - 20), length)}:
        chunk, bit = divmod(i, per_chunk)
        byte = packed[chunk, bit // 1024, bit % 1024 // 8]
        assert bool(byte >> (7 - bit % 8) & 1) == plus[i]
    assert np.array_equal(unpack_signs(packed, length), plus)
    flipped = packed.copy().reshape(-1)
    flipped[-(-length // 8) :] = 0xFF
    assert np.array_equal(unpack_signs(flipped.reshape(packed.shape), length), plus)


def test_zero_of_either_sign_is_plus() -> None:
    x = torch.tensor([0.0, -0.0, 1e-45, -1e-45, 5.0, -5.0])
    assert signs(x).tolist() == [True, True, True, False, True, False]


@pytest.mark.parametrize("wrong", [np.zeros(3, np.uint8), np.zeros((2, 2), np.bool_)])
def test_what_is_no_sign_vector_is_refused(wrong: NDArray[np.bool_]) -> None:
    with pytest.raises(CodecError, match="needs bool"):
        pack_signs(wrong, 8)


def test_more_signs_than_there_are_is_refused() -> None:
    with pytest.raises(CodecError, match="at least 2049"):
        unpack_signs(np.zeros((1, 2, 128), np.uint8), 2049)


def full_counts(words: NDArray[np.uint8], workers: int) -> NDArray[np.uint8]:
    return np.full(len(words), workers, np.uint8)


def alone(round_: CodecRound) -> Tensor:
    """The result of a job of one worker."""
    words = round_.encode(round_.preliminary())
    return round_.decode(words, full_counts(words, 1))


@pytest.mark.parametrize("length", [0, 1, 2048, 5000])
def test_vote_of_one_is_its_signs(length: int) -> None:
    x = torch.randn(length)
    round_ = VoteCodec().begin(x, 0, 0)
    assert alone(round_).tolist() == [1.0 if value >= 0 else -1.0 for value in x.tolist()]
    assert not round_.residual().any()


@pytest.mark.parametrize("length", [1, 8192, 20_000])
def test_ef_sign_and_its_memory_are_the_input(length: int) -> None:
    """What the worker stands for plus its memory is x; the scale is the mean magnitude."""
    x = torch.randn(length, dtype=torch.float64)
    round_ = EfSignCodec(workers=1).begin(x, 0, 0)
    result = alone(round_)
    assert torch.unique(result.abs()).tolist() == [pytest.approx(float(x.abs().mean()), rel=1e-6)]
    assert torch.equal(result > 0, x >= 0)
    torch.testing.assert_close(result + round_.residual(), x, rtol=0, atol=1e-12)


def test_ef_sign_carries_each_workers_scale() -> None:
    """Scales 1, 2 and 8: the largest is agreed on, and counted in tenths for three workers; the rest is left over."""
    tensors = [torch.tensor([magnitude, -magnitude]) for magnitude in (1.0, 2.0, 8.0)]
    rounds = [EfSignCodec(workers=3).begin(x, 0, 0) for x in tensors]
    agreed = np.max([round_.preliminary() for round_ in rounds], axis=0)
    words = [round_.encode(agreed) for round_ in rounds]
    summed = add_elements(words)
    result = rounds[0].decode(summed, full_counts(summed, 3))
    torch.testing.assert_close(result, torch.tensor([1.0, -1.0]) * (0.8 + 1.6 + 8.0) / 3)
    left = sum(round_.residual() for round_ in rounds)
    torch.testing.assert_close(3 * result + left, sum(tensors))
    assert torch.equal(rounds[0].residual(np.array([False])), tensors[0])
    with pytest.raises(CodecError, match="count 4: a field holds at most 3"):
        rounds[0].decode(summed, full_counts(summed, 4))


def test_ef_sign_that_others_agreed_without_stands_for_their_scale() -> None:
    round_ = EfSignCodec(workers=1).begin(torch.full((10,), 4.0), 0, 0)
    round_.encode(np.array([1.0], np.float32).view(np.uint32))
    assert round_.residual().tolist() == [3.0] * 10


def test_ef_sign_magnitude_beyond_float32_counts_as_not_finite() -> None:
    round_ = EfSignCodec(workers=1).begin(torch.full((3,), 1e300, dtype=torch.float64), 0, 0)
    assert alone(round_).isnan().all()


def test_ef_sign_of_one_worker_that_is_not_finite_spoils_all() -> None:
    tensors = [torch.ones(9000), torch.full((9000,), 2.0)]
    tensors[1][8999] = float("nan")
    rounds = [EfSignCodec(workers=2).begin(x, 0, 0) for w, x in enumerate(tensors)]
    agreed = np.maximum(*(round_.preliminary() for round_ in rounds))
    for round_ in rounds:
        words = round_.encode(agreed)
        assert round_.decode(words, full_counts(words, 2)).isnan().all()
        assert round_.residual().isfinite().all()


@pytest.mark.parametrize(("codec", "chunk"), [(SignCodec(), 8192), (VoteCodec(), 2048)])
def test_chunk_that_is_not_finite_has_the_flag_and_is_nan(codec: SignCodec | VoteCodec, chunk: int) -> None:
    x = torch.ones(150_000)
    x[[chunk, 149_999]] = torch.tensor([float("inf"), float("nan")])
    round_ = codec.begin(x, 0, 0)
    words = round_.encode(round_.preliminary())
    assert round_.outside is not None
    assert np.flatnonzero(round_.outside).tolist() == [1, 149_999 // chunk]
    down = words[:, : codec.info.words_down]
    round_.decode_into(0, round_.chunks, down, full_counts(words, 1), round_.outside)
    spoiled = torch.isin(torch.arange(150_000).div(chunk, rounding_mode="floor"), torch.tensor([1, 149_999 // chunk]))
    assert torch.equal(round_.result.isnan(), spoiled)


@pytest.mark.parametrize("codec", [SignCodec(), VoteCodec(), SsdmCodec(job=1, worker=0)])
def test_ordinary_all_reduce_passes_what_is_not_finite_on(codec: SignCodec | VoteCodec | SsdmCodec) -> None:
    x = torch.tensor([1.0, float("nan"), -1.0, float("inf")])
    spoiled = codec.ordinary(x, lambda mine: mine).isnan().tolist()
    assert spoiled == ([True] * 4 if isinstance(codec, SsdmCodec) else [False, True, False, True])


def test_ssdm_signs_are_the_direction_in_the_mean() -> None:
    x = torch.tensor([3.0, -4.0, 0.0, 0.0, 12.0])
    codec, rounds = SsdmCodec(job=1, worker=0), 4000
    total = torch.zeros(5)
    for sequence in range(rounds):
        total += alone(codec.begin(x, sequence, 0))
    # Five standard deviations of a mean of that many +-1.
    torch.testing.assert_close(total / rounds, x / 13, rtol=0, atol=5 / rounds**0.5)


def test_ssdm_draws_are_each_workers_own_and_repeatable() -> None:
    x = torch.zeros(4000)
    first, again, other = (alone(SsdmCodec(job=1, worker=w).begin(x, 0, 0)) for w in (0, 0, 1))
    assert torch.equal(first, again)
    assert abs(float((first * other).mean())) < 0.1
    assert abs(float(first.mean())) < 0.1


@pytest.mark.parametrize("codec", [VoteCodec(), EfSignCodec(workers=1), SsdmCodec(job=1, worker=0)])
def test_sign_codecs_skip_what_nobody_sent(codec: VoteCodec) -> None:
    round_ = codec.begin(torch.ones(10_000), 0, 0)
    words = round_.encode(round_.preliminary())
    counts = full_counts(words, 1)
    counts[0] = 0
    result = round_.decode(words, counts)
    chunk = codec.info.chunk_values
    assert not result[:chunk].any()
    assert bool((result[chunk:] != 0).all())


@pytest.mark.parametrize(
    ("codec", "expected"),
    [(VoteCodec(), [1.0, 1.0, -1.0]), (SsdmCodec(job=1, worker=0), [0.0, 0.3, -0.4])],
)
def test_ordinary_all_reduce_gives_the_same_kind_of_result(codec: VoteCodec, expected: list[float]) -> None:
    """A second worker has (3, 0, -4) / 5 too, but for the first value's sign."""
    x = torch.tensor([3.0, 0.0, -4.0])
    other = {1.0: [-1.0, 1.0, -1.0], 0.6: [-0.6, 0.6, 0.0]}

    def mean(own: Tensor) -> Tensor:
        return (own + torch.tensor(other[round(float(own[0]), 1)])) / 2

    assert codec.ordinary(x, mean).tolist() == pytest.approx(expected)


def test_ssdm_result_is_the_mean_of_signs_and_leaves_its_momentum() -> None:
    """Of three workers: every value is -1, -1/3, 1/3 or 1, as their own signs are counted."""
    x = torch.randn(10_000)
    rounds = [SsdmCodec(job=1, worker=w, momentum=0.5).begin(x, 0, 0) for w in range(3)]
    words = [round_.encode(round_.preliminary()) for round_ in rounds]
    alone = [round_.decode(one, full_counts(one, 1)) for round_, one in zip(rounds, words, strict=True)]
    summed = add_elements(words)
    result = rounds[0].decode(summed, full_counts(summed, 3))
    torch.testing.assert_close(result, torch.stack(alone).mean(0))
    assert torch.equal(rounds[1].residual(), x * 0.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
def test_ssdm_leaves_its_momentum_without_the_switch_too(dtype: torch.dtype) -> None:
    """After an ordinary all-reduce, and after a result that others had without this worker. What is not finite goes."""
    codec = SsdmCodec(job=1, worker=0, momentum=0.5)
    x = torch.tensor([1.0, -2.0, 3.0], dtype=dtype)
    options = {"sequence": 0, "bucket": 0, "stats": JobStats(), "options": CodecOptions()}
    fallen, late = (CodecOperation(codec, x, **cast(Any, options)) for _ in range(2))
    fallen.ordinary(cast(Fallback, _Alone()))
    late.take(HandedOut(1, torch.ones(3)), begun=False)
    for operation in (fallen, late):
        left = operation.residual()
        assert left.tolist() == [0.5, -1.0, 1.5]
        assert left.dtype == result_dtype(x)
    assert codec.left_unsent(torch.tensor([torch.nan, torch.inf, 4.0])).tolist() == [0.0, 0.0, 2.0]
    others = VoteCodec()
    assert others.left_by_ordinary(x).tolist() == [0.0] * 3
    assert others.left_unsent(x).tolist() == x.tolist()


class _Alone:
    """A process group with one worker."""

    def mean(self, x: Tensor, *, counts: bool = True) -> Tensor:
        return x


def test_ssdm_counts_31_workers() -> None:
    round_ = SsdmCodec(job=1, worker=0).begin(torch.ones(1), 0, 0)
    words = round_.encode(round_.preliminary())
    most = (words.view(">u4") * 31).astype(">u4").view(np.uint8)
    assert abs(round_.decode(most, full_counts(words, 31)).item()) == 1.0
    with pytest.raises(CodecError, match="a field holds at most 31"):
        round_.decode(words, full_counts(words, 32))
