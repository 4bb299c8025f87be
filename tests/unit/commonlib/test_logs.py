# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Both forms of a line: what they have, and that text from outside cannot pass for more lines."""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import re
import sys

import pytest
from commonlib import log_context
from commonlib.events import ProgramEvent, Told
from commonlib.logs import VARIABLE, Form, JsonFormatter, TextFormatter, Voice, add_option, form_of, is_event, printable
from helpers.logs import checked
from helpers.paths import ROOT
from sumwire_protocol.events import Event

# A forged line, a colour, a bell, a line separator of Unicode, and text that runs from right to left.
HOSTILE = "d\n2026-11-23 INFO ready\x1b[31m\x07\u2028\u202e"


def record(text: str, extra: dict[str, Told] | None = None, **more: object) -> logging.LogRecord:
    made = logging.LogRecord("sumwire", logging.WARNING, "", 0, text, None, None)
    made.created = 1795433445.25
    vars(made).update({**(extra or {}), **more})
    return made


@pytest.fixture(autouse=True)
def no_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_context, "_switch", [])


def test_a_line_has_time_level_event_place_and_fields() -> None:
    told = Event.RETURNED(job=7, worker=2, name="digits", operation=12)
    assert json.loads(JsonFormatter().format(record("job digits returns", told))) == {
        "time": "2026-11-23T11:30:45.250+00:00", "level": "warning", "event": "returned", "job": 7, "worker": 2,
        "message": "job digits returns", "name": "digits", "operation": 12,
    }  # fmt: skip


def test_numbers_that_json_has_not_are_words() -> None:
    told = ProgramEvent.COUNTED(counters={"mean": float("nan"), "all": [1.5, float("inf")]})
    line = JsonFormatter().format(record("counted", told))
    assert json.loads(line, parse_constant=pytest.fail)["counters"] == {"mean": "nan", "all": [1.5, "inf"]}


def test_formatters_of_others_may_write_a_records_attributes_as_json() -> None:
    """As Ray's does in its workers, without a default for what JSON has not."""
    told = ProgramEvent.COUNTED(counters={("a", 1): 2}, reason=OSError("gone"), job=7)
    assert json.loads(json.dumps(vars(record("counted", told))))["sumwire"] == {
        "event": "counted", "counters": "{('a', 1): 2}", "reason": "gone", "job": 7,
    }  # fmt: skip


def test_the_page_shows_a_line_as_it_is() -> None:
    (shown,) = re.findall(r"```json\n(.*)\n```", (ROOT / "docs" / "watch.md").read_text())
    told = Event.FALLEN_BACK(
        job=1, worker=2, name="digits", operation=12, reason="worker 2: the switch does not answer"
    )
    text = "job digits falls back to the ordinary all-reduce from operation 12 on: worker 2: the switch does not answer"
    assert shown == JsonFormatter().format(record(text, told))


def test_lines_that_name_no_place_have_this_process_s() -> None:
    def found() -> tuple[object, ...]:
        line = checked(JsonFormatter().format(record("slow")))
        return line["job"], line["worker"], line.get("switch")

    assert found() == (None, None, None)
    first = log_context.opened(7, 0)
    assert found() == (7, 0, None)
    second = log_context.opened(8, 1)
    assert found() == (None, None, None), "of two jobs it is neither"
    log_context.closed(first)
    log_context.closed(first)
    assert found() == (8, 1, None)
    del second
    log_context.is_switch("10.0.0.9:21335")
    assert found() == (None, None, "10.0.0.9:21335"), "a job that nobody has is closed"


@pytest.mark.parametrize("text", [HOSTILE, "a\rb", "\x00", "\u00e9t\u00e9 \ud800"])
def test_text_from_outside_stays_in_its_line(text: str) -> None:
    line = checked(JsonFormatter().format(record(text, ProgramEvent.FAILED(reason=text))))
    assert line["message"] == line["reason"] == text
    told = TextFormatter("%(levelname)s %(message)s").format(record(text))
    assert told.startswith("WARNING ") and told.isprintable()
    assert told == f"WARNING {printable(text)}"


def test_what_is_printable_stays_as_it_is() -> None:
    assert printable("job \u00e9t\u00e9: 'x' \\n") == "job \u00e9t\u00e9: 'x' \\n"
    assert printable("a\nb\x1b") == r"a\nb\x1b"


def test_a_traceback_is_indented_and_a_field_in_json() -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        caught = (type(error), error, error.__traceback__)
    made = record("failed", ProgramEvent.THREAD_FAILED(reason="x"), exc_info=caught)
    first, *rest = TextFormatter("%(message)s").format(made).split("\n")
    assert first == "failed" and rest
    assert all(line.startswith("    ") and line.isprintable() for line in rest)
    assert "ValueError" in checked(JsonFormatter().format(made))["traceback"]


def test_lines_without_an_event_are_of_others() -> None:
    assert checked(JsonFormatter().format(record("a library's")))["event"] == ProgramEvent.OTHER.word


def test_what_a_program_says() -> None:
    for form, expected in ((Form.TEXT, "ready: here\n"), (Form.JSON, None)):
        out = io.StringIO()
        Voice(form, "sumwire", out).say("ready: here", ProgramEvent.READY(at="here"))
        assert out.getvalue() == expected if expected else checked(out.getvalue().rstrip("\n"))["at"] == "here"
        assert is_event(out.getvalue(), ProgramEvent.READY, "ready: ")
    assert not is_event('{"event": "counted"}', ProgramEvent.READY, "ready: ")
    assert not is_event("{not json", ProgramEvent.READY, "ready: ")
    assert not is_event("[1]", ProgramEvent.READY, "ready: ")


@pytest.mark.parametrize("serves", [False, True])
def test_a_program_that_serves_needs_no_reader(serves: bool, capfd: pytest.CaptureFixture[str]) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a file as a program gets it
        voice = Voice(Form.TEXT, "sumwire", full, serves=serves)
        if not serves:
            with pytest.raises(OSError, match="No space left"):
                voice.say("ready: here", ProgramEvent.READY(at="here"))
            os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())
            return
        for _ in range(2):
            voice.say("ready: here", ProgramEvent.READY(at="here"))
    assert capfd.readouterr().err == "standard output: No space left on device: nothing more is written there\n"


def test_a_program_without_standard_output_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    Voice(Form.TEXT, "sumwire").say("ready: here", ProgramEvent.READY(at="here"))


@pytest.mark.parametrize(
    ("variable", "words", "form"),
    [
        (None, [], Form.TEXT), ("json", [], Form.JSON), ("", [], Form.TEXT),
        ("json", ["--log-format", "text"], Form.TEXT), ("xml", ["--log-format", "json"], Form.JSON),
    ],
)  # fmt: skip
def test_the_option_goes_before_the_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, words: list[str], form: Form
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if variable is not None:
        monkeypatch.setenv(VARIABLE, variable)
    parser = argparse.ArgumentParser()
    add_option(parser)
    assert parser.parse_args(words).log_format is form


@pytest.mark.parametrize(("variable", "words"), [("xml", []), ("", ["--log-format", "xml"])])
def test_another_form_is_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], variable: str, words: list[str]
) -> None:
    monkeypatch.setenv(VARIABLE, variable)
    parser = argparse.ArgumentParser()
    add_option(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(words)
    assert "--log-format: 'xml': must be text or json" in capsys.readouterr().err
    assert form_of("xml") is None


def test_what_is_said_gives_no_orders_to_a_terminal() -> None:
    stream = io.StringIO()
    Voice(Form.TEXT, "sumwire", stream).say("one\n\x1b[2Jtwo\r\u202e", ProgramEvent.OTHER())
    assert stream.getvalue() == "one\n\\x1b[2Jtwo\\r\\u202e\n"
