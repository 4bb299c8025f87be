# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A whole run with its page, without a network: what it writes, and how the page ends with it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.lab import runs
from sumwire_lab.options import arguments, recorded
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.run import live, training_run
from sumwire_lab.run.results import SystemResult, WorkerRecord

OPTIONS = RunOptions(workers=runs.WORKERS, engine="python")
Tick = Callable[[Sequence[WorkerRecord]], None]


class Trained:
    """In the place of a training: the records that are known, and a browser that looks meanwhile."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.address = ""
        self.interrupts = ""
        self._events: http.client.HTTPResponse | None = None

    def say(self, line: str) -> None:
        if line.startswith("live: "):
            self.address = line.removeprefix("live: http://").strip("/")

    def __call__(self, system: str, options: RunOptions, *_: object, on_tick: Tick, **__: object) -> SystemResult:
        result = next(one for one in runs.results() if one.system == system)
        if self.address and self._events is None:
            connection = http.client.HTTPConnection(self.address, timeout=60)
            connection.request("GET", "/events")
            self._events = connection.getresponse()
        on_tick(result.workers)
        if self._events is not None:
            self._next()
        if system == self.interrupts:
            raise KeyboardInterrupt
        return result

    def _next(self) -> None:
        assert self._events is not None
        self.seen.append(json.loads(self._events.readline().decode().removeprefix("data: ")))
        self._events.readline()

    def last(self) -> dict[str, Any]:
        """The last event, after which there is nothing."""
        while not self.seen[-1]["last"]:
            self._next()
        assert self._events is not None
        assert self._events.read() == b""
        return self.seen[-1]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Trained:
    made = Trained()
    monkeypatch.setattr(live, "EVERY_S", 0.0)
    monkeypatch.setattr(training_run, "require_tools", lambda: None)
    monkeypatch.setattr(training_run.leftovers, "clean", lambda: [])
    monkeypatch.setattr(training_run, "_one", made)
    return made


def test_the_page_follows_every_system_and_ends_with_the_run(trained: Trained, tmp_path: Path) -> None:
    settings = recorded.recorded(arguments.parser().parse_args(["run"]), OPTIONS)
    summary, folder = training_run.run(OPTIONS, tmp_path, trained.say, settings, live=0)
    words = [one["words"].partition(";")[0] for one in trained.seen]
    assert "gloo: step 6 of 6" in words
    last = trained.last()
    assert last["words"] == "the run has ended; its folder has the report"
    assert "thc spends 6.00 times less" in last["html"]
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection(trained.address).request("GET", "/")
    assert json.loads((folder / "summary.json").read_text()) == summary
    assert "thc spends 6.00 times less" in (folder / "report.html").read_text()
    assert recorded.settings_in(folder)["workers"] == runs.WORKERS


def test_the_page_tells_that_a_run_was_interrupted(trained: Trained, tmp_path: Path) -> None:
    trained.interrupts = "thc"
    with pytest.raises(KeyboardInterrupt):
        training_run.run(OPTIONS, tmp_path, trained.say, live=0)
    assert trained.last()["words"] == "the run has been interrupted, or has failed"
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection(trained.address).request("GET", "/")
    assert set(json.loads((tmp_path / "latest" / "summary.json").read_text())["systems"]) == {"gloo"}


def test_without_a_page_nothing_listens(trained: Trained, tmp_path: Path) -> None:
    training_run.run(OPTIONS, tmp_path, trained.say)
    assert (trained.address, trained.seen) == ("", [])
