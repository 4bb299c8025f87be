# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A step's timeline: spans of time, as a trace for Perfetto or Chrome, and as ranges of torch's profiler.

A job's operation is a span (:func:`operation`), and so is each of its :class:`Stages`: ``with trace.now.encode:``.
Whether stages are recorded is decided when an operation begins. By default they are not, and then a stage costs no
call. :class:`sumwire.Job` turns a trace on.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Protocol, cast

from sumwire.errors import UsageError

VARIABLE: Final = "SUMWIRE_TRACE"
# In a path: the number of the worker.
_WORKER: Final = "{worker}"
# About 100 bytes each. What comes later is counted only.
SPANS_MOST: Final = 1_000_000
_NS_OF_US: Final = 1000
_OFF: Final[AbstractContextManager[None]] = nullcontext()


class Stages(Protocol):
    """The stages of an operation, each of them a context manager."""

    prepare: AbstractContextManager[None]
    encode: AbstractContextManager[None]
    send: AbstractContextManager[None]
    wait: AbstractContextManager[None]
    receive: AbstractContextManager[None]
    decode: AbstractContextManager[None]
    residual: AbstractContextManager[None]


_UNRECORDED: Final = cast(Stages, SimpleNamespace(**dict.fromkeys(Stages.__annotations__, _OFF)))
# Of the latest operation that has begun in this process.
now: Stages = _UNRECORDED

_lock: Final = threading.Lock()
_recorder: Recorder | None = None
# Whether torch's profiler runs, and what makes a range of it; None before torch is known to be there.
_profiler: tuple[Callable[[], bool], Callable[[str], AbstractContextManager[Any]]] | None = None


class Recorder:
    """The spans of this process, for one file. ``name``, ``number``: those of the process in the trace."""

    def __init__(self, path: Path, name: str, number: int) -> None:
        self.path = path
        self.users = 0
        self.spans: list[tuple[str, int, int, int, dict[str, Any]]] = []
        self.lost = 0
        self._name, self._number = name, number
        self._threads: dict[int, str] = {}

    def add(self, name: str, began: int, ended: int, details: dict[str, Any]) -> None:
        """Add a span of this thread, in nanoseconds of the monotonic clock."""
        if len(self.spans) >= SPANS_MOST:
            self.lost += 1
            return
        thread = threading.get_ident()
        if thread not in self._threads:
            self._threads[thread] = threading.current_thread().name
        self.spans.append((name, began, ended, thread, details))

    def as_dict(self) -> dict[str, Any]:
        """Return the trace in Chrome's format: complete events, in microseconds of the machine's monotonic clock."""
        own = {"pid": self._number}
        numbers = {thread: number for number, thread in enumerate(self._threads)}
        events: list[dict[str, Any]] = [{**own, "ph": "M", "name": "process_name", "args": {"name": self._name}}]
        for thread, name in self._threads.items():
            events.append({**own, "tid": numbers[thread], "ph": "M", "name": "thread_name", "args": {"name": name}})
        for name, began, ended, thread, details in sorted(self.spans, key=lambda one: one[1]):
            times = {"ts": began / _NS_OF_US, "dur": (ended - began) / _NS_OF_US}
            events.append(
                {**own, "tid": numbers[thread], "ph": "X", "cat": "sumwire", "name": name, **times, "args": details}
            )
        other = {"unix_time_minus_clock_s": time.time() - time.monotonic(), "lost_spans": self.lost}
        return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": other}

    def write(self) -> None:
        """Write the trace to its file. Raises UsageError."""
        try:
            self.path.write_text(json.dumps(self.as_dict()) + "\n")
        except OSError as error:
            raise _unwritable(self.path, error) from error


class _Span:
    """A span that lasts as long as its block."""

    __slots__ = ("_began", "_details", "_name", "_range", "_recorder")

    def __init__(self, name: str, details: dict[str, Any], recorder: Recorder | None, profiled: bool) -> None:
        self._name, self._details, self._recorder = name, details, recorder
        self._range = _profiler[1](f"sumwire::{name}") if profiled and _profiler is not None else None

    def __enter__(self) -> None:
        if self._range is not None:
            self._range.__enter__()
        self._began = time.monotonic_ns()

    def __exit__(self, *_: object) -> None:
        if self._recorder is not None:
            self._recorder.add(self._name, self._began, time.monotonic_ns(), self._details)
        if self._range is not None:
            self._range.__exit__(None, None, None)


def span(name: str, **details: Any) -> AbstractContextManager[None]:
    """Return a context manager that names what this thread does: ``with span("apply"):``. ``details``: JSON values for
    the trace."""
    recorder, profiled = _recorder, _profiler is not None and _profiler[0]()
    return _Span(name, details, recorder, profiled) if recorder is not None or profiled else _OFF


class _Recorded:
    """Stages that are spans."""

    def __getattr__(self, name: str) -> AbstractContextManager[None]:
        return span(name)


_RECORDED: Final = cast(Stages, _Recorded())


def operation(name: str, number: int, values: int, bucket: int) -> AbstractContextManager[None]:
    """Return the span of an operation, and record its stages if tracing is on now."""
    global now  # noqa: PLW0603
    if _recorder is None and (_profiler is None or not _profiler[0]()):
        now = _UNRECORDED
        return _OFF
    now = _RECORDED
    return span(name, number=number, values=values, bucket=bucket)


def use_profiler(running: Callable[[], bool], make: Callable[[str], AbstractContextManager[Any]]) -> None:
    """Make spans ranges of a profiler, too, while it is ``running``."""
    global _profiler  # noqa: PLW0603
    _profiler = (running, make)


def start(path: str | None, name: str, worker: int) -> Callable[[], None] | None:
    """Start to record this process's spans, and return a function that ends this and writes the file. Returns None
    without a path here and in SUMWIRE_TRACE.

    "{worker}" in the path becomes the worker's number. Jobs of one process that name one path share its file. Raises
    UsageError for a second path, and for a file that cannot be written.
    """
    global _recorder  # noqa: PLW0603
    text = os.environ.get(VARIABLE, "") if path is None else path
    if not text:
        return None
    file = Path(text.replace(_WORKER, str(worker)))
    with _lock:
        if _recorder is None:
            try:
                file.write_text("")
            except OSError as error:
                raise _unwritable(file, error) from error
            _recorder = Recorder(file, f"worker {worker} of job {name}", worker)
        elif _recorder.path != file:
            raise UsageError(
                f"trace = {str(file)!r}: this process already writes {str(_recorder.path)!r}; give all one path"
            )
        recorder = _recorder
        recorder.users += 1
    return lambda: _end(recorder)


def _end(recorder: Recorder) -> None:
    global _recorder  # noqa: PLW0603
    with _lock:
        recorder.users -= 1
        if recorder.users:
            return
        _recorder = None
    recorder.write()


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"trace = {str(path)!r}: {error.strerror or error}; name a file in a folder that is there")
