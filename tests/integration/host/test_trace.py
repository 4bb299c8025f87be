# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Traces of runs with the golden switch on loopback."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sumwire
import torch
from helpers.transport.udp_bridge import Bridge, Impairment, configs, golden_switch, job_mapping, run_workers
from sumwire import trace
from sumwire.errors import UsageError
from sumwire.transport.stats import JobStats

WORKERS, OPERATIONS, VALUES = 2, 3, 200_000
# Of the time of the operations, so much is in spans that say what is done.
SHARE = 0.8


def run(path: str | None) -> list[JobStats]:
    mapping = job_mapping(WORKERS, 64)

    def work(worker: int) -> JobStats:
        with sumwire.Job(configs(mapping)[worker], trace=path) as job:
            for number in range(OPERATIONS):
                sumwire.all_reduce(torch.randn(VALUES), job, feedback=f"t{number}")
            return job.stats

    with Bridge(mapping, golden_switch(mapping), Impairment(drop=0.01)):
        stats: list[JobStats] = run_workers(work, WORKERS)
    return stats


Event = dict[str, Any]


def threads_of(path: Path) -> list[list[Event]]:
    """The spans of each thread, in order of their begins; outer ones first."""
    loaded = json.loads(path.read_text())
    spans = [event for event in loaded["traceEvents"] if event["ph"] == "X"]
    named = {event["tid"] for event in loaded["traceEvents"] if event["name"] == "thread_name"}
    assert {event["tid"] for event in spans} == named
    assert loaded["otherData"]["lost_spans"] == 0
    key = lambda event: (event["ts"], -event["dur"])  # noqa: E731
    return [sorted((event for event in spans if event["tid"] == tid), key=key) for tid in sorted(named)]


def end(event: Event) -> float:
    return float(event["ts"] + event["dur"])


def test_spans_nest_and_cover_the_operations(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    stats = run(str(path))
    threads = threads_of(path)
    assert len(threads) == WORKERS
    for events in threads:
        stack: list[Event] = []
        for event in events:
            while stack and end(stack[-1]) <= event["ts"]:
                stack.pop()
            # A float of microseconds has some nanoseconds' room.
            assert not stack or end(event) <= end(stack[-1]) + 0.01, (event, stack[-1])
            stack.append(event)
        operations = [event for event in events if event["name"] == "mean by thc"]
        assert [event["args"]["number"] for event in operations] == list(range(OPERATIONS))
        assert [event["args"]["values"] for event in operations] == [VALUES] * OPERATIONS
        assert {"prepare", "encode", "send", "wait", "decode"} <= {event["name"] for event in events}
        for one in operations:
            within = [event for event in events if event is not one and one["ts"] <= event["ts"] < end(one)]
            top = [event for event in within if not any(o is not event and o["ts"] <= event["ts"] and
                                                        end(event) <= end(o) for o in within)]  # fmt: skip
            assert all(end(a) <= b["ts"] + 0.01 for a, b in pairwise(top))
            assert sum(event["dur"] for event in top) >= SHARE * one["dur"]
    # What the job has counted: exactly these times, but for the codec's beginning.
    spans = sum(event["dur"] for events in threads for event in events if event["name"] == "mean by thc")
    assert spans * 1e-6 == pytest.approx(sum(one.operation_s for one in stats), rel=0.2)
    assert trace._recorder is None


def test_without_a_path_nothing_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SUMWIRE_TRACE", raising=False)
    run(None)
    assert list(tmp_path.iterdir()) == []
    assert trace.span("a", big=1) is trace.span("b")


def test_the_environment_names_a_file_for_each_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUMWIRE_TRACE", str(tmp_path / "trace-{worker}.json"))
    with sumwire.Job(configs(job_mapping(2, 16))[1]), trace.span("mine", step=7):
        pass
    [events] = threads_of(tmp_path / "trace-1.json")
    assert [(event["name"], event["args"]) for event in events] == [("mine", {"step": 7})]


def test_a_second_path_and_one_that_cannot_be_written(tmp_path: Path) -> None:
    first, second = configs(job_mapping(2, 16))
    with sumwire.Job(first, trace=str(tmp_path / "a")), pytest.raises(UsageError, match="give all one path"):
        sumwire.Job(second, trace=str(tmp_path / "b"))
    with pytest.raises(UsageError, match="name a file in a folder that is there"):
        sumwire.Job(first, trace=str(tmp_path / "none" / "a"))
    sumwire.Job(first).close()


def test_spans_are_ranges_of_torch_s_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUMWIRE_TRACE", raising=False)
    with sumwire.Job(configs(job_mapping(1, 16))[0]), torch.profiler.profile() as profile, trace.span("mine"):
        torch.ones(3).sum()
    assert "sumwire::mine" in {event.key for event in profile.key_averages()}
