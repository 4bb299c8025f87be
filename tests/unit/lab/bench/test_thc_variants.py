# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Variants of THC: the first is what the codec does, and each part that is left out is left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sumwire.codec.oracles import codecs, loopback
from sumwire.codec.tables import for_workers
from sumwire_lab.bench.thc_variants import (
    EXACT,
    Dgc,
    SparseTopK,
    TernGradBaseline,
    ThcSums,
    bench,
    largest,
    without,
)
from sumwire_lab.errors import OptionError
from sumwire_lab.options import arguments
from sumwire_lab.options.bench_options import ABLATIONS, GLOBAL, MINMAX, THC, UNIFORM, ThcOptions, Variant, thc_options

WORKERS, VALUES = 4, 1 << 15


def gradients(spread: float = 0.0) -> torch.Tensor:
    """Of all workers; blocks of 4096 differ in size by e**spread."""
    draws = torch.Generator().manual_seed(3)
    sizes = torch.exp(spread * torch.randn(VALUES // 4096, generator=draws)).repeat_interleave(4096)
    return torch.randn(WORKERS, VALUES, generator=draws) * sizes


def outcome(variant: Variant, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    sums = ThcSums(variant, len(x), torch.Generator().manual_seed(1))
    return sums.mean(x, torch.ones(len(x), sums.chunks(x.shape[1]), dtype=torch.bool))


def error(variant: Variant, x: torch.Tensor) -> float:
    mean = x.mean(dim=0)
    return float((outcome(variant, x)[0] - mean).square().sum() / mean.square().sum())


@pytest.mark.parametrize("table", ["auto", UNIFORM])
def test_the_first_variant_is_the_codec(table: str) -> None:
    x = gradients()
    members = codecs(for_workers(WORKERS, kind=table), WORKERS, 4096, correlated=False)
    of_codec = loopback(members, list(x))
    mean = x.mean(dim=0)
    expected = float((of_codec - mean).square().sum() / mean.square().sum())
    assert error(replace(THC, table=table), x) == pytest.approx(expected, rel=0.03)


def test_what_is_left_is_what_the_sum_lacks() -> None:
    x = gradients()
    mean, left = outcome(THC, x)
    assert torch.allclose((x - left).mean(dim=0), mean, atol=1e-5)


def test_one_norm_serves_layers_of_one_size_only() -> None:
    even, uneven, one = gradients(), gradients(spread=1.5), replace(THC, norms=GLOBAL)
    assert error(one, even) == pytest.approx(error(THC, even), rel=0.1)
    assert error(THC, uneven) < 0.3 * error(one, uneven)


def test_rotation_is_for_values_that_are_not_normal() -> None:
    x = gradients()
    rare = torch.where(torch.rand(VALUES, generator=torch.Generator().manual_seed(5)) < 0.01, x, 0.0)
    assert error(THC, rare) < 0.1 * error(replace(THC, rotation=False), rare)


def test_min_max_clips_nothing_and_is_coarser() -> None:
    x = gradients()
    even = replace(THC, table=UNIFORM)
    assert error(replace(even, range=MINMAX), x) > error(even, x)


def test_fewer_bits_are_worse() -> None:
    x = gradients()
    assert error(THC, x) < error(replace(THC, bits=3), x) < error(replace(THC, bits=2), x)


def test_chunks_of_nobody_give_zeros_and_stay() -> None:
    x = gradients()
    sums = ThcSums(replace(THC, rotation=False), WORKERS, torch.Generator().manual_seed(1))
    present = torch.ones(WORKERS, sums.chunks(VALUES), dtype=torch.bool)
    present[:, 0] = False
    present[1, 1] = False
    mean, left = sums.mean(x, present)
    assert not mean[:1024].any()
    assert torch.equal(left[:, :1024], x[:, :1024])
    assert torch.equal(left[1, 1024:2048], x[1, 1024:2048])
    others = x[[0, 2, 3], 1024:2048].mean(dim=0)
    assert float((mean[1024:2048] - others).square().mean() / others.square().mean()) < 0.05


def test_late_workers_and_lost_chunks() -> None:
    present = without(8, 1000, 2, 0.25, np.random.default_rng(1))
    by_worker = present.float().mean(dim=1)
    assert int((by_worker == 0).sum()) == 2
    assert float(by_worker.sum() / 6) == pytest.approx(0.75, abs=0.02)


def test_a_short_run() -> None:
    options = ThcOptions({"thc": THC, "wide": replace(THC, granularity=128)}, (2,), (1,), epochs=1, hidden=16)
    said: list[str] = []
    made = bench(options)
    done = made.measure_here(said.append)
    exact, thc = done.rows()
    assert [(row["variant"], row["workers"]) for row in (exact, thc)] == [(EXACT, 2), ("thc", 2)], "128 * 2 is no byte"
    assert exact["nmse"] is None and 0 < thc["nmse"] < 0.05
    assert exact["accuracy"] == pytest.approx(thc["accuracy"], abs=0.2)
    assert [line.split()[:2] for line in made.shown(done).splitlines()] == [
        ["variant", "workers"],
        ["exact", "mean"],
        ["thc", "2"],
    ]
    assert len(said) == 2


def test_terngrad_has_no_bias_and_three_values() -> None:
    x = gradients()[:1, :1000].clamp(-2, 2)
    baseline = TernGradBaseline([600, 400], torch.Generator().manual_seed(1))
    means = torch.stack([baseline.mean(x, step) for step in range(400)])
    assert {len(layer.unique()) for layer in (means[0, :600], means[0, 600:])} == {3}
    assert float((means.mean(dim=0) - x[0]).square().mean()) < 0.02


def test_top_k_keeps_the_rest() -> None:
    x, baseline = gradients(), SparseTopK(0.25)
    first = baseline.mean(x, 0)
    second = baseline.mean(torch.zeros_like(x), 1)
    assert torch.allclose(first + second + sum_of(baseline, x), x.mean(dim=0), atol=1e-6)


def sum_of(baseline: SparseTopK, x: torch.Tensor) -> torch.Tensor:
    """What two further rounds bring of it: a quarter each."""
    return sum((baseline.mean(torch.zeros_like(x), step) for step in range(2)), torch.zeros(x.shape[1]))


def test_dgc_adds_momentum_before_it_chooses() -> None:
    """The share is a quarter in the first pass, a sixteenth in the second."""
    x, baseline = gradients(), Dgc(0.001, 0.5, steps_per_pass=2)
    sent = largest(x, 0.25)
    assert torch.equal(baseline.mean(x, 0), (x * sent).mean(dim=0))
    kept, nothing = x * ~sent, torch.zeros_like(x)
    total = 1.5 * kept
    assert torch.allclose(baseline.mean(nothing, 1), (total * largest(total, 0.25)).mean(dim=0), atol=1e-6)
    assert int(largest(x, 1 / 16)[0].sum()) == VALUES // 16


def parsed(*words: str) -> ThcOptions:
    return thc_options(arguments.parser().parse_args(["bench", "thc", *words]))


def test_options() -> None:
    assert parsed() == ThcOptions({"thc": THC})
    assert parsed("--ablation").variants == ABLATIONS
    made = parsed("--bits", "3", "--no-rotation", "--workers", "2,32", "--left-out", "1", "--loss", "0.1")
    assert made == ThcOptions({"given": Variant(bits=3, rotation=False)}, (2, 32), left_out=1, loss=0.1)


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--bits", "5"], "bits=5"),
        (["--granularity", "256"], "granularity=256"),
        (["--clip", "1"], "clip=1.0"),
        (["--block", "1000"], "power of two"),
        (["--block", "64"], "block=64: must be a power of two from 1024 values on"),
        (
            ["--granularity", "30", "--workers", "8,9"],
            "granularity=30: 9 workers reach sums of 270, above 255; take 28",
        ),
        (["--workers", "2,x"], "whole numbers"),
        (["--left-out", "4"], "fewer than the workers"),
        (["--loss", "1"], "loss=1.0"),
        (["--epochs", "0"], "epochs=0"),
        (["--baselines", "--loss", "0.1"], "baselines: have all"),
        (["--ablation", "--bits", "2"], "one part at a time"),
    ],
)
def test_wrong_options(words: list[str], rule: str) -> None:
    with pytest.raises(OptionError, match=rule):
        parsed(*words)
