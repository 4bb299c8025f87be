# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire.logs.configure` and SUMWIRE_LOG_FORMAT."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
import sumwire
from commonlib.logs import VARIABLE
from helpers.logs import lines_in
from sumwire import logs
from sumwire.errors import ConfigError
from sumwire_protocol.events import Event

TOLD = Event.JOB_CLOSED(job=7, worker=2, name="digits", operations=3, reason=None)


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    loggers = [logging.getLogger(name) for name in logs._LOGGERS]
    before = [(logger.level, logger.propagate, [*logger.handlers]) for logger in loggers]
    yield
    logs._handlers.clear()
    for logger, (level, propagate, handlers) in zip(loggers, before, strict=True):
        logger.level, logger.propagate, logger.handlers = level, propagate, handlers


def tell(level: int = logging.INFO) -> None:
    logging.getLogger("sumwire").log(level, "job %s: closed", "digits\n", extra=TOLD)


def test_lines_of_both_forms() -> None:
    first, second = io.StringIO(), io.StringIO()
    sumwire.logs.configure("json", stream=first)
    tell()
    (line,) = lines_in(first.getvalue())
    assert (line["event"], line["job"], line["worker"], line["operations"]) == (Event.JOB_CLOSED.word, 7, 2, 3)
    logs.configure("text", stream=second)
    tell()
    assert len(first.getvalue().splitlines()) == 1, "the second call takes the first one's place"
    assert second.getvalue().endswith(r" INFO job digits: closed".replace("digits", r"digits\n") + "\n")


def test_the_least_level() -> None:
    out = io.StringIO()
    assert not logs.shown()
    logs.configure("json", "info", out)
    assert logs.shown()
    logs.configure("json", "warning", out)
    assert not logs.shown()
    tell()
    tell(logging.WARNING)
    assert [line["level"] for line in lines_in(out.getvalue())] == ["warning"]


def test_the_environment_is_enough(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    logs.by_environment()
    assert logging.getLogger("sumwire").propagate, "without it, nothing changes"
    monkeypatch.setenv(VARIABLE, "json")
    logs.by_environment()
    logs.by_environment()
    tell()
    assert len(lines_in(capsys.readouterr().err)) == 1


def test_what_the_script_has_configured_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    logs.configure("text", stream=out)
    monkeypatch.setenv(VARIABLE, "json")
    logs.by_environment()
    tell()
    assert "INFO job" in out.getvalue()


@pytest.mark.parametrize(
    ("form", "level", "variable", "rule"),
    [
        ("xml", "info", "", "logs: form = 'xml': must be text or json"),
        (None, "info", "xml", "logs: SUMWIRE_LOG_FORMAT = 'xml': must be text or json"),
        ("json", "loud", "", "logs: level = 'loud': must be debug, info, warning, error"),
    ],
)
def test_what_is_refused(
    monkeypatch: pytest.MonkeyPatch, form: str | None, level: str, variable: str, rule: str
) -> None:
    monkeypatch.setenv(VARIABLE, variable)
    with pytest.raises(ConfigError, match=rule):
        logs.configure(form, level)
