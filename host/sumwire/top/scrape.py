# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reads metrics from endpoints, all at the same time."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from sumwire_protocol.outside import escaped
from sumwire_protocol.watch.place import ONLOOKER

from sumwire.errors import UsageError

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError as error:
    raise UsageError(
        "sumwire top needs prometheus_client and rich; install them: pip install 'sumwire[top]'"
    ) from error

_TIMEOUT_S: Final = 1.0
_BYTES_MOST: Final = 8 << 20
_THREADS_MOST: Final = 16
_PREFIX: Final = "sumwire_"

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Scrape:
    """What an endpoint said at ``at``, seconds of a monotonic clock. ``error``: why it said nothing.

    ``values``: by a metric's name as it is served, and by its labels, sorted.
    """

    endpoint: str
    at: float
    values: dict[str, dict[Labels, float]] = field(default_factory=dict)
    error: str = ""


class Scraper:
    """Reads a fixed list of endpoints. Also a context manager, for its threads."""

    def __init__(self, endpoints: Sequence[str]) -> None:
        self._endpoints = tuple(endpoints)
        self._threads = ThreadPoolExecutor(min(_THREADS_MOST, len(self._endpoints)), "sumwire-top")

    def read(self) -> list[Scrape]:
        """All endpoints once, in their order. Those that do not answer within a second have an error."""
        return list(self._threads.map(_read, self._endpoints))

    def __enter__(self) -> Scraper:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _read(endpoint: str) -> Scrape:
    try:
        asked = urllib.request.Request(f"http://{endpoint}/metrics", headers={"User-Agent": ONLOOKER})
        with urllib.request.urlopen(asked, timeout=_TIMEOUT_S) as answer:
            text = answer.read(_BYTES_MOST).decode()
        return Scrape(endpoint, time.monotonic(), parsed(text))
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        told = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        return Scrape(endpoint, time.monotonic(), error=escaped(told))


def parsed(text: str) -> dict[str, dict[Labels, float]]:
    """Sumwire's values in Prometheus' text format. Raises ValueError for another text."""
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        if family.name.startswith(_PREFIX):
            for sample in family.samples:
                found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found
