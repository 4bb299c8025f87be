# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics, their readings, and the endpoint at which a program serves them (:mod:`commonlib.metrics_server`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from typing import Final, Literal

from commonlib.events import SOFT
from commonlib.untrusted import shown

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
VARIABLE: Final = "SUMWIRE_METRICS"
# As whom `sumwire top` asks over HTTP. It keeps nothing, so that nobody waits for it.
ONLOOKER: Final = "sumwire-top"
LOOPBACK: Final = "127.0.0.1"
_SOCKET: Final = "fd:"
_PORT_MOST: Final = (1 << 16) - 1
# Set by torchrun: the number of a process among those of its machine.
_LOCAL_RANK: Final = "LOCAL_RANK"


class MetricsError(Exception):
    """Metrics cannot be served."""


class MetricsEndpointError(MetricsError, ValueError):
    """A text does not say where metrics are to be served."""


class MetricsPortError(MetricsError):
    """Metrics cannot be served at that address and port."""


class MetricsPackageError(MetricsError):
    """The package prometheus_client is not installed."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. ``name``: without the suffix that served counters have. ``told_by``: HOST, SOFT, ..."""

    name: str
    kind: Literal["counter", "gauge"]
    labels: tuple[str, ...]
    told_by: tuple[str, ...]
    help: str

    @property
    def served(self) -> str:
        """Name under which the metric is served."""
        return f"{self.name}_total" if self.kind == COUNTER else self.name


@dataclass(frozen=True, slots=True)
class Reading:
    """One value of a metric. ``labels``: values in the order of the metric's labels."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


# -- a switch's ports -----------------------------------------------------------------------------------


def _port(name: str, help_: str, *labels: str) -> Metric:
    return Metric(f"sumwire_switch_port_{name}", COUNTER, ("switch", "port", *labels), (SOFT,), help_)


PORT_RECEIVED_FRAMES: Final = _port("received_frames", "frames that came in at a port")
PORT_RECEIVED_BYTES: Final = _port("received_bytes", "bytes of these frames")
PORT_SENT_FRAMES: Final = _port("sent_frames", "frames that left by a port")
PORT_SENT_BYTES: Final = _port("sent_bytes", "bytes of these frames")
PORT_DROPPED: Final = _port("dropped_frames", "frames lost at a port, by cause", "cause")
PORT_TRAINS: Final = _port("trains", "frames that were trains of packets, by direction", "direction")
PORT_LINE_RATE: Final = Metric(
    "sumwire_switch_port_line_rate_bytes_per_second", GAUGE, ("switch", "port"), (SOFT,),
    "rate of a port's link, where it is known",
)  # fmt: skip
PORT_METRICS: Final = (
    PORT_RECEIVED_FRAMES, PORT_RECEIVED_BYTES, PORT_SENT_FRAMES, PORT_SENT_BYTES, PORT_DROPPED, PORT_TRAINS,
    PORT_LINE_RATE,
)  # fmt: skip


def as_markdown(metrics: Iterable[Metric]) -> Iterator[str]:
    """Yield the lines of the metrics' table in docs/watch.md."""
    yield "| metric | told by | labels | what it says |"
    yield "|---|---|---|---|"
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.served}` | {', '.join(metric.told_by)} | {labels} | {metric.help} |"


@dataclass(frozen=True)
class MetricsEndpoint:
    """Where metrics are served: ``address`` and TCP ``port`` (0: the kernel picks one), or ``socket``, the file
    descriptor of a listening socket."""

    address: str = LOOPBACK
    port: int = 0
    socket: int | None = None

    def __str__(self) -> str:
        return f"{self.address}:{self.port}" if self.socket is None else f"{_SOCKET}{self.socket}"


def parse_endpoint(text: str) -> MetricsEndpoint:
    """Parse ``[ADDRESS:]PORT`` or ``fd:NUMBER``. The default address is the loopback one.

    Raises MetricsEndpointError.
    """
    address, colon, number = text.rpartition(":")
    if f"{address}{colon}" == _SOCKET and number.isascii() and number.isdigit():
        return MetricsEndpoint(socket=int(number))
    try:
        IPv4Address(address if colon else LOOPBACK)
        port = int(number) if number.isascii() and number.isdigit() else -1
    except AddressValueError:
        port = -1
    if not 0 <= port <= _PORT_MOST:
        raise MetricsEndpointError(
            f"metrics = {shown(text)}: ports are 0..{_PORT_MOST}; give PORT or ADDRESS:PORT, of IPv4"
        )
    return MetricsEndpoint(address if colon else LOOPBACK, port)


def endpoint_of(environment: Mapping[str, str] = os.environ) -> MetricsEndpoint | None:
    """Return the endpoint that SUMWIRE_METRICS names, or None if it is not set.

    The processes that torchrun starts on one machine have the same environment, so each adds its local rank to the
    port. Raises MetricsEndpointError.
    """
    text = environment.get(VARIABLE, "")
    if not text:
        return None
    endpoint, rank = parse_endpoint(text), environment.get(_LOCAL_RANK, "")
    if endpoint.socket is not None or not endpoint.port or not rank.isdigit():
        return endpoint
    return parse_endpoint(f"{endpoint.address}:{endpoint.port + int(rank)}")
