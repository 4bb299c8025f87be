# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Chunks over UDP: one socket, one window, whole exchanges in and out.

The transport knows planes and words, no tensors. One thread uses it at a time.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import time
from array import array
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from sumwire import _p4 as p4
from sumwire.config import JobConfig
from sumwire.errors import DeadlineError, OrderError, TransportError, UsageError
from sumwire.packets import FLAGS_AT, HEADER, OP_WORDS, contributions, first_byte
from sumwire.rtt import RttEstimator
from sumwire.stats import JobStats
from sumwire.window import NOTHING, Window
from sumwire.wire import HEADER_BYTES, LOWER_HEADER_BYTES, WORD_BYTES

# Half of the most slots there are, at twice the largest packet (the kernel counts its own overhead too).
SOCKET_BUFFER_BYTES: Final = p4.SLOTS_TOTAL * 2 * p4.SLOT_WORDS * WORD_BYTES
_SCRATCH_BYTES: Final = 2 * (HEADER_BYTES + p4.SLOT_WORDS * WORD_BYTES)
# Packets taken in before the window may send again.
_RECEIVE_BATCH: Final = 32
_RESULT: Final = first_byte(p4.KIND_RESULT)
_STALE: Final = first_byte(p4.KIND_STALE)
# When the deadline has passed: how often and how long to ask the switch who is missing.
_QUESTIONS: Final = 3
_ANSWER_MS: Final = 200
# What a UDP send may report although a later one can succeed: a full queue, an earlier packet's ICMP error, or a
# packet filter.
_PASSING: Final = frozenset(
    {
        errno.ENOBUFS,
        errno.ECONNREFUSED,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.ENETDOWN,
        errno.EHOSTDOWN,
        errno.EPERM,
    }
)


@dataclass(frozen=True)
class Results:
    """What came back for every chunk of an exchange.

    ``words`` (chunks, down words, 128) uint8; ``counts`` (chunks,) uint8, the contributors folded in, in the whole
    tree; ``contributors`` (chunks,) uint32 bitmaps of the seats at the own switch; ``flags`` (chunks,) uint8.
    """

    words: NDArray[np.uint8]
    counts: NDArray[np.uint8]
    contributors: NDArray[np.uint32]
    flags: NDArray[np.uint8]


class _Exchange:
    """Buffers of one exchange, allocated once."""

    def __init__(self, op: int, bucket: int, packets: NDArray[np.uint8]) -> None:
        chunks = packets.shape[0]
        self.op = op
        self.bucket = bucket
        self.down_words = OP_WORDS[op][1]
        self.up = [packet.data for packet in packets]
        self.words = np.empty((chunks, self.down_words, WORD_BYTES), np.uint8)
        self.down = self.words.reshape(-1).data
        self.counts = bytearray(chunks)
        self.contributors = array("I", bytes(4 * chunks))
        self.flags = bytearray(chunks)

    def results(self) -> Results:
        return Results(
            self.words,
            np.frombuffer(self.counts, np.uint8),
            np.frombuffer(self.contributors, np.uint32),
            np.frombuffer(self.flags, np.uint8),
        )


class Transport:
    """One worker's way to the switch.

    ``deadline_s``: seconds without any new result after which an exchange raises DeadlineError.
    Raises OSError if the worker's own address cannot be bound.
    """

    def __init__(
        self,
        config: JobConfig,
        *,
        deadline_s: float = 10.0,
        rtt: RttEstimator | None = None,
        stats: JobStats | None = None,
    ) -> None:
        self.stats = stats if stats is not None else JobStats()
        self._config = config
        self._window = Window(config.slots, rtt or RttEstimator(), job=config.job, deadline_s=deadline_s)
        self._exchange: _Exchange | None = None
        # A chunk that the window gave out and the full socket did not take yet.
        self._held = NOTHING
        self._last_failure = ""
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)
        self._socket = _open_socket(config)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket; closing twice is allowed."""
        self._socket.close()

    @property
    def next_sequence(self) -> int:
        """Number K of the next exchange's first chunk: the same on all workers between two exchanges."""
        return self._window.base + self._window.chunks

    def exchange(self, op: int, payload: NDArray[np.uint8], bucket: int = 0) -> Results:
        """Send one payload per chunk, wait for the results of all.

        ``payload``: uint8 (chunks, up words of the op, 128). Raises DeadlineError, StaleRunError, OrderError.
        """
        self.start(op, payload, bucket)
        return self.finish()

    def start(
        self,
        op: int,
        payload: NDArray[np.uint8],
        bucket: int = 0,
        *,
        waits_for_workers: bool = False,
        deadline_s: float | None = None,
    ) -> None:
        """Send the first window and return; :meth:`finish` does the rest.

        ``waits_for_workers``: this exchange opens an operation, so its round trips hold the wait for slow workers
        and say nothing about the path.
        """
        began = time.monotonic()
        if self._exchange is not None:
            raise UsageError("an exchange is under way: finish it first")
        if op not in OP_WORDS:
            raise UsageError(f"op {op} is none of {sorted(OP_WORDS)}")
        if payload.dtype != np.uint8 or payload.ndim != 3 or payload.shape[1:] != (OP_WORDS[op][0], WORD_BYTES):
            raise UsageError(f"payload {payload.dtype}{payload.shape}: need uint8(chunks, {OP_WORDS[op][0]}, 128)")
        packets = contributions(
            payload,
            op=op,
            job=self._config.job,
            seat=self._config.seat,
            slots=self._config.slots,
            first_sequence=self.next_sequence,
            bucket=bucket,
        )
        self._exchange = _Exchange(op, bucket, packets)
        self._window.begin(len(payload), began, sampled=not waits_for_workers, deadline_s=deadline_s)
        self._receive()
        self._send()
        self.stats.exchange_s += time.monotonic() - began

    def finish(self) -> Results:
        """Wait until every chunk of the started exchange has its result.

        After the deadline the oldest open chunk is sent once more with FLUSH: if the switch still works, it closes
        the slot and tells all workers, by a PARTIAL result, who is in it. No worker takes a partial result for a sum:
        all raise DeadlineError with the missing workers. If the chunk's whole result comes after all, it goes on.
        """
        began = time.monotonic()
        exchange = self._exchange
        if exchange is None:
            raise UsageError("no exchange was started")
        window = self._window
        try:
            while True:
                self._receive()
                if window.done:
                    break
                self._send()
                try:
                    window.check_deadline(time.monotonic())
                except DeadlineError as error:
                    self._ask_who_is_missing(error)
                else:
                    self._wait()
        finally:
            self._exchange = None
            self._held = NOTHING
            self._count()
            self.stats.exchange_s += time.monotonic() - began
        return exchange.results()

    def _send(self) -> None:
        """Send all that may go, until the window or the socket has enough."""
        exchange, window, stats = self._exchange, self._window, self.stats
        assert exchange is not None
        send = self._socket.send
        now = time.monotonic()
        chunk = self._held if self._held != NOTHING else window.take(now)
        sent = 0
        while chunk != NOTHING:
            try:
                send(exchange.up[chunk])
                sent += 1
            except BlockingIOError:
                self._held = chunk
                break
            except OSError as error:
                self._note_failure(error)
            chunk = window.take(now)
        else:
            self._held = NOTHING
        stats.packets_sent += sent
        stats.bytes_sent += sent * (LOWER_HEADER_BYTES + len(exchange.up[0])) if sent else 0

    def _receive(self) -> None:
        """Take in what the socket has, up to a batch."""
        exchange, window, config = self._exchange, self._window, self._config
        assert exchange is not None
        scratch, view = self._scratch, self._scratch_view
        receive, unpack, find, complete = self._socket.recv_into, HEADER.unpack_from, window.find, window.complete
        payload_bytes = exchange.down_words * WORD_BYTES
        wanted_bytes = HEADER_BYTES + payload_bytes
        wanted = (_RESULT, exchange.op, config.job, config.seat, exchange.down_words)
        now = time.monotonic()
        packets = total_bytes = 0
        for _ in range(_RECEIVE_BATCH):
            try:
                size = receive(scratch)
            except BlockingIOError:
                break
            except OSError as error:
                self._note_failure(error)
                continue
            packets += 1
            total_bytes += size
            if size < HEADER_BYTES:
                self.stats.ignored += 1
                continue
            first, op, job, slot, worker, count, round_, contributors, flags, words, bucket, number = unpack(scratch)
            if size != wanted_bytes or count == 0 or (first, op, job, worker, words) != wanted:
                self._other(size, first, op, (job, worker), (slot, round_))
                continue
            chunk = find(slot, round_)
            if chunk == NOTHING:
                continue
            if flags & p4.FLAG_PARTIAL:
                raise self._partial_error(chunk, contributors, count)
            if bucket != exchange.bucket or number != chunk:
                raise self._order_error(chunk, bucket, number)
            exchange.down[chunk * payload_bytes : (chunk + 1) * payload_bytes] = view[HEADER_BYTES:wanted_bytes]
            exchange.counts[chunk] = count
            exchange.contributors[chunk] = contributors
            exchange.flags[chunk] = flags
            complete(chunk, now)
        self.stats.packets_received += packets
        self.stats.bytes_received += total_bytes + packets * LOWER_HEADER_BYTES

    def _other(self, size: int, first: int, op: int, receiver: tuple[int, int], place: tuple[int, int]) -> None:
        """A packet that is no result of this exchange: STALE, a late result of an earlier one, or nothing of ours."""
        config, exchange = self._config, self._exchange
        assert exchange is not None
        if receiver == (config.job, config.seat) and op in OP_WORDS:
            if first == _STALE and size == HEADER_BYTES and op == exchange.op:
                self._window.on_stale(*place)
                return
            if first == _RESULT and op != exchange.op and size == HEADER_BYTES + OP_WORDS[op][1] * WORD_BYTES:
                self._window.counters.duplicates += 1
                return
        self.stats.ignored += 1

    def _wait(self) -> None:
        """Sleep until a packet, room in the socket, the window's timer or the deadline."""
        window = self._window
        events = select.POLLIN | (select.POLLOUT if self._held != NOTHING else 0)
        self._poll.modify(self._socket, events)
        # Rounded up: a timer must have expired when poll returns, else the loop would spin to its end.
        timeout_ms = max(0, int((window.wake_at() - time.monotonic()) * 1000) + 1)
        self._poll.poll(timeout_ms)

    def _ask_who_is_missing(self, error: DeadlineError) -> None:
        """Returns if the exchange goes on after all; else raises DeadlineError."""
        exchange, open_chunks = self._exchange, self._window.open_chunks
        assert exchange is not None
        question = bytearray(exchange.up[error.chunk])
        question[FLAGS_AT] |= p4.FLAG_FLUSH
        for _ in range(_QUESTIONS):
            with contextlib.suppress(BlockingIOError):
                try:
                    self._socket.send(question)
                    self.stats.packets_sent += 1
                    self.stats.bytes_sent += LOWER_HEADER_BYTES + len(question)
                except OSError as failure:
                    self._note_failure(failure)
            until = time.monotonic() + _ANSWER_MS / 1000
            while (left_ms := int((until - time.monotonic()) * 1000)) > 0:
                self._poll.modify(self._socket, select.POLLIN)
                self._poll.poll(left_ms)
                self._receive()
                if self._window.open_chunks < open_chunks:
                    return
        detail = "the switch does not answer at all" + (f"; {self._last_failure}" if self._last_failure else "")
        raise error.with_detail(detail)

    def _partial_error(self, chunk: int, contributors: int, count: int) -> DeadlineError:
        """The bitmap is of the workers at the own switch, and empty if that one was left out above; of all others,
        only how many are missing is known."""
        config = self._config
        missing = [worker for seat, worker in sorted(config.seats.items()) if not contributors >> seat & 1]
        elsewhere = config.workers - count - len(missing)
        details = [f"{elsewhere} are missing behind other switches"] if elsewhere > 0 else []
        if not contributors:
            missing = []
            details = [f"{count} of {config.workers} workers are in it, this worker's switch was left out as a whole"]
        if self._window.base == 0:
            details.append("or an earlier run gave up, and the job's generation was not renewed since")
        error = self._window.deadline_error(time.monotonic(), chunk, missing or None)
        return error.with_detail("; ".join(details)) if details else error

    def _order_error(self, chunk: int, bucket: int, number: int) -> OrderError:
        slot, round_ = self._window.place(chunk)
        assert self._exchange is not None
        return OrderError(
            f"job {self._config.job}: slot {slot}, round {round_} came back as bucket {bucket} chunk {number}; this "
            f"worker has bucket {self._exchange.bucket} chunk {chunk} there: workers must reduce the same tensors in "
            "the same order"
        )

    def _note_failure(self, error: OSError) -> None:
        if error.errno not in _PASSING:
            raise TransportError(f"job {self._config.job}: the worker's socket failed: {error}") from error
        self.stats.send_failures += 1
        self._last_failure = f"last network error: {error.strerror}"

    def _count(self) -> None:
        counters, stats = self._window.counters, self.stats
        stats.retransmissions = counters.resent
        stats.retransmissions_quick = counters.resent_quick
        stats.retransmissions_timeout = counters.resent_timeout
        stats.duplicates = counters.duplicates
        stats.stale = counters.stale


def _open_socket(config: JobConfig) -> socket.socket:
    """Non-blocking, bound to the worker's address, connected to the aggregator: other senders are filtered out."""
    own = config.own_address
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        _enlarge(udp, socket.SO_RCVBUF, "SO_RCVBUFFORCE", 33)
        _enlarge(udp, socket.SO_SNDBUF, "SO_SNDBUFFORCE", 32)
        udp.bind((own.ip, own.udp_port))
        udp.connect((config.aggregator, p4.SUMWIRE_PORT))
        udp.setblocking(False)
    except OSError:
        udp.close()
        raise
    return udp


def _enlarge(udp: socket.socket, option: int, force_name: str, force_number: int) -> None:
    """Ask for the full buffer, above the system's limit where this process may (CAP_NET_ADMIN), else up to it."""
    try:
        udp.setsockopt(socket.SOL_SOCKET, getattr(socket, force_name, force_number), SOCKET_BUFFER_BYTES)
    except PermissionError:
        udp.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
