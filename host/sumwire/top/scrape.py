# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Finds the endpoints that serve metrics, and reads them all at the same time. Used by `command`.

Endpoints come from words of a command line, a job file, or a list of targets in the format of Prometheus.
"""

from __future__ import annotations

import http.client
import math
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from commonlib.http_client import get
from commonlib.metrics import ONLOOKER
from commonlib.untrusted import UntrustedInputError, bounded_text, escaped, json_of, shown
from sumwire_protocol import metrics

from sumwire.config import parse_job
from sumwire.errors import ConfigError, UsageError

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError as error:
    raise UsageError(
        "sumwire top needs prometheus_client and rich; install them: pip install 'sumwire[top]'"
    ) from error

_TIMEOUT_S: Final = 1.0
# The largest switch serves a tenth of it.
_BYTES_MOST: Final = 1 << 20
_LINE_MOST: Final = 4096
_THREADS_MOST: Final = 16
_LABELS: Final = {metric.served: {*metric.labels} for metric in metrics.metrics()}

Labels = tuple[tuple[str, str], ...]
# The port that a job file's hosts are asked at, unless another one is given.
DEFAULT_PORT: Final = 9464
_LOOPBACK: Final = "127.0.0.1"
_WORD: Final = re.compile(r"(?:([A-Za-z0-9][A-Za-z0-9.-]{0,252}):)?(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
_PORT_MOST: Final = (1 << 16) - 1
_MOST: Final = 1024
_CURE: Final = "give [ADDRESS:]PORT, [ADDRESS:]PORT-PORT, a job file, or a list of targets"


@dataclass(frozen=True)
class Scrape:
    """The answer of an endpoint at ``at``, seconds of a monotonic clock. ``error``: why there is none.

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


def endpoints(words: Sequence[str], port: int = DEFAULT_PORT) -> list[str]:
    """ADDRESS:PORT of each endpoint that the words name, each once, in their order.

    A word is [ADDRESS:]PORT, [ADDRESS:]PORT-PORT for several ports, or a file: a job file, whose hosts and aggregator
    serve metrics at ``port``, or a list of targets in JSON as Prometheus reads it (file_sd_configs).
    Raises UsageError, ConfigError.
    """
    found = dict.fromkeys(place for word in words for place in _of(word, port))
    if not 0 < len(found) <= _MOST:
        raise UsageError(f"{len(found)} endpoints to read metrics from: must be 1 to {_MOST}; {_CURE}")
    return list(found)


def _of(word: str, port: int) -> Iterator[str]:
    match = _WORD.fullmatch(word)
    if match is None:
        yield from _in_file(Path(word), port)
        return
    address, first, last = match[1] or _LOOPBACK, int(match[2]), int(match[3] or match[2])
    if not 0 < first <= last <= _PORT_MOST:
        raise UsageError(f"endpoint {shown(word)}: must have ports of 1..{_PORT_MOST}, the lower one first; {_CURE}")
    yield from (f"{address}:{number}" for number in range(first, last + 1))


def _in_file(path: Path, port: int) -> Iterator[str]:
    try:
        content = json_of(bounded_text(path, _BYTES_MOST))
    except (OSError, UntrustedInputError) as error:
        told = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"endpoint {shown(str(path))}: is no port, and as a file: {told}; {_CURE}") from error
    if isinstance(content, dict):
        config = parse_job(content, 0, where=str(path))
        addresses = dict.fromkeys(one.ip for one in config.addresses)
        yield from (f"{ip}:{port}" for ip in (*addresses, *dict.fromkeys(one.aggregator for one in config.addresses)))
    else:
        yield from _targets(content, path)


def _targets(groups: Any, path: Path) -> Iterator[str]:
    for group in groups if isinstance(groups, list) else ():
        for target in group.get("targets", ()) if isinstance(group, dict) else ():
            match = _WORD.fullmatch(target) if isinstance(target, str) else None
            if match is None or not match[1] or match[3] or not 0 < int(match[2]) <= _PORT_MOST:
                rule = "must be ADDRESS:PORT"
                raise ConfigError("targets", target, rule, where=str(path), cure="write each target so")
            yield str(target)
