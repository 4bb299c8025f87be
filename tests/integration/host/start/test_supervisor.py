# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Aggregators that end are started again. Stand-ins for them are shell scripts."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from sumwire.start import supervisor
from sumwire.start.errors import StartError
from sumwire.start.supervisor import AggregatorCommand, keep

# Odd starts serve and end, even ones do not get so far: their server is not there.
SCRIPT = """echo start >> "$0.starts"
if [ $(($(wc -l < "$0.starts") % 2)) = 1 ]; then echo ready: here; else echo No route to host; exit 255; fi
"""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_WAITS_S", (0.0,) * 4)


def test_one_that_has_served_is_tried_again(tmp_path: Path) -> None:
    """Also where a start fails, as while its server starts."""
    script, said = tmp_path / "aggregator", list[str]()
    script.write_text(SCRIPT)
    with pytest.raises(StartError, match=r"the aggregator 10\.0\.2\.1 has ended 4 times; see its lines above"):
        keep([AggregatorCommand(["sh", str(script)], "10.0.2.1")], {}, said.append, threading.Event())
    assert said.count("10.0.2.1: ready: here") == said.count("10.0.2.1: No route to host") == 2


def test_one_that_hangs_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even starts neither become ready nor end before they are told to."""
    monkeypatch.setattr(supervisor, "_READY_S", 0.5)
    script, said = tmp_path / "aggregator", list[str]()
    script.write_text(SCRIPT.replace("exit 255", "cat > /dev/null"))
    with pytest.raises(StartError, match=r"the aggregator 10\.0\.2\.1 has ended 4 times; see its lines above"):
        keep([AggregatorCommand(["sh", str(script)], "10.0.2.1")], {}, said.append, threading.Event())
    assert "the aggregator 10.0.2.1 is not ready; the next one starts in 0 s" in said
    assert said.count("10.0.2.1: ready: here") == said.count("10.0.2.1: No route to host") == 2


def test_one_that_was_closed_leaves_no_open_file() -> None:
    """Python would warn of it when the program ends."""
    running = supervisor.started(["sh", "-c", "echo ready: here; cat > /dev/null"], {}, lambda _: None)
    running.close()
    streams = (running._process.stdin, running._process.stdout)
    assert [stream is not None and stream.closed for stream in streams] == [True, True]


def test_one_that_never_served_is_told_at_once() -> None:
    with pytest.raises(StartError, match=r"^10\.0\.2\.1: the aggregator has ended: No route; mend that"):
        keep([AggregatorCommand(["sh", "-c", "echo No route"], "10.0.2.1")], {}, lambda _: None, threading.Event())
