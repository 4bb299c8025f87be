# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Carried scales: the scales' chunk by the switch's own arithmetic, when they fit, and what that costs in precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.codec.codecs import TABLE, add_elements
from numpy.typing import NDArray
from sumwire.codec import layout
from sumwire.codec.base import GradientCodec
from sumwire.codec.errors import CodecError, StageError
from sumwire.codec.scales import ExponentScales, NormScales, Scales
from sumwire.codec.sum32 import EXPONENT_BIAS, EXPONENT_MAX, Sum32Codec
from sumwire.codec.tables import ThcTable, for_workers, solve
from sumwire.codec.tensors import NOT_FINITE
from sumwire.codec.thc import NORM_MAX, ThcCodec

NORMS = NormScales(TABLE.values, NORM_MAX)
EXPONENTS = ExponentScales(EXPONENT_MAX + EXPONENT_BIAS)


def table_sums(chunks: list[NDArray[np.uint8]], table: ThcTable = TABLE) -> NDArray[np.uint8]:
    """What a switch makes of THC chunks."""
    values = np.array(table.values)
    sums = sum(values[layout.unpack_index_planes(chunk[None])[0]] for chunk in chunks)
    return layout.pack_index_planes(np.asarray(sums, np.uint8)[None], layout.SUM_PLANES)[0]


def norms(*values: float) -> NDArray[np.uint32]:
    return np.array(values, np.float32).view(np.uint32)


@pytest.mark.parametrize(("workers", "count"), [(1, 128), (2, 5), (4, 32), (8, 16)])
def test_sum_of_norm_chunks_shows_the_largest(workers: int, count: int) -> None:
    rng = np.random.default_rng(workers)
    own = rng.random((workers, count), np.float32).view(np.uint32) * np.uint32(rng.integers(2))
    own[-1, 0] = NOT_FINITE
    assert count <= NORMS.room(workers)
    words = table_sums([NORMS.pack(row, worker, workers) for worker, row in enumerate(own)])
    assert np.array_equal(NORMS.unpack(words, count, workers), own.max(axis=0))


def test_a_table_of_fewer_levels_carries_no_norms() -> None:
    assert ThcCodec(solve(3, 12, 1 / 32), job=1, worker=0).scales is None
    assert ThcCodec(TABLE, job=1, worker=0).scales is not None


@pytest.mark.parametrize(("workers", "count"), [(1, 256), (4, 32), (8, 32), (100, 2)])
def test_sum_of_exponent_chunks_shows_the_largest(workers: int, count: int) -> None:
    own = np.random.default_rng(workers).integers(0, EXPONENT_MAX + EXPONENT_BIAS + 1, (workers, count), np.uint32)
    own[0, -1] = NOT_FINITE
    assert count <= EXPONENTS.room(workers)
    words = add_elements([EXPONENTS.pack(row, worker, workers) for worker, row in enumerate(own)])
    assert np.array_equal(EXPONENTS.unpack(words, count, workers), own.max(axis=0))


def test_sums_that_no_workers_can_have_sent_are_refused() -> None:
    own = norms(1.5)
    words = table_sums([NORMS.pack(own, 0, 2), NORMS.pack(own, 1, 2)])
    twice = table_sums([NORMS.pack(own, 0, 2), NORMS.pack(own, 0, 2)])
    assert np.array_equal(NORMS.unpack(words, 1, 2), own)
    for wrong, workers in ((twice, 2), (words, 1)):
        with pytest.raises(CodecError, match="scales' chunk"):
            NORMS.unpack(wrong, 1, workers)
    elements = add_elements([EXPONENTS.pack(np.array([7], np.uint32), worker, 2) for worker in (0, 1)])
    with pytest.raises(CodecError, match="scales' chunk"):
        EXPONENTS.unpack(elements, 1, 1)


@pytest.mark.parametrize(
    ("last", "now", "fits"),
    [
        (1.0, 1.0, True), (1.0, 1.23, True), (1.0, 1.24, False), (1.0, 0.76, True), (1.0, 0.74, False),
        (0.0, 0.0, True), (0.0, 1e-20, False), (1.0, 0.0, False), (1.0, float("nan"), False),
        (NORM_MAX, NORM_MAX, True),
    ],
)  # fmt: skip
def test_norms_that_fit(last: float, now: float, fits: bool) -> None:
    carried = NORMS.carried(norms(2.0, last))
    assert NORMS.fit(carried, norms(2.0, now)) is fits
    assert not NORMS.fit(carried, norms(9.0, now))


@pytest.mark.parametrize(
    ("last", "now", "fits"),
    [(50, 51, True), (50, 52, False), (50, 48, True), (50, 47, False), (50, 0, True), (0, 0, True), (0, 1, False),
     (EXPONENT_MAX + EXPONENT_BIAS, EXPONENT_MAX + EXPONENT_BIAS, True), (50, NOT_FINITE, False)],
)  # fmt: skip
def test_exponents_that_fit(last: int, now: int, fits: bool) -> None:
    carried = EXPONENTS.carried(np.array([9, last], np.uint32))
    assert EXPONENTS.fit(carried, np.array([9, now], np.uint32)) is fits


def mean_error(codec: GradientCodec, x: torch.Tensor, scales: NDArray[np.uint32], repeats: int = 1) -> float:
    """Mean squared error of one worker's tensor, as its residual tells it."""
    errors = []
    for sequence in range(repeats):
        round_ = codec.begin(x, sequence, 0)
        round_.encode(scales)
        errors.append(float(round_.residual().double().square().sum() / x.double().square().sum()))
    return float(np.mean(errors))


def carried_over(form: Scales, own: NDArray[np.uint32], factor: float) -> NDArray[np.uint32]:
    """Scales carried over from a tensor with ``factor`` times the own norms."""
    carried = form.carried((own.view(np.float32) * np.float32(factor)).view(np.uint32))
    assert form.fit(carried, own)
    return carried


@pytest.mark.parametrize(
    ("table", "stays", "rises", "falls"),
    [(TABLE, 1.0, 1.25, 1.4), *((for_workers(workers), 1.2, 1.2, 2.1) for workers in (2, 4, 8, 17))],
    ids=["published", "2 workers", "4", "8", "17"],
)
def test_error_with_carried_norms_is_bounded(table: ThcTable, stays: float, rises: float, falls: float) -> None:
    """A norm that stays, and the largest changes for which the carried one still fits. docs/host.md has the bounds."""
    codec = ThcCodec(table, job=1, worker=0)
    x = torch.randn(4 * 4096, generator=torch.Generator().manual_seed(1))
    own = codec.begin(x, 0, 0).preliminary()
    exact = mean_error(codec, x, own, 6)
    assert codec.scales is not None
    for factor, most in ((1.0, stays), (1 / 1.23, rises), (1 / 0.76, falls)):
        assert mean_error(codec, x, carried_over(codec.scales, own, factor), 6) < most * exact


def test_error_with_carried_exponents_is_bounded() -> None:
    codec = Sum32Codec(workers=4)
    x = torch.randn(256, generator=torch.Generator().manual_seed(1)).double()
    own = codec.begin(x, 0, 0).preliminary()
    for above in range(ExponentScales.SPARE + 1):
        scales = own + np.uint32(above)
        assert codec.scales.fit(scales, own)
        round_ = codec.begin(x, 0, 0)
        round_.encode(scales)
        # 2**(E - s - 1), for s = 28.
        assert float(round_.residual().abs().max()) <= 2.0 ** (int(own[0]) - EXPONENT_BIAS + above - 29)


def test_a_payload_that_counts_for_nothing_is_encoded_once_more() -> None:
    codec = ThcCodec(TABLE, job=1, worker=0, block=1024)
    x = torch.randn(3000)
    round_, other = codec.begin(x, 0, 0), codec.begin(x, 0, 0)
    round_.encode(NORMS.carried(round_.norms()))
    assert round_.encoded
    round_.encode_again()
    assert not round_.encoded
    assert np.array_equal(round_.encode(round_.norms()), other.encode(other.norms()))
    assert torch.equal(round_.residual(), other.residual())
    round_.decode(np.zeros((3, 8, 128), np.uint8), np.ones(3, np.int64))
    with pytest.raises(StageError, match="encode_again"):
        round_.encode_again()
