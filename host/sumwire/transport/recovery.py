# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Recovery: getting results that the switch no longer has from other workers of the job.

A worker that lacks a result whose slot is already used for a later round must still apply the same sum as all others.
It asks the other workers one after another until one has it; :mod:`sumwire.transport.recovery_service` answers.
A worker's first answer is a nonce, with which the question is sent again. If nobody has the result, the exchange ends
by its deadline.

Example: worker 2 of 4 lacks chunk 7 (slot 2, round 1 of 5 slots). It asks worker 3; after 20 ms without an answer it
asks worker 0, then worker 1, then worker 3 again, which now has 40 ms.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.config import JobConfig
from sumwire.transport.kept_results import USUAL_BYTES, EarlyResults, KeptResults, whole_results
from sumwire.transport.recovery_service import (
    NO_NONCE,
    NONCE_COUNT,
    QUESTION,
    QUESTION_BYTES,
    RecoveryService,
    recovery_port,
    recovery_socket,
    recovery_tags,
    same_question,
)
from sumwire.wire.packets import HEADER_BYTES, Header, Place, headers, pack, place_of

# How long one worker has for its answer: at first, and at most. It doubles with every turn round the workers.
FIRST_TIMEOUT_S: Final = 0.02
LONGEST_TIMEOUT_S: Final = 0.2
# Results asked for at the same time: their answers fit the buffer of an ordinary socket.
MOST_ASKED: Final = 64
# Datagrams received by one call.
_BATCH: Final = 64


@dataclass
class RecoveryCounters:
    """Totals: questions sent, nonces and results received, datagrams that are not answers, and failed sends."""

    asked: int = 0
    nonces: int = 0
    recovered: int = 0
    ignored: int = 0
    send_failures: int = 0


@dataclass
class _Question:
    """One missing result. ``first``: the peer that is asked first. ``due``: when the next peer is asked. ``told``:
    peers to which it was sent again with their nonce since it was their turn."""

    sequence: int
    op: int
    header: bytes
    first: int = 0
    asked: int = 0
    told: set[int] = field(default_factory=set)
    due: float = -math.inf


class Recovery:
    """Asks other workers, and answers them in a thread of its own until :meth:`close`. One thread at a time may ask.

    Peers at the same switch are asked first; among equals, in the order of the numbers after this worker's. A question
    begins with the peer that answered last. ``token``: that of the run, TOKEN_NONE before it. Raises OSError if a port
    is taken, ConfigError if the port for other workers would be above 65535.
    """

    def __init__(self, config: JobConfig, kept: KeptResults) -> None:
        self.counters = RecoveryCounters()
        self.token = p4.TOKEN_NONE
        self._config = config
        numbers = [(config.worker + step) % config.workers for step in range(1, config.workers)]
        # A stable sort keeps that order among the workers of one switch.
        numbers.sort(key=lambda number: config.addresses[number].aggregator != config.aggregator)
        self._peers = [(config.addresses[n].ip, recovery_port(config.addresses[n])) for n in numbers]
        self._tags = [recovery_tags(config, config.addresses[n]) for n in numbers]
        elsewhere = [n for n in numbers if config.addresses[n].aggregator != config.aggregator]
        self._elsewhere = {self._peers[numbers.index(n)] for n in elsewhere}
        self._all_seats = config.all_seats
        self._nonces = [NO_NONCE] * len(self._peers)
        self._favourite = 0
        self._waiting: deque[_Question] = deque()
        self._wanted: set[Place] = set()
        self._asked: dict[Place, _Question] = {}
        # What this worker's switch has said of partial results that it has passed up: who is in them.
        self._passed_up: dict[Place, int] = {}
        # One byte more than the longest answer, so that a longer datagram shows as too long.
        self._received = np.zeros((_BATCH, HEADER_BYTES + config.longest_bytes + config.tag_bytes + 1), np.uint8)
        self._sizes = np.zeros(_BATCH, np.int64)
        self._udp = recovery_socket(config.own_address.ip, 0)
        try:
            self.service = RecoveryService(config, kept)
        except OSError:
            self._udp.close()
            raise

    def close(self) -> None:
        """Stop asking and answering; closing twice is allowed."""
        self._udp.close()
        self.service.close()

    def fileno(self) -> int:
        """Return the file descriptor that becomes readable when an answer arrives."""
        return self._udp.fileno()

    @property
    def missing(self) -> int:
        """Number of results that were asked for and have not arrived."""
        return len(self._wanted)

    def ask(self, sequences: Iterable[int], op: int) -> None:
        """Register the results of chunks (sequence numbers) as wanted. :meth:`send` asks for them."""
        config = self._config
        for sequence in sequences:
            place = place_of(sequence, config.slots)
            if place not in self._wanted and self._peers:
                slot, round_ = place
                header = Header(
                    p4.KIND_PROBE, op, config.job, slot, config.seat, count=0, round=round_, token=self.token
                )
                question = pack(header)
                self._wanted.add(place)
                self._waiting.append(_Question(sequence, op, question))

    def forget(self) -> None:
        """Stop asking for results, because the exchange is over."""
        self._waiting.clear()
        self._wanted.clear()
        self._asked.clear()
        self._passed_up.clear()

    def passed_up(self, place: Place, contributors: int) -> None:
        """Record that this worker's own switch has passed up the partial result of a slot and round, with these seats
        in it."""
        self._passed_up[place] = contributors

    def landed(self, sequences: Iterable[int]) -> None:
        """Record that these results have arrived from somewhere else."""
        slots = self._config.slots
        for sequence in sequences if self._wanted else ():
            self._drop(place_of(sequence, slots))

    def wake_at(self) -> float:
        """Return when :meth:`send` next has something to do, in seconds of the caller's clock."""
        if self._waiting and len(self._asked) < MOST_ASKED:
            return -math.inf
        return min((question.due for question in self._asked.values()), default=math.inf)

    def send(self, now: float) -> None:
        """Send the questions that are due, each to its next peer."""
        while self._waiting and len(self._asked) < MOST_ASKED:
            question = self._waiting.popleft()
            place = place_of(question.sequence, self._config.slots)
            if place in self._wanted:
                question.first = self._favourite
                self._asked[place] = question
        for question in self._asked.values():
            if question.due <= now:
                self._ask_next(question, now)

    def answers(self) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]]:
        """Return the answers that have arrived, up to a batch: sequence numbers, RESULT datagrams, and the bytes in
        each.

        Each wanted result is returned once. The next call overwrites the datagrams. Questions answered with a nonce are
        sent again with it.
        """
        senders = self._receive()
        count = len(senders)
        records, sizes = headers(self._received[:count]), self._sizes[:count]
        good = whole_results(self._config, self.token, records, sizes)
        sequences: list[int] = []
        rows: list[int] = []
        for row, sender in enumerate(senders):
            sequence = self._take(sender, records[row]) if good[row] else None
            if sequence is None:
                told = not good[row] and self._told(sender, self._received[row, : sizes[row]].tobytes())
                self.counters.ignored += not told
            else:
                sequences.append(sequence)
                rows.append(row)
        self.counters.recovered += len(rows)
        return np.array(sequences, np.int64), self._received[rows], sizes[rows]

    def discard(self) -> None:
        """Read what has arrived, up to a batch, and ignore it."""
        self.counters.ignored += len(self._receive())

    def _take(self, sender: tuple[str, int], record: Any) -> int | None:
        """The sequence number that a result from ``sender`` answers, which is then no longer wanted; None if it answers
        none."""
        place = int(record["slot"]), int(record["round"])
        question = self._asked.get(place)
        if question is None or sender not in self._peers or int(record["op"]) != question.op:
            return None
        if sender in self._elsewhere:
            # The bitmap is that of the peer's switch.
            own = self._own_bitmap(place, whole=not int(record["flags"]) & p4.FLAG_MISSING)
            if own is None:
                return None
            record["contributors"] = own
        self._favourite = self._peers.index(sender)
        self._drop(place)
        return question.sequence

    def _own_bitmap(self, place: Place, *, whole: bool) -> int | None:
        """Who of this worker's switch is in a sum that came from behind another one. ``whole``: nobody is missing.

        None if it is unknown whether this worker is: error feedback would lose its contribution, or send it twice. A
        worker at the own switch will know, since some of them must have the result for the slot to have gone on. And
        nobody can be missing at a switch with one worker, which has no slot to close without it.
        """
        if whole or len(self._elsewhere) == len(self._peers):
            return self._all_seats
        return self._passed_up.get(place)

    def _told(self, sender: tuple[str, int], answer: bytes) -> bool:
        """Whether the answer brings the nonce of this socket's address at a peer. Its question is then sent again, but
        once in each peer's turn: a peer that takes no nonce, or a forger, does not keep this worker sending."""
        if len(answer) != QUESTION_BYTES or sender not in self._peers:
            return False
        fields = QUESTION.unpack_from(answer)
        slot, count, round_ = fields[3], fields[5], fields[6]
        question = self._asked.get((slot, round_))
        if question is None or count != NONCE_COUNT or not same_question(answer, question.header):
            return False
        peer = self._peers.index(sender)
        self._nonces[peer] = answer[HEADER_BYTES:]
        self.counters.nonces += 1
        if peer not in question.told:
            question.told.add(peer)
            self._send(question, peer)
        return True

    def _drop(self, place: Place) -> None:
        self._wanted.discard(place)
        self._asked.pop(place, None)

    def _ask_next(self, question: _Question, now: float) -> None:
        peers = len(self._peers)
        peer = (question.first + question.asked) % peers
        turns = min(question.asked // peers, 16)
        question.due = now + min(FIRST_TIMEOUT_S * (1 << turns), LONGEST_TIMEOUT_S)
        question.asked += 1
        question.told.discard(peer)
        self._send(question, peer)

    def _send(self, question: _Question, peer: int) -> None:
        try:
            data, tags = question.header + self._nonces[peer], self._tags[peer]
            self._udp.sendto(data if tags is None else tags.sealed(data), self._peers[peer])
            self.counters.asked += 1
        except OSError:
            # A full queue, or a network that is down: the same as a lost question.
            self.counters.send_failures += 1

    def _receive(self) -> list[tuple[str, int]]:
        senders: list[tuple[str, int]] = []
        while len(senders) < _BATCH:
            try:
                size, sender = self._udp.recvfrom_into(self._received[len(senders)].data)
            except OSError:
                # Nothing more is there, or an error of an earlier question, after which the next call continues.
                break
            self._sizes[len(senders)] = self._opened(len(senders), size, sender)
            senders.append(sender)
        return senders

    def _opened(self, row: int, size: int, sender: tuple[str, int]) -> int:
        """The bytes of a datagram without its authentication tag; 0 if that is wrong."""
        if self._config.key is None:
            return size
        tags = self._tags[self._peers.index(sender)] if sender in self._peers else None
        opened = None if tags is None else tags.opened(self._received[row, :size].tobytes())
        return 0 if opened is None else len(opened)


class CatchUp:
    """A transport's kept results and recovery. ``kept_chunks``: how many results to keep at least; of long packets so
    many fewer that they take no more memory, and have as many values. Raises the errors of
    :class:`Recovery`.
    """

    def __init__(self, config: JobConfig, kept_chunks: int) -> None:
        least = kept_chunks * USUAL_BYTES // config.longest_bytes
        self.kept = KeptResults(config.slots, longest_bytes=config.longest_bytes, least=least)
        self.ahead = EarlyResults(config, self.kept)
        self.recovery = Recovery(config, self.kept)

    def enter_run(self, token: int) -> None:
        """Treat later results as those of the run with this token."""
        self.ahead.token = self.recovery.token = token

    def close(self) -> None:
        """Stop asking and answering; closing twice is allowed."""
        self.recovery.close()

    def applied(self, sequences: NDArray[np.int64], rows: NDArray[np.uint8], sizes: NDArray[np.integer[Any]]) -> None:
        """Take results (datagrams) that this worker has applied: keep them for other workers, and stop asking for
        them."""
        self.kept.put(sequences, rows, sizes)
        if self.recovery.missing:
            self.recovery.landed(sequences.tolist())
