# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sign and rounding streams against a second implementation on Python integers, written from the documented rule."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sumwire.codec.seeds import DRAW_STEPS, RoundingStream, SignStream, fold, mix64, mix64_, stream_words

M = 2**64
CPU = torch.device("cpu")


def finalise(z: int) -> int:
    z = (z ^ z // 2**30) * 0xBF58476D1CE4E5B9 % M
    z = (z ^ z // 2**27) * 0x94D049BB133111EB % M
    return z ^ z // 2**31


def chain(*parts: int) -> int:
    state = 0
    for part in parts:
        state = finalise(((state ^ part) + 0x9E3779B97F4A7C15) % M)
    return state


def word(key: int, index: int) -> int:
    return finalise((key + (index + 1) * 0x9E3779B97F4A7C15) % M)


def expected_sign(job: int, sequence: int, bucket: int, block: int, value: int) -> int:
    key = chain(0x5349474E, job, sequence, bucket, block)
    return -1 if word(key, value // 64) >> value % 64 & 1 else 1


def test_splitmix_reference_outputs() -> None:
    """The first outputs of SplitMix64 seeded with 1234567, as its published test vectors have them."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [word(1234567, i) for i in range(4)] == published
    assert [int(w) % M for w in stream_words(1234567, 0, 4, CPU)] == published


def test_mix_on_extremes() -> None:
    words = [0, 1, M - 1, 1 << 63, (1 << 63) - 1, 0x0123456789ABCDEF]
    signed = torch.tensor([w - M if w >> 63 else w for w in words])
    assert [mix64(w) for w in words] == [finalise(w) for w in words]
    assert [int(w) % M for w in mix64_(signed)] == [finalise(w) for w in words]
    assert fold(1, 2, 3) == chain(1, 2, 3) != chain(3, 2, 1)


@pytest.mark.parametrize(("job", "sequence", "bucket"), [(0, 0, 0), (7, 3, 1), (65535, 2**32 - 1, 65535)])
def test_signs_follow_the_rule(job: int, sequence: int, bucket: int) -> None:
    signs = SignStream.of(job, sequence, bucket, CPU).signs(2, 3, 1024)
    assert signs.shape == (3, 1024) and signs.dtype == torch.float32
    for block in range(3):
        wanted = [expected_sign(job, sequence, bucket, 2 + block, value) for value in range(1024)]
        assert signs[block].tolist() == wanted


def test_signs_are_shared_and_differ_by_every_part() -> None:
    def first(job: int, sequence: int, bucket: int, block: int) -> torch.Tensor:
        return SignStream.of(job, sequence, bucket, CPU).signs(block, 1, 1024)

    here = first(1, 2, 3, 4)
    assert torch.equal(here, first(1, 2, 3, 4))
    for other in (first(2, 2, 3, 4), first(1, 3, 3, 4), first(1, 2, 4, 4), first(1, 2, 3, 5)):
        assert 400 < int((here != other).sum()) < 624


def expected_number(key: int, value: int) -> int:
    half, part = divmod(value % 32, 16)
    return word(key, value // 32 * 8 + part // 2) >> 32 * (part % 2) + 16 * half & 0xFFFF


def test_rounding_numbers_follow_the_rule() -> None:
    key = chain(0x524F554E, 5, 6, 7, 8)
    stream = RoundingStream.of(5, 6, 7, 8, CPU)
    wanted = [expected_number(key, value) for value in range(64, 160)]
    assert stream.numbers(64, 96).tolist() == wanted
    assert stream.uniform(64, 96).tolist() == [(number + 0.5) / 65536 for number in wanted]


def test_rounding_numbers_are_private_and_uniform() -> None:
    one = RoundingStream.of(5, 0, 7, 8, CPU).uniform(0, 1 << 18).double().numpy()
    two = RoundingStream.of(5, 1, 7, 8, CPU).uniform(0, 1 << 18).double().numpy()
    assert one.min() > 0.0 and one.max() < 1.0
    # Bounds of about five standard deviations.
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.01
    assert abs(one.mean() - 0.5) < 5 / np.sqrt(12 * len(one))
    counts = np.histogram(one, bins=64, range=(0, 1))[0]
    expected = len(one) / 64
    assert ((counts - expected) ** 2 / expected).sum() < 63 + 5 * np.sqrt(2 * 63)


def correlated(worker: int) -> list[int]:
    return RoundingStream.correlated(5, worker, 7, 8, CPU).numbers(64, 96).tolist()


def test_correlated_numbers_follow_the_rule() -> None:
    key = chain(0x524F554E, 5, 7, 8)
    shared = [expected_number(key, value) for value in range(64, 160)]
    flipped = [0, 0xFFFF, 0x4000, 0xBFFF, 0x2000, 0xDFFF, 0x6000, 0x9FFF, 0x1000]
    for worker, bits in enumerate(flipped):
        assert correlated(worker) == [number ^ bits for number in shared]


@pytest.mark.parametrize("workers", [2, 4, 16, 256])
def test_correlated_numbers_are_one_in_each_part_of_the_range_and_pairs_add_up_alike(workers: int) -> None:
    numbers = np.array([correlated(worker) for worker in range(workers)])
    parts = np.sort(numbers * workers // DRAW_STEPS, axis=0)
    assert (parts == np.arange(workers)[:, None]).all()
    assert (numbers[::2] + numbers[1::2] == DRAW_STEPS - 1).all()
