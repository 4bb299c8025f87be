# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Results of a run that never was: records with values that are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.run.results import StepRecord, SystemResult, WorkerRecord, run_summary

STEPS = 6
WORKERS = 2


def step(number: int, *, comm_s: float, step_s: float, tx_bytes: int, rx_bytes: int) -> StepRecord:
    at_s = 100.0 + step_s * number
    tensor = {"bucket": 0, "values": 70, "at_s": at_s + 0.25, "seconds": comm_s}
    return StepRecord(
        number, 1.0 / (number + 1), step_s * (number + 1), step_s, comm_s, tx_bytes, rx_bytes, 0.5 + 0.1 * number,
        tx_header_bytes=5, rx_header_bytes=5, tensors=[tensor], at_s=at_s, forward_s=0.125, backward_s=0.25 + comm_s,
    )  # fmt: skip


def link(lower: str, upper: str, **changes: Any) -> dict[str, Any]:
    base = {"lower": lower, "upper": upper, "mbit": 100.0, "up_bytes": 5_000_000, "down_bytes": 2_500_000}
    return {**base, "up_load": 0.5, "down_load": 0.25, "up_lost": 0, "down_lost": 0, **changes}


def result(system: str, **step_of: Any) -> SystemResult:
    workers = []
    for rank in range(WORKERS):
        steps = [step(number, **step_of) for number in range(STEPS)]
        workers.append(WorkerRecord(rank, STEPS, 70, steps, "f", {"retransmissions": 3}))
    links = [link(f"h{k + 1}", "s1", down_lost=k) for k in range(WORKERS)]
    return SystemResult(system, tuple(workers), 9.0, {"links": links})


def results() -> list[SystemResult]:
    """gloo communicates for 6 s of 8 s a step, thc for 1 s of 2 s; gloo's bytes are 10 times as many, 8 in the busier
    direction."""
    return [
        result("gloo", comm_s=6.0, step_s=8.0, tx_bytes=2000, rx_bytes=1000),
        result("thc", comm_s=1.0, step_s=2.0, tx_bytes=50, rx_bytes=250),
    ]


def summary(made: list[SystemResult] | None = None) -> dict[str, Any]:
    return run_summary(RunOptions(workers=WORKERS), "soft", results() if made is None else made)


@dataclass
class Page(HTMLParser):
    """What tests look at in a page: the numbers with a path into summary.json, their words, and what it loads."""

    text: str
    numbers: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    _path: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        self._path = given.get("data-path") or ""
        if self._path:
            self.numbers[self._path] = given["value"] or ""

    def handle_data(self, data: str) -> None:
        if self._path:
            self.words[self._path] = data
            self._path = ""


def value_at(told: Any, path: str) -> Any:
    """What stands in summary.json at a path with dots."""
    for name in path.split("."):
        told = told[name]
    return told
