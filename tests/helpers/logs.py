# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Log lines in tests: each as a program would write it in JSON, read back and held to the list of events."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from commonlib.events import LogEvent, ProgramEvent
from commonlib.logs import JsonFormatter
from softswitch.events import SwitchEvent
from sumwire_protocol.events import Event

EVENTS = (*ProgramEvent, *SwitchEvent, *Event)
WORDS = {event.word: event for event in EVENTS}
ALWAYS = {"time", "level", "event", "job", "worker", "message"}
SOMETIMES = {"switch", "traceback"}

Line = dict[str, Any]


def checked(text: str) -> Line:
    """A line as data. It must be ASCII without control characters, and have what its event has."""
    assert text.isascii() and text.isprintable(), text
    line: Line = json.loads(text)
    event = WORDS[line["event"]]
    assert set(line) - SOMETIMES == ALWAYS | set(event.fields), line
    assert datetime.fromisoformat(line["time"]).tzinfo is not None
    assert line["level"] in ("debug", "info", "warning", "error")
    return line


def lines_in(text: str) -> list[Line]:
    """What a program with `--log-format json` has said: nothing else may be between its lines."""
    return [checked(line) for line in text.splitlines()]


def lines_of(records: Iterable[logging.LogRecord]) -> list[Line]:
    """Records, as `caplog.records`."""
    return [checked(JsonFormatter().format(record)) for record in records]


def events_of(records: Iterable[logging.LogRecord]) -> list[LogEvent]:
    return [WORDS[line["event"]] for line in lines_of(records)]


def of(lines: Iterable[Line], event: LogEvent) -> list[Line]:
    """The lines of one event."""
    return [line for line in lines if line["event"] == event.word]


@contextlib.contextmanager
def logged(name: str = "sumwire", level: int = logging.DEBUG) -> Iterator[list[Line]]:
    """Lines of a logger from this level on, in the order they come."""
    lines: list[Line] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.extend(lines_of([record]))

    logger, handler = logging.getLogger(name), Lines()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
