# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Fixed point with an agreed exponent: never out of range, within its error bound, exact where it can be."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from helpers.codec.codecs import add_elements
from hypothesis import given, settings
from hypothesis import strategies as st
from sumwire.codec.errors import CodecError
from sumwire.codec.sum32 import CHUNK_VALUES, Sum32Codec, pack_elements, scale_bits, unpack_elements
from torch import Tensor

INT32_MAX = 2**31 - 1


def means(tensors: list[Tensor]) -> list[Tensor]:
    """The result on every worker; with the residual it must account for the input."""
    codec = Sum32Codec(workers=len(tensors))
    rounds = [codec.begin(x, 0, 0) for x in tensors]
    agreed = np.max([round_.preliminary() for round_ in rounds], axis=0)
    words = add_elements([round_.encode(agreed) for round_ in rounds])
    counts = np.full(len(words), len(tensors), np.uint8)
    return [round_.decode(words, counts) for round_ in rounds]


def test_layout_is_big_endian_elements() -> None:
    elements = np.array([1, -1, 2**31 - 1, -(2**31), *range(253)], np.int32)
    packed = pack_elements(elements)
    assert packed.shape == (2, 8, 128)
    assert packed[0, 0, :8].tolist() == [0, 0, 0, 1, 255, 255, 255, 255]
    assert packed[1].reshape(-1)[:8].tolist() == [0, 0, 0, 252, 0, 0, 0, 0]
    assert np.array_equal(unpack_elements(packed, len(elements)), elements)
    with pytest.raises(CodecError, match="int32"):
        pack_elements(elements.astype(np.int64))


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7, 8, 16, 100, 255])
def test_scale_is_the_largest_that_cannot_overflow(workers: int) -> None:
    bits = scale_bits(workers)
    assert workers * 2**bits <= INT32_MAX < workers * 2 ** (bits + 1)


@pytest.mark.parametrize("workers", [1, 2, 4, 5, 8])
def test_largest_values_of_all_workers_do_not_overflow(workers: int) -> None:
    """The largest float64 below a power of two rounds up to it: the worst case."""
    x = torch.full((300,), math.nextafter(2.0, 0.0), dtype=torch.float64)
    x[::2] *= -1
    for result in means([x] * workers):
        torch.testing.assert_close(result, x, rtol=1e-6, atol=0)


@settings(max_examples=60)
@given(
    st.lists(
        st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=5, max_size=5),
        min_size=1,
        max_size=6,
    )
)
def test_error_is_within_the_bound(rows: list[list[float]]) -> None:
    tensors = [torch.tensor(row, dtype=torch.float32) for row in rows]
    results = means(tensors)
    largest = max(abs(value) for row in rows for value in row)
    half_unit = Fraction(largest) / 2 ** scale_bits(len(rows))
    for i in range(5):
        exact = sum((Fraction(row[i]) for row in rows), Fraction(0)) / len(rows)
        got = Fraction(float(results[0][i]))
        # And one rounding to float32: half a unit in its last place, no smaller than the subnormals'.
        assert abs(got - exact) <= half_unit + max(abs(exact) / 2**24, Fraction(1, 2**150))
    for result in results:
        assert torch.equal(result, results[0])


def test_integers_of_one_block_are_exact() -> None:
    data = np.random.default_rng(1).integers(-(2**20), 2**20, (4, 1000))
    [result, *_] = means([torch.tensor(row, dtype=torch.float64) for row in data])
    assert torch.equal(result * 4, torch.tensor(data.sum(axis=0), dtype=torch.float64))


@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 5000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_any_length_and_dtype(length: int, dtype: torch.dtype) -> None:
    tensors = [torch.randn(length).to(dtype) for _ in range(3)]
    [result, *_] = means(tensors)
    assert result.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    exact = torch.stack(tensors).double().mean(0)
    torch.testing.assert_close(result.double(), exact, rtol=1e-7, atol=1e-8 * 8)


def test_blocks_have_exponents_of_their_own() -> None:
    """A block of tiny values beside one of huge ones, and one of zeros, keep their precision."""
    x = torch.zeros(3 * CHUNK_VALUES)
    x[:CHUNK_VALUES] = 3e38
    x[CHUNK_VALUES : 2 * CHUNK_VALUES] = 1e-40
    [result, *_] = means([x, x])
    assert torch.equal(result, x)


def test_residual_accounts_for_the_input() -> None:
    x = torch.randn(600, dtype=torch.float64)
    codec = Sum32Codec(workers=4)
    round_ = codec.begin(x, 0, 0)
    words = round_.encode(round_.preliminary())
    sent = round_.decode(words, np.full(3, 1, np.uint8))
    torch.testing.assert_close(sent + round_.residual(), x, rtol=0, atol=1e-15)
    left_out = round_.residual(np.array([True, False, True]))
    assert torch.equal(left_out[256:512], x[256:512])


@pytest.mark.parametrize("value", [5e-324, 2.0**-1000, 1.7e308])
def test_ends_of_float64(value: float) -> None:
    """Powers that float64 itself cannot hold are in no factor."""
    x = torch.tensor([value, 0.0, -value] + [0.0] * 300, dtype=torch.float64)
    (result,) = means([x])
    torch.testing.assert_close(result, x, rtol=1e-8, atol=0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
def test_block_that_is_not_finite_is_nan_on_all_workers(bad: float, dtype: torch.dtype) -> None:
    good = [torch.randn(600, generator=torch.Generator().manual_seed(seed)).to(dtype) for seed in range(2)]
    poisoned = good[0].clone()
    poisoned[300] = bad
    results = means([poisoned, good[1]])
    assert torch.equal(results[0].isnan(), torch.arange(600).div(256, rounding_mode="floor") == 1)
    assert np.array_equal(results[0].numpy().view(np.uint8), results[1].numpy().view(np.uint8))
    spoiled = results[0].isnan()
    assert torch.equal(results[0][~spoiled], means(good)[0][~spoiled])


def test_bad_input_is_refused() -> None:
    codec = Sum32Codec(workers=4)
    round_ = codec.begin(torch.ones(1), 0, 0)
    with pytest.raises(CodecError, match="no smaller"):
        round_.encode(np.zeros(1, np.uint32))
    for exponent in (2048 + 1025, 2**31):
        with pytest.raises(CodecError, match="at most 3072"):
            round_.encode(np.full(1, exponent, np.uint32))
