# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Serves metrics over HTTP, for Prometheus, `sumwire top`, or anything that reads Prometheus' text format.

It does not count anything itself: at each scrape it reads the counters of its sources. Needs the package
prometheus_client.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final, Self

from commonlib.forking import close_in_children
from commonlib.http_server import GuardedServer, is_own_name
from commonlib.metrics import COUNTER, ONLOOKER, Metric, MetricsEndpoint, MetricsPackageError, MetricsPortError, Reading

try:
    from prometheus_client import CollectorRegistry, MetricsHandler
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
except ImportError as error:
    raise MetricsPackageError(
        "metrics need the package prometheus_client; install it: pip install prometheus_client"
    ) from error

Source = Callable[[], Iterable[Reading]]
# Seconds for which a program that ends still waits for one more scrape, so that its last numbers are not lost.
LAST_VARIABLE: Final = "SUMWIRE_METRICS_LAST_S"
_CLIENT_S: Final = 5.0
# The whole of a connection. Prometheus waits 10 s for an answer, unless told otherwise.
_CALL_S: Final = 30.0
# Each open connection has a thread.
CLIENTS_MOST: Final = 16


class Collector:
    """The collector that prometheus_client calls at each scrape. ``sources``: may change at any time."""

    def __init__(self) -> None:
        self.sources: list[Source] = []

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield all sources' readings, by metric."""
        families: dict[Metric, CounterMetricFamily | GaugeMetricFamily] = {}
        for source in tuple(self.sources):
            for reading in source():
                metric = reading.metric
                if metric not in families:
                    made = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
                    families[metric] = made(metric.name, metric.help, labels=metric.labels)
                families[metric].add_metric(reading.labels, reading.value)
        yield from families.values()


class _Scrapes:
    """Knows of the latest scrape that has ended when it began."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._begun = 0
        self._ended = 0

    def begin(self) -> int:
        with self._changed:
            self._begun += 1
            return self._begun

    def end(self, number: int) -> None:
        with self._changed:
            self._ended = max(self._ended, number)
            self._changed.notify_all()

    def await_next(self, seconds: float) -> bool:
        """Wait for the end of a scrape that begins from now on; True if there was one in time."""
        with self._changed:
            begun = self._begun
            return self._changed.wait_for(lambda: self._ended > begun, seconds)


class Exposition:
    """An HTTP server with the metrics of its sources, from its creation to :meth:`close`. Also a context manager.

    Raises MetricsPortError.
    """

    def __init__(self, endpoint: MetricsEndpoint) -> None:
        self._collector, self._scrapes = Collector(), _Scrapes()
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self._collector)
        self._server = _opened(endpoint, _handler(registry, self._scrapes))
        address, port = self._server.socket.getsockname()[:2]
        self.endpoint: Final = MetricsEndpoint(address, port)
        """Where it listens."""
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="sumwire-metrics", daemon=True
        )
        self._thread.start()
        self._closed = False

    def add(self, source: Source) -> None:
        """Serve the readings of ``source`` from the next scrape on. Threads of the server call it."""
        self._collector.sources.append(source)

    def remove(self, source: Source) -> None:
        """Stop reading ``source``, after one more scrape if SUMWIRE_METRICS_LAST_S allows to wait for that."""
        self.last_scrape()
        with suppress(ValueError):
            self._collector.sources.remove(source)

    @property
    def unused(self) -> bool:
        """Whether there is no source left."""
        return not self._collector.sources

    def last_scrape(self) -> bool:
        """Wait for one more scrape, at most for the seconds of SUMWIRE_METRICS_LAST_S; True if there was one."""
        seconds = _seconds(os.environ.get(LAST_VARIABLE, ""))
        return seconds > 0 and self._scrapes.await_next(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server; closing twice is allowed."""
        if not self._closed:
            self._closed = True
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()


def _seconds(text: str) -> float:
    try:
        return max(0.0, float(text))
    except ValueError:
        return 0.0


def _handler(registry: CollectorRegistry, scrapes: _Scrapes) -> type[MetricsHandler]:
    class Handler(MetricsHandler):
        server: GuardedServer
        timeout = _CLIENT_S

        def do_GET(self) -> None:  # noqa: N802
            """One scrape."""
            self.server.heard(self.request)
            if not is_own_name(self.headers.get("Host"), str(self.server.server_address[0])):
                self.send_error(HTTPStatus.FORBIDDEN)
                return
            number = scrapes.begin()
            super().do_GET()
            self.wfile.flush()
            # Only who keeps the numbers is waited for.
            if self.headers.get("User-Agent") != ONLOOKER:
                scrapes.end(number)

    Handler.registry = registry
    return Handler


def _opened(endpoint: MetricsEndpoint, handler: Any) -> GuardedServer:
    own = endpoint.socket is None
    try:
        server = GuardedServer(
            (endpoint.address, endpoint.port), handler, places=CLIENTS_MOST, call_s=_CALL_S, bind_and_activate=own
        )
        if own:
            close_in_children(server.socket)
        else:
            server.socket.close()
            server.socket = socket.socket(fileno=endpoint.socket)
            server.server_address = server.socket.getsockname()
            server.server_activate()
        return server
    except OSError as error:
        raise MetricsPortError(
            f"metrics at {endpoint}: {error.strerror or error}; name an address of this machine and a free port"
        ) from error
