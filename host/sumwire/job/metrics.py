# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics of a job over HTTP: its statistics, read at each scrape, and the rate of its link.

All jobs of a process that name one address share one server.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path
from typing import TYPE_CHECKING, Final

from commonlib.metrics import Metric, MetricsEndpoint, MetricsError, Reading, endpoint_of, parse_endpoint
from sumwire_protocol import metrics as names

from sumwire.config import JobConfig
from sumwire.errors import ConfigError
from sumwire.transport.stats import JobStats
from sumwire.transport.window import Window

if TYPE_CHECKING:
    from commonlib.metrics_server import Exposition


# Mbit/s, for links that are slower than their device says: behind a slower switch, or shaped.
VARIABLE: Final = "SUMWIRE_LINK_MBIT"
_GET_ADDRESS: Final = 0x8915
# struct ifreq: a name, and a struct sockaddr_in.
_REQUEST: Final = struct.Struct("16s2x2x4s16x")
_DEVICES: Final = Path("/sys/class/net")
_BYTES_OF_MBIT: Final = 1e6 / 8


def line_rate(address: str) -> float | None:
    """Return the link's bytes per second, from SUMWIRE_LINK_MBIT or from the device with this IPv4 address; None if
    neither is known."""
    told = _number(os.environ.get(VARIABLE, ""))
    if told is None:
        device = _device(address)
        with suppress(OSError):
            told = None if device is None else _number((_DEVICES / device / "speed").read_text())
    return None if told is None else told * _BYTES_OF_MBIT


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 < found < float("inf") else None


def _device(address: str) -> str | None:
    packed = socket.inet_aton(address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                answer = ioctl(udp, _GET_ADDRESS, _REQUEST.pack(name.encode(), b""))
                if _REQUEST.unpack(answer)[1] == packed:
                    return name
    return None


# By field of JobStats; with the values of the metric's labels behind those of the job. ``retransmissions`` is the sum
# of two others.
FIELDS: Final[Mapping[str, tuple[Metric, tuple[str, ...]]]] = {
    "operations": (names.OPERATIONS, ()),
    "values": (names.VALUES, ()),
    "packets_sent": (names.SENT_PACKETS, ()),
    "packets_received": (names.RECEIVED_PACKETS, ()),
    "messages_sent": (names.SENT_MESSAGES, ()),
    "messages_received": (names.RECEIVED_MESSAGES, ()),
    "without_trains": (names.WITHOUT_TRAINS, ()),
    "bytes_sent": (names.SENT_BYTES, ()),
    "bytes_received": (names.RECEIVED_BYTES, ()),
    "retransmissions_quick": (names.RESENT, ("quick",)),
    "retransmissions_timeout": (names.RESENT, ("timeout",)),
    "duplicates": (names.DUPLICATES, ()),
    "stale": (names.STALE, ()),
    "ignored": (names.IGNORED, ()),
    "forged": (names.FORGED, ()),
    "send_failures": (names.SEND_FAILURES, ()),
    "operation_s": (names.OPERATION_S, ()),
    "exchange_s": (names.EXCHANGE_S, ()),
    "encode_s": (names.ENCODE_S, ()),
    "decode_s": (names.DECODE_S, ()),
    "missing": (names.MISSING, ()),
    "left_out": (names.LEFT_OUT, ()),
    "flushed": (names.FLUSHED, ()),
    "probes": (names.PROBES, ()),
    "informs": (names.INFORMS, ()),
    "trimmed": (names.TRIMMED, ()),
    "ce_marks": (names.CE_MARKED, ()),
    "recovered": (names.RECOVERED, ()),
    "ahead": (names.AHEAD, ()),
    "refused_questions": (names.REFUSED_QUESTIONS, ()),
    "fallbacks": (names.FALLBACKS, ()),
    "fallback_operations": (names.FALLBACK_OPERATIONS, ()),
    "returns": (names.RETURNS, ()),
    "one_trip_operations": (names.ONE_TRIP, ()),
    "repeated_operations": (names.REPEATED, ()),
    "group_operations": (names.GROUP_OPERATIONS, ()),
    "group_values": (names.GROUP_VALUES, ()),
}

_servers: dict[MetricsEndpoint, Exposition] = {}
_servers_lock: Final = threading.Lock()


def readings(
    config: JobConfig, stats: JobStats, window: Window, fallen_back: Callable[[], bool], rate: float | None
) -> Iterator[Reading]:
    """Return the samples of one job. ``rate``: of the worker's link, in bytes per second; None if it is not known."""
    own = (str(config.job), str(config.worker))
    yield Reading(names.JOB_INFO, (*own, config.name, str(config.workers)), 1)
    yield Reading(names.FALLEN_BACK, own, fallen_back())
    yield Reading(names.IN_FLIGHT, own, window.in_flight)
    yield Reading(names.TIMEOUT, own, window.timeout_s)
    if rate is not None:
        yield Reading(names.HOST_LINE_RATE, own, rate)
    for field, (metric, labels) in FIELDS.items():
        yield Reading(metric, (*own, *labels), getattr(stats, field))


def opened(config: JobConfig, option: str | None) -> Exposition | None:
    """Return the metrics server that ``option``, or else SUMWIRE_METRICS, asks for, new or existing; None if neither is
    set.

    Raises ConfigError.
    """
    try:
        place = endpoint_of() if option is None else parse_endpoint(option)
        if place is None:
            return None
        from commonlib.metrics_server import Exposition

        with _servers_lock:
            if place not in _servers:
                _servers[place] = Exposition(place)
            return _servers[place]
    except MetricsError as error:
        raise ConfigError("metrics", option, str(error), where=f"job {config.name}") from error


def serve(
    exposition: Exposition, config: JobConfig, stats: JobStats, window: Window, fallen_back: Callable[[], bool]
) -> Callable[[], None]:
    """Serve a job's metrics until the returned function is called."""
    rate = line_rate(config.own_address.ip)

    def source() -> Iterator[Reading]:
        return readings(config, stats, window, fallen_back, rate)

    def end() -> None:
        exposition.remove(source)
        close_unused(exposition)

    exposition.add(source)
    return end


def close_unused(exposition: Exposition | None) -> None:
    """Stop a metrics server that no job uses, for example because the job was interrupted while it began."""
    with _servers_lock:
        if exposition is not None and exposition.unused:
            for place in [place for place, one in _servers.items() if one is exposition]:
                del _servers[place]
            exposition.close()
