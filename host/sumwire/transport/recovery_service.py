# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A thread that answers other workers' questions for results, from the results that this worker keeps.

A question is the header of a PROBE for (job, slot, round, op, token), with the asker's seat as its worker, and a nonce.
The answer is the RESULT that the switch would have sent to the asker, without the flag CE. A question for a result that
this worker lacks is not answered.

Anybody can forge a question with a worker's address. The answer, many times as long, would go to that worker. So a
question is answered only if it has the nonce of its sender's address and port, which nobody else gets to see; otherwise
the answer is the question again, with the right nonce. The nonce is computed from a secret of this process, so only
rates are stored per sender.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import select
import socket
import struct
import time
from dataclasses import dataclass
from typing import Final

from commonlib.forking import close_in_children
from sumwire_protocol import constants as p4

from sumwire.config import Address, JobConfig
from sumwire.errors import ConfigError
from sumwire.lifecycle import Lifecycle
from sumwire.transport.kept_results import KeptResults
from sumwire.wire.authentication import Tags, key_record
from sumwire.wire.packets import FLAGS_AT, HEADER_BYTES, OP_WORDS, TOKEN_AT, first_byte

NONCE_BYTES: Final = 8
# Sent by who has not been told the nonce yet.
NO_NONCE: Final = bytes(NONCE_BYTES)
# Answers a second to one address, and at once. A worker that catches up asks for 64 results in each round trip.
ANSWERS_PER_S: Final = 20_000.0
ANSWERS_AT_ONCE: Final = 4096
# The same of nonces. They have a bound of their own, so that forged questions do not use up that of the answers.
NONCES_PER_S: Final = 1000.0
NONCES_AT_ONCE: Final = 256


@dataclass
class Rate:
    """A token bucket: ``at_once`` events, then ``per_s`` per second. ``now`` is in seconds of any clock."""

    per_s: float
    at_once: float
    _left: float = -1.0
    _since: float = 0.0

    def allows(self, now: float) -> bool:
        """Return whether one more event is within the bound, and count it if so."""
        left = self.at_once if self._left < 0 else min(self.at_once, self._left + (now - self._since) * self.per_s)
        self._since = now
        self._left = left - 1 if left >= 1 else left
        return left >= 1


class Asker:
    """An address that may ask, with the seats of the workers there."""

    def __init__(self) -> None:
        self.seats: set[int] = set()
        self.answers = Rate(ANSWERS_PER_S, ANSWERS_AT_ONCE)
        self.nonces = Rate(NONCES_PER_S, NONCES_AT_ONCE)


class Askers:
    """The other workers of the job by address, and the nonces of their ports."""

    def __init__(self, config: JobConfig) -> None:
        self._secret = secrets.token_bytes(32)
        self._askers: dict[str, Asker] = {}
        for number, address in enumerate(config.addresses):
            if number != config.worker:
                self._askers.setdefault(address.ip, Asker()).seats.add(address.seat)

    def at(self, ip: str) -> Asker | None:
        """Return the asker at an address; None if no other worker of the job has it."""
        return self._askers.get(ip)

    def nonce(self, sender: tuple[str, int]) -> bytes:
        """Return the nonce for an address and port."""
        ip, port = sender
        return hashlib.blake2b(f"{ip}:{port}".encode(), key=self._secret, digest_size=NONCE_BYTES).digest()

    def has_nonce(self, sender: tuple[str, int], nonce: bytes) -> bool:
        """Return whether the nonce in a question is that of its sender."""
        return hmac.compare_digest(nonce, self.nonce(sender))


# A worker's port for other workers is so far above its port for the switch.
PORT_OFFSET: Final = 1000
_PORT_MAX: Final = 0xFFFF
_PROBE: Final = first_byte(p4.KIND_PROBE)
# The header up to the round: version and kind, op, job, slot, worker, count, round; then contributors, flags, words.
QUESTION: Final = struct.Struct("!BBHHBBIIBB")
_WORKER_AT: Final = 6
_COUNT_AT: Final = 7
QUESTION_BYTES: Final = HEADER_BYTES + NONCE_BYTES
# The field of an answer that brings a nonce. Questions have 0, so that no answer can be taken for one and go round.
NONCE_COUNT: Final = 1
# Questions answered before the thread checks again whether it is to end.
_BATCH: Final = 64


@dataclass
class ServiceCounters:
    """Totals: questions answered, questions for results that are not here, nonces sent, datagrams that are not
    questions or not from a worker's address, and questions above an address's rate."""

    answered: int = 0
    unknown: int = 0
    nonces: int = 0
    malformed: int = 0
    strangers: int = 0
    limited: int = 0

    @property
    def refused(self) -> int:
        """Number of requests without an answer although the result may be here."""
        return self.malformed + self.strangers + self.limited


def recovery_port(address: Address) -> int:
    """Return the port at which a worker answers others. Raises ConfigError if it would be above 65535."""
    port = address.udp_port + PORT_OFFSET
    if port > _PORT_MAX:
        rule = f"must be at most {_PORT_MAX - PORT_OFFSET}: other workers ask at {PORT_OFFSET} above it"
        raise ConfigError("udp_port", address.udp_port, rule)
    return port


def recovery_socket(ip: str, port: int) -> socket.socket:
    """Return a non-blocking UDP socket. Raises OSError if the address cannot be bound."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        udp.setblocking(False)
        udp.bind((ip, port))
    except OSError as error:
        udp.close()
        error.add_note(f"the port for other workers' questions, {ip}:{port}")
        raise
    close_in_children(udp)
    return udp


def recovery_tags(config: JobConfig, answers: Address) -> Tags | None:
    """Return the tags of questions to a worker and of its answers; None in a job without a key."""
    if config.key is None:
        return None
    return Tags(key_record(config.key, config.job, answers.ip, recovery=True))


def same_question(answer: bytes, header: bytes) -> bool:
    """Return whether an answer with a nonce belongs to the question with this header: everything but the count is the
    same."""
    return answer[:_COUNT_AT] == header[:_COUNT_AT] and answer[_COUNT_AT + 1 : HEADER_BYTES] == header[_COUNT_AT + 1 :]


class RecoveryService:
    """A thread that answers at its own port until :meth:`close`. Raises OSError if the port is taken."""

    def __init__(self, config: JobConfig, kept: KeptResults) -> None:
        self.counters = ServiceCounters()
        self._job = config.job
        self._kept = kept
        self._askers = Askers(config)
        self._tags = recovery_tags(config, config.own_address)
        own = config.own_address
        self._udp = recovery_socket(own.ip, recovery_port(own))
        self._wake_reader, self._wake_writer = os.pipe()
        self._life = Lifecycle(f"job {config.name}", "Job(config)")
        self._life.start(self._serve, f"recovery of {config.name}", stop=lambda: os.write(self._wake_writer, b"x"))

    def close(self) -> None:
        """End the thread; closing twice is allowed."""
        self._life.close(self._close_files)

    def _close_files(self) -> None:
        self._udp.close()
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    def answer(self, question: bytes, sender: tuple[str, int], now: float) -> bytearray | None:
        """Return the answer to a datagram, or None. ``now``: seconds of a monotonic clock."""
        asker = self._askers.at(sender[0])
        if asker is None:
            self.counters.strangers += 1
            return None
        opened = question if self._tags is None else self._tags.opened(question)
        if opened is None or len(opened) != QUESTION_BYTES:
            self.counters.malformed += 1
            return None
        answer = self._answer(opened, sender, asker, now)
        return answer if answer is None or self._tags is None else bytearray(self._tags.sealed(answer))

    def _answer(self, question: bytes, sender: tuple[str, int], asker: Asker, now: float) -> bytearray | None:
        first, op, job, slot, seat, count, round_, _, _, words = QUESTION.unpack_from(question)
        right = (first, job, count, words) == (_PROBE, self._job, 0, 0)
        if not right or seat not in asker.seats or op not in OP_WORDS:
            self.counters.malformed += 1
            return None
        known = self._askers.has_nonce(sender, question[HEADER_BYTES:])
        if not (asker.answers if known else asker.nonces).allows(now):
            self.counters.limited += 1
            return None
        token = int.from_bytes(question[TOKEN_AT:HEADER_BYTES])
        return self._result(slot, round_, op, token, seat) if known else self._nonce(question, sender)

    def _result(self, slot: int, round_: int, op: int, token: int, seat: int) -> bytearray | None:
        answer = self._kept.find(slot, round_, op, token)
        if answer is None:
            self.counters.unknown += 1
            return None
        answer[_WORKER_AT] = seat
        # Queues on the way to this worker say nothing about the way to the asker.
        answer[FLAGS_AT] &= ~p4.FLAG_CE
        self.counters.answered += 1
        return answer

    def _nonce(self, question: bytes, sender: tuple[str, int]) -> bytearray:
        """The question again, with count 1 and the nonce in it: as long as the question."""
        answer = bytearray(question[:HEADER_BYTES] + self._askers.nonce(sender))
        answer[_COUNT_AT] = NONCE_COUNT
        self.counters.nonces += 1
        return answer

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._udp, select.POLLIN)
        poll.register(self._wake_reader, select.POLLIN)
        while all(fd != self._wake_reader for fd, _ in poll.poll()):
            # An error is an ICMP error of an earlier answer, or a full queue. The asker asks again.
            with contextlib.suppress(OSError):
                for _ in range(_BATCH):
                    question, sender = self._udp.recvfrom(QUESTION_BYTES + p4.TAG_BYTES + 1)
                    answer = self.answer(question, sender, time.monotonic())
                    if answer is not None:
                        self._udp.sendto(answer, sender)
