# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of a packet in the software aggregator: `python -m sumwire_lab bench aggregator --rate 44000`.

Real sockets on loopback. This process acts as all workers: it sends contributions slot by slot and waits for the
results, at most at the given rate. It measures the CPU time of the aggregator's processes per contribution, the
kernel's part included. On loopback the sender's CPU also does the kernel's receiving work. So the number includes the
cost of results at their receivers, and lacks the cost of contributions in the driver of a network card.
"""

from __future__ import annotations

import os
import socket
import statistics
import time
from typing import Any, Final

import numpy as np
from sumwire.aggregator.processes import ProcessPool, signals_held
from sumwire.config import JobConfig, parse_job
from sumwire.native import SWITCH
from sumwire.wire.batch import BatchSocket, enlarge_buffers
from sumwire.wire.packets import HEADER_BYTES, OP_WORDS, WORD_BYTES, headers, write_headers
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import CODES, SHORT_OPS

from sumwire_lab.bench.benchmark import Bench, Row, Rows
from sumwire_lab.options.bench_options import AGGREGATOR_SLOTS, AggregatorOptions
from sumwire_lab.study.study import Column, Study
from sumwire_lab.system.processes import cpu_clock, cpu_seconds

# Addresses of this process alone: others may measure at the same time.
_NETWORK: Final = f"127.{64 + os.getpid() // 250 % 64}.{os.getpid() % 250}"
AGGREGATOR: Final = f"{_NETWORK}.250"
"""Address that the aggregator listens on."""
_JOB: Final = 1
# Only a lost result is waited for so long. One that came after its turn would count for the next.
_ANSWER_S: Final = 5.0


def job_mapping(workers: int) -> dict[str, Any]:
    """Return the content of a job file for workers on loopback."""
    addresses = [
        {"worker": w, "ip": f"{_NETWORK}.{1 + w}", "udp_port": p4.SUMWIRE_PORT, "aggregator": AGGREGATOR, "seat": w}
        for w in range(workers)
    ]
    return {
        "format": 2,
        "name": "bench",
        "job": _JOB,
        "ops": [op.name for op in SHORT_OPS],
        "workers": workers,
        "quorum": workers,
        "slots": AGGREGATOR_SLOTS,
        "addresses": addresses,
    }


class LoadingWorkers:
    """All workers of the job in one thread. `tos` is the TOS byte of their packets."""

    def __init__(self, job: JobConfig, op: int, *, tos: int) -> None:
        self._job, self._op, self._tos = job, op, tos
        self._sockets = [self._socket(address.ip) for address in job.addresses]
        self._rng = np.random.default_rng(1)
        up = HEADER_BYTES + OP_WORDS[op][0] * WORD_BYTES
        self._rows = [self._rng.integers(0, 256, (job.slots, up), np.uint8) for _ in job.addresses]
        for sock, rows in zip(self._sockets, self._rows, strict=True):
            sock.load(rows)
        self._round = -1

    def _socket(self, ip: str) -> BatchSocket:
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        enlarge_buffers(udp)
        udp.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, self._tos)
        udp.bind((ip, p4.SUMWIRE_PORT))
        udp.connect((self._job.aggregator, p4.SUMWIRE_PORT))
        return BatchSocket(udp, row_bytes=HEADER_BYTES + p4.SLOT_WORDS * WORD_BYTES, batch=256)

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()

    def run(self, seconds: float, rate: float, piece: int) -> tuple[int, int]:
        """Send for `seconds`, at most `rate` contributions per second.

        `piece` slots are summed before the next ones begin. Returns the numbers of contributions and of results.
        """
        began, sent, results = time.monotonic(), 0, 0
        while (now := time.monotonic()) - began < seconds:
            time.sleep(max(0.0, began + sent / rate - now))
            results += self._sum(sent // len(self._sockets) % self._job.slots, piece)
            sent += piece * len(self._sockets)
        return sent, results

    def _sum(self, first: int, piece: int) -> int:
        if first == 0:
            self._next_round()
        slots = np.arange(first, first + piece)
        for sock in self._sockets:
            sock.send(slots)
        return sum(self._take(sock, piece) for sock in self._sockets)

    def _next_round(self) -> None:
        self._round += 1
        for seat, rows in enumerate(self._rows):
            write_headers(
                rows,
                op=self._op,
                job=_JOB,
                seat=seat,
                slots=self._job.slots,
                first_sequence=self._round * self._job.slots,
                bucket=0,
            )
            assert int(headers(rows)["round"][-1]) == self._round

    @staticmethod
    def _take(sock: BatchSocket, wanted: int) -> int:
        got, until = 0, time.monotonic() + _ANSWER_S
        while got < wanted and time.monotonic() < until:
            got += sock.receive(wanted - got)
        return got


# Position of the priority within a TOS byte.
_PRIORITY_SHIFT: Final = 5


COLUMNS: Final = (
    Column("contributions", kind=int),
    Column("results", "that came", kind=int),
    Column("wall_s", "wall clock", "s"),
    Column("cpu_s", "CPU time of the aggregator", "s"),
)


def bench(options: AggregatorOptions) -> Bench:
    """Measure one aggregator, with a row for each of its runs. Fails if a contribution costs more than the limit."""

    def record(rows: Rows) -> dict[str, Any]:
        runs = [{column.name: row[column.name] for column in COLUMNS} for row in rows]
        return {"op": options.op, "cpu_us": median_us(rows), "runs": runs}

    case = {"op": options.op, "processes": options.processes}
    study = Study(
        "bench-aggregator",
        "what a packet costs the software aggregator",
        [case],
        lambda _: measured(options),
        COLUMNS,
        stops=True,
    )
    return Bench(study, record, text, lambda rows: median_us(rows) <= options.limit_us, needs_network=False)


def measured(options: AggregatorOptions) -> list[dict[str, Any]]:
    """Return a row for each run. The first run is not counted."""
    job = parse_job(job_mapping(options.workers), 0)
    rows = []
    with signals_held(), ProcessPool((job,), AGGREGATOR, p4.SUMWIRE_PORT, options.processes) as pool:
        load = LoadingWorkers(job, CODES[options.op], tos=options.priority << _PRIORITY_SHIFT)
        clocks = [cpu_clock(pid) for pid in pool.pids]
        try:
            load.run(options.seconds / 4, options.rate, options.piece)
            for _ in range(options.runs):
                before, began = cpu_seconds(clocks), time.monotonic()
                sent, results = load.run(options.seconds, options.rate, options.piece)
                cpu, wall = cpu_seconds(clocks) - before, time.monotonic() - began
                rows.append({"contributions": sent, "results": results, "wall_s": wall, "cpu_s": cpu})
        finally:
            load.close()
    return rows


def text(rows: Rows) -> str:
    """Return one line per run, then the median."""
    form = "numpy" if os.environ.get(SWITCH) == "0" else "native where there is a compiler"
    lines = [
        f"{row['op']}, {form}: {row['contributions'] / row['wall_s']:,.0f} contributions/s, "
        f"{row['results'] / row['contributions']:.1%} of results came, {_cpu_us(row):.2f} us of CPU each, "
        f"{row['cpu_s'] / row['wall_s']:.0%} of a core"
        for row in rows
    ]
    return "\n".join([*lines, f"median: {median_us(rows):.2f} us of CPU a contribution"])


def median_us(rows: Rows) -> float:
    """Return the median of CPU microseconds per contribution."""
    return statistics.median(map(_cpu_us, rows))


def _cpu_us(row: Row) -> float:
    return float(row["cpu_s"] / row["contributions"] * 1e6)
