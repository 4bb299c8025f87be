# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Results that the switch no longer has, from other workers of the job.

A worker that was left behind, or lost a result whose slot has gone on, must still apply the same sum as all others. It
asks them one after the other, until one has it; :mod:`sumwire.transport.catchup.recovery_service` answers. When
nobody has it, the
exchange's own deadline ends it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.config import JobConfig
from sumwire.transport.catchup.early_results import whole_results
from sumwire.transport.catchup.kept_results import ROW_BYTES, Kept
from sumwire.transport.catchup.recovery_service import RecoveryService, recovery_port, recovery_socket
from sumwire.wire.header import Header, pack
from sumwire.wire.packets import headers

# How long one worker has for its answer, and what that grows to while nobody has the result.
FIRST_TIMEOUT_S: Final = 0.02
LONGEST_TIMEOUT_S: Final = 0.2
# Results asked for at a time: their answers fit an ordinary socket's buffer.
MOST_ASKED: Final = 64
# Datagrams taken in by one call.
_BATCH: Final = 64
_ROUNDS: Final = 1 << 32

Place = tuple[int, int]


@dataclass
class RecoveryCounters:
    """Totals: questions sent, results got, datagrams that are no answer, and failed sends."""

    asked: int = 0
    recovered: int = 0
    ignored: int = 0
    send_failures: int = 0


@dataclass
class _Question:
    """One result that is missing. ``first``: where its turn round the peers began; ``due``: next time to ask."""

    sequence: int
    op: int
    datagram: bytes
    first: int = 0
    asked: int = 0
    due: float = -math.inf


class Recovery:
    """Asks and answers, from its making to :meth:`close`. One thread asks; the answering is a thread of its own.

    Peers are asked in the order of their numbers behind this worker's, those at the same switch first; the next
    question begins with the peer that answered last. Raises OSError if a port is taken, ConfigError if there is none.
    """

    def __init__(self, config: JobConfig, kept: Kept) -> None:
        self.counters = RecoveryCounters()
        self._config = config
        numbers = [(config.worker + step) % config.workers for step in range(1, config.workers)]
        # Stable: the order behind this worker stays among those at one switch.
        numbers.sort(key=lambda number: config.addresses[number].aggregator != config.aggregator)
        self._peers = [(config.addresses[n].ip, recovery_port(config.addresses[n])) for n in numbers]
        elsewhere = [n for n in numbers if config.addresses[n].aggregator != config.aggregator]
        self._elsewhere = {self._peers[numbers.index(n)] for n in elsewhere}
        self._all_seats = sum(1 << seat for seat in config.seats)
        self._favourite = 0
        self._waiting: deque[_Question] = deque()
        self._wanted: set[Place] = set()
        self._asked: dict[Place, _Question] = {}
        # A byte more than the longest: one that is too long shows as such.
        self._received = np.zeros((_BATCH, ROW_BYTES + 1), np.uint8)
        self._sizes = np.zeros(_BATCH, np.int64)
        self._udp = recovery_socket(config.own_address.ip, 0)
        try:
            self.service = RecoveryService(config, kept)
        except OSError:
            self._udp.close()
            raise

    def close(self) -> None:
        """End asking and answering; closing twice is allowed."""
        self._udp.close()
        self.service.close()

    def fileno(self) -> int:
        """What becomes readable with an answer."""
        return self._udp.fileno()

    @property
    def missing(self) -> int:
        """Results asked for that are not here yet."""
        return len(self._wanted)

    def ask(self, sequences: Iterable[int], op: int) -> None:
        """Want the results of chunks, by their numbers in the job; nothing new for those asked for already.

        They are asked for by :meth:`send`.
        """
        config = self._config
        for sequence in sequences:
            place = sequence % config.slots, sequence // config.slots % _ROUNDS
            if place not in self._wanted and self._peers:
                slot, round_ = place
                question = pack(Header(p4.KIND_PROBE, op, config.job, slot, config.seat, count=0, round=round_))
                self._wanted.add(place)
                self._waiting.append(_Question(sequence, op, question))

    def forget(self) -> None:
        """Want nothing any more: the exchange is over."""
        self._waiting.clear()
        self._wanted.clear()
        self._asked.clear()

    def landed(self, sequences: Iterable[int]) -> None:
        """Results that came another way."""
        slots = self._config.slots
        for sequence in sequences if self._wanted else ():
            self._drop((sequence % slots, sequence // slots % _ROUNDS))

    def wake_at(self) -> float:
        """When :meth:`send` next has something to do, seconds of the clock it is given."""
        if self._waiting and len(self._asked) < MOST_ASKED:
            return -math.inf
        return min((question.due for question in self._asked.values()), default=math.inf)

    def send(self, now: float) -> None:
        """Ask for what is wanted, each at the next peer where one had its time."""
        while self._waiting and len(self._asked) < MOST_ASKED:
            question = self._waiting.popleft()
            place = question.sequence % self._config.slots, question.sequence // self._config.slots % _ROUNDS
            if place in self._wanted:
                question.first = self._favourite
                self._asked[place] = question
        for question in self._asked.values():
            if question.due <= now:
                self._ask_next(question, now)

    def answers(self) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]]:
        """What has come, up to a batch: chunks' numbers in the job, RESULT datagrams, and the bytes in each.

        Each chunk that was asked for is given once. The next call overwrites the datagrams.
        """
        senders = self._receive()
        count = len(senders)
        records, sizes = headers(self._received[:count]), self._sizes[:count]
        good = whole_results(self._config, records, sizes)
        sequences: list[int] = []
        rows: list[int] = []
        for row, sender in enumerate(senders):
            sequence = self._take(sender, records[row]) if good[row] else None
            if sequence is None:
                self.counters.ignored += 1
            else:
                sequences.append(sequence)
                rows.append(row)
        self.counters.recovered += len(rows)
        return np.array(sequences, np.int64), self._received[rows], sizes[rows]

    def _take(self, sender: tuple[str, int], record: Any) -> int | None:
        """The chunk that a result from ``sender`` answers, which is no longer wanted then; None for another's."""
        place = int(record["slot"]), int(record["round"])
        question = self._asked.get(place)
        if question is None or sender not in self._peers or int(record["op"]) != question.op:
            return None
        self._favourite = self._peers.index(sender)
        if sender in self._elsewhere:
            # The bitmap is of the peer's switch. Whether this worker is in the sum is not known: it leaves nothing out
            # of its tensor rather than adding the same again.
            record["contributors"] = self._all_seats
        self._drop(place)
        return question.sequence

    def _drop(self, place: Place) -> None:
        self._wanted.discard(place)
        self._asked.pop(place, None)

    def _ask_next(self, question: _Question, now: float) -> None:
        peers = len(self._peers)
        peer = self._peers[(question.first + question.asked) % peers]
        turns = min(question.asked // peers, 16)
        question.due = now + min(FIRST_TIMEOUT_S * (1 << turns), LONGEST_TIMEOUT_S)
        question.asked += 1
        try:
            self._udp.sendto(question.datagram, peer)
            self.counters.asked += 1
        except OSError:
            # A full queue, or a network that is down: as if the question were lost.
            self.counters.send_failures += 1

    def _receive(self) -> list[tuple[str, int]]:
        senders: list[tuple[str, int]] = []
        while len(senders) < _BATCH:
            try:
                size, sender = self._udp.recvfrom_into(self._received[len(senders)].data)
            except OSError:
                # Nothing more is there, or an error of an earlier question: the next call goes on.
                break
            self._sizes[len(senders)] = size
            senders.append(sender)
        return senders
