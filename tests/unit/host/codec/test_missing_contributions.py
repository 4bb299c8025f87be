# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a chunk carries, and what its sum is divided by when contributions are missing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.codec.codecs import TABLE, gaussian
from sumwire.codec.base import GradientCodec
from sumwire.codec.errors import CodecError, CountError, StageError
from sumwire.codec.oracles import sum_words
from sumwire.codec.sign import EfSignCodec, SignCodec, VoteCodec, pack_signs
from sumwire.codec.sum32 import Sum32Codec, pack_elements, unpack_elements
from sumwire.codec.thc import ThcCodec
from torch import Tensor

FORMS = ("native", "torch")


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "torch":
        monkeypatch.setenv("SUMWIRE_NATIVE", "0")
    return str(request.param)


@pytest.mark.parametrize("codec", [Sum32Codec(workers=2), SignCodec(), VoteCodec()])
@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 8192, 20_000, 300_000])
def test_magnitudes_are_the_chunks_norms(codec: GradientCodec, length: int) -> None:
    x = gaussian(length, 1)
    per_chunk = codec.info.chunk_values
    expected = [float(piece.double().norm()) for piece in torch.split(x, per_chunk)] if length else []
    magnitudes = codec.begin(x, 0, 0).magnitudes()
    assert magnitudes.dtype == np.float32
    assert magnitudes.tolist() == pytest.approx(expected)


def test_magnitudes_beyond_float32_are_infinite() -> None:
    x = torch.zeros(600, dtype=torch.float64)
    x[300] = 1e300
    assert Sum32Codec(workers=2).begin(x, 0, 0).magnitudes().tolist() == [0.0, np.inf, 0.0]


@pytest.mark.parametrize("block", [1024, 4096, None])
def test_a_rotated_chunk_carries_its_share_of_the_block(block: int | None) -> None:
    """What the switch would get of one chunk alone, rotated back, has the magnitude that was said, but for rounding."""
    x = torch.cat([gaussian(4096, 1), 10 * gaussian(4096, 2), torch.zeros(4096), gaussian(4096, 3)])
    one = ThcCodec(TABLE, job=1, worker=0, block=block).begin(x, 0, 0)
    magnitudes = one.magnitudes()
    assert magnitudes.shape == (one.chunks,) and magnitudes.dtype == np.float32
    assert float(np.square(magnitudes).sum()) == pytest.approx(float(x.square().sum()), rel=1e-5)
    words = sum_words(TABLE, [one.encode(one.norms())])
    full = one.decode(words, np.ones(one.chunks, np.int64)).clone()
    for chunk in (0, 5, 9, 15):
        counts = np.ones(one.chunks, np.int64)
        counts[chunk] = 0
        lost = float((full - one.decode(words, counts)).norm())
        assert lost == pytest.approx(float(magnitudes[chunk]), rel=0.1, abs=1e-6), chunk


def zero_filled(length: int, missing: tuple[int, ...], divisor: int | None) -> tuple[Tensor, list[Tensor]]:
    """THC over two workers where worker 1 is missing in some chunks: the result, and each worker's own part."""
    xs = [gaussian(length, 1), gaussian(length, 2)]
    rounds = [ThcCodec(TABLE, job=1, worker=w).begin(x, 0, 0) for w, x in enumerate(xs)]
    agreed = np.maximum(rounds[0].norms(), rounds[1].norms())
    up = [one.encode(agreed) for one in rounds]
    both, alone = sum_words(TABLE, up), sum_words(TABLE, up[:1])
    counts = np.full(rounds[0].chunks, 2)
    for chunk in missing:
        both[chunk] = alone[chunk]
        counts[chunk] = 1
    included = counts == 2
    if divisor is not None:
        rounds[0].divide_by(divisor)
    result = rounds[0].decode(both, counts)
    # What went into the sum: the tensor less what was left out of it.
    parts = [xs[0] - rounds[0].residual(), xs[1] - rounds[1].residual(included)]
    return result, parts


def test_zero_fill_divides_by_all_workers(form: str) -> None:
    result, parts = zero_filled(10_000, (1, 6, 9), 2)
    torch.testing.assert_close(result, (parts[0] + parts[1]) / 2, rtol=0, atol=1e-5)


def test_contributors_are_what_divides_else(form: str) -> None:
    """In a chunk that lacks worker 1, the mean is worker 0's part alone. Chunks mix within a block of four."""
    result, parts = zero_filled(8192, (0, 1, 2, 3), None)
    torch.testing.assert_close(result[:4096], parts[0][:4096], rtol=0, atol=1e-5)
    torch.testing.assert_close(result[4096:], (parts[0] + parts[1])[4096:] / 2, rtol=0, atol=1e-5)


def test_zero_fill_of_complete_sums_changes_no_bit(form: str) -> None:
    plain, _ = zero_filled(9000, (), None)
    filled, _ = zero_filled(9000, (), 2)
    assert torch.equal(plain, filled)


def test_zero_fill_of_integers() -> None:
    x = torch.cat([torch.full((256,), 3.0), torch.full((256,), 5.0)])
    rounds = [Sum32Codec(workers=2).begin(x, 0, 0) for _ in range(2)]
    elements = [unpack_elements(one.encode(rounds[0].preliminary()), 512) for one in rounds]
    total = elements[0] + elements[1]
    total[256:] = elements[0][256:]
    counts = np.array([2, 1])
    rounds[0].divide_by(2)
    assert torch.equal(rounds[0].decode(pack_elements(total), counts), torch.tensor([3.0] * 256 + [2.5] * 256))
    assert torch.equal(rounds[1].decode(pack_elements(total), counts), torch.tensor([3.0] * 256 + [5.0] * 256))


def test_zero_fill_of_signs_but_not_of_votes() -> None:
    x = torch.where(torch.arange(20_000) % 3 == 0, 1.0, -1.0)
    for codec, expected in ((SignCodec(), (1.0, 0.75, 0.0)), (VoteCodec(), (1.0, 1.0, 0.0))):
        one = codec.begin(x, 0, 0)
        one.encode(np.zeros(0, np.uint32))
        one.divide_by(4)
        words = pack_signs((x > 0).numpy(), codec.info.words_down)
        counts = np.full(one.chunks, 4)
        counts[1], counts[2] = 3, 0
        result = one.decode(words, counts)
        for chunk, share in enumerate(expected):
            here = slice(chunk * codec.info.chunk_values, (chunk + 1) * codec.info.chunk_values)
            assert torch.equal(result[here], x[here] * share), (type(codec), chunk)


def test_a_missing_sign_counts_at_the_common_scale() -> None:
    one = EfSignCodec(workers=1).begin(torch.full((10,), -4.0), 0, 0)
    scales = np.array([4.0], np.float32).view(np.uint32)
    words = one.encode(scales)
    one.divide_by(2)
    assert torch.equal(one.decode(words, np.array([1])), torch.full((10,), -2.0))


@pytest.mark.parametrize("codec", [ThcCodec(TABLE, job=1, worker=0), Sum32Codec(workers=2)])
def test_divisor_refusals(codec: GradientCodec) -> None:
    one = codec.begin(torch.ones(10), 0, 0)
    with pytest.raises(CodecError, match="workers=0"):
        one.divide_by(0)
    words = one.encode(one.preliminary())
    down = np.zeros((1, codec.info.words_down, 128), np.uint8)
    one.divide_by(2)
    with pytest.raises(CountError, match="at most 2"):
        one.decode(down, np.array([3]))
    one.decode(down if len(words) else words, np.array([2]))
    with pytest.raises(StageError, match="before decode"):
        one.divide_by(2)


@pytest.mark.parametrize(("sum_", "good"), [(30, True), (31, False), (255, False)])
def test_one_workers_sum_is_at_most_the_granularity(sum_: int, good: bool) -> None:
    check_sum(sum_, 1, good)


@pytest.mark.parametrize(("sum_", "good"), [(60, True), (62, True), (63, False)])
def test_a_sum_without_its_low_planes_may_seem_above(sum_: int, good: bool) -> None:
    """60 = 15 x 4 is the largest of two workers; with 2 for its two low planes it reads 62."""
    check_sum(sum_, 2, good)


def check_sum(sum_: int, count: int, good: bool) -> None:
    one = ThcCodec(TABLE, job=1, worker=0).begin(torch.ones(1024), 0, 0)
    one.encode(one.norms())
    planes = np.unpackbits(np.full((1024, 1), sum_, np.uint8), axis=1).T
    words = np.packbits(planes, axis=-1)[None]
    if good:
        one.decode(words, np.array([count]))
    else:
        with pytest.raises(CodecError, match=f"sum {sum_} in chunk 0"):
            one.decode(words, np.array([count]))
