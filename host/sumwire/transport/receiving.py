# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The receiving side of one exchange: reads datagrams from the socket, stores results, and reacts to notices of the
switch.

:func:`ask_who_is_missing` acts after the deadline. The oldest open chunk is sent once more with FLUSH, which closes its
slot whoever has contributed. If the switch still works, it then sends all workers an incomplete result (flag
INCOMPLETE), whose header says who is in it. No worker uses an incomplete result as a sum: all of them raise
DeadlineError with the missing workers.

Example: 4 workers, and worker 2 has crashed. After the deadline worker 0 flushes chunk 5. All three remaining workers
receive an incomplete result with the contributors {0, 1, 3}, and raise DeadlineError with missing = (2,).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.errors import DeadlineError, OrderError, SwitchLostError
from sumwire.transport.buffers import Buffers, Runs
from sumwire.transport.connection import Connection
from sumwire.transport.switch_answers import is_hello_answer, silence, state_of, wrong_quorum
from sumwire.transport.waiting import Waiting
from sumwire.transport.window import NOTHING
from sumwire.wire.packets import HEADER_BYTES, OP_WORDS, WORD_BYTES, chunks_of, first_byte, headers


def incomplete_result(connection: Connection, chunk: int, contributors: int, count: int) -> DeadlineError:
    """Return the error for a result that was flushed before its quorum was complete, because some worker's deadline had
    passed.

    ``contributors``: bitmap of the seats at this worker's switch. It is 0 if a switch above flushed the result before
    this switch's partial result was in. ``count``: contributions in the result. For the workers at other switches only
    their number is known.
    """
    config, window = connection.config, connection.window
    missing = [worker for seat, worker in sorted(config.seats.items()) if not contributors >> seat & 1]
    elsewhere = config.workers - count - len(missing)
    details = [f"{elsewhere} are missing behind other switches"] if elsewhere > 0 else []
    if not contributors:
        missing = []
        details = [f"{count} of {config.workers} workers are in it, this worker's switch was left out as a whole"]
    error = window.deadline_error(connection.clock(), chunk, missing or None)
    return error.with_detail("; ".join(details)) if details else error


def other_chunk(connection: Connection, chunk: int, own_bucket: int, bucket: int, number: int) -> OrderError:
    """Return the error for a result that came in the place of ``chunk``, but is of chunk ``number`` of ``bucket``: the
    workers' calls differ."""
    slot, round_ = connection.window.place(chunk)
    return OrderError(
        f"job {connection.config.job}: slot {slot}, round {round_} came back as bucket {bucket} chunk {number}; this "
        f"worker has bucket {own_bucket} chunk {chunk} there: workers must reduce the same tensors in the same order"
    )


_RESULT: Final = first_byte(p4.KIND_RESULT)
_STALE: Final = first_byte(p4.KIND_STALE)
_INFORM: Final = first_byte(p4.KIND_INFORM)
_REFUSED: Final = first_byte(p4.KIND_REFUSED)


class Receiver:
    """Stores results in an exchange's buffers and reports them to the window. ``runs``: stores plain ones, in C.

    Every method raises DeadlineError for an incomplete result, OrderError for another chunk's, MismatchError for one
    that lacks workers, StaleRunError for a STALE whose result cannot be recovered, and the errors of :class:`Waiting`
    about the switch's answers.
    """

    def __init__(self, connection: Connection, buffers: Buffers, waiting: Waiting) -> None:
        self._connection = connection
        self._link = connection.link
        self._window = connection.window
        self._catch_up = connection.catch_up
        self._buffers = buffers
        self._waiting = waiting
        self.runs = _runs_of(connection, buffers)

    def receive(self, wanted: int = 0) -> None:
        """Receive and process datagrams, up to a batch. ``wanted``: see :meth:`BatchSocket.receive`."""
        connection, link = self._connection, self._link
        began = connection.clock()
        messages = link.collect(wanted)
        run = self.runs.take(messages) if self.runs is not None and messages and not link.marked else None
        count = link.stored(run) if run is not None else link.take_apart() if messages else 0
        now = connection.clock()
        connection.pace.arrived(count, began, now, drained=link.drained)
        if run is not None:
            self._window.complete_run(run.first, run.first + run.datagrams, now)
        elif count:
            self._take_in(count)

    def take_apart(self) -> None:
        """Take in the messages that were received last."""
        count = self._link.take_apart()
        if count:
            self._take_in(count)

    def _take_in(self, count: int) -> None:
        """Take in so many datagrams, which the link shows."""
        link, window = self._link, self._window
        rows, records, sizes = link.received[:count], link.records[:count], link.sizes[:count]
        first = self._buffers.plain_run(link.heads[:count], sizes)
        if first != NOTHING and window.are_open(first, first + count):
            self._accept_run(first, rows, records, sizes)
        else:
            self._sort_out(rows, records, sizes)

    def take_ahead(self) -> None:
        """Accept the results that arrived before this exchange began."""
        if self._catch_up is None:
            return
        chunks, rows, sizes = self._catch_up.ahead.take(self._window.base, self._buffers.chunks)
        if len(chunks):
            self._connection.stats.ahead += len(chunks)
            self._accept(chunks, rows, headers(rows), sizes)

    def recover(self) -> bool:
        """Ask other workers for lost results, and process their answers. Returns whether there were any."""
        catch_up, window = self._catch_up, self._window
        if catch_up is None or not catch_up.recovery.missing:
            return False
        sequences, rows, sizes = catch_up.recovery.answers()
        if len(sequences):
            records = headers(rows)
            chunks = window.find(records["slot"], records["round"])
            known = chunks != NOTHING
            self._connection.stats.recovered += int(np.count_nonzero(known))
            self._accept(chunks[known], rows[known], records[known], sizes[known])
        catch_up.recovery.send(self._connection.clock())
        return len(sequences) > 0

    def discard_late_answers(self) -> None:
        """Read and discard other workers' answers that are no longer wanted. Unread, they would end every wait at
        once."""
        if self._catch_up is not None and not self._catch_up.recovery.missing:
            self._catch_up.recovery.discard()

    def _accept_run(
        self, first: int, rows: NDArray[np.uint8], records: NDArray[Any], sizes: NDArray[np.integer[Any]]
    ) -> None:
        """Plain results of consecutive chunks in flight: nearly all received batches are such."""
        self._buffers.accept_run(first, rows, records)
        self._window.complete_run(first, first + len(rows), self._connection.clock())
        if self._catch_up is not None:
            sequence = self._window.base + first
            self._catch_up.applied(np.arange(sequence, sequence + len(rows)), rows, sizes)

    def _sort_out(self, rows: NDArray[np.uint8], records: NDArray[Any], sizes: NDArray[np.integer[Any]]) -> None:
        """Datagrams of any kind."""
        window, buffers = self._window, self._buffers
        remaining = np.ones(len(rows), np.bool_)
        if self._catch_up is not None:
            remaining &= ~self._catch_up.ahead.put(self._connection.next_sequence, records, rows, sizes)
        results = buffers.wanted(records, sizes) & remaining
        places = np.flatnonzero(results)
        chunks = window.find(records["slot"][places], records["round"][places])
        places, chunks = places[chunks != NOTHING], chunks[chunks != NOTHING]
        self._accept(chunks, rows[places], records[places], sizes[places])
        flags = buffers.results.flags
        window.settle(lambda chunk: bool(flags[chunk] & p4.FLAG_MISSING))
        for row in np.flatnonzero(remaining & ~results):
            self._other(int(sizes[row]), records[row])

    def _accept(
        self, chunks: NDArray[np.int64], rows: NDArray[np.uint8], records: NDArray[Any], sizes: NDArray[np.integer[Any]]
    ) -> None:
        """Results of open chunks: datagrams, their headers, and the bytes in each. Those before the first bad one are
        stored; then the error about that one is raised."""
        buffers, now = self._buffers, self._connection.clock()
        incomplete = records["flags"] & p4.FLAG_INCOMPLETE != 0
        bad = incomplete | (records["bucket"] != buffers.bucket) | (chunks_of(records) != chunks)
        bad |= records["op"] != buffers.op
        if buffers.complete:
            # Contributions that an experiment leaves out on purpose are flagged.
            bad |= (records["count"] != buffers.complete) & (records["flags"] & p4.FLAG_MISSING == 0)
        good = int(bad.argmax()) if bad.any() else len(rows)
        received = rows[:good]
        if self._catch_up is not None:
            self._catch_up.applied(self._window.base + chunks[:good], received, sizes[:good])
        buffers.fill_cut(received, records[:good])
        buffers.accept(chunks[:good], received, records[:good])
        self._window.complete(chunks[:good], now, marked=int(np.count_nonzero(records["flags"][:good] & p4.FLAG_CE)))
        if good < len(rows):
            chunk, record = int(chunks[good]), records[good]
            if incomplete[good]:
                raise incomplete_result(self._connection, chunk, int(record["contributors"]), int(record["count"]))
            if self._is_this(chunk, record):
                raise wrong_quorum(self._connection.config, *self._window.place(chunk), int(record["count"]))
            raise other_chunk(self._connection, chunk, buffers.bucket, int(record["bucket"]), int(chunks_of(record)))

    def _is_this(self, chunk: int, record: Any) -> bool:
        """Whether a header is about this chunk of this exchange's call."""
        buffers = self._buffers
        return (int(record["op"]), int(record["bucket"]), int(chunks_of(record))) == (buffers.op, buffers.bucket, chunk)

    def _other(self, size: int, record: Any) -> None:
        """A packet that is no result of this exchange: a notice, a late result of an earlier one, or foreign."""
        config, op = self._connection.config, self._buffers.op
        packet_op = int(record["op"])
        mine = (int(record["job"]), int(record["worker"])) == (config.job, config.seat)
        if size == HEADER_BYTES and mine and self._notice(record):
            return
        late = int(record["version_kind"]) == _RESULT and packet_op != op and packet_op in OP_WORDS
        if mine and late and size == HEADER_BYTES + OP_WORDS[packet_op][1] * WORD_BYTES:
            self._window.counters.duplicates += 1
        else:
            self._connection.stats.ignored += 1

    def _notice(self, record: Any) -> bool:
        """STALE, INFORM or REFUSED, by its header. Returns False if it has no meaning for this exchange."""
        window, first = self._window, int(record["version_kind"])
        slot, round_ = int(record["slot"]), int(record["round"])
        if first == _REFUSED:
            return self._waiting.refused(record)
        if is_hello_answer(self._connection.config, HEADER_BYTES, record):
            self._waiting.hello(state_of(record))
        elif (int(record["op"]), int(record["token"])) != (self._buffers.op, self._buffers.token):
            return False
        elif first == _STALE:
            self._waiting.stale(slot, round_)
            window.on_stale(slot, round_)
        elif first == _INFORM:
            self._waiting.informed(record)
            if self._catch_up is not None and self._sends_up(record):
                self._catch_up.recovery.passed_up((slot, round_), int(record["contributors"]))
            window.on_inform(slot, round_, send=self._is_needed(record))
        else:
            return False
        return True

    def _is_needed(self, inform: Any) -> bool:
        """Whether this worker's contribution would make the switch do something: add it, answer with the closed slot's
        result, or send its partial result up once more."""
        contributors, flags = int(inform["contributors"]), int(inform["flags"])
        left_out = not contributors >> self._connection.config.seat & 1
        return left_out or bool(flags & p4.FLAG_CLOSED) or self._sends_up(inform)

    def _sends_up(self, inform: Any) -> bool:
        """Whether the own switch has all that it waits for, so that a lower switch has passed it up."""
        whole = int(inform["contributors"]) == self._connection.config.all_seats
        return whole or bool(int(inform["flags"]) & p4.FLAG_MISSING)


def _runs_of(connection: Connection, buffers: Buffers) -> Runs | None:
    """What takes in runs of results, unless numpy has to. Results that other workers may ask for are kept as well."""
    steady = connection.window.steady
    if steady is None or connection.catch_up is not None or connection.link.places is None:
        return None
    return Runs(steady.library, connection.link.places, buffers, steady.flying)


# How often, and how long each time.
_QUESTIONS: Final = 3
_ANSWER_S: Final = 0.2


def ask_who_is_missing(connection: Connection, buffers: Buffers, receiver: Receiver, error: DeadlineError) -> None:
    """Find out which workers are missing. Returns if a new result arrives after all, so that the exchange continues.
    Otherwise raises ``error`` with details, or the DeadlineError of an incomplete result."""
    window, link, catch_up = connection.window, connection.link, connection.catch_up
    if not window.contributes:
        raise error.with_detail("this worker only waits for what the others do")
    if catch_up is not None and (lost := catch_up.recovery.missing):
        raise error.with_detail(
            f"no other worker gave the results of {lost} chunks, which the switch has no more: the others ended, or "
            "another run of the job has begun"
        )
    open_chunks = window.open_chunks
    question, tos = buffers.closing_flush(error.chunk), buffers.protected_tos(error.chunk)
    for _ in range(_QUESTIONS):
        link.send_one(question, tos)
        until = connection.clock() + _ANSWER_S
        while (left_ms := int((until - connection.clock()) * 1000)) > 0:
            link.wait(left_ms, room=False)
            receiver.discard_late_answers()
            receiver.recover()
            receiver.receive()
            if window.open_chunks < open_chunks:
                return
    raise SwitchLostError(
        silence(connection.config, error.waited_s, _QUESTIONS, link.last_failure),
        job=error.job,
        slot=error.slot,
        round_=error.round,
        chunk=error.chunk,
        open_chunks=error.open_chunks,
        waited_s=error.waited_s,
    )
