# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Metrics of hosts, aggregators and switches: what they count, their units and labels, and who serves them.

``python -m sumwire_protocol.metrics`` prints the table of docs/watch.md. A job's counters count from its creation, a
switch's from the load of its program. :func:`switch_readings` is what the soft switch calls to serve the counters of
Sumwire's P4 program (entry point ``softswitch.metrics``).

Labels: ``sumwire_job`` is the number of a job (Prometheus calls its own list of targets ``job``), ``worker`` a worker's
number in its job, ``seat`` its number at a switch, ``switch`` a switch's name, ``port`` a switch's port.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from commonlib.events import AGGREGATOR, CONTROLLER, HOST, SOFT
from commonlib.metrics import COUNTER, GAUGE, PORT_METRICS, Metric, Reading, as_markdown

from sumwire_protocol import constants as p4

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
REPLIES: Final = _switch(COUNTER, "replies", (AGGREGATOR,), "replies, by whether the kernel took them", "outcome")
HANDED_OVER: Final = _switch(
    COUNTER, "handed_over_datagrams", (AGGREGATOR,), "datagrams passed to the process that serves their slot"
)


def metrics() -> tuple[Metric, ...]:
    """Return all metrics, in the order of this file; those of switches' ports come last."""
    return (*(one for one in globals().values() if isinstance(one, Metric)), *PORT_METRICS)


# -- words for the cells of the P4 program's counters ---------------------------------------------------

# Names of counters and of the worker table in the program.
_VERDICT_COUNTER: Final = "ingress.accounting.verdicts"
_REJECT_COUNTER: Final = "ingress.guard.rejects"
_QUEUE_COUNTER: Final = "egress.virtual_queue.queue_decisions"
_WORKER_TABLE: Final = "ingress.admission.worker"


def _names(prefix: str) -> dict[int, str]:
    return {value: name.removeprefix(prefix).lower() for name, value in vars(p4).items() if name.startswith(prefix)}


VERDICT_NAMES: Final = _names("VERDICT_")
REJECT_NAMES: Final = _names("REJECT_")
DECISION_NAMES: Final = {p4.QUEUE_PASS: "pass", p4.QUEUE_MARK: "mark", p4.QUEUE_DROP: "drop", p4.QUEUE_TRIM: "trim"}
_CELLS_OF_QUEUE: Final = p4.DROP_CLASSES * len(DECISION_NAMES)
# Of the counter of virtual queues: those of tagged packets behind those of the others.
QUEUE_CELLS_OF_PORT: Final = 2 * _CELLS_OF_QUEUE


class QueueLabels(NamedTuple):
    """The labels of one cell of a port's virtual queues: whether packets are tagged, their drop class, and the
    decision."""

    tagged: bool
    drop_class: int
    decision: str

    def words(self) -> tuple[str, str, str]:
        """Return the labels in words, as a metric has them."""
        return ("yes" if self.tagged else "no", str(self.drop_class), self.decision)


def queue_labels(cell: int) -> QueueLabels:
    """Return the labels of a cell, given its number among the cells of its port."""
    tagged, rest = divmod(cell, _CELLS_OF_QUEUE)
    drop_class, decision = divmod(rest, len(DECISION_NAMES))
    return QueueLabels(bool(tagged), drop_class, DECISION_NAMES[decision])


# -- the counters of the P4 program on a soft switch ----------------------------------------------------

CountOf = Callable[[str, int], int]
"""Packets that a cell of a counter has counted, by the counter's name and the cell's index."""
RowsOf = Callable[[str], Iterable[tuple[tuple[str, ...], int, int]]]
"""Of each row of a table, by the table's name: its exact keys, and the packets and bytes of its direct counter."""


def switch_readings(switch: str, ports: Sequence[int], count_of: CountOf, rows_of: RowsOf) -> Iterator[Reading]:
    """Yield the readings of a soft switch that runs Sumwire's program. ``switch``: the value of the label "switch".

    Errors of ``count_of`` and ``rows_of``, for a switch that runs another program, are passed on.
    """
    for index, name in VERDICT_NAMES.items():
        yield Reading(VERDICTS, (switch, name), count_of(_VERDICT_COUNTER, index))
    for index, name in REJECT_NAMES.items():
        yield Reading(REFUSED, (switch, name), count_of(_REJECT_COUNTER, index))
    for key, packets, size in rows_of(_WORKER_TABLE):
        yield Reading(WORKER_PACKETS, (switch, *key), packets)
        yield Reading(WORKER_BYTES, (switch, *key), size)
    for port in ports:
        for cell in range(QUEUE_CELLS_OF_PORT):
            packets = count_of(_QUEUE_COUNTER, port * QUEUE_CELLS_OF_PORT + cell)
            if packets:
                yield Reading(QUEUE_PACKETS, (switch, str(port), *queue_labels(cell).words()), packets)


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in as_markdown(metrics()))
