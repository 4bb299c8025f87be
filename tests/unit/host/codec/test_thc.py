# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""THC rounds against a float64 reference and a switch written here with numpy's bit functions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sumwire.codec.errors import (
    CodecError,
    CountError,
    NormRangeError,
)
from sumwire.codec.layout import layout
from sumwire.codec.oracles import codecs, loopback
from sumwire.codec.rotation import TILE_VALUES, rotate
from sumwire.codec.seeds import SignStream
from sumwire.codec.tables import ThcTable, for_workers, solve, uniform
from sumwire.codec.thc import ThcCodec, ThcRound, UnbiasedThcCodec
from torch import Tensor

PUBLISHED = ThcTable((0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30), 4, 30, 1 / 32)
LENGTHS = (0, 1, 1023, 1024, 1025, 2048, 3000, 5000, 7 * 1024 + 1)
BLOCKS = (1024, 2048, 4096, None)


def indices(words: np.ndarray) -> np.ndarray:
    bits = np.unpackbits(words, axis=-1).astype(np.int64)
    result: np.ndarray = np.tensordot(2 ** np.arange(words.shape[1])[::-1], bits, axes=(0, 1))
    return result


def sum_planes(sums: np.ndarray) -> np.ndarray:
    assert sums.min(initial=0) >= 0 and sums.max(initial=0) <= 255, "a sum overflows its planes"
    bits = np.unpackbits(sums.astype(np.uint8)[..., None], axis=-1)
    return np.packbits(bits.transpose(0, 2, 1), axis=-1)


def switch(table: ThcTable, contributions: list[np.ndarray]) -> np.ndarray:
    values = np.array(table.values)
    total = sum(values[indices(words)] for words in contributions)
    return sum_planes(np.asarray(total).reshape(len(contributions[0]), 1024))


def begin_all(
    gradients: list[Tensor],
    table: ThcTable = PUBLISHED,
    block: int | None = 4096,
    sequence: int = 3,
    correlated: bool = True,
) -> list[ThcRound]:
    return [
        ThcCodec(table, job=9, worker=worker, block=block, correlated=correlated).begin(x, sequence, 5)
        for worker, x in enumerate(gradients)
    ]


def agree(rounds: list[ThcRound]) -> np.ndarray:
    largest: np.ndarray = np.maximum.reduce([one.norms() for one in rounds])
    return largest


def aggregate(rounds: list[ThcRound], table: ThcTable = PUBLISHED) -> list[Tensor]:
    agreed = agree(rounds)
    words = switch(table, [one.encode(agreed) for one in rounds])
    return [one.decode(words, np.full(len(words), len(rounds))) for one in rounds]


def gaussian(length: int, seed: int = 0) -> Tensor:
    return torch.randn(length, generator=torch.Generator().manual_seed(seed))


def layered(length: int, sigma: float, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    factors = torch.exp(sigma * torch.randn(-(-length // 4096), generator=generator))
    return torch.randn(length, generator=generator) * factors.repeat_interleave(4096)[:length]


def nmse(estimate: Tensor, truth: Tensor) -> float:
    return float((estimate - truth).double().square().sum() / truth.double().square().sum())


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("length", [*LENGTHS, 100_000])
def test_layout_covers_every_value_once(length: int, block: int | None) -> None:
    cut = layout(length, block)
    position = blocks = 0
    for group in cut.groups:
        assert (group.first_value, group.first_block) == (position, blocks)
        assert group.blocks > 0 and group.block_values >= 1024 and group.block_values & (group.block_values - 1) == 0
        position += group.values
        blocks += group.blocks
    assert (cut.padded_length, cut.blocks) == (position, blocks)
    assert position >= length and cut.chunks == position // 1024
    sizes = [group.block_values for group in cut.groups for _ in range(group.blocks)]
    assert cut.chunk_blocks.tolist() == [b for b, size in enumerate(sizes) for _ in range(size // 1024)]
    if block is None:
        assert cut.blocks == min(length, 1) and position < max(2 * length, 1025)
    else:
        assert position - length < 1024 and max(sizes, default=0) <= block


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("length", LENGTHS)
def test_round_trip_of_every_length(length: int, block: int | None, dtype: torch.dtype) -> None:
    gradients = [gaussian(length, seed).to(dtype).requires_grad_() for seed in range(3)]
    rounds = begin_all(gradients, block=block)
    cut = layout(length, block)
    assert all(one.norms().shape == (cut.blocks,) for one in rounds)
    results = aggregate(rounds)
    for result in results:
        assert result.dtype == torch.float32 and result.shape == (length,) and not result.requires_grad
        assert torch.equal(result, results[0])
    given, left = torch.stack(gradients).detach().float(), torch.stack([one.residual() for one in rounds])
    # What is sent and what is left make up what was given.
    assert torch.allclose(results[0], (given - left).mean(dim=0), rtol=0, atol=1e-6 * (float(given.norm()) or 1.0))
    if length >= 1023:
        assert nmse(results[0], given.mean(dim=0)) < 0.05
        # One worker's residual is about 2 % of its energy: far from all of it, and not nothing.
        for x, one in zip(given, left, strict=True):
            assert 0.005 < float(one.square().sum() / x.square().sum()) < 0.06


def reference_decode(x: np.ndarray, words: np.ndarray, signs: np.ndarray, table: ThcTable) -> np.ndarray:
    """One worker, one block: RHT^-1(q / s) by the definition, in float64."""
    d = len(x)
    s = math.sqrt(d) / np.linalg.norm(x)
    q = (np.array(table.values)[indices(words).reshape(-1)] - table.granularity / 2) * table.increment
    h = np.ones((1, 1))
    while len(h) < d:
        h = np.kron(np.array([[1, 1], [1, -1]]), h)
    result: np.ndarray = signs * (h @ (q / s)) / math.sqrt(d)
    return result


@pytest.mark.parametrize("d", [1024, 2048])
@pytest.mark.parametrize("table", [PUBLISHED, uniform(4, 1 / 64), solve(2, 11, 1 / 16), solve(1, 7, 1 / 8)])
def test_decode_and_indices_follow_the_definition(d: int, table: ThcTable) -> None:
    x = gaussian(d, seed=4)
    (one,) = begin_all([x], table, block=d)
    words = one.encode(agree([one]))
    signs = SignStream.of(9, 3, 5, torch.device("cpu")).signs(0, 1, d)[0].double().numpy()
    reference = reference_decode(x.double().numpy(), words, signs, table)
    decoded = one.decode(switch(table, [words]), np.ones(len(words), np.int64))
    assert np.allclose(decoded.numpy(), reference, rtol=0, atol=2e-6 * math.sqrt(d))
    assert np.allclose(one.residual().numpy(), x.numpy() - reference, rtol=0, atol=2e-6 * math.sqrt(d))
    # Every index is one of the two around its rotated, clamped coordinate.
    h = np.ones((1, 1))
    while len(h) < d:
        h = np.kron(np.array([[1, 1], [1, -1]]), h)
    u = h @ (signs * x.double().numpy()) / np.linalg.norm(x.double().numpy())
    w = np.clip(u, -table.threshold, table.threshold) / table.increment + table.granularity / 2
    z = indices(words).reshape(-1)
    values = np.array(table.values)
    below, above = values[np.maximum(z - 1, 0)], values[np.minimum(z + 1, len(values) - 1)]
    assert (w >= below - 1e-4).all() and (w <= above + 1e-4).all()


@pytest.mark.parametrize(("worker_scale", "expected"), [(1.0, 0.0203), (2.0, 0.0315), (4.0, 0.0436)])
def test_unequal_norms_cost_what_is_known(worker_scale: float, expected: float) -> None:
    gradients = [gaussian(1 << 18, seed) * (worker_scale if seed == 0 else 1.0) for seed in range(4)]
    results = aggregate(begin_all(gradients, block=None, correlated=False))
    assert nmse(results[0], torch.stack(gradients).mean(dim=0)) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(("block", "sigma"), [(None, 0.0), (1024, 1.5), (4096, 1.0)])
def test_blocks_with_own_norms_follow_layers(block: int | None, sigma: float) -> None:
    """The error is equally small in every layer, however different their scales.

    The mean is over the layers' errors: an error over the whole tensor would show only the few layers that have most
    of its energy.
    """
    x = layered(1 << 19, sigma)
    result = aggregate(begin_all([x] * 8, block=block, correlated=False))[0]
    errors = [nmse(a, b) for a, b in zip(result.view(-1, 4096), x.view(-1, 4096), strict=True)]
    assert np.mean(errors) == pytest.approx(0.0088, rel=0.03)
    assert max(errors) < 0.02


@pytest.mark.parametrize("workers", [2, 3, 4, 8, 17, 32])
def test_correlated_rounding_takes_a_third_of_the_error_or_more(workers: int) -> None:
    table, xs = for_workers(workers), [gaussian(1 << 16, seed) for seed in range(workers)]
    apart, spread = (aggregate(begin_all(xs, table, correlated=one), table)[0] for one in (False, True))
    mean = torch.stack(xs).mean(dim=0)
    assert nmse(apart, mean) > 1.33 * nmse(spread, mean)


def test_a_worker_alone_sends_as_good_values_with_correlated_rounding() -> None:
    x = gaussian(1 << 16)
    errors = []
    for worker in range(4):
        one = ThcCodec(PUBLISHED, job=9, worker=worker).begin(x, 3, 5)
        one.encode(one.norms())
        errors.append(float(one.residual().square().sum() / x.square().sum()))
    assert errors == pytest.approx([0.0203] * 4, rel=0.03)


def test_blocks_under_one_norm_would_not() -> None:
    """Why every block has its own norm: the same blocks under the tensor's norm are several times worse."""
    x = layered(1 << 19, 1.0)
    rounds = begin_all([x] * 8, block=1024)
    common = np.full(512, float(x.norm()) / math.sqrt(512), np.float32).view(np.uint32)
    words = switch(PUBLISHED, [one.encode(common) for one in rounds])
    assert nmse(rounds[0].decode(words, np.full(512, 8)), x) > 0.05


def test_missing_workers_do_not_bias() -> None:
    """Chunks with fewer contributors are the mean of those, and one with none is zero."""
    gradients = [gaussian(4096, seed) + 0.3 for seed in range(3)]
    rounds = begin_all(gradients, block=1024)
    agreed = agree(rounds)
    contributions = [one.encode(agreed) for one in rounds]
    counts = np.array([3, 2, 1, 0])
    words = np.concatenate([switch(PUBLISHED, [c[k : k + 1] for c in contributions[:count]]) if count
                            else np.full((1, 8, 128), 255, np.uint8) for k, count in enumerate(counts)])  # fmt: skip
    result = rounds[2].decode(words, counts)
    for chunk, count in enumerate(counts[:3]):
        part = slice(1024 * chunk, 1024 * (chunk + 1))
        mean = torch.stack(gradients[:count])[:, part].mean(dim=0)
        assert nmse(result[part], mean) < 0.06
    assert torch.equal(result[3072:], torch.zeros(1024))


def test_counts_may_differ_within_a_block() -> None:
    """A block of several chunks: the energy of a chunk nobody sent is missing, the rest is whole."""
    x = gaussian(4096)
    rounds = begin_all([x, x], block=4096)
    agreed = agree(rounds)
    first, second = (one.encode(agreed) for one in rounds)
    full = rounds[0].decode(switch(PUBLISHED, [first, second]), np.full(4, 2))
    words = switch(PUBLISHED, [first, second])
    words[1] = switch(PUBLISHED, [first])[1]
    mixed = rounds[0].decode(words, np.array([2, 1, 2, 2]))
    assert nmse(mixed, x) < 0.03 and nmse(mixed, full) < 0.03
    holed = rounds[0].decode(switch(PUBLISHED, [first, second]), np.array([2, 0, 2, 2]))
    assert nmse(holed, x) == pytest.approx(0.25, abs=0.04)


def test_all_indices_at_the_top_fill_the_sums() -> None:
    workers = 255 // 30
    top = np.full((2, 4, 128), 255, np.uint8)
    (one,) = begin_all([gaussian(2048)], block=1024)
    one.encode(agree([one]))
    result = one.decode(switch(PUBLISHED, [top] * workers), np.full(2, workers))
    alone = one.decode(switch(PUBLISHED, [top]), np.ones(2, np.int64))
    assert torch.allclose(result, alone, rtol=1e-6, atol=1e-6)
    with pytest.raises(AssertionError, match="overflows"):
        switch(PUBLISHED, [top] * (workers + 1))
    with pytest.raises(CountError, match=r"must be 0\.\.8"):
        one.decode(switch(PUBLISHED, [top]), np.full(2, workers + 1))


def test_zeros_stay_zeros_beside_others() -> None:
    x = gaussian(5000)
    x[1024:2048] = 0.0
    rounds = begin_all([x, torch.zeros(5000)], block=1024)
    assert not rounds[1].norms().any()
    result = aggregate(rounds)[0]
    assert torch.equal(result[1024:2048], torch.zeros(1024))
    assert nmse(result, x / 2) < 0.08
    for zero in aggregate(begin_all([torch.zeros(5000)] * 2)):
        assert torch.equal(zero, torch.zeros(5000))


def test_ones_of_8_workers() -> None:
    """What README says of THC's loss: ones come back as 0.98 on average, with a deviation of 0.06."""
    table = for_workers(8)
    mean = aggregate(begin_all([torch.ones(1 << 14)] * 8, table), table)[0]
    assert float(mean.mean()) == pytest.approx(0.984, abs=0.005)
    assert float(mean.std()) == pytest.approx(0.056, abs=0.005)


def ones_back(kind: type[ThcCodec], rounds: int) -> float:
    """The mean over rounds of what 8 workers' ones come back as."""
    members, found = codecs(for_workers(8), 8, 4096, kind=kind), []
    for sequence in range(rounds):
        found.append(float(loopback(members, [torch.ones(4096)] * 8, sequence).mean()))
    return float(np.mean(found))


def test_without_clipping_a_mean_is_right_on_average() -> None:
    assert ones_back(UnbiasedThcCodec, 30) == pytest.approx(1.0, abs=0.002)
    assert ones_back(ThcCodec, 30) < 0.99


def test_without_clipping_every_value_is_within_a_step_of_the_grid() -> None:
    x = gaussian(4096)
    for kind, clipped in ((ThcCodec, True), (UnbiasedThcCodec, False)):
        one = kind(PUBLISHED, job=9, worker=0).begin(x, 3, 5)
        one.encode(one.norms())
        signs = SignStream.of(9, 3, 5, x.device).signs(0, 1, 4096)
        left = rotate(one.residual()[None], signs).abs().max()
        step = 3 * float(one.norms().view(np.float32)[0]) * PUBLISHED.increment / 64
        assert (float(left) > step) == clipped


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 4999])
def test_block_that_is_not_finite_is_nan_on_all_workers(bad: float, place: int, dtype: torch.dtype) -> None:
    """Of one worker; the other blocks are as if it had not been."""
    good = [gaussian(5000, seed).to(dtype) for seed in range(2)]
    poisoned = good[1].clone()
    poisoned[place] = bad
    rounds = begin_all([good[0], poisoned], block=1024)
    assert rounds[1].norms()[place // 1024] == 0x7FC00000
    assert np.isinf(rounds[1].magnitudes()[place // 1024])
    first, second = aggregate(rounds)
    expected, _ = aggregate(begin_all(good, block=1024))
    assert np.array_equal(first.numpy().view(np.uint32), second.numpy().view(np.uint32))
    spoiled = torch.zeros(5000, dtype=torch.bool)
    spoiled[place // 1024 * 1024 : place // 1024 * 1024 + 1024] = True
    assert torch.equal(first.isnan(), spoiled)
    assert torch.equal(first[~spoiled], expected[~spoiled])
    assert all(one.residual().isfinite().all() for one in rounds)


@pytest.mark.parametrize("scale", [1e-38, 1e-28, 1e-20, 1e-12, 1e12, 1e20, 1e26])
@pytest.mark.parametrize("block", [1024, 2048, None])
def test_extreme_scales(scale: float, block: int | None) -> None:
    x = gaussian(3000) * scale
    (one,) = begin_all([x], block=block)
    (own,) = aggregate([one])
    left = one.residual()
    assert torch.isfinite(own).all() and torch.isfinite(left).all()
    assert torch.allclose(own + left, x, rtol=0, atol=1e-5 * scale)
    if scale > 1e-29:
        assert nmse(own / scale, x / scale) < 0.04
    else:
        assert not one.norms().any() and not own.any(), (
            "norms below 2**-96 count as zero, their values stay in the residual"
        )


def test_norms_order_as_integers_and_are_right() -> None:
    x = layered(20_000, 1.5)
    (one,) = begin_all([x], block=4096)
    norms = one.norms().view(np.float32)
    cut = layout(20_000, 4096)
    starts = [0, 4096, 8192, 12288, 16384]
    assert cut.blocks == len(starts)
    wanted = [float(x[a : a + 4096].double().norm()) for a in starts]
    assert np.allclose(norms, wanted, rtol=1e-5)
    assert np.array_equal(np.argsort(one.norms()), np.argsort(norms))


@pytest.mark.parametrize("agreed", [-math.nan, -1.0, 1e30])
def test_agreed_norm_out_of_range(agreed: float) -> None:
    (one,) = begin_all([gaussian(1024)])
    with pytest.raises(NormRangeError, match="agreed norm"):
        one.encode(np.array([agreed], np.float32).view(np.uint32))


def test_agreed_norm_below_the_own_clips() -> None:
    x = gaussian(4096)
    (one,) = begin_all([x])
    words = one.encode((one.norms().view(np.float32) / 1000).view(np.uint32))
    own = one.decode(switch(PUBLISHED, [words]), np.ones(4, np.int64))
    assert torch.allclose(own + one.residual(), x, rtol=0, atol=1e-4)


def test_agreed_norm_that_counts_as_zero() -> None:
    """Its scale would overflow: nothing is sent in effect, and everything stays in the residual."""
    x = gaussian(4096)
    x[5] = 0.0
    (one,) = begin_all([x])
    words = one.encode(np.array([1e-40], np.float32).view(np.uint32))
    assert torch.equal(one.decode(switch(PUBLISHED, [words]), np.ones(4, np.int64)), torch.zeros(4096))
    assert torch.allclose(one.residual(), x, rtol=0, atol=1e-5)


def test_input_is_left_alone_and_views_work() -> None:
    whole = gaussian(6000)
    copy = whole.clone()
    strided = whole[::2]
    result = aggregate(begin_all([strided]))[0]
    assert nmse(result, strided) < 0.04
    assert torch.equal(whole, copy)


def test_rounds_repeat_and_workers_differ() -> None:
    x = gaussian(4096)
    (one,), (again,) = begin_all([x]), begin_all([x])
    agreed = agree([one])
    words = one.encode(agreed)
    assert np.array_equal(words, again.encode(agreed))
    other = ThcCodec(PUBLISHED, job=9, worker=1).begin(x, 3, 5)
    assert 0.05 < (indices(words) != indices(other.encode(agreed))).mean() < 0.6


def test_rounding_numbers_are_not_used_twice() -> None:
    """Zeros lie halfway between the two middle levels, so their indices are the rounding numbers' first bits."""
    (one,) = begin_all([torch.zeros(3 * TILE_VALUES)])
    z = indices(one.encode(agree([one]))).reshape(3, -1)
    assert set(z.reshape(-1).tolist()) == {7, 8}
    for a, b in ((0, 1), (1, 2), (0, 2)):
        assert (z[a] == z[b]).mean() == pytest.approx(0.5, abs=0.01)
    assert (z[:, 1:] == z[:, :-1]).mean() == pytest.approx(0.5, abs=0.01)


def test_tables_that_do_not_fit() -> None:
    with pytest.raises(CodecError, match="5 bits"):
        ThcCodec(uniform(5, 1 / 32), job=1, worker=0)
    with pytest.raises(CodecError, match="granularity 256"):
        ThcCodec(solve(4, 256, 1 / 32), job=1, worker=0)


def test_a_part_reads_no_norms_but_its_own() -> None:
    """The rest of them may still be on their way."""
    (one,), (again,) = begin_all([gaussian(9000)]), begin_all([gaussian(9000)])
    agreed = agree([one])
    words = one.encode(agreed)
    partly = np.full_like(agreed, 0xFFFFFFFF)
    partly[1] = agreed[1]
    out = np.empty((4, 4, 128), np.uint8)
    again.encode_into(partly, 4, 8, out)
    assert np.array_equal(out, words[4:8])
    with pytest.raises(NormRangeError, match="of block 0"):
        again.encode_into(partly, 0, 4, out)
