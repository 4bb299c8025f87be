# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A page that follows a run: it shows the report so far, by server-sent events on the loopback address.

Nothing is drawn while no browser is connected. Drawing runs at a lower priority than the workers, at most every few
seconds.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Final

from commonlib.http_server import GuardedServer, is_own_name

from sumwire_lab.errors import OptionError
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.run.page import render
from sumwire_lab.run.results import SystemResult, WorkerRecord, run_summary

ADDRESS: Final = "127.0.0.1"
EVERY_S: Final = 3.0
"""Seconds between two drawings, at least."""
_BESIDE: Final = 15.0
"""After so many seconds without news a comment tells whether the browser is still there."""
_LAST_S: Final = 5.0
"""A browser has so many seconds to take the last event."""
_BROWSERS_MOST: Final = 32
_CALL_S: Final = 10.0
"""A browser has so many seconds for the page; it follows the events for as long as it likes."""
_NICER: Final = 5
"""At the lowest priority the page would stand still while the workers compute."""


@dataclass(frozen=True)
class Moment:
    """The state of a run at one time. `words`: which system trains, and how far it is."""

    options: RunOptions
    kind: str
    results: tuple[SystemResult, ...]
    words: str

    @classmethod
    def of(
        cls, options: RunOptions, kind: str, done: Sequence[SystemResult], system: str, records: Sequence[WorkerRecord]
    ) -> Moment:
        """Create the state from the steps that all workers of the system have made. Copies data that still grows."""
        made = min((len(record.steps) for record in records), default=0)
        words = f"{system}: its first step is not done yet"
        if made:
            words = f"{system}: step {made} of {records[0].total_steps}; its numbers are those so far"
        now = tuple(replace(record, steps=record.steps[:made]) for record in records)
        results = [*done, SystemResult(system, now, 0.0)] if made else [*done]
        return cls(options, kind, tuple(results), words)

    def page(self) -> dict[str, Any]:
        """Return the page that is sent to the browser."""
        if not self.results:
            return {"words": self.words, "html": ""}
        summary = run_summary(self.options, self.kind, self.results)
        return {"words": self.words, "html": render.body(summary, self.results)}


class LivePage:
    """The server. It listens from the beginning, and `address` is what a browser opens."""

    def __init__(self, port: int) -> None:
        page = self

        class LivePageHandler(_RequestHandler):
            live = page

        try:
            self._server = GuardedServer((ADDRESS, port), LivePageHandler, places=_BROWSERS_MOST, call_s=_CALL_S)
        except (OSError, OverflowError) as error:
            raise OptionError(f"live={port}: {error}: name another port, or none for any free one") from error
        self.address = f"http://{ADDRESS}:{self._server.server_address[1]}/"
        self.watched = 0
        self._moment: Moment | None = None
        self._version = 0
        self._ended = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name="live", daemon=True)
        self._thread.start()

    def show(self, moment: Moment) -> None:
        """Offer this moment to the browsers."""
        with self._news:
            self._moment = moment
            self._version += 1
            self._news.notify_all()

    def close(self, words: str) -> None:
        """End the server, after telling every connected browser."""
        with self._news:
            if self._ended:
                return
            self._ended = True
            if self._moment is not None:
                self._moment = replace(self._moment, words=words)
            self._version += 1
            self._news.notify_all()
            self._news.wait_for(lambda: self.watched == 0, _LAST_S)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def moments(self) -> Iterator[tuple[Moment | None, bool]]:
        """Yield new states, each with whether it is the last; None if there is nothing new for a while."""
        seen = 0
        while True:
            with self._news:
                if seen and not self._ended:
                    self._news.wait_for(lambda: self._ended, EVERY_S)
                fresh = self._news.wait_for(lambda: self._version > seen, _BESIDE)  # noqa: B023 - called at once
                seen, moment, last = self._version, self._moment, self._ended
            yield (moment if fresh else None), last
            if last:
                return

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count a browser as connected for the time of the block."""
        with self._news:
            self.watched += 1
        # Threads have priorities of their own on Linux.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICER)
        try:
            yield
        finally:
            with self._news:
                self.watched -= 1
                self._news.notify_all()

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=0.1)


class _RequestHandler(BaseHTTPRequestHandler):
    server: GuardedServer
    live: LivePage
    timeout = 60
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        """The page, or its events."""
        self.server.heard(self.request, stays=self.path == "/events")
        # Another site's script that has made its name point here names itself.
        if not is_own_name(self.headers.get("Host"), ADDRESS):
            self.send_error(HTTPStatus.FORBIDDEN)
        elif self.path == "/":
            self._send("text/html; charset=utf-8", render.live().encode())
        elif self.path == "/events":
            # The browser may go at any time.
            with suppress(ConnectionError, TimeoutError), self.live.watching():
                self._head("text/event-stream")
                self._events()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _events(self) -> None:
        for moment, last in self.live.moments():
            if moment is None and not last:
                self.wfile.write(b": still there\n\n")
            else:
                page = {"words": "", "html": ""} if moment is None else moment.page()
                self.wfile.write(f"data: {json.dumps({**page, 'last': last})}\n\n".encode())
            self.wfile.flush()

    def _head(self, kind: str, length: int | None = None) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _send(self, kind: str, content: bytes) -> None:
        self._head(kind, len(content))
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing: the terminal is the run's."""
