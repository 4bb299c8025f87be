# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the lab says and logs in JSON, and in which form what it starts will log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from commonlib.events import ProgramEvent
from commonlib.logs import VARIABLE, Form
from helpers.logs import lines_in, lines_of
from sumwire_lab import cli
from sumwire_protocol.events import Event


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(VARIABLE, "")
    yield
    cli._log_in(Form.TEXT)


def test_all_that_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    assert cli.main(["--log-format", "json", "compare", str(tmp_path), str(tmp_path)]) == cli.EXIT_USAGE
    (failed,) = lines_of(caplog.records)
    assert failed["event"] == ProgramEvent.FAILED.word and str(tmp_path) in failed["reason"]
    cli.say("h1 10.0.0.1\nh2")
    (said,) = lines_in(capsys.readouterr().out)
    assert (said["event"], said["message"]) == (Event.LAB_SAID.word, "h1 10.0.0.1\nh2")
    assert os.environ[VARIABLE] == "json", "for what it starts"


def test_without_the_option_all_is_as_ever(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", str(tmp_path), str(tmp_path)]) == cli.EXIT_USAGE
    cli.say("a line")
    shown = capsys.readouterr()
    assert shown.out == "a line\n" and shown.err.startswith("sumwire-lab: ")
