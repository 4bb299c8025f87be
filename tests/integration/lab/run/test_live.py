# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The page that follows a run, by HTTP and in Chromium."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.lab import runs
from helpers.lab.browser import PHONE, chromium
from sumwire_lab.errors import OptionError
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.run import live
from sumwire_lab.run.live import LivePage, Moment

OPTIONS = RunOptions(workers=runs.WORKERS)


def moment(steps: int) -> Moment:
    gloo, thc = runs.results()
    records = list(thc.workers)
    records[0].steps[steps + 1 :] = []
    records[1].steps[steps:] = []
    return Moment.of(OPTIONS, "soft", [gloo], "thc", records)


def told(steps: int) -> str:
    return f"thc: step {steps} of 6; its numbers are those so far"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[LivePage]:
    monkeypatch.setattr(live, "EVERY_S", 0.0)
    made = LivePage(0)
    yield made
    made.close("over")


def get(page: LivePage, path: str, host: str = "localhost") -> http.client.HTTPResponse:
    port = int(page.address.rsplit(":", 1)[1].strip("/"))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={"Host": host})
    return connection.getresponse()


def event(answer: http.client.HTTPResponse) -> dict[str, Any]:
    line = answer.readline().decode()
    assert answer.readline() == b"\n"
    found: dict[str, Any] = json.loads(line.removeprefix("data: "))
    return found


def test_only_what_all_workers_have_made_is_shown() -> None:
    """The first worker has made a step more than the second."""
    now = moment(3)
    assert now.words == told(3)
    assert [len(worker.steps) for worker in now.results[1].workers] == [3, 3]
    assert "thc spends 6.00 times less" in now.page()["html"]
    before = Moment.of(OPTIONS, "soft", [], "gloo", [])
    assert before.results == ()
    assert before.page() == {"words": "gloo: its first step is not done yet", "html": ""}


def test_events_follow_the_run_to_its_end(page: LivePage) -> None:
    frame = get(page, "/")
    assert frame.status == 200
    assert "connect-src 'self'" in frame.read().decode().replace("&#39;", "'")
    page.show(moment(2))
    events = get(page, "/events")
    assert events.headers["Content-Type"] == "text/event-stream"
    first = event(events)
    assert (first["words"], first["last"]) == (told(2), False)
    page.show(moment(3))
    assert event(events)["words"] == told(3)
    ends = threading.Thread(target=page.close, args=("the run has ended",))
    ends.start()
    last = event(events)
    assert (last["words"], last["last"], events.read()) == ("the run has ended", True, b"")
    ends.join(20)
    assert not ends.is_alive()
    with pytest.raises(ConnectionRefusedError):
        get(page, "/")


def test_strangers_get_nothing(page: LivePage) -> None:
    assert get(page, "/", host="evil.example").status == 403
    assert get(page, "/events", host="evil.example:80").status == 403
    assert get(page, "/../summary.json").status == 404
    assert get(page, "/", host="[").status == 403


def test_callers_that_say_nothing_keep_no_browser_out(page: LivePage) -> None:
    port = int(page.address.rsplit(":", 1)[1].strip("/"))
    with contextlib.ExitStack() as stack:
        for _ in range(2 * live._BROWSERS_MOST):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20)).sendall(b"GET ")
        assert get(page, "/").status == 200


def test_a_port_in_use_is_told(page: LivePage) -> None:
    port = int(page.address.rsplit(":", 1)[1].strip("/"))
    with pytest.raises(OptionError, match=f"live={port}: .*name another port"):
        LivePage(port)
    with pytest.raises(OptionError, match="live=70000"):
        LivePage(70000)


@pytest.mark.chromium
def test_a_browser_follows_the_run(page: LivePage, tmp_path: Path) -> None:
    with chromium() as browser:
        browser.resize(PHONE)
        browser.open(page.address)
        state = "return document.getElementById('state').textContent"
        browser.until(state, "waiting for the first step")
        for steps in (2, 4):
            page.show(moment(steps))
            browser.until(state, told(steps))
            assert "6.00×" in browser.run("return document.querySelector('.number').textContent")
        assert browser.width() <= PHONE[0]
        page.close("the run has ended")
        browser.until(state, "the run has ended")
        assert browser.run("return document.getElementById('state').dataset.state") == "ended"
        assert browser.errors() == []
