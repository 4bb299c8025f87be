# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a packet costs the aggregator: `python -m sumwire_lab.bench.commands.aggregator --rate 44000`.

Real sockets on loopback. This process plays all workers: it sends contributions slot by slot, takes in the results and
goes on, at most at the given rate. What is measured is the CPU time of the aggregator's processes, the kernel's part
included, by contribution. On loopback a sender's CPU also does the receiving side of the way through the kernel: what
results cost their receivers is in the number, and what contributions cost a network card's driver is not.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from sumwire.aggregator.kernels import SWITCH
from sumwire.aggregator.processes import Fleet, signals_held
from sumwire.config import JobConfig, parse_job
from sumwire.wire.batch import BatchSocket, enlarge_buffers
from sumwire.wire.header import HEADER_BYTES, WORD_BYTES
from sumwire.wire.packets import OP_WORDS, headers, write_headers
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import CODES

_JOB: Final = 1
_SLOTS: Final = 512
# The table that THC's authors publish; any other costs about the same.
_TABLE: Final = (0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30)
# Where a TOS byte has the priority.
_PRIORITY_AT: Final = 5
_ANSWER_S: Final = 0.05
_AGGREGATOR: Final = "127.77.0.250"


@dataclass(frozen=True)
class Spent:
    """Of one run: contributions, results that came, seconds of wall clock and of the aggregator's CPU time."""

    contributions: int
    results: int
    wall_s: float
    cpu_s: float

    @property
    def cpu_us(self) -> float:
        """CPU microseconds a contribution."""
        return self.cpu_s / self.contributions * 1e6


def job_mapping(workers: int) -> dict[str, Any]:
    """A job file's content, for workers on loopback."""
    addresses = [
        {"worker": w, "ip": f"127.77.0.{1 + w}", "udp_port": p4.SUMWIRE_PORT, "aggregator": _AGGREGATOR, "seat": w}
        for w in range(workers)
    ]
    return {
        "format": 2,
        "name": "bench",
        "job": _JOB,
        "ops": list(CODES),
        "workers": workers,
        "quorum": workers,
        "slots": _SLOTS,
        "addresses": addresses,
        "thc": {"bits": 4, "p": 0.03125, "table": list(_TABLE)},
    }


class Workers:
    """All workers of the job in one thread; their packets carry a TOS."""

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
        """Contributions and results of so many seconds; `piece` slots are summed before the next ones begin."""
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


def cpu_seconds(pid: int) -> float:
    """CPU time that a running process has used, the kernel's part included."""
    # How Linux numbers the clocks of other processes, see clock_getcpuclockid(3).
    return time.clock_gettime(~pid << 3 | 2)


def measure(
    workers: int, op: int, processes: int, *, seconds: float, rate: float, piece: int, runs: int, priority: int = 0
) -> list[Spent]:
    """Start an aggregator, and use it for `runs` times `seconds`."""
    job = parse_job(job_mapping(workers), 0)
    spent = []
    with signals_held(), Fleet((job,), _AGGREGATOR, p4.SUMWIRE_PORT, processes) as fleet:
        load = Workers(job, op, tos=priority << _PRIORITY_AT)
        try:
            load.run(seconds / 4, rate, piece)
            for _ in range(runs):
                before, began = sum(map(cpu_seconds, fleet.pids)), time.monotonic()
                sent, results = load.run(seconds, rate, piece)
                cpu, wall = sum(map(cpu_seconds, fleet.pids)) - before, time.monotonic() - began
                spent.append(Spent(sent, results, wall, cpu))
        finally:
            load.close()
    return spent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; 0 if a contribution costs at most `--limit-us`, else 1."""
    parser = argparse.ArgumentParser(description="CPU time that a contribution costs the software aggregator")
    parser.add_argument("--op", choices=tuple(CODES), default="thc")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--rate", type=float, default=np.inf, help="contributions per second at most")
    parser.add_argument("--piece", type=int, default=16, help="slots that are summed before the next ones begin")
    parser.add_argument("--priority", type=int, choices=range(p4.PRIORITIES), default=0, help="of all packets")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--limit-us", type=float, default=np.inf)
    options = parser.parse_args(arguments)
    if _SLOTS % options.piece or options.piece < 1:
        parser.error(f"--piece must divide {_SLOTS}")
    runs = measure(
        options.workers,
        CODES[options.op],
        options.processes,
        seconds=options.seconds,
        rate=options.rate,
        piece=options.piece,
        runs=options.runs,
        priority=options.priority,
    )
    form = "numpy" if os.environ.get(SWITCH) == "0" else "native where there is a compiler"
    for one in runs:
        sys.stdout.write(
            f"{options.op}, {form}: {one.contributions / one.wall_s:,.0f} contributions/s, "
            f"{one.results / (one.contributions):.1%} of results came, {one.cpu_us:.2f} us of CPU each, "
            f"{one.cpu_s / one.wall_s:.0%} of a core\n"
        )
    cost = statistics.median(one.cpu_us for one in runs)
    sys.stdout.write(f"median: {cost:.2f} us of CPU a contribution\n")
    return 0 if cost <= options.limit_us else 1


if __name__ == "__main__":
    raise SystemExit(main())
