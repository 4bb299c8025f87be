# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""All metrics by name: what they count, in which unit, with which labels, and who tells them.

``python -m sumwire_protocol.watch`` prints the table of docs/watch.md. A job's counters count from its creation, a
switch's from the load of its program.

Labels: ``sumwire_job`` is the number of a job (Prometheus calls its own list of targets ``job``), ``worker`` a worker's
number in its job, ``seat`` its number at a switch, ``switch`` a switch's name, ``port`` a switch's port.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HOST: Final = "host"
SOFT: Final = "soft switch"
AGGREGATOR: Final = "aggregator"
CONTROLLER: Final = "controller"


@dataclass(frozen=True, slots=True)
class Metric:
    """``name``: without the ending that counters have in what is served. ``told_by``: HOST, SOFT, ..."""

    name: str
    kind: Literal["counter", "gauge"]
    labels: tuple[str, ...]
    told_by: tuple[str, ...]
    help: str

    @property
    def served(self) -> str:
        """The name in what is served."""
        return f"{self.name}_total" if self.kind == COUNTER else self.name


@dataclass(frozen=True, slots=True)
class Reading:
    """One value. ``labels``: values in the order of the metric's labels."""

    metric: Metric
    labels: tuple[str, ...]
    value: float


_JOB: Final = ("sumwire_job", "worker")


def _counter(name: str, help_: str, *labels: str) -> Metric:
    return Metric(f"sumwire_job_{name}", COUNTER, (*_JOB, *labels), (HOST,), help_)


def _gauge(name: str, help_: str, *labels: str) -> Metric:
    return Metric(f"sumwire_job_{name}", GAUGE, (*_JOB, *labels), (HOST,), help_)


# -- hosts ---------------------------------------------------------------------------------------------

JOB_INFO: Final = _gauge("info", "1; the labels have the job's name and the workers of this run", "name", "workers")
FALLEN_BACK: Final = _gauge("fallen_back", "1 while operations use the process group in the switch's place, else 0")
IN_FLIGHT: Final = _gauge("in_flight_chunks", "chunks that are sent and have no result")
TIMEOUT: Final = _gauge("retransmission_timeout_seconds", "how long the worker waits before it sends a packet again")
HOST_LINE_RATE: Final = _gauge("line_rate_bytes_per_second", "rate of the worker's link, where it is known")
WITHOUT_TRAINS: Final = _gauge("directions_without_trains", "of two directions, those in which packets go one by one")

OPERATIONS: Final = _counter("operations", "operations that are done")
VALUES: Final = _counter("values", "values of the tensors of these operations")
SENT_PACKETS: Final = _counter("sent_packets", "packets sent")
RECEIVED_PACKETS: Final = _counter("received_packets", "packets received")
SENT_MESSAGES: Final = _counter("sent_messages", "packets and trains of packets handed to the kernel")
RECEIVED_MESSAGES: Final = _counter("received_messages", "packets and trains of packets taken from the kernel")
SENT_BYTES: Final = _counter("sent_bytes", "bytes sent, with the headers from Ethernet's on")
RECEIVED_BYTES: Final = _counter("received_bytes", "bytes received, with the headers from Ethernet's on")
RESENT: Final = _counter(
    "resent_packets", "packets sent again: quick (overtaken, or asked for by the switch) or by timeout", "cause"
)
FLUSHED: Final = _counter("flushed_packets", "of those sent again, the ones with FLUSH")
DUPLICATES: Final = _counter("duplicate_results", "repeated or late results")
STALE: Final = _counter("stale_packets", "answers that a slot no longer has a round's result")
IGNORED: Final = _counter("ignored_packets", "received packets that are malformed or foreign")
FORGED: Final = _counter("forged_packets", "of those, the ones with a wrong authentication tag")
SEND_FAILURES: Final = _counter("send_failures", "packets that the kernel did not take")
PROBES: Final = _counter("probes", "PROBE and HELLO packets sent")
INFORMS: Final = _counter("informs", "INFORM packets received")
OPERATION_S: Final = _counter("operation_seconds", "time of whole operations")
EXCHANGE_S: Final = _counter("exchange_seconds", "of that, time of sending, waiting and receiving")
ENCODE_S: Final = _counter("encode_seconds", "of that, time of the codec before packets leave")
DECODE_S: Final = _counter("decode_seconds", "of that, time of the codec after results have come")
MISSING: Final = _counter("missing_contributions", "contributions, of any worker, that results lack")
LEFT_OUT: Final = _counter("left_out_chunks", "results without this worker's contribution")
TRIMMED: Final = _counter("trimmed_chunks", "results that lack planes")
CE_MARKED: Final = _counter("ce_marked_chunks", "results that met a long queue, or with a contribution that did")
RECOVERED: Final = _counter("recovered_chunks", "results taken from other workers")
AHEAD: Final = _counter("ahead_chunks", "results that came before this worker began their exchange")
REFUSED_QUESTIONS: Final = _counter("refused_questions", "questions to the recovery port that got no answer")
FALLBACKS: Final = _counter("fallbacks", "how often the workers have agreed on the fall-back")
RETURNS: Final = _counter("returns", "how often they have agreed on going back to the switch")
FALLBACK_OPERATIONS: Final = _counter("fallback_operations", "operations done by the process group after a fall-back")
ONE_TRIP: Final = _counter("one_trip_operations", "operations on small tensors in one round trip")
REPEATED: Final = _counter("repeated_operations", "such ones whose tensor had to be sent twice")
GROUP_OPERATIONS: Final = _counter("group_operations", "operations done by the process group by choice")
GROUP_VALUES: Final = _counter("group_values", "values of these operations")

# -- switches: told by the soft switch or the aggregator itself, or by the controller that asks them ---------------


def _switch(kind: Literal["counter", "gauge"], name: str, by: tuple[str, ...], help_: str, *labels: str) -> Metric:
    return Metric(f"sumwire_switch_{name}", kind, ("switch", *labels), by, help_)


_ALL: Final = (SOFT, AGGREGATOR, CONTROLLER)

UP: Final = _switch(GAUGE, "up", (CONTROLLER,), "1 if the switch answers the controller, else 0")
IN_SYNC: Final = _switch(GAUGE, "in_sync", (CONTROLLER,), "1 if program and entries are as configured, else 0")
VERDICTS: Final = _switch(COUNTER, "verdicts", _ALL, "admitted packets by what was decided for them", "verdict")
REFUSED: Final = _switch(COUNTER, "refused_packets", _ALL, "packets that were refused, by reject reason", "reason")
WORKER_PACKETS: Final = _switch(
    COUNTER, "worker_packets", (SOFT, CONTROLLER), "packets admitted from a seat", "sumwire_job", "seat"
)
WORKER_BYTES: Final = _switch(
    COUNTER, "worker_bytes", (SOFT, CONTROLLER), "bytes of these packets", "sumwire_job", "seat"
)
QUEUE_PACKETS: Final = _switch(
    COUNTER, "queue_packets", (SOFT, CONTROLLER), "packets that a virtual queue decided on",
    "port", "tagged", "drop_class", "decision",
)  # fmt: skip
PORT_RECEIVED_FRAMES: Final = _switch(COUNTER, "port_received_frames", (SOFT,), "frames that came in at a port", "port")
PORT_RECEIVED_BYTES: Final = _switch(COUNTER, "port_received_bytes", (SOFT,), "bytes of these frames", "port")
PORT_SENT_FRAMES: Final = _switch(COUNTER, "port_sent_frames", (SOFT,), "frames that left by a port", "port")
PORT_SENT_BYTES: Final = _switch(COUNTER, "port_sent_bytes", (SOFT,), "bytes of these frames", "port")
PORT_DROPPED: Final = _switch(
    COUNTER, "port_dropped_frames", (SOFT,), "frames lost at a port, by cause", "port", "cause"
)
PORT_TRAINS: Final = _switch(
    COUNTER, "port_trains", (SOFT,), "frames that were trains of packets, by direction", "port", "direction"
)
PORT_LINE_RATE: Final = _switch(
    GAUGE, "port_line_rate_bytes_per_second", (SOFT,), "rate of a port's link, where it is known", "port"
)
REPLIES: Final = _switch(COUNTER, "replies", (AGGREGATOR,), "replies, by whether the kernel took them", "outcome")
HANDED_OVER: Final = _switch(
    COUNTER, "handed_over_datagrams", (AGGREGATOR,), "datagrams passed to the process that serves their slot"
)


def metrics() -> tuple[Metric, ...]:
    """All of them, in the order of this file."""
    return tuple(one for one in globals().values() if isinstance(one, Metric))


def as_markdown() -> Iterator[str]:
    """The table of docs/watch.md, line by line."""
    yield "| metric | told by | labels | what it says |"
    yield "|---|---|---|---|"
    for metric in metrics():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.served}` | {', '.join(metric.told_by)} | {labels} | {metric.help} |"
