# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The thread that answers other workers' questions for results, from the results this worker keeps.

A question is the header of a PROBE for (job, slot, round, op), with the asker's seat as its worker. The answer is the
RESULT that the switch would have sent to the asker. A question for a result that is not here is not answered.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import threading
from dataclasses import dataclass
from typing import Final

from sumwire_protocol import constants as p4

from sumwire.config import Address, JobConfig
from sumwire.errors import ConfigError
from sumwire.transport.catchup.kept_results import KeptResults
from sumwire.wire.header import HEADER_BYTES
from sumwire.wire.packets import OP_WORDS, first_byte

# A worker's port for other workers is so far above its port for the switch.
PORT_OFFSET: Final = 1000
_PORT_MAX: Final = 0xFFFF
_PROBE: Final = first_byte(p4.KIND_PROBE)
# The header up to the round: version and kind, op, job, slot, worker, count, round; then contributors, flags, words.
QUESTION: Final = struct.Struct("!BBHHBBIIBB")
_WORKER_AT: Final = 6
# Questions answered before the thread checks again whether it is to end.
_BATCH: Final = 64


@dataclass
class ServiceCounters:
    """Totals: questions answered, questions for results that are not here, and datagrams that are no question."""

    answered: int = 0
    unknown: int = 0
    malformed: int = 0


def recovery_port(address: Address) -> int:
    """The port at which a worker answers others. Raises ConfigError if it would be above 65535."""
    port = address.udp_port + PORT_OFFSET
    if port > _PORT_MAX:
        rule = f"must be at most {_PORT_MAX - PORT_OFFSET}: other workers ask at {PORT_OFFSET} above it"
        raise ConfigError("udp_port", address.udp_port, rule)
    return port


def recovery_socket(ip: str, port: int) -> socket.socket:
    """A non-blocking UDP socket. Raises OSError if the address cannot be bound."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        udp.setblocking(False)
        udp.bind((ip, port))
    except OSError as error:
        udp.close()
        error.add_note(f"the port for other workers' questions, {ip}:{port}")
        raise
    return udp


class RecoveryService:
    """A thread that answers at its own port until :meth:`close`. Raises OSError if the port is taken."""

    def __init__(self, config: JobConfig, kept: KeptResults) -> None:
        self.counters = ServiceCounters()
        self._job = config.job
        self._kept = kept
        self._seats: dict[str, set[int]] = {}
        for number, address in enumerate(config.addresses):
            if number != config.worker:
                self._seats.setdefault(address.ip, set()).add(address.seat)
        own = config.own_address
        self._udp = recovery_socket(own.ip, recovery_port(own))
        self._wake_reader, self._wake_writer = os.pipe()
        self._thread: threading.Thread | None = threading.Thread(
            target=self._serve, name=f"recovery of {config.name}", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End the thread; closing twice is allowed."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        os.write(self._wake_writer, b"x")
        thread.join()
        self._udp.close()
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def answer(self, question: bytes, ip: str) -> bytearray | None:
        """The answer to a datagram from ``ip``, or None."""
        seats = self._seats.get(ip)
        if seats is None or len(question) != HEADER_BYTES:
            self.counters.malformed += 1
            return None
        first, op, job, slot, seat, _, round_, _, _, words = QUESTION.unpack_from(question)
        if (first, job, words) != (_PROBE, self._job, 0) or seat not in seats or op not in OP_WORDS:
            self.counters.malformed += 1
            return None
        answer = self._kept.find(slot, round_, op)
        if answer is None:
            self.counters.unknown += 1
            return None
        answer[_WORKER_AT] = seat
        self.counters.answered += 1
        return answer

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._udp, select.POLLIN)
        poll.register(self._wake_reader, select.POLLIN)
        while all(fd != self._wake_reader for fd, _ in poll.poll()):
            # An error is an ICMP error of an earlier answer, or a full queue. The asker asks again.
            with contextlib.suppress(OSError):
                for _ in range(_BATCH):
                    question, sender = self._udp.recvfrom(HEADER_BYTES + 1)
                    answer = self.answer(question, sender[0])
                    if answer is not None:
                        self._udp.sendto(answer, sender)
