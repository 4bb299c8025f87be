# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Plans of the suites that need a network, and what they say about rows that were made by hand."""

from __future__ import annotations

from typing import Any

import pytest
from sumwire_lab.bench import accuracy, page_allreduce
from sumwire_lab.bench.accuracy import ACCURACY, cases, speed_up, thinned
from sumwire_lab.bench.page_allreduce import ALL_REDUCE, SCALING, all_reduce_cases, feasible, megabytes, scaling_cases
from sumwire_lab.options.bench_options import BenchOptions


def row(system: str, values: int, seconds: float, rate: float = 100.0, share: float = 0.8) -> dict[str, Any]:
    times = {"seconds": seconds, "bound_s": share * seconds, "link_share": share, "host_cpu_s": 0.02}
    about = {"workers": 4, "topology": "star", "retransmissions": 0, "offloads": system == "gloo"}
    return {"link_mbit": rate, "values": values, "system": system, **times, **about}


def test_sizes_from_4_kb_to_100_mb_where_the_link_allows() -> None:
    found = all_reduce_cases(BenchOptions())
    assert {case.link_mbit for case in found} == {10.0, 100.0, 1000.0}
    fast = next(case for case in found if case.link_mbit == 1000.0)
    assert (megabytes(fast.sizes[0]), megabytes(fast.sizes[-1])) == ("4 KB", "100 MB")
    # 1.5 x 100 MB at 10 Mbit/s take two minutes.
    assert 25_000_000 not in feasible(page_allreduce.SIZES, 10.0)
    (gone,) = ALL_REDUCE.left_out(BenchOptions())
    assert gone.startswith("100 MB at 10 Mbit/s")
    assert len(all_reduce_cases(BenchOptions(quick=True))[0].sizes) == 3


def test_where_an_all_reduce_loses() -> None:
    rows = [
        *(row("gloo", values, seconds) for values, seconds in ((1000, 0.001), (10_000, 0.006), (10**6, 0.6))),
        *(row("thc", values, seconds, share=0.5) for values, seconds in ((1000, 0.005), (10_000, 0.009), (10**6, 0.1))),
    ]
    shown = ALL_REDUCE.present(rows)
    slower, idle = shown.behind
    assert slower == "At 100 Mbit/s thc is slower than gloo for 4 KB, 40 KB (up to 5.0 times)."
    assert idle.startswith("At 100 Mbit/s and 4 MB thc keeps its link 50% busy, gloo 80%")
    assert [line.name for line in shown.charts[0].series if line.bound] == ["gloo, bound", "thc, bound"]
    assert shown.charts[0].series[0].points[0] == (4000.0, 0.001)
    assert shown.tables[0].rows[-1][-2:] == ("6.00", "off")
    assert shown.tables[0].rows[-2][-2:] == ("1.00", "on")


def test_rates_have_a_chart_each() -> None:
    shown = ALL_REDUCE.present([row("gloo", 1000, 0.1, 10.0), row("thc", 1000, 0.05, 100.0)])
    assert [chart.title for chart in shown.charts] == ["One all-reduce, 10 Mbit/s", "One all-reduce, 100 Mbit/s"]
    assert shown.behind == ()


def test_scaling_plan() -> None:
    found = scaling_cases(BenchOptions())
    gloo = [(case.workers, case.topology) for case in found if case.system == "gloo"]
    assert gloo == [(2, "star"), (4, "star"), (8, "star"), (16, "star"), (8, "leaf-spine"), (8, "three-level")]
    assert len(SCALING.study(BenchOptions()).cases) == len(set(found)) == len(found)


def test_an_aggregator_has_no_levels() -> None:
    options = BenchOptions(switch="aggregator")
    assert {case.topology for case in scaling_cases(options)} == {"star"}
    assert SCALING.left_out(options) and not SCALING.left_out(BenchOptions())


def scaled(system: str, workers: int, seconds: float, topology: str = "star") -> dict[str, Any]:
    return {**row(system, 10**6, seconds, share=0.1 / seconds), "workers": workers, "topology": topology}


def test_scaling_page() -> None:
    rows = [
        *(scaled("gloo", workers, seconds) for workers, seconds in ((2, 0.4), (8, 0.8))),
        *(scaled("thc", workers, seconds) for workers, seconds in ((2, 0.1), (8, 0.3))),
        scaled("gloo", 8, 0.9, "leaf-spine"),
        scaled("thc", 8, 1.8, "leaf-spine"),
    ]
    shown = SCALING.present(rows)
    workers, levels = shown.charts
    assert workers.series[1].points == ((2.0, 0.1), (8.0, 0.3))
    assert levels.series[1].points == ((1.0, 0.3), (2.0, 1.8))
    assert shown.behind == (
        "8 workers, leaf-spine: thc takes 1.800 s, gloo 0.900 s.",
        "From 2 to 8 workers the time of thc grows 3.0 times, that of gloo 2.0 times.",
    )


def trained(system: str, time_s: float | None, final: float = 0.98) -> dict[str, Any]:
    times = {"time_to_target_s": time_s, "comm_s_per_step": 0.2, "step_s": 0.3, "curve": ((1.0, 0.5), (2.0, final))}
    counts = {"wire_bytes_per_step": 1e6, "steps": 100, "parameters": 300_000, "replicas_equal": True, "fallbacks": 0}
    return {"task": "m", "system": system, "link_mbit": 10.0, "target": 0.95, "accuracy": final, **times, **counts}


def test_speed_up_is_of_the_best_on_both_sides() -> None:
    rows = [trained("gloo", 40.0), trained("fp16", 21.0), trained("powersgd", None)]
    # Over a group, a system is not one that Sumwire's switch helps.
    rows += [trained("thc", 7.0), trained("marsit", None), trained("acp@group", 1.0)]
    assert speed_up("m", rows) == ("fp16", "thc", pytest.approx(3.0))
    assert speed_up("m", [trained("gloo", None), trained("thc", 1.0)]) is None
    assert speed_up("m", [trained("gloo", 4.0), trained("thc", None)]) is None


def test_accuracy_page() -> None:
    shown = ACCURACY.present([trained("gloo", 10.0), trained("thc", 12.0, 0.97), trained("vote", None, 0.6)])
    assert shown.behind == (
        "m: thc needs 12.0 s to the target, gloo 10.0 s.",
        "m: thc ends 1.00 points below gloo's accuracy.",
        "m: vote never reached 95% accuracy (last: 60.0%).",
        "m: vote ends 38.00 points below gloo's accuracy.",
    )
    table, verdict = shown.tables
    assert table.rows[2][2] == "never" and verdict.rows == (("m", "gloo", "thc", "0.83"),)
    assert shown.charts[0].series[0].points == ((1.0, 50.0), (2.0, 98.0))
    assert shown.charts[0].series[-1].bound


def test_long_curves_are_thinned_but_keep_their_end() -> None:
    curve = [(float(k), 0.0) for k in range(1001)]
    kept = thinned(curve)
    assert len(kept) <= accuracy.CURVE_POINTS + 1 and kept[0] == curve[0] and kept[-1] == curve[-1]
    assert thinned(curve[:3]) == tuple(curve[:3])


def test_accuracy_plans_all_systems_of_three_models_and_few_when_quick() -> None:
    full, quick = cases(BenchOptions()), cases(BenchOptions(quick=True))
    assert len({case.task for case in full}) == 3
    assert {"gloo", "fp16", "powersgd", "topk", "thc", "acp", "marsit"} <= {case.system for case in full}
    assert {case.task for case in quick} == {"digits"}
    assert page_allreduce.LEVELS == {"star": 1, "leaf-spine": 2, "three-level": 3}
