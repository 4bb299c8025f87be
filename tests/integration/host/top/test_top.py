# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire top` against endpoints on loopback, and in a pseudo-terminal."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commonlib.metrics import MetricsEndpoint, Reading
from commonlib.metrics_server import Exposition
from helpers.docs import pages
from sumwire.cli import main
from sumwire.errors import ConfigError, UsageError
from sumwire.top import command
from sumwire.top.picture import endpoints
from sumwire_protocol import metrics

HOST = ("7", "2")
BRIEF = {"format": 3, "name": "m", "job": 1, "aggregator": "10.0.0.9", "hosts": ["10.0.0.1", "10.0.0.2"]}


def readings() -> Iterator[Reading]:
    yield Reading(metrics.JOB_INFO, (*HOST, "digits", "4"), 1)
    yield Reading(metrics.SENT_BYTES, HOST, 1e6 * time.monotonic())
    yield Reading(metrics.IN_FLIGHT, HOST, 33)


@pytest.fixture
def served() -> Iterator[str]:
    with Exposition(MetricsEndpoint()) as exposition:
        exposition.add(readings)
        yield str(exposition.endpoint)


def test_once_as_json(served: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", served, "127.0.0.1:1", "--once", "--json", "--interval", "0.2"]) == 0
    found = json.loads(capsys.readouterr().out)
    [worker] = found["workers"]
    assert (worker["name"], worker["worker"], worker["in_flight"]) == ("digits", 2, 33)
    assert worker["sent"] == pytest.approx(1e6, rel=0.5)
    assert found["silent"] == {"127.0.0.1:1": "Connection refused"}


def test_once_as_text(served: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", served, "--once", "--interval", "0.2"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"1 of 1 endpoints +job 7 digits: 1 worker", out)
    assert "\x1b" not in out


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_the_terminal_is_left_as_it_was(served: str, stop: signal.Signals) -> None:
    """The other screen is left again, the cursor is back, and nothing else is written."""
    reader, terminal = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    line = [sys.executable, "-m", "sumwire.cli", "top", served, "--interval", "0.2"]
    process = subprocess.Popen(line, stdin=terminal, stdout=terminal, stderr=terminal, env=environ)
    os.close(terminal)
    written = b""
    while b"digits" not in written and select.select([reader], [], [], 60)[0]:
        written += os.read(reader, 1 << 16)
    process.send_signal(stop)
    # A terminal that nobody reads would fill up and hold the process. Its end is an error on this side.
    with contextlib.suppress(OSError):
        while piece := os.read(reader, 1 << 16):
            written += piece
    assert process.wait(30) == 0
    os.close(reader)
    assert written.count(b"\x1b[?1049h") == written.count(b"\x1b[?1049l") == 1
    assert written.rindex(b"\x1b[?25h") > written.rindex(b"\x1b[?25l")
    assert b"Traceback" not in written


# -- where to look -------------------------------------------------------------------------------------


def test_words_name_endpoints(tmp_path: Path) -> None:
    targets = tmp_path / "targets.json"
    targets.write_text(json.dumps([{"targets": ["h1:9401", "h2:9402"], "labels": {"part": "host"}}]))
    assert endpoints(["9464", "10.0.0.1:9464-9466", str(targets), "9464"]) == [
        "127.0.0.1:9464", "10.0.0.1:9464", "10.0.0.1:9465", "10.0.0.1:9466", "h1:9401", "h2:9402",
    ]  # fmt: skip


def test_a_job_file_names_its_hosts_and_the_aggregator(tmp_path: Path) -> None:
    job = tmp_path / "job.json"
    job.write_text(json.dumps(BRIEF))
    assert endpoints([str(job)], 9000) == ["10.0.0.1:9000", "10.0.0.2:9000", "10.0.0.9:9000"]


@pytest.mark.parametrize("word", ["0", "9466-9464", "70000", "no-such-file.json", "host:"])
def test_a_word_that_names_nothing(word: str) -> None:
    with pytest.raises(UsageError, match="or a list of targets"):
        endpoints([word])


def test_a_list_with_a_target_that_is_none(tmp_path: Path) -> None:
    targets = tmp_path / "targets.json"
    targets.write_text('[{"targets": ["http://h1:9401/metrics"]}]')
    with pytest.raises(ConfigError, match="must be ADDRESS:PORT"):
        endpoints([str(targets)])


def test_the_page_s_commands_name_endpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("digits.json").write_text(json.dumps({**BRIEF, "name": "digits"}))
    Path("targets.json").write_text(json.dumps([{"targets": ["h1:9401"]}]))
    [block] = [block for block in pages.blocks("") if block.name == "watch.md: Top"]
    asked: list[command.TopOptions] = []
    monkeypatch.setattr(command, "run", asked.append)
    for line in block.text.splitlines():
        assert main(shlex.split(line, comments=True)[1:]) == 0
    assert [endpoints(one.words, one.port)[0] for one in asked] == [
        "127.0.0.1:9464", "10.0.0.1:9464", "10.0.0.1:9464", "h1:9401", "127.0.0.1:9464",
    ]  # fmt: skip
    assert asked[-1].once and asked[-1].as_json
