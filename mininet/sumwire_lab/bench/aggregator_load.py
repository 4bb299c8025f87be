# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The workers of a job on loopback, played by one process, as load for a software aggregator."""

from __future__ import annotations

import os
import socket
import time
from typing import Any, Final

import numpy as np
from sumwire.config import JobConfig
from sumwire.wire.batch import BatchSocket, enlarge_buffers
from sumwire.wire.header import HEADER_BYTES, WORD_BYTES
from sumwire.wire.packets import OP_WORDS, headers, write_headers
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import CODES

from sumwire_lab.options.bench_options import AGGREGATOR_SLOTS

# Addresses of this process alone: others may measure at the same time.
_NETWORK: Final = f"127.{64 + os.getpid() // 250 % 64}.{os.getpid() % 250}"
AGGREGATOR: Final = f"{_NETWORK}.250"
"""Address that the aggregator listens on."""
_JOB: Final = 1
_ANSWER_S: Final = 0.05


def job_mapping(workers: int) -> dict[str, Any]:
    """The content of a job file for workers on loopback."""
    addresses = [
        {"worker": w, "ip": f"{_NETWORK}.{1 + w}", "udp_port": p4.SUMWIRE_PORT, "aggregator": AGGREGATOR, "seat": w}
        for w in range(workers)
    ]
    return {
        "format": 2,
        "name": "bench",
        "job": _JOB,
        "ops": list(CODES),
        "workers": workers,
        "quorum": workers,
        "slots": AGGREGATOR_SLOTS,
        "addresses": addresses,
    }


class Workers:
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
        """Send for so many seconds, at most `rate` contributions per second.

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
