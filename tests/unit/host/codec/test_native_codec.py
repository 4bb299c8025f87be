# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The native kernels against the torch form: the same bits, whatever the input."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sumwire.codec import kernels
from sumwire.codec.base import CodecRound, GradientCodec
from sumwire.codec.errors import CountError, SumRangeError
from sumwire.codec.feedback import ErrorFeedback
from sumwire.codec.naive import NaiveCodec
from sumwire.codec.sign import EfSignCodec, SsdmCodec, VoteCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.tables import ThcTable, for_workers, solve, uniform
from sumwire.codec.tensors import expect_residual
from sumwire.codec.thc import ThcCodec, UnbiasedThcCodec
from sumwire.codec.thc_wide import wide_codec
from sumwire.native import SWITCH
from torch import Tensor

PUBLISHED = solve(4, 30, 1 / 32)
TABLES = [
    PUBLISHED,
    solve(4, 15, 1 / 16),
    solve(4, 255, 1 / 64),
    for_workers(2),
    for_workers(4),
    for_workers(18),
    solve(3, 20, 1 / 32),
    solve(2, 11, 1 / 8),
    solve(1, 1, 0.5),
]
# Of a generator and a number of chunks: results and counts.
Sums = Callable[[np.random.Generator, int], tuple[NDArray[np.uint8], NDArray[np.int64]]]
BLOCKS = [1024, 2048, 4096, 8192, 32768, 1 << 18, None]
TINY = 1e-42


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    if kernels.kernels(torch.zeros(1)) is None:
        pytest.skip("needs a C compiler, and SUMWIRE_NATIVE not 0")


@contextlib.contextmanager
def in_torch() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SWITCH, "0")
        assert kernels.kernels(torch.zeros(1)) is None
        yield


def both(codec: GradientCodec, x: Tensor) -> tuple[CodecRound, CodecRound]:
    """One round twice: by the kernels and by torch."""
    native = codec.begin(x, 6, 2)
    with in_torch():
        return native, codec.begin(x, 6, 2)


def bits(x: Tensor) -> NDArray[np.uint32]:
    """So that zeros of either sign differ."""
    return x.numpy().view(np.uint32)


def normal(n: int, g: torch.Generator) -> Tensor:
    return torch.randn(n, generator=g)


def mixed(n: int, g: torch.Generator) -> Tensor:
    """Every magnitude from subnormal to huge, and zeros of both signs."""
    x = torch.randn(n, generator=g) * torch.exp(40 * torch.randn(-(-n // 700), generator=g)).repeat_interleave(700)[:n]
    x = x.clamp(-1e25, 1e25)
    x[torch.rand(n, generator=g) < 0.2] = 0.0
    x[torch.rand(n, generator=g) < 0.1] = -0.0
    return x


VALUES: dict[str, Callable[[int, torch.Generator], Tensor]] = {
    "normal": normal,
    "mixed": mixed,
    "zero": lambda n, g: torch.zeros(n),
    "tiny": lambda n, g: TINY * normal(n, g),
    "small": lambda n, g: 1e-28 * normal(n, g),
    "huge": lambda n, g: 1e24 * normal(n, g),
    "one": lambda n, g: torch.nn.functional.one_hot(torch.tensor(n // 2), n).float(),
    "strided": lambda n, g: normal(2 * n, g)[::2],
    "odd address": lambda n, g: normal(n + 1, g)[1:],
    "half": lambda n, g: normal(n, g).half(),
    "bfloat16": lambda n, g: mixed(n, g).bfloat16(),
}


def sum_planes(generator: np.random.Generator, counts: NDArray[np.int64], granularity: int) -> NDArray[np.uint8]:
    """Sums that so many workers can reach, the largest among them."""
    sums = generator.integers(0, counts * granularity + 1, (1024, len(counts))).T.astype(np.uint8)
    sums[:, 5] = counts * granularity
    return np.packbits(np.unpackbits(sums[..., None], axis=-1).transpose(0, 2, 1), axis=-1)


def same(native: CodecRound, reference: CodecRound, agreed: NDArray[np.uint32], sums: Sums, seed: int = 0) -> None:
    """Both forms encode, into packets of an odd length, decode and leave the same bits."""
    generator = np.random.default_rng(seed)
    words = reference.encode(agreed)
    size = words[:1].size
    packets = np.zeros((native.chunks, size + 61), np.uint8)
    native.encode_into(agreed, 0, native.chunks, packets[:, 7 : 7 + size].reshape(words.shape))
    assert np.array_equal(packets[:, 7 : 7 + size], words.reshape(-1, size))
    assert not packets[:, :7].any() and not packets[:, 7 + size :].any()
    down, counts = sums(generator, native.chunks)
    assert np.array_equal(bits(native.decode(down, counts)), bits(reference.decode(down, counts)))
    # The first may be made while encoding, but for blocks with a chunk that is not included.
    for mask in (generator.random(native.chunks) < 0.7, None):
        assert np.array_equal(bits(native.residual(mask)), bits(reference.residual(mask)))


def any_words(words: int, workers: int) -> Sums:
    """Results of any bits, inside packets of an odd length."""

    def draw(generator: np.random.Generator, chunks: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        packets = generator.integers(0, 256, (chunks, words * 128 + 33), dtype=np.uint8)
        return packets[:, 11 : 11 + words * 128].reshape(chunks, words, 128), generator.integers(0, workers + 1, chunks)

    return draw


def thc_sums(table: ThcTable) -> Sums:
    def draw(generator: np.random.Generator, chunks: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        counts = generator.integers(0, table.max_workers + 1, chunks)
        return sum_planes(generator, counts, table.granularity), counts

    return draw


def larger_norms(round_: CodecRound, larger: float) -> NDArray[np.uint32]:
    return np.minimum(round_.preliminary().view(np.float32) * np.float32(larger), np.float32(2.0**96)).view(np.uint32)


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=25)
@given(
    length=st.integers(1, 20_000),
    block=st.sampled_from(BLOCKS),
    table=st.sampled_from(TABLES),
    seed=st.integers(0, 2**32),
    larger=st.sampled_from([1.0, 1.7, 300.0, 0.01]),
    expected=st.booleans(),
)
@example(length=1, block=4096, table=PUBLISHED, seed=0, larger=1.0, expected=True)
@example(length=300_000, block=None, table=PUBLISHED, seed=0, larger=1.0, expected=True)
@example(length=70_000, block=1 << 16, table=PUBLISHED, seed=1, larger=1.0, expected=False)
def test_thc_is_the_same(
    kind: str, length: int, block: int | None, table: ThcTable, seed: int, larger: float, expected: bool
) -> None:
    x = VALUES[kind](length, torch.Generator().manual_seed(seed))
    if expected:
        expect_residual(x)
    native, reference = both(ThcCodec(table, job=seed, worker=3, block=block), x)
    assert np.array_equal(native.preliminary(), reference.preliminary())
    same(native, reference, larger_norms(reference, larger), thc_sums(table), seed)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize(("length", "block"), [(1, 4096), (9_001, 1024), (70_000, 1 << 16), (300_000, None)])
def test_thc_that_clips_nothing_is_the_same(kind: str, length: int, block: int | None) -> None:
    x = VALUES[kind](length, torch.Generator().manual_seed(1))
    native, reference = both(UnbiasedThcCodec(PUBLISHED, job=1, worker=3, block=block), x)
    assert np.array_equal(native.preliminary(), reference.preliminary())
    same(native, reference, reference.preliminary(), thc_sums(PUBLISHED), 1)


@pytest.mark.parametrize("length", [600_000, 600_001])
def test_a_large_tensor_is_the_same(length: int) -> None:
    """Its sum with the former residual, its residual and its result are written past the caches."""
    generator = torch.Generator().manual_seed(4)
    x, former = (normal(length, generator) for _ in range(2))
    feedback = ErrorFeedback()
    feedback.store(0, former)
    total = feedback.compensate(0, x)
    assert torch.equal(total, x + former)
    native, reference = both(ThcCodec(PUBLISHED, job=1, worker=0), total)
    agreed = reference.preliminary()
    assert np.array_equal(native.preliminary(), agreed)
    assert np.array_equal(native.encode(agreed), reference.encode(agreed))
    counts = np.ones(native.chunks, np.int64)
    down = sum_planes(np.random.default_rng(1), counts, PUBLISHED.granularity)
    result, left = native.decode(down, counts), native.residual()
    assert all(made.data_ptr() % 64 == 0 for made in (total, left, result))
    assert np.array_equal(bits(result), bits(reference.decode(down, counts)))
    assert np.array_equal(bits(left), bits(reference.residual()))


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("workers", [32, 255])
@settings(max_examples=4)
@given(length=st.integers(1, 20_000), seed=st.integers(0, 2**32), larger=st.sampled_from([1.0, 300.0, 0.01]))
@example(length=9_001, seed=0, larger=1.0)
def test_thc_wide_is_the_same(kind: str, workers: int, length: int, seed: int, larger: float) -> None:
    same_wide(VALUES[kind](length, torch.Generator().manual_seed(seed)), workers, seed, larger)


def test_a_large_tensor_is_the_same_by_thc_wide() -> None:
    """Its result is written past the caches."""
    same_wide(normal(600_001, torch.Generator().manual_seed(4)), 4, 0, 1.0)


def same_wide(x: Tensor, workers: int, seed: int, larger: float) -> None:
    native, reference = both(wide_codec(workers=workers, job=seed, worker=3), x)

    def draw(generator: np.random.Generator, chunks: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        down = generator.integers(0, 1 << 30, (chunks, 256)).astype(">u4").view(np.uint8).reshape(-1, 8, 128)
        return down, generator.integers(0, workers + 1, chunks)

    same(native, reference, larger_norms(reference, larger), draw, seed)


def test_an_expected_residual_is_made_while_encoding() -> None:
    """And is the one that encoding again would make, also after another encoding."""
    codec, x = ThcCodec(PUBLISHED, job=1, worker=0), normal(9000, torch.Generator().manual_seed(5))
    later = codec.begin(x, 0, 0)
    begun = codec.begin(expect_residual(x), 0, 0)
    wider = (later.preliminary().view(np.float32) * 2).view(np.uint32)
    begun.encode(wider)
    begun.encode_again()
    for round_ in (later, begun):
        round_.encode(later.preliminary())
    wanted = later.residual()
    x.zero_()
    assert np.array_equal(bits(begun.residual()), bits(wanted))


SPOILED = [
    torch.tensor([1.0, float("nan")]),
    torch.cat([torch.zeros(9000), torch.tensor([float("-inf")])]),
    torch.full((5000,), 3e38),
    torch.cat([torch.ones(4096), torch.full((1,), 2.0**97)]),
]


@pytest.mark.parametrize("x", SPOILED)
def test_thc_says_the_same_of_what_is_not_finite(x: Tensor) -> None:
    native, reference = both(ThcCodec(PUBLISHED, job=1, worker=0), x)
    agreed = native.preliminary()
    assert np.array_equal(reference.preliminary(), agreed)
    same(native, reference, agreed, thc_sums(PUBLISHED))
    assert native.result.isnan().any()


def test_thc_refuses_the_same() -> None:
    codec = ThcCodec(PUBLISHED, job=1, worker=0)
    rounds = both(codec, torch.ones(5000))
    sums = np.zeros((5, 1024), np.uint8)
    sums[3, 1023] = 63
    down = np.packbits(np.unpackbits(sums[..., None], axis=-1).transpose(0, 2, 1), axis=-1)
    for one in rounds:
        one.encode(one.preliminary())
        with pytest.raises(SumRangeError, match="sum 63 in chunk 3: 2 contributors reach at most 60"):
            one.decode(down, np.full(5, 2))
        with pytest.raises(CountError, match="count 9 of chunk 0"):
            one.decode(down, np.full(5, 9))


@pytest.mark.parametrize("block", [1024, 4096, 8192, None])
def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch, block: int | None) -> None:
    codec = ThcCodec(PUBLISHED, job=1, worker=0, block=block)
    x = mixed(70_001, torch.Generator().manual_seed(5))
    feedback = mixed(70_001, torch.Generator().manual_seed(6))

    def all_bits() -> list[NDArray[np.generic]]:
        total = kernels.add(x, feedback, torch.empty_like(x))
        round_ = codec.begin(total, 1, 2)
        agreed = round_.preliminary()
        words = round_.encode(agreed)
        counts = np.full(round_.chunks, 3)
        down = sum_planes(np.random.default_rng(1), counts, PUBLISHED.granularity)
        return [bits(total), agreed, words, bits(round_.decode(down, counts)), bits(round_.residual())]

    monkeypatch.setenv(kernels.THREADS, "1")
    wanted = all_bits()
    for threads in (2, 3, 16):
        monkeypatch.setenv(kernels.THREADS, str(threads))
        for ours, theirs in zip(all_bits(), wanted, strict=True):
            assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=12)
@given(
    length=st.integers(1, 9_000),
    seed=st.integers(0, 2**32),
    workers=st.integers(1, 40),
    larger=st.sampled_from([0, 1, 5, 900]),
    threads=st.sampled_from(["1", "3"]),
)
def test_sum32_is_the_same(kind: str, length: int, seed: int, workers: int, larger: int, threads: str) -> None:
    x = VALUES[kind](length, torch.Generator().manual_seed(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(kernels.THREADS, threads)
        native, reference = both(Sum32Codec(workers=workers), x)
        own = reference.preliminary()
        assert np.array_equal(native.preliminary(), own)
        agreed = np.minimum(own + np.uint32(larger), np.uint32(2048 + 1024))
        same(native, reference, agreed, any_words(8, workers), seed)


def naive_sums(table: ThcTable) -> Sums:
    def draw(generator: np.random.Generator, chunks: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        counts = generator.integers(0, table.max_workers + 1, chunks)
        return sum_planes(generator, counts, table.granularity // 2 * 2), counts

    return draw


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=12)
@given(
    length=st.integers(1, 9_000),
    seed=st.integers(0, 2**32),
    table=st.sampled_from([uniform(4, 1 / 32), uniform(3, 1 / 8)]),
    larger=st.sampled_from([1.0, 1.7, 300.0, 0.01]),
    threads=st.sampled_from(["1", "3"]),
)
def test_naive_is_the_same(kind: str, length: int, seed: int, table: ThcTable, larger: float, threads: str) -> None:
    x = VALUES[kind](length, torch.Generator().manual_seed(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(kernels.THREADS, threads)
        native, reference = both(NaiveCodec(table), x)
        assert np.array_equal(native.preliminary(), reference.preliminary())
        agreed = (reference.preliminary().view(np.float32) * np.float32(larger)).view(np.uint32)
        same(native, reference, agreed, naive_sums(table), seed)


@pytest.mark.parametrize("alone", [True, False])
def test_naive_says_the_same_of_what_is_not_finite(alone: bool) -> None:
    """Also where the others agreed on magnitudes without this worker."""
    x = normal(5000, torch.Generator().manual_seed(3))
    x[[700, 1100, 1101, 4999]] = torch.tensor([torch.nan, torch.inf, -torch.inf, torch.nan])
    native, reference = both(NaiveCodec(uniform(4, 1 / 32)), x)
    assert np.array_equal(native.preliminary(), reference.preliminary())
    agreed = reference.preliminary() if alone else np.full(reference.preliminary().shape, np.float32(2).view(np.uint32))
    same(native, reference, agreed, naive_sums(uniform(4, 1 / 32)))
    assert bool(native.result.isnan().any()) is alone


def test_sum32_clamps_the_same() -> None:
    x = mixed(5000, torch.Generator().manual_seed(2))
    native, reference = both(Sum32Codec(workers=4, clamp=True), x)
    below = np.maximum(reference.preliminary().astype(np.int64) - 3, 0).astype(np.uint32)
    assert np.array_equal(native.encode(below), reference.encode(below))
    assert np.array_equal(bits(native.residual()), bits(reference.residual()))


SIGN_CODECS: dict[str, GradientCodec] = {
    "vote": VoteCodec(),
    "ef-sign": EfSignCodec(workers=2),
    "ssdm": SsdmCodec(job=4, worker=1),
}


@pytest.mark.parametrize("name", SIGN_CODECS)
@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=12)
@given(length=st.integers(1, 30_000), seed=st.integers(0, 2**32))
@example(length=8192, seed=0)
def test_signs_are_the_same(name: str, kind: str, length: int, seed: int) -> None:
    x = VALUES[kind](length, torch.Generator().manual_seed(seed))
    native, reference = both(SIGN_CODECS[name], x)
    agreed = reference.preliminary()
    assert np.array_equal(native.preliminary(), agreed)
    same(native, reference, agreed, any_words(SIGN_CODECS[name].info.words_down, 2), seed)


@pytest.mark.parametrize("name", SIGN_CODECS)
@pytest.mark.parametrize("place", [0, 70, 9_999])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_signs_say_the_same_of_what_is_not_finite(name: str, place: int, bad: float) -> None:
    x = torch.randn(10_000)
    x[place] = bad
    native, reference = both(SIGN_CODECS[name], x)
    agreed = native.preliminary()
    assert np.array_equal(reference.preliminary(), agreed)
    assert np.array_equal(native.encode(agreed), reference.encode(agreed))
    outside = np.zeros(native.chunks, np.bool_) if native.outside is None else native.outside
    assert np.array_equal(outside, np.zeros_like(outside) if reference.outside is None else reference.outside)
    words = np.zeros((native.chunks, SIGN_CODECS[name].info.words_down, 128), np.uint8)
    counts = np.ones(native.chunks, np.int64)
    for one in (native, reference):
        one.decode_into(0, one.chunks, words, counts, outside)
    spoiled = slice(place // 2048 * 2048, place // 2048 * 2048 + 2048) if name == "vote" else slice(None)
    assert native.result[spoiled].isnan().all()
    assert native.result.isnan().sum() == len(native.result[spoiled])
    assert np.array_equal(bits(native.result), bits(reference.result))
    assert native.residual().isfinite().all()
    assert np.array_equal(bits(native.residual()), bits(reference.residual()))
