# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reads metrics from endpoints, all at the same time."""

from __future__ import annotations

import http.client
import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from sumwire_protocol.outside import escaped
from sumwire_protocol.watch import metrics
from sumwire_protocol.watch.place import ONLOOKER
from sumwire_protocol.web.asking import get

from sumwire.errors import UsageError

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError as error:
    raise UsageError(
        "sumwire top needs prometheus_client and rich; install them: pip install 'sumwire[top]'"
    ) from error

_TIMEOUT_S: Final = 1.0
# The largest switch has a tenth.
_BYTES_MOST: Final = 1 << 20
_LINE_MOST: Final = 4096
_THREADS_MOST: Final = 16
_LABELS: Final = {metric.served: {*metric.labels} for metric in metrics.metrics()}

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
        host, _, port = endpoint.rpartition(":")
        asked = {"User-Agent": ONLOOKER}
        status, content = get(host, int(port), "/metrics", within_s=_TIMEOUT_S, bytes_most=_BYTES_MOST, headers=asked)
        if status != http.client.OK:
            return Scrape(endpoint, time.monotonic(), error=f"answers with status {status}")
        if len(content) > _BYTES_MOST:
            return Scrape(endpoint, time.monotonic(), error=f"answers with more than {_BYTES_MOST} bytes")
        return Scrape(endpoint, time.monotonic(), parsed(content.decode()))
    except (OSError, http.client.HTTPException, ValueError) as error:
        told = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Scrape(endpoint, time.monotonic(), error=escaped(told))


def parsed(text: str) -> dict[str, dict[Labels, float]]:
    """Sumwire's values in Prometheus' text format. Raises ValueError for another text.

    Whoever answers may be anybody: only finite values are taken, with the labels that their metric has.
    """
    found: dict[str, dict[Labels, float]] = {}
    lines = [line for line in text.split("\n") if not line.startswith("#")]
    if max(map(len, lines)) > _LINE_MOST:
        raise ValueError(f"has a line of more than {_LINE_MOST} characters")
    try:
        for family in text_string_to_metric_families("\n".join(lines)):
            for sample in family.samples:
                if _LABELS.get(sample.name) == sample.labels.keys() and math.isfinite(sample.value):
                    found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    except LookupError as error:  # the parser's, for labels without a name
        raise ValueError("is no text of Prometheus") from error
    return found
