# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Log events: what happened, at which level, who logs it, and with which fields.

Each package has an enum of its own events: :class:`ProgramEvent` here for what any program logs, and others that
subclass :class:`LogEvent`. A logger's call has the event in ``extra``::

    _LOG.info("ready: port %d", port, extra=ProgramEvent.READY(at="port 9559"))

Fields that any event may have: ``job`` (the number), ``worker`` (a worker's number in its job) and ``switch``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Final

HOST: Final = "host"
SOFT: Final = "soft switch"
AGGREGATOR: Final = "aggregator"
CONTROLLER: Final = "controller"
LAB: Final = "lab"
UP: Final = "up"
ALL: Final = (HOST, SOFT, AGGREGATOR, CONTROLLER, LAB)
# What any line may have.
PLACES: Final = ("job", "worker", "switch")
ATTRIBUTE: Final = "sumwire"
"""The name of the log record's attribute that has the :class:`Told`."""
_IN_JSON: Final = (str, int, float, type(None))


class Told(dict[str, Any]):
    """One event that has happened, with its fields. As a dict it has the event's name and the fields as JSON or text:
    a program that loads Sumwire may write all attributes of log records as JSON, as Ray does."""

    def __init__(self, event: LogEvent, fields: dict[str, Any]) -> None:
        super().__init__({name: one if isinstance(one, _IN_JSON) else str(one) for name, one in fields.items()})
        self["event"] = event.word
        self.event = event
        self.fields = fields


class LogEvent(Enum):
    """Base of the enums of events. A value has the event's name in log lines, who logs it, its fields, and its
    meaning."""

    def __init__(self, word: str, told_by: tuple[str, ...], fields: str, meaning: str) -> None:
        self.word, self.told_by, self.fields, self.meaning = word, told_by, fields.split(), meaning

    def __call__(self, **fields: Any) -> dict[str, Told]:
        """Return the ``extra`` of a logger's call. Values that JSON does not have are logged as text."""
        return {ATTRIBUTE: Told(self, fields)}


class ProgramEvent(LogEvent):
    """Events of programs of several packages."""

    # fmt: off
    READY = ("ready", (SOFT, AGGREGATOR, CONTROLLER), "at", "the program serves from now on")
    METRICS_SERVED = ("metrics_served", (SOFT, CONTROLLER), "at", "metrics are served there")
    COUNTED = ("counted", (SOFT, AGGREGATOR), "counters", "the counters at the end, and with `--report` as they change")
    STOPPED = ("stopped", (SOFT,), "", "the program has ended in order")
    FAILED = ("failed", ALL, "reason", "the program ends, or does not start")
    THREAD_FAILED = ("thread_failed", ALL, "reason", "an error of the program itself; `traceback` has it")
    KERNELS_MISSING = (
        "kernels_missing", (HOST, SOFT, AGGREGATOR), "reason",
        "compiled code is missing: all works, but slower",
    )
    TRAINS_MISSING = ("trains_missing", (HOST, SOFT, AGGREGATOR), "reason", "packets go one by one, or come unfinished")
    IMPAIRED = ("impaired", (SOFT, LAB), "conditions", "loss, delay or other traffic was set")
    OTHER = ("other", ALL, "", "a line of a library, or about compiling")
    # fmt: on


def as_markdown(events: Iterable[LogEvent]) -> Iterator[str]:
    """Yield the lines of the events' table in docs/watch.md."""
    yield "| event | told by | fields | what has happened |"
    yield "|---|---|---|---|"
    for event in events:
        told_by = "all" if event.told_by == ALL else ", ".join(event.told_by)
        fields = ", ".join(f"`{field}`" for field in event.fields)
        yield f"| `{event.word}` | {told_by} | {fields} | {event.meaning} |"
