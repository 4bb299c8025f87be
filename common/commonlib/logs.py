# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Log lines of programs, as text for humans or as JSON objects. Uncaught exceptions are logged in the same form.

Both forms escape control characters and all other characters that are not printable.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import sys
import threading
from datetime import UTC, datetime
from enum import StrEnum
from types import TracebackType
from typing import Any, Final, TextIO

from commonlib import log_context
from commonlib.events import ATTRIBUTE, PLACES, LogEvent, ProgramEvent, Told

VARIABLE: Final = "SUMWIRE_LOG_FORMAT"
_WARNINGS: Final = "py.warnings"
"""The logger to which `logging.captureWarnings` gives warnings."""
_UNCAUGHT: Final = "sumwire_uncaught"
_INTERRUPTS: Final = (KeyboardInterrupt, SystemExit)


class Form(StrEnum):
    """Form of a log line."""

    TEXT = "text"
    JSON = "json"


RULE: Final = "must be " + " or ".join(Form)


def form_of(text: str) -> Form | None:
    """Return the form of this name; None if there is none."""
    return Form(text) if text in list(Form) else None


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add `--log-format` to a parser. Its default is SUMWIRE_LOG_FORMAT."""
    parser.add_argument(
        "--log-format",
        type=_option,
        default=os.environ.get(VARIABLE) or Form.TEXT.value,
        metavar="FORMAT",
        help=f"{', '.join(Form)}: form of log lines; default: what {VARIABLE} says, or text",
    )


def _option(text: str) -> Form:
    form = form_of(text)
    if form is None:
        raise argparse.ArgumentTypeError(f"{text!r}: {RULE}")
    return form


def printable(text: str) -> str:
    """Return the text with backslash escapes for all characters that are not printable."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def printable_lines(text: str) -> str:
    """Return text of several lines, each changed by :func:`printable`."""
    return "\n".join(map(printable, text.split("\n")))


class TextFormatter(logging.Formatter):
    """Formats lines for humans, with a format of ``logging``. Lines of a traceback are indented."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return "\n".join(f"    {printable(line)}" for line in super().formatException(ei).splitlines())


class JsonFormatter(logging.Formatter):
    """Formats each line as one JSON object in ASCII: time (ISO 8601, UTC), level, event, job, worker, message, the
    event's fields.

    It includes ``switch`` where it applies, and ``traceback`` with an exception.
    """

    def format(self, record: logging.LogRecord) -> str:
        told: Told = getattr(record, ATTRIBUTE, None) or Told(ProgramEvent.OTHER, {})
        job, worker, switch = log_context.here()
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": told.event.word,
            "job": told.fields.get("job", job),
            "worker": told.fields.get("worker", worker),
        }
        if (named := told.fields.get("switch", switch)) is not None:
            line["switch"] = named
        line["message"] = record.getMessage()
        line |= {name: value for name, value in told.fields.items() if name not in PLACES}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _as_json(line)


def _as_json(line: dict[str, Any]) -> str:
    """A line that every reader of JSON takes: numbers that JSON has not, such as nan, are words."""
    try:
        return json.dumps(line, default=str, allow_nan=False)
    except ValueError:
        return json.dumps({name: _plain(value) for name, value in line.items()}, default=str)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def formatter(form: Form, pattern: str) -> logging.Formatter:
    """Return a formatter for lines of this form; ``pattern`` is used for text."""
    return JsonFormatter() if form is Form.JSON else TextFormatter(pattern)


def to_stderr(form: Form, level: int, pattern: str, only: str = "") -> None:
    """Show a program's log on standard error. ``only``: the name of the loggers that are shown; "" for all.

    In JSON, Python's warnings and uncaught exceptions are shown too. Has no effect if the root logger already has a
    handler.
    """
    if logging.getLogger().handlers:
        return
    if form is Form.JSON:
        uncaught_to_stderr()
    handler = logging.StreamHandler()
    if only:
        handler.addFilter(logging.Filter(only))
    handler.setFormatter(formatter(form, pattern))
    logging.basicConfig(handlers=[handler], level=level)


def uncaught_to_stderr() -> None:
    """Show warnings and uncaught exceptions in JSON, which Python would print as text.

    For programs, not for a library.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    for name in (_WARNINGS, _UNCAUGHT):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.propagate = False
    logging.captureWarnings(True)
    sys.excepthook = _ended
    threading.excepthook = _thread_ended


def _ended(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, _INTERRUPTS):
        sys.__excepthook__(kind, error, trace)
        return
    text = f"{kind.__name__}: {error}"
    logging.getLogger(_UNCAUGHT).error(
        "%s", text, exc_info=(kind, error, trace), extra=ProgramEvent.FAILED(reason=text)
    )


def _thread_ended(what: threading.ExceptHookArgs) -> None:
    if what.exc_value is None or issubclass(what.exc_type, SystemExit):
        return
    text = f"{what.exc_type.__name__}: {what.exc_value}"
    trace = (what.exc_type, what.exc_value, what.exc_traceback)
    logging.getLogger(_UNCAUGHT).error("%s", text, exc_info=trace, extra=ProgramEvent.THREAD_FAILED(reason=text))


class Voice:
    """Writes a program's messages to standard output, as text or as an event in JSON. Terminal control codes in foreign
    names are escaped.

    ``serves``: the program continues if the output is closed or its disk is full. That is reported once, on standard
    error.
    """

    def __init__(self, form: Form, name: str, stream: TextIO | None = None, *, serves: bool = False) -> None:
        self.form, self._name, self._stream, self._serves = form, name, stream, serves
        self._formatter = JsonFormatter()

    def say(self, text: str, extra: dict[str, Told], level: int = logging.INFO) -> None:
        """Write one event at once."""
        if self.form is Form.JSON:
            record = logging.LogRecord(self._name, level, "", 0, text, None, None)
            vars(record).update(extra)
            text = self._formatter.format(record)
        else:
            text = printable_lines(text)
        self.pass_on(text)

    def pass_on(self, line: str) -> None:
        """Write a line at once, unchanged."""
        stream = self._stream or sys.stdout
        if stream is None:  # closed before the program began
            return
        try:
            stream.write(f"{line}\n")
            stream.flush()
        except OSError as error:
            if not self._serves:
                raise
            # What is left in its memory would be written again at the end, with a complaint of Python's.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            sys.stderr.write(f"standard output: {error.strerror}: nothing more is written there\n")


def is_event(line: str, event: LogEvent, text: str) -> bool:
    """Return whether a line of a program's output is this event: in JSON, or as text that begins with ``text``."""
    return line.startswith(text) or _read(line).get("event") == event.word


def messages_in(log: str) -> str:
    """Return a log in readable form: the messages of JSON lines, and all other lines unchanged."""
    return "\n".join(str(_read(line).get("message", line)) for line in log.splitlines())


def _read(line: str) -> dict[str, Any]:
    """The object that a line is; empty for a line of text."""
    try:
        found = json.loads(line) if line.startswith("{") else None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
