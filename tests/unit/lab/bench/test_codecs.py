# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmark's codecs without a network, and what it says about their error and cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sumwire_lab.bench import codec_cost, codec_error
from sumwire_lab.bench.codec_cost import CODEC_COST
from sumwire_lab.bench.codec_error import (
    CODEC_ERROR,
    CODECS,
    GradientRecorder,
    estimators,
    fitted,
    low_rank,
    round_trip,
    top_share_mean,
)
from sumwire_lab.bench.sizes import SIZES
from sumwire_lab.options.bench_options import BenchOptions


def gradients(workers: int, values: int = 5000) -> torch.Tensor:
    return torch.randn(workers, values, generator=torch.Generator().manual_seed(3))


def squared(x: torch.Tensor) -> float:
    return float(x.double().square().sum())


@pytest.mark.parametrize("workers", [1, 3, 16])
def test_full_precision_codec_gives_the_mean(workers: int) -> None:
    given = gradients(workers)
    torch.testing.assert_close(round_trip("sum32", list(given)), given.mean(dim=0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["thc", "thc-uniform"])
def test_thc_is_near_the_mean_and_thc_uniform_a_little_less_so(name: str) -> None:
    given = gradients(4)
    truth = given.mean(dim=0)
    error = squared(round_trip(name, list(given)) - truth) / squared(truth)
    assert 0.009 < error < 0.015
    if name == "thc-uniform":
        assert error > squared(round_trip("thc", list(given)) - truth) / squared(truth)


def test_vote_is_the_majority_and_a_tie_is_plus() -> None:
    given = [torch.tensor(row) for row in ([1.0, -1.0, -2.0, 1.0], [3.0, -1.0, 5.0, -1.0])]
    assert round_trip("vote", given).tolist() == [1.0, -1.0, 1.0, 1.0]
    three = [*given, torch.tensor([-1.0, 1.0, -1.0, -1.0])]
    assert round_trip("vote", three).tolist() == [1.0, -1.0, -1.0, -1.0]


def test_merged_signs_are_some_workers_sign_and_each_workers_as_often() -> None:
    plus, minus = torch.ones(20_000), -torch.ones(20_000)
    merged = round_trip("sign", [plus, plus, minus])
    assert set(merged.tolist()) == {1.0, -1.0}
    assert float(merged.mean()) == pytest.approx(1 / 3, abs=0.03)
    assert torch.equal(round_trip("sign", [minus, minus]), minus)


def test_top_share_keeps_the_largest_values_of_every_worker() -> None:
    given = torch.zeros(2, 200)
    given[0, 7], given[0, 8], given[0, 9] = 5.0, -6.0, 1.0
    given[1, 7], given[1, 100] = 1.0, 2.0
    mean = top_share_mean(given)
    assert codec_error.TOP_SHARE * 200 == 2
    assert {k: float(mean[k]) for k in mean.nonzero().flatten().tolist()} == {7: 3.0, 8: -3.0, 100: 1.0}


def test_low_rank_is_exact_up_to_its_rank_and_the_best_above() -> None:
    generator = torch.Generator().manual_seed(1)
    u, v = torch.randn(30, 4, generator=generator), torch.randn(4, 20, generator=generator)
    exact = torch.cat([(u @ v).flatten(), torch.arange(5.0)])[None]
    torch.testing.assert_close(low_rank(exact, [(30, 20), (5,)]), exact[0], rtol=1e-3, atol=1e-3)
    # Of a matrix with these singular values no four columns can keep more than the first four.
    q = torch.linalg.qr(torch.randn(20, 20, generator=generator))[0]
    full = (q * torch.tensor([8.0, 7.0, 6.0, 5.0] + [0.1] * 16)) @ q.T
    error = squared(low_rank(full.flatten()[None], [(20, 20)]) - full.flatten())
    assert error == pytest.approx(16 * 0.01, rel=0.05)


def test_fitted_length_is_the_nearest() -> None:
    truth, direction = torch.tensor([3.0, 4.0]), torch.tensor([1.0, 1.0])
    assert fitted(direction, truth).tolist() == pytest.approx([3.5, 3.5])
    assert fitted(torch.zeros(2), truth).tolist() == [0.0, 0.0]


def test_error_of_a_direction_is_that_of_its_best_length() -> None:
    given = torch.tensor([[1.0, 1.0], [3.0, 5.0]])
    # Mean (2, 3), direction (1, 1): the nearest is (2.5, 2.5), 0.5 away of a squared length of 13.
    assert codec_error.error("vote", lambda g: torch.ones(2), given) == pytest.approx(0.5 / 13)
    assert codec_error.error("fp16", lambda g: torch.ones(2), given) == pytest.approx(5 / 13)


def test_every_codec_and_the_others_are_compared() -> None:
    assert set(estimators([(4, 4)])) == {*CODECS, "fp16", "top-k", "acp"}


def row(codec: str, workers: int, nmse: float) -> dict[str, Any]:
    return {"task": "m", "workers": workers, "codec": codec, "nmse": nmse, "best_length": False}


def test_error_page() -> None:
    rows = [row("thc", 2, 0.02), row("thc", 4, 0.01), row("top-k", 2, 0.3), row("top-k", 4, 0.4), row("vote", 4, 0.9)]
    shown = CODEC_ERROR.present([*rows, row("sum32", 4, 1e-15)])
    assert shown.tables[0].head == ("codec", "2 workers", "4 workers")
    assert shown.tables[0].rows == (
        ("thc", "0.02", "0.01"),
        ("top-k", "0.3", "0.4"),
        ("vote", "-", "0.9"),
        ("sum32", "-", "1e-15"),
    )
    assert shown.charts[0].series[0].points == ((2.0, 0.02), (4.0, 0.01))
    assert [series.name for series in shown.charts[0].series] == ["thc", "top-k", "vote"]
    assert "not drawn: sum32" in shown.charts[0].note
    assert shown.behind == ("m: for any number of workers, vote lose more of a gradient than top-k.",)


def cost(codec: str, form: str, values: int, ms: float) -> dict[str, Any]:
    about = {"codec": codec, "form": form, "device": "cpu", "values": values}
    return {**about, "encode_ms": ms, "decode_ms": ms, "cpu_ms": ms}


def test_cost_page_speaks_of_the_form_in_use_and_the_largest_size() -> None:
    rows = [
        *(cost("thc", form, 1000, ms) for form, ms in (("native", 100.0), ("torch", 200.0))),
        *(cost("thc", form, 10**6, ms) for form, ms in (("native", 6.0), ("torch", 60.0))),
        *(cost("fp16", "torch", values, 1.0) for values in (1000, 10**6)),
        *(cost("top-k", "torch", values, 12.0) for values in (1000, 10**6)),
    ]
    shown = CODEC_COST.present(rows)
    assert len(shown.tables[0].rows) == 4
    assert shown.charts[0].series[0].points == ((1000.0, 100.0), (1e6, 6.0))
    assert shown.behind == (
        "Compression on the cpu takes more milliseconds a million values by thc (6.0) than fp16 (1.0).",
    )


def test_costs_are_per_million_values() -> None:
    case = codec_cost.CodecCost("fp16", 2_000_000, "cpu", 1)
    spent = [{"encode": 4.0, "decode": 2.0, "cpu": 5.0}, {"encode": 8.0, "decode": 2.0, "cpu": 9.0}]
    assert codec_cost._row(case, "torch", spent) == {
        **cost("fp16", "torch", 2_000_000, 3.0),
        "decode_ms": 1.0,
        "cpu_ms": 3.5,
    }


def test_quick_plans_are_parts_of_the_full_ones() -> None:
    for suite in (CODEC_COST, CODEC_ERROR, SIZES):
        full, quick = suite.study(BenchOptions()).cases, suite.study(BenchOptions(quick=True)).cases
        assert 0 < len(quick) <= len(full)


@pytest.mark.parametrize("name", [*CODECS, *codec_cost.OTHERS])
def test_every_codecs_cost_can_be_measured(name: str) -> None:
    threads = torch.get_num_threads()
    for one in codec_cost.measure(codec_cost.CodecCost(name, 10_000, "cpu", 1)):
        assert (one["codec"], one["values"]) == (name, 10_000)
        assert min(one["encode_ms"], one["decode_ms"], one["cpu_ms"]) > 0
    assert torch.get_num_threads() == threads


def test_recorded_gradients_differ_between_workers_and_come_in_order() -> None:
    recorder = GradientRecorder("digits", 2)
    first, second = recorder.gradients((0, 2))
    values = sum(int(np.prod(shape)) for shape in recorder.shapes)
    assert first.shape == second.shape == (2, values)
    assert not torch.equal(first[0], first[1]) and not torch.equal(first, second)
    again, _ = GradientRecorder("digits", 2).gradients((0, 2))
    assert torch.equal(again, first)
