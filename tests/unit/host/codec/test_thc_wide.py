# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""THC in fields of SUM32 elements: errors, sums of many workers, and what is left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from helpers.codec.codecs import add_elements
from sumwire.codec.base import CodecRound
from sumwire.codec.errors import CodecError, NormRangeError
from sumwire.codec.thc_wide import wide_codec
from torch import Tensor

# Values of a packet by number of fields of an element.
VALUES = {3: 768, 2: 512}


def draw(workers: int, length: int) -> Tensor:
    return torch.randn(workers, length, generator=torch.Generator().manual_seed(7))


def rounds_of(x: Tensor) -> list[CodecRound]:
    workers = len(x)
    return [wide_codec(workers=workers, job=1, worker=w).begin(x[w].clone(), 4, 2) for w in range(workers)]


def mean_of(rounds: Sequence[CodecRound], members: Sequence[int]) -> Tensor:
    """The result of the members' contributions."""
    agreed = np.maximum.reduce([one.preliminary() for one in rounds])
    words = [one.encode(agreed) for one in rounds]
    total = add_elements([words[member] for member in members])
    return rounds[0].decode(total, np.full(len(total), len(members)))


@pytest.mark.parametrize(
    ("workers", "fields", "cells"),
    [(1, 3, 255), (4, 3, 255), (18, 3, 56), (32, 3, 31), (68, 3, 15), (69, 2, 255), (128, 2, 255), (255, 2, 128)],
)
def test_as_many_fields_and_levels_as_the_sum_of_all_workers_allows(workers: int, fields: int, cells: int) -> None:
    codec = wide_codec(workers=workers, job=1, worker=0)
    assert codec.info.chunk_values == VALUES[fields]
    assert codec.grid.values[-1] == cells and codec.grid.levels == cells + 1
    # A field below the sign bit holds the sum of all.
    assert workers * cells < 2 ** (31 // fields)


@pytest.mark.parametrize(("workers", "most"), [(4, 0.0003), (32, 0.009), (68, 0.0201), (255, 0.0007)])
def test_error_of_a_workers_gradient(workers: int, most: float) -> None:
    """THC's own is 0.0198 for 8 workers and 0.068 for 32. Rounding has a sixth of a cell's square."""
    x = draw(1, 40_000)[0]
    one = wide_codec(workers=workers, job=1, worker=0).begin(x, 0, 0)
    one.encode(one.preliminary())
    assert float(one.residual().square().sum() / x.square().sum()) < most


@pytest.mark.parametrize(("workers", "length"), [(2, 1), (3, 5000), (32, 20_011), (80, 3000)])
def test_what_is_sent_and_what_is_left_make_up_what_was_given(workers: int, length: int) -> None:
    x = draw(workers, length) * torch.linspace(0.1, 10, workers)[:, None]
    rounds = rounds_of(x)
    mean = mean_of(rounds, range(workers))
    kept = torch.stack([one.residual() for one in rounds])
    torch.testing.assert_close(mean.double() * workers, (x.double() - kept.double()).sum(0), rtol=0, atol=1e-4)


def test_of_a_packet_without_a_worker_all_of_its_values_are_left() -> None:
    x = draw(3, 30_000)
    rounds = rounds_of(x)
    agreed = np.maximum.reduce([one.preliminary() for one in rounds])
    words = [one.encode(agreed) for one in rounds]
    # Worker 2 lacks every third packet, whose borders are not those of blocks.
    there = np.arange(rounds[0].chunks) % 3 != 1
    words[2][~there] = 0
    everywhere = np.ones(len(there), np.bool_)
    sent = [x[w] - rounds[w].residual(there if w == 2 else everywhere) for w in range(3)]
    by_workers = rounds_of(x)
    for one in by_workers:
        one.divide_by(3)
        one.encode(agreed)
    zero_filled = by_workers[0].decode(add_elements(words), np.where(there, 3, 2))
    torch.testing.assert_close(zero_filled * 3, torch.stack(sent).sum(0), rtol=0, atol=1e-4)


def test_rounding_is_right_on_average() -> None:
    x = draw(1, 3000)[0]
    codec = wide_codec(workers=68, job=1, worker=0)
    total = torch.zeros(3000, dtype=torch.float64)
    for sequence in range(200):
        one = codec.begin(x, sequence, 0)
        one.encode(one.preliminary())
        total += one.residual()
    # One round leaves an error of 2 %; its mean over 200 rounds has a 200th of that, and what clipping leaves.
    assert float((total / 200).square().sum() / x.double().square().sum()) < 0.001


@pytest.mark.parametrize("workers", [32, 255])
def test_sums_of_largest_points_do_not_reach_the_next_field(workers: int) -> None:
    """With a tiny norm every value is clipped, so each point is the first or the last one."""
    x = draw(1, 5000).expand(workers, -1)
    rounds = rounds_of(x)
    agreed = np.full_like(rounds[0].preliminary(), np.float32(1e-6).view(np.uint32))
    words = [one.encode(agreed) for one in rounds]
    alone = rounds[0].decode(words[0], np.ones(len(words[0]), np.int64))
    together = rounds[0].decode(add_elements(words), np.full(len(words[0]), workers))
    torch.testing.assert_close(together, alone, rtol=1e-6, atol=0)
    assert float(alone.abs().min()) > 0 or len(set(alone.abs().tolist())) > 1


def test_block_that_is_not_finite_is_nan_for_all_and_the_others_are_as_usual() -> None:
    x = draw(2, 13_000)
    x[1, 5000] = torch.nan
    rounds = rounds_of(x)
    mean = mean_of(rounds, range(2))
    assert bool(mean[4096:8192].isnan().all())
    rest = torch.cat([mean[:4096], mean[8192:]])
    wanted = torch.cat([x.mean(0)[:4096], x.mean(0)[8192:]])
    assert float((rest - wanted).square().sum() / wanted.square().sum()) < 0.001
    assert all(bool(one.residual().isfinite().all()) for one in rounds)


def test_zeros_stay_zeros_and_nothing_is_an_operation() -> None:
    assert not bool(mean_of(rounds_of(torch.zeros(3, 9000)), range(3)).any())
    assert len(mean_of(rounds_of(torch.zeros(2, 0)), range(2))) == 0


def test_what_is_refused() -> None:
    one = wide_codec(workers=2, job=1, worker=0).begin(torch.ones(9), 0, 0)
    with pytest.raises(CodecError, match="norms of shape"):
        one.encode(np.zeros(7, np.uint32))
    with pytest.raises(NormRangeError, match="must be 0"):
        one.encode(np.array([-1.0], np.float32).view(np.uint32))
