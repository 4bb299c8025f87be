# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What `sumwire pays` makes of four ranks' steps, and which tensors they have. tests/integration/host/test_pays.py lets
ranks run."""

from __future__ import annotations

import math
from typing import Any

import pytest
from sumwire.start import trial
from sumwire.start.steps import LARGE, LARGE_VALUES, SMALL
from sumwire.systems import pays

SHAPE = (1024, 1024)
# CPU seconds, and seconds or those of the aggregator.
TOLD: dict[str, list[float]] = {
    LARGE: [4e-3, 6e-3], SMALL: [3e-4, 5e-4], "ssgd": [5e-3, 0.0], "fp16": [4e-3, 0.0], "powersgd": [9e-3, 0.0],
    "thc": [1e-2, 2e-3],
}  # fmt: skip
# Of gloo: a large tensor is sent 1.5 times in a ring of four and once in one of two, with six messages and two.
THIRD, MESSAGES = 4e-3 / 3, 3e-4 * 2 / 3


def measured(workers: int, monkeypatch: pytest.MonkeyPatch, shapes: list[tuple[int, ...]] | None = None) -> Any:
    asked: list[Any] = []

    def steps(told: Any) -> list[dict[str, list[float]]]:
        asked.append(told)
        return [TOLD, *[{**TOLD, "thc": [2e-2, 0.0]}] * 2, {**TOLD, "thc": [3e-2, 0.0]}]

    monkeypatch.setattr(trial, "_steps", steps)
    question = pays.question_of(shapes or [SHAPE], workers, 1e9, 1e-3)
    return trial.measured(question, ("thc",)), asked[0]


def test_of_four_workers_what_four_ranks_need(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = measured(4, monkeypatch)
    assert asked == {"shapes": [SHAPE], "rank": 4, "systems": ["ssgd", "fp16", "powersgd", "thc"]}
    seconds = {name: cost.value_s * LARGE_VALUES for name, cost in found.hosts.items()}
    assert seconds == pytest.approx({"ssgd": 5e-3, "fp16": 4e-3, "powersgd": 9e-3, "thc": 2e-2}), "the mean of ranks"
    # A packet of each worker.
    assert found.hosts["thc"].aggregator_s * LARGE_VALUES == pytest.approx(2e-3 / 4)


def test_seconds_of_a_message_are_those_that_no_processor_needs() -> None:
    """A ring of four has six messages one after the other. On two cores four ranks of 0.3 ms take 0.6 ms."""
    told = [{SMALL: [3e-4, 9e-4]}] * 4
    assert trial._step_s(told, 2) == pytest.approx(3e-4 / 6)
    assert trial._step_s(told, 16) == pytest.approx(6e-4 / 6)
    assert trial._step_s(told, 1) == 0


def test_of_two_workers_less_by_gloo(monkeypatch: pytest.MonkeyPatch) -> None:
    """fp16's bytes are half of gloo's, and Power-SGD has three rings."""
    four, two = (measured(workers, monkeypatch)[0].hosts for workers in (4, 2))
    less = {name: (four[name].value_s - two[name].value_s) * LARGE_VALUES for name in two}
    few = 2 * 4 * 1024 / LARGE_VALUES
    expected = {
        "ssgd": THIRD + MESSAGES, "fp16": THIRD / 2 + MESSAGES, "powersgd": few * THIRD + 3 * MESSAGES, "thc": 0.0,
    }  # fmt: skip
    assert less == pytest.approx(expected, abs=1e-9)


def test_systems_that_take_fewer_workers_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_steps", lambda told: [TOLD] * 4)
    found = trial.measured(pays.question_of([SHAPE], 40, 1e9, 1e-3), ("vote",))
    assert found.left_out == {"vote": "a switch takes 15 workers at most"}
    assert "vote" not in found.hosts


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([SHAPE, (7,)], [SHAPE, (7,)]),
        # Of 53 groups by size, the middle one's tensor.
        ([SHAPE] * 104 + [(1000,)] * 4, [SHAPE, SHAPE]),
        # So many that their number would count, and not their values.
        ([(8,)] * 10_000, [(8,)] * 1000),
        # Large ones have fewer rows, and a long row fewer values.
        ([(30_000, 1024)], [(2048, 1024)]),
        ([(1, 1 << 23)], [(trial.VALUES_MOST,)]),
        ([(1 << 24,)], [(trial.VALUES_MOST,)]),
    ],
)
def test_a_sample_of_a_large_model(shapes: list[tuple[int, ...]], expected: list[tuple[int, ...]]) -> None:
    assert trial.sample(shapes) == expected


def test_the_sample_of_a_model_has_tensors_of_its_kinds() -> None:
    shapes = pays.tensors_of(None, None, "bert-base")
    found = trial.sample(shapes)
    assert trial.VALUES_MOST / 4 < sum(map(math.prod, found)) <= trial.VALUES_MOST
    assert {len(shape) for shape in found} == {1, 2}


def test_a_sample_counts_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = measured(4, monkeypatch, [SHAPE] * 104)
    assert asked["shapes"] == [SHAPE, SHAPE]
    assert found.hosts["ssgd"].value_s * 2 * LARGE_VALUES == pytest.approx(5e-3)
