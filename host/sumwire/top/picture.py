# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Computes the state and rates of workers, switches and ports from two scrapes. Uses neither network nor terminal."""

from __future__ import annotations

import http.client
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any, Final

from commonlib.http_client import get
from commonlib.metrics import ONLOOKER, PORT_DROPPED, PORT_LINE_RATE, PORT_RECEIVED_BYTES, PORT_SENT_BYTES, Metric
from commonlib.untrusted import UntrustedInputError, bounded_text, escaped, json_of, shown
from sumwire_protocol import metrics
from sumwire_protocol import metrics as names

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
    """The answer of an endpoint at ``at``, in seconds of a monotonic clock. ``error``: why there is no answer.

    ``values``: by metric name, as served, and by its sorted labels.
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
        """Read all endpoints once, in their order. Those that do not answer within a second have an error."""
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
    """Parse Sumwire's values from Prometheus' text format. Raises ValueError for another text.

    The endpoint is not trusted: only finite values are taken, with the labels that their metric has.
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
    """Return ADDRESS:PORT of each endpoint that the words name, in order and without duplicates.

    A word is [ADDRESS:]PORT, [ADDRESS:]PORT-PORT for several ports, or a file: a job file, whose hosts and aggregator
    serve metrics at ``port``, or a list of targets in JSON as Prometheus reads it (file_sd_configs). Raises UsageError,
    ConfigError.
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


# A worker is marked as the straggler if the others' share of time in operations, where they wait for it, is larger by
# this.
STRAGGLER_SHARE: Final = 0.1
_ROUNDING: Final = 1e-6
_DROPS: Final = ("drop", "trim", "mark")
# Verdicts of packets that were not admitted: counted by their reasons, too.
_NOT_ADMITTED: Final = ("none", "reject")
# Of a worker's number.
_DIGITS_MOST: Final = 5


@dataclass(frozen=True)
class WorkerRow:
    """One worker of a job. Rates are per second between the scrapes, ``None`` before the second one; other counts are
    since its start. ``share``: the share of time that it spends in operations, waiting included. ``waiting``: chunks
    are in flight, but since the last scrape no operation ended, and only retransmissions and probes were sent."""

    endpoint: str
    job: str
    name: str
    worker: int
    sent: float | None
    received: float | None
    line_rate: float | None
    operations: float | None
    share: float | None
    in_flight: int
    resent: float | None
    resent_total: int
    missing: int
    left_out: int
    fallen_back: bool
    fallbacks: int
    straggler: bool = False
    waiting: bool = False


@dataclass(frozen=True)
class SwitchRow:
    """One switch or aggregator, as its endpoint reports it. ``refused``: packets by reject reason, if any.

    ``dropped``: packets that virtual queues dropped, cut or marked, by decision and drop class.
    """

    endpoint: str
    switch: str
    up: bool
    in_sync: bool | None
    admitted: float | None
    results: float | None
    repeated: float | None
    refused: dict[str, int]
    refused_rate: float | None
    dropped: dict[str, int]


@dataclass(frozen=True)
class PortRow:
    """A port of a soft switch, in bytes per second. ``dropped``: frames by cause, if any."""

    endpoint: str
    switch: str
    port: str
    received: float | None
    sent: float | None
    line_rate: float | None
    dropped: dict[str, int]


@dataclass(frozen=True)
class Picture:
    """All rows at one moment. ``silent``: by endpoint, why it does not answer."""

    workers: tuple[WorkerRow, ...]
    switches: tuple[SwitchRow, ...]
    ports: tuple[PortRow, ...]
    silent: dict[str, str]
    endpoints: int

    def as_dict(self) -> dict[str, Any]:
        """Return the contents as values that JSON can hold."""
        return asdict(self)


class _Two:
    """An endpoint's values now and before."""

    def __init__(self, now: Scrape, before: Scrape | None) -> None:
        self.endpoint = now.endpoint
        self._now, self._before = now, before

    def rows(self, metric: Metric) -> list[dict[str, str]]:
        """The labels of all its values."""
        return [dict(labels) for labels in self._now.values.get(metric.served, {})]

    def value(self, metric: Metric, **labels: str) -> float | None:
        return self._now.values.get(metric.served, {}).get(tuple(sorted(labels.items())))

    def count(self, metric: Metric, **labels: str) -> int:
        return int(self.value(metric, **labels) or 0)

    def rate(self, metric: Metric, **labels: str) -> float | None:
        """Per second. A counter that is lower than before began again at 0 in between."""
        now = self.value(metric, **labels)
        if self._before is None or now is None or self._now.at <= self._before.at:
            return None
        key = tuple(sorted(labels.items()))
        before = self._before.values.get(metric.served, {}).get(key)
        if before is None:
            return None
        return (now - before if now >= before else now) / (self._now.at - self._before.at)


def picture(now: Sequence[Scrape], before: Sequence[Scrape] = ()) -> Picture:
    """Compute a picture from scrapes. ``before``: an earlier scrape of each endpoint that answered then."""
    earlier = {scrape.endpoint: scrape for scrape in before if not scrape.error}
    pairs = [_Two(scrape, earlier.get(scrape.endpoint)) for scrape in now if not scrape.error]
    workers = sorted((one for pair in pairs for one in _workers(pair)), key=lambda one: (one.name, one.job, one.worker))
    return Picture(
        tuple(_marked(workers)),
        tuple(one for pair in pairs for one in _switches(pair)),
        tuple(one for pair in pairs for one in _ports(pair)),
        {scrape.endpoint: scrape.error for scrape in now if scrape.error},
        len(now),
    )


def _workers(pair: _Two) -> Iterator[WorkerRow]:
    for info in pair.rows(names.JOB_INFO):
        own = {"sumwire_job": info["sumwire_job"], "worker": info["worker"]}
        causes = [{**own, "cause": cause} for cause in ("quick", "timeout")]
        resent = [pair.rate(names.RESENT, **one) for one in causes]
        share = pair.rate(names.OPERATION_S, **own)
        yield WorkerRow(
            endpoint=pair.endpoint,
            job=escaped(info["sumwire_job"]),
            name=escaped(info["name"]),
            worker=_seat(info["worker"]),
            sent=pair.rate(names.SENT_BYTES, **own),
            received=pair.rate(names.RECEIVED_BYTES, **own),
            line_rate=pair.value(names.HOST_LINE_RATE, **own),
            operations=pair.rate(names.OPERATIONS, **own),
            share=None if share is None else min(share, 1.0),
            in_flight=pair.count(names.IN_FLIGHT, **own),
            resent=_sum(resent),
            resent_total=sum(pair.count(names.RESENT, **one) for one in causes),
            missing=pair.count(names.MISSING, **own),
            left_out=pair.count(names.LEFT_OUT, **own),
            fallen_back=bool(pair.count(names.FALLEN_BACK, **own)),
            fallbacks=pair.count(names.FALLBACKS, **own),
            waiting=_waits(pair, own, _sum(resent)),
        )


def _seat(text: str) -> int:
    """A worker's number; -1 for what is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MOST else -1


def _waits(pair: _Two, own: Mapping[str, str], resent: float | None) -> bool:
    """Whether a worker waits for results, and for nothing else."""
    ended, sent, asked = (pair.rate(one, **own) for one in (names.OPERATIONS, names.SENT_PACKETS, names.PROBES))
    if ended is None or sent is None or asked is None or resent is None:
        return False
    # Rates are quotients, so equal counts may differ by a rounding.
    return pair.count(names.IN_FLIGHT, **own) > 0 and ended == 0 and sent - asked - resent < _ROUNDING


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _marked(workers: Sequence[WorkerRow]) -> Iterator[WorkerRow]:
    """With the straggler of each job marked: the one that all others spend more of their time in operations than."""
    for _, of_job in groupby(workers, key=lambda one: (one.name, one.job)):
        group = list(of_job)
        shares = sorted((one.share, one.worker) for one in group if one.share is not None)
        late = -1
        if len(shares) > 1 and median(share for share, _ in shares[1:]) - shares[0][0] > STRAGGLER_SHARE:
            late = shares[0][1]
        yield from (replace(one, straggler=one.worker == late) for one in group)


def _switches(pair: _Two) -> Iterator[SwitchRow]:
    told = [row["switch"] for metric in (names.UP, names.VERDICTS) for row in pair.rows(metric)]
    for name in dict.fromkeys(told):
        up, in_sync = pair.value(names.UP, switch=name), pair.value(names.IN_SYNC, switch=name)
        verdicts = {
            row["verdict"]: pair.rate(names.VERDICTS, **row)
            for row in pair.rows(names.VERDICTS)
            if row["switch"] == name
        }
        refused = _counts(pair, names.REFUSED, name)
        yield SwitchRow(
            endpoint=pair.endpoint,
            switch=escaped(name),
            up=up is None or bool(up),
            in_sync=None if in_sync is None else bool(in_sync),
            admitted=_sum([rate for verdict, rate in verdicts.items() if verdict not in _NOT_ADMITTED]),
            results=verdicts.get("last"),
            repeated=_sum([verdicts.get(verdict) for verdict in ("duplicate", "repeat")]),
            refused={escaped(row["reason"]): count for row, count in refused},
            refused_rate=_sum([pair.rate(names.REFUSED, **row) for row in _rows(pair, names.REFUSED, name)]),
            dropped=_decisions(_counts(pair, names.QUEUE_PACKETS, name)),
        )


def _rows(pair: _Two, metric: Metric, switch: str) -> list[dict[str, str]]:
    return [row for row in pair.rows(metric) if row["switch"] == switch]


def _counts(pair: _Two, metric: Metric, switch: str) -> list[tuple[dict[str, str], int]]:
    """The labels and values above 0 of one switch."""
    counted = [(row, pair.count(metric, **row)) for row in _rows(pair, metric, switch)]
    return [(row, count) for row, count in counted if count]


def _decisions(counted: Sequence[tuple[Mapping[str, str], int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row, count in counted:
        if row["decision"] in _DROPS:
            kind = "tagged" if row["tagged"] == "yes" else "other"
            key = f"{row['decision']} {kind} class {escaped(row['drop_class'])}"
            found[key] = found.get(key, 0) + count
    return dict(sorted(found.items()))


def _ports(pair: _Two) -> Iterator[PortRow]:
    for row in pair.rows(PORT_SENT_BYTES):
        dropped = [
            (one["cause"], pair.count(PORT_DROPPED, **one))
            for one in pair.rows(PORT_DROPPED)
            if (one["switch"], one["port"]) == (row["switch"], row["port"])
        ]
        yield PortRow(
            endpoint=pair.endpoint,
            switch=escaped(row["switch"]),
            port=escaped(row["port"]),
            received=pair.rate(PORT_RECEIVED_BYTES, **row),
            sent=pair.rate(PORT_SENT_BYTES, **row),
            line_rate=pair.value(PORT_LINE_RATE, **row),
            dropped={escaped(cause): count for cause, count in dropped if count},
        )
