# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What docs/simulate.md concludes from its studies, made again, and its pictures."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from inspect import signature
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from helpers.paths import ROOT
from sumwire_lab.errors import OptionError
from sumwire_lab.simulate.studies import NAMED, SEEDS, named
from sumwire_lab.study import figures
from sumwire_lab.study.study import Context, Study

QUICK = tuple(name for name in NAMED if name != "dlcp")
PAGE = (ROOT / "docs" / "simulate.md").read_text()


@cache
def rows_of(name: str) -> list[dict[str, Any]]:
    study = named(name)
    return [row for case in study.cases for row in rows_of_case(study, case)]


def rows_of_case(study: Study, case: Mapping[str, Any]) -> list[dict[str, Any]]:
    wants = len(signature(study.worker).parameters) > 1
    found = study.worker(case, *([Context(ROOT, print)] if wants else []))
    return [{**case, **row} for row in (found if isinstance(found, list) else [found])]


def only(name: str, column: str, **wanted: Any) -> float:
    kept = {key.replace("_", "-"): value for key, value in wanted.items()}
    (row,) = (row for row in rows_of(name) if all(row.get(key) == value for key, value in kept.items()))
    return float(row[column])


@pytest.mark.parametrize("name", QUICK)
def test_pictures_are_current(name: str, tmp_path: Path) -> None:
    study = named(name)
    path = tmp_path / f"{study.name}.svg"
    figures.draw(study.figures[0], rows_of(name), path)
    kept = ROOT / "docs" / "images" / path.name
    assert path.read_text() == kept.read_text(), f"run sumwire-lab simulate {name}, and copy its figure there"


@pytest.mark.parametrize("name", NAMED)
def test_every_study_is_on_the_page_with_its_picture(name: str) -> None:
    assert f"**`{name}`" in PAGE
    assert f"(images/simulate-{name}.svg)" in PAGE


def test_s_sgd_takes_as_long_as_the_paper_says() -> None:
    """Passes are the paper's times of ACP-SGD, so those are no result."""
    seconds = {
        (model, method): only("acp", "step_s", model=model, workers=32, rate_bit_s=1e10, what=method)
        for model in ("resnet50", "resnet152", "bert-base", "bert-large")
        for method in ("S-SGD", "Power-SGD", "ACP-SGD")
    }
    paper = {"resnet50": 0.266, "resnet152": 0.5, "bert-base": 0.805, "bert-large": 2.307}
    for model, expected in paper.items():
        assert seconds[model, "S-SGD"] == pytest.approx(expected, rel=0.03)
    mean = {
        method: fmean(seconds[model, method] / seconds[model, "ACP-SGD"] for model in paper)
        for method in ("S-SGD", "Power-SGD")
    }
    assert mean["S-SGD"] == pytest.approx(3.93, abs=0.01)
    assert mean["Power-SGD"] == pytest.approx(1.20, abs=0.01)


def test_thc_takes_as_long_with_a_thousand_workers() -> None:
    def exposed(workers: int, system: str, rate: float = 1e10) -> float:
        return only("thc-scale", "exposed_s", workers=workers, systems=system, rate_bit_s=rate)

    assert exposed(128, "thc") == pytest.approx(exposed(4, "thc"), rel=0.01)
    assert exposed(1024, "thc-16") == pytest.approx(exposed(4, "thc-16"), rel=0.01)
    assert exposed(4, "thc-16") == pytest.approx(2 * exposed(4, "thc"), rel=0.1)
    assert (round(exposed(4, "thc"), 3), round(exposed(4, "gloo"), 2), round(exposed(1024, "gloo"), 2)) == (
        0.087,
        0.54,
        0.82,
    )


@pytest.mark.parametrize(("rate", "enough"), [(1e9, 8), (1e10, 128), (1e11, 512)])
def test_a_job_needs_twice_the_chunks_of_a_round_trip(rate: float, enough: int) -> None:
    def seconds(slots: int) -> float:
        return only("slots", "comm_s_per_step", slots=slots, rate_bit_s=rate, delay_s=1e-5)

    assert seconds(enough) <= 1.06 * seconds(32_768)
    assert enough == 8 or seconds(enough // 4) > 1.3 * seconds(32_768)


def mean_of(rule: str, seed: int, **wanted: Any) -> float:
    found = [
        row for row in rows_of("jobs")
        if row["rule"] == rule and row["seed"] == seed and all(row[key] == one for key, one in wanted.items())
    ]  # fmt: skip
    return float(found[0]["completion_s"])


@pytest.mark.parametrize("seed", SEEDS)
def test_slots_that_are_scarce_are_worth_a_rule(seed: int) -> None:
    scarce: Mapping[str, Any] = {"delay_s": 2e-5, "gap_s": 240.0}
    assert mean_of("static", seed, **scarce) / mean_of("worth", seed, **scarce) >= 1.3
    assert mean_of("useful", seed, **scarce) <= 1.16 * mean_of("worth", seed, **scarce)
    plenty: Mapping[str, Any] = {"delay_s": 1e-6, "gap_s": 240.0}
    assert mean_of("static", seed, **plenty) == pytest.approx(mean_of("worth", seed, **plenty), rel=0.01)


def step_of_144(line: str, **changed: Any) -> float:
    """Seconds of a step of the study `dlcp`, by its first seed."""
    study = named("dlcp")
    case = next(case for case in study.cases if (case["what"], case["workers"], case["seed"]) == (line, 144, SEEDS[0]))
    (row,) = rows_of_case(study, {**case, **changed})
    return float(row["step_s"])


def test_each_mechanism_of_dlcp_brings_what_the_page_says() -> None:
    """Rings of 144, which take far longer to simulate, have their numbers on the page alone."""
    thc = step_of_144("thc")
    assert thc == pytest.approx(0.0645, abs=5e-5)
    assert step_of_144("thc, early forward") == pytest.approx(thc, rel=0.01)
    lanes = step_of_144("thc, lanes")
    assert 1 - lanes / thc == pytest.approx(0.03, abs=0.005)
    priorities = step_of_144("thc, lanes and priorities")
    assert 1 - priorities / thc == pytest.approx(0.08, abs=0.005)
    unlimited = step_of_144("thc, lanes and priorities", limited=False)
    assert unlimited / priorities == pytest.approx(2.3, abs=0.1)


def test_small_packets_need_hosts_that_send_them_for_nothing() -> None:
    def seconds(system: str, costs: str, rate: float = 1e11) -> float:
        return only("tofino", "comm_s_per_step", systems=system, costs=costs, rate_bit_s=rate)

    assert seconds("thc-tofino", "none") == pytest.approx(0.022, abs=0.001)
    assert seconds("gloo", "none") / seconds("thc-tofino", "none") == pytest.approx(3.2, abs=0.1)
    assert seconds("fp16", "none") / seconds("thc-tofino", "none") == pytest.approx(1.6, abs=0.1)
    assert seconds("thc-tofino", "gpu") == pytest.approx(0.69, abs=0.01)
    assert seconds("thc-tofino", "gpu", 2.5e10) > seconds("gloo", "gpu", 2.5e10)


def test_thc_pays_up_to_some_rate() -> None:
    def step(system: str, rate: float, model: str = "bert-base") -> float:
        return only("where", "step_s", systems=system, rate_bit_s=rate, model=model)

    assert [round(step(system, 1e11), 3) for system in ("thc", "gloo", "fp16")] == [0.050, 0.070, 0.038]
    assert [round(step(system, 2.5e10), 3) for system in ("thc", "fp16")] == [0.050, 0.134]
    assert step("gloo", 1e11, "resnet50") / step("thc", 1e11, "resnet50") == pytest.approx(1, abs=0.03)


def test_an_unknown_study_is_refused() -> None:
    with pytest.raises(OptionError, match="study=nothing: known are"):
        named("nothing")
