# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Chunks over UDP: one socket, one window, whole exchanges in and out, or part by part.

The transport knows planes and words, no tensors. One thread uses it at a time. Work on packets is done on arrays of
them, as many as the kernel takes or gives in a call.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import time
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.config import JobConfig
from sumwire.errors import ConfigError, DeadlineError, OrderError, TransportError, UsageError
from sumwire.transport.budget import Budget, share
from sumwire.transport.catchup.catchup import CatchUp
from sumwire.transport.catchup.kept_results import KEPT_CHUNKS
from sumwire.transport.congestion import WindowLimit
from sumwire.transport.delivery import Delivery
from sumwire.transport.exchange import Buffers, Pool, Results
from sumwire.transport.retries import Way, seats_of_turn
from sumwire.transport.rtt import RttEstimator
from sumwire.transport.stats import JobStats
from sumwire.transport.window import NOTHING, Manners, Window
from sumwire.wire.batch import BatchSocket, enlarge_buffers
from sumwire.wire.header import HEADER_BYTES, LOWER_HEADER_BYTES, WORD_BYTES
from sumwire.wire.packets import OP_WORDS, chunks_of, first_byte, headers, heads

# Twice the largest packet: one that is too long shows as such.
_ROW_BYTES: Final = 2 * (HEADER_BYTES + p4.SLOT_WORDS * WORD_BYTES)
# Packets moved by one call of the kernel.
_BATCH: Final = 64
# A worker that has nothing else to do takes in results when this share of its open chunks is answered: the rest is
# enough to keep the switch busy meanwhile, and it is woken less often.
_COLLECTED_SHARE: Final = 4
_RESULT: Final = first_byte(p4.KIND_RESULT)
_STALE: Final = first_byte(p4.KIND_STALE)
_INFORM: Final = first_byte(p4.KIND_INFORM)
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
_NO_CHUNKS: Final = np.zeros(0, np.int64)


class Exchange:
    """One exchange under way, whose payload becomes ready in parts and whose results can be used in parts.

    Fill ``payload[first:last]``, say :meth:`ready`, call :meth:`progress` ever again, and use ``results`` up to what
    it returns. Also a context manager; after :meth:`close` all its arrays belong to the next exchange.

    ``payload``: uint8 (chunks, up words, 128); ``results``: see :class:`Results`.
    """

    def __init__(self, transport: Transport, buffers: Buffers) -> None:
        self._transport = transport
        self.payload = buffers.payload
        self.results = buffers.results
        self.chunks = buffers.chunks

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ready(self, upto: int) -> None:
        """The payload of all chunks before ``upto`` is filled: they go out as far as the window lets them."""
        self._transport.ready(upto)

    def progress(self, *, block: bool) -> int:
        """Take in results and send what their coming lets go; with ``block``, wait until there is something to do.

        Returns how many chunks, from the first on without a gap, have their results. With ``block``, raises
        DeadlineError as :meth:`Transport.finish` does; anyhow StaleRunError and OrderError.
        """
        return self._transport.progress(block=block)

    def close(self) -> None:
        """End it, complete or not; closing twice is allowed."""
        self._transport.leave(self)


class Transport:
    """One worker's way to the switch.

    ``deadline_s``: seconds without any new result after which an exchange raises DeadlineError. ``delivery``: None for
    a plain transfer without probes and without congestion control.
    Where slots may close without this worker, it keeps results for other workers, and asks them for those that it
    lost; each does so at a second port (:mod:`sumwire.transport.catchup.recovery_service`). ``kept_chunks``: how many
    at least.
    Raises OSError if the worker's own address cannot be bound, UsageError on a system that is not Linux.
    """

    def __init__(
        self,
        config: JobConfig,
        *,
        deadline_s: float = 10.0,
        rtt: RttEstimator | None = None,
        stats: JobStats | None = None,
        delivery: Delivery | None = None,
        kept_chunks: int = KEPT_CHUNKS,
    ) -> None:
        self.stats = stats if stats is not None else JobStats()
        self._config = config
        self._loss_bound = delivery.loss_bound if delivery is not None else 0.0
        self._window = Window(
            config.slots,
            rtt or RttEstimator(),
            job=config.job,
            deadline_s=deadline_s,
            manners=_manners(config, delivery),
            limit=WindowLimit(config.slots // 2) if delivery is not None and delivery.congestion else None,
        )
        # Contributions that close a slot at the own switch.
        self._needed = config.quorum if len(config.seats) == config.workers else len(config.seats)
        self._all_seats = sum(1 << seat for seat in config.seats)
        self._exchange: Exchange | None = None
        self._buffers: Buffers | None = None
        self._up, self._down = Pool(), Pool()
        # Chunks that the window gave out and the full socket did not take yet.
        self._held = _NO_CHUNKS
        self._last_failure = ""
        self._udp = _open_socket(config)
        self._socket = BatchSocket(self._udp, row_bytes=_ROW_BYTES, batch=_BATCH)
        self._records, self._heads = headers(self._socket.received), heads(self._socket.received)
        self._poll = select.poll()
        self._events = select.POLLIN
        self._poll.register(self._udp, self._events)
        self._catch_up: CatchUp | None = None
        if self._window.manners.recovers:
            try:
                self._catch_up = CatchUp(config, kept_chunks)
            except (OSError, ConfigError):
                self._udp.close()
                raise
            self._window.kept = self._catch_up.kept.capacity
            self._poll.register(self._catch_up.recovery, select.POLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the sockets; closing twice is allowed."""
        self._socket.close()
        if self._catch_up is not None:
            self._catch_up.close()

    @property
    def next_sequence(self) -> int:
        """Number K of the next exchange's first chunk: the same on all workers between two exchanges."""
        return self._window.base + self._window.chunks

    def exchange(
        self, op: int, payload: NDArray[np.uint8], bucket: int = 0, *, bounded: bool = False, contribute: bool = True
    ) -> Results:
        """Send one payload per chunk, wait for the results of all.

        ``payload``: uint8 (chunks, up words of the op, 128). For the options see :meth:`open`. Raises DeadlineError,
        StaleRunError, OrderError.
        """
        self.start(op, payload, bucket, bounded=bounded, contribute=contribute)
        return self.finish()

    def start(
        self,
        op: int,
        payload: NDArray[np.uint8],
        bucket: int = 0,
        *,
        waits_for_workers: bool = False,
        deadline_s: float | None = None,
        bounded: bool = False,
        tos: NDArray[np.uint8] | None = None,
        contribute: bool = True,
    ) -> None:
        """Send the first window and return; :meth:`finish` does the rest. For the options see :meth:`open`."""
        if op not in OP_WORDS:
            raise UsageError(f"op {op} is none of {sorted(OP_WORDS)}")
        if payload.dtype != np.uint8 or payload.ndim != 3 or payload.shape[1:] != (OP_WORDS[op][0], WORD_BYTES):
            raise UsageError(f"payload {payload.dtype}{payload.shape}: need uint8(chunks, {OP_WORDS[op][0]}, 128)")
        # Results of their own, which the caller may keep.
        exchange = self._open(
            op,
            len(payload),
            bucket,
            down=Pool(),
            waits_for_workers=waits_for_workers,
            deadline_s=deadline_s,
            bounded=bounded,
            tos=tos,
            contribute=contribute,
        )
        exchange.payload[:] = payload
        exchange.ready(len(payload))

    def finish(self) -> Results:
        """Wait until every chunk of the started exchange has its result.

        After the deadline the oldest open chunk is sent once more with FLUSH: if the switch still works, it closes
        the slot and tells all workers, by a PARTIAL result, who is in it. No worker takes a partial result for a sum:
        all raise DeadlineError with the missing workers. If the chunk's whole result comes after all, it goes on.
        """
        exchange = self._exchange
        if exchange is None:
            raise UsageError("no exchange was started")
        with exchange:
            while not self._window.done:
                exchange.progress(block=True)
            return exchange.results

    def open(
        self,
        op: int,
        chunks: int,
        bucket: int = 0,
        *,
        waits_for_workers: bool = False,
        deadline_s: float | None = None,
        bounded: bool = False,
        tos: NDArray[np.uint8] | None = None,
        contribute: bool = True,
    ) -> Exchange:
        """An exchange of ``chunks`` chunks, none of which is ready yet.

        ``waits_for_workers``: this exchange opens an operation, so its round trips hold the wait for slow workers
        and say nothing about the path. ``deadline_s``: another deadline for this exchange. ``bounded``: as many
        contributions may be missing from its sums as the delivery's loss bound allows. ``tos``: the IPv4 TOS byte of
        every chunk's packets, uint8 (chunks,); what is sent again has the same priority, and is protected.
        ``contribute=False``: nothing is sent, the results of the other workers' contributions are waited for.
        """
        return self._open(
            op,
            chunks,
            bucket,
            down=self._down,
            waits_for_workers=waits_for_workers,
            deadline_s=deadline_s,
            bounded=bounded,
            tos=tos,
            contribute=contribute,
        )

    def _open(
        self,
        op: int,
        chunks: int,
        bucket: int,
        *,
        down: Pool,
        waits_for_workers: bool,
        deadline_s: float | None,
        bounded: bool,
        tos: NDArray[np.uint8] | None,
        contribute: bool,
    ) -> Exchange:
        if self._exchange is not None:
            raise UsageError("an exchange is under way: finish it first")
        if not contribute and not self._window.manners.careful:
            raise UsageError("an exchange that contributes nothing: needs a delivery, or a quorum below the workers")
        began = time.monotonic()
        self.drain()
        first = self.next_sequence
        buffers = Buffers(
            self._config, op, chunks, bucket=bucket, first_sequence=first, up=self._up, down=down, tos=tos
        )
        self._socket.load(buffers.packets, tos=buffers.tos)
        self._window.begin(
            chunks,
            began,
            filled=0,
            sampled=not waits_for_workers,
            deadline_s=deadline_s,
            budget=self._budget(chunks, first) if bounded else None,
            contributes=contribute,
        )
        self._buffers = buffers
        self._exchange = Exchange(self, buffers)
        try:
            self._take_ahead()
        except (OrderError, DeadlineError):
            self.leave(self._exchange)
            raise
        self.stats.exchange_s += time.monotonic() - began
        return self._exchange

    def ready(self, upto: int) -> None:
        """See :meth:`Exchange.ready`."""
        began = time.monotonic()
        self._window.filled = upto
        self._send()
        self.stats.exchange_s += time.monotonic() - began

    def progress(self, *, block: bool) -> int:
        """See :meth:`Exchange.progress`."""
        began = time.monotonic()
        window = self._window
        try:
            # What a recovered result lets go must not wait for the next packet.
            if self._recover() or not block:
                self._receive()
            elif not window.done:
                self._wait()
            if not window.done:
                self._send()
        finally:
            self.stats.exchange_s += time.monotonic() - began
        return window.completed()

    def leave(self, exchange: Exchange) -> None:
        """See :meth:`Exchange.close`."""
        if self._exchange is not exchange:
            return
        self._exchange = self._buffers = None
        self._held = _NO_CHUNKS
        if self._catch_up is not None:
            self._catch_up.recovery.forget()
        if self._window.done:
            self._count(exchange.results)
        counters, stats = self._window.counters, self.stats
        stats.retransmissions = counters.resent
        stats.retransmissions_quick = counters.resent_quick
        stats.retransmissions_timeout = counters.resent_timeout
        stats.duplicates = counters.duplicates
        stats.stale = counters.stale
        stats.flushed, stats.probes, stats.informs = counters.flushed, counters.probes, counters.informs

    def _count(self, results: Results) -> None:
        """What is missing from the results of a whole exchange."""
        config, stats = self._config, self.stats
        stats.missing += len(results.counts) * config.workers - int(results.counts.sum())
        stats.left_out += int(np.count_nonzero(results.contributors >> np.uint32(config.seat) & np.uint32(1) == 0))
        if results.flags.any() or results.cuts.any():
            stats.trimmed += int(np.count_nonzero((results.flags & p4.FLAG_TRIMMED != 0) | (results.cuts != 0)))
            stats.ce_marks += int(np.count_nonzero(results.flags & p4.FLAG_CE))

    def _budget(self, chunks: int, first: int) -> Budget | None:
        """What this worker may leave out of a tensor; None where it must be complete."""
        config = self._config
        # A switch that one contribution closes has none to leave out.
        if not self._loss_bound or self._needed < 2:
            return None
        return Budget(share(self._loss_bound, chunks, config.workers, worker=config.worker, sequence=first))

    def _send(self) -> None:
        """Send all that may go, until the window or the socket has enough."""
        now = time.monotonic()
        while True:
            chunks = self._held if len(self._held) else self._window.take(now, _BATCH)
            if not len(chunks):
                return
            if not len(self._held) and self._window.way != Way.FIRST and not self._prepare(chunks):
                continue
            self._held = chunks[self._push(chunks) :]
            if len(self._held):
                return

    def _prepare(self, chunks: NDArray[np.int64]) -> bool:
        """Chunks that do not go out for the first time. Whether their packets are to be sent."""
        buffers, way = self._buffers, self._window.way
        assert buffers is not None
        if way == Way.ASK:
            self._lost(chunks)
        elif way == Way.PROBE:
            for chunk in chunks.tolist():
                self._ask(buffers.question(chunk), buffers.protected_tos(chunk))
        else:
            buffers.prepare(chunks, way, self._needed - 1)
            return True
        return False

    def _lost(self, chunks: NDArray[np.int64]) -> None:
        """Chunks whose results the switch does not give: they must come from other workers."""
        buffers = self._buffers
        assert buffers is not None
        if self._catch_up is not None:
            self._catch_up.recovery.ask((self._window.base + chunks).tolist(), buffers.op)
            self._catch_up.recovery.send(time.monotonic())

    def drain(self) -> None:
        """Between exchanges: take in the results that have come although this worker has not begun theirs."""
        catch_up, drained = self._catch_up, 0
        # Bounded, since more may come all the while.
        while catch_up is not None and drained < catch_up.kept.capacity and (count := self._take_in()):
            drained += count
            records, sizes = self._records[:count], self._socket.sizes[:count]
            early = catch_up.ahead.put(self.next_sequence, records, self._socket.received, sizes)
            self._window.counters.duplicates += count - int(np.count_nonzero(early))

    def others_reached(self, sequence: int) -> bool:
        """Whether a whole quorum of others has this chunk of the job, or a later one, behind it."""
        return self._catch_up is not None and self._catch_up.ahead.reaches(sequence)

    def _take_ahead(self) -> None:
        """Begin with the chunks that the others have finished already."""
        catch_up, buffers = self._catch_up, self._buffers
        assert buffers is not None
        if catch_up is None:
            return
        chunks, rows, sizes = catch_up.ahead.take(self._window.base, buffers.chunks)
        if len(chunks):
            self.stats.ahead += len(chunks)
            self._accept(chunks, rows, headers(rows), sizes)

    def _recover(self) -> bool:
        """Ask other workers for what is lost, and take in their answers. Whether there were any."""
        catch_up, window = self._catch_up, self._window
        if catch_up is None or not catch_up.recovery.missing:
            return False
        sequences, rows, sizes = catch_up.recovery.answers()
        if len(sequences):
            records = headers(rows)
            chunks = window.find(records["slot"], records["round"])
            known = chunks != NOTHING
            self.stats.recovered += int(np.count_nonzero(known))
            self._accept(chunks[known], rows[known], records[known], sizes[known])
        catch_up.recovery.send(time.monotonic())
        return len(sequences) > 0

    def _push(self, chunks: NDArray[np.int64]) -> int:
        """Hand chunks to the socket. How many it took, or lost with an error that may pass."""
        assert self._buffers is not None
        done = sent = 0
        while done < len(chunks):
            try:
                taken = self._socket.send(chunks[done:])
            except BlockingIOError:
                break
            except OSError as error:
                self._note_failure(error)
                done += 1
            else:
                done += taken
                sent += taken
        self.stats.packets_sent += sent
        self.stats.bytes_sent += sent * (LOWER_HEADER_BYTES + self._buffers.packets.shape[1])
        return done

    def _receive(self, wanted: int = 0) -> None:
        """Take in what the socket has, up to a batch; with ``wanted``, see :meth:`BatchSocket.receive`."""
        buffers, window = self._buffers, self._window
        assert buffers is not None
        count = self._take_in(wanted)
        if not count:
            return
        records, sizes = self._records[:count], self._socket.sizes[:count]
        first = buffers.plain_run(self._heads[:count], sizes)
        if first != NOTHING and window.are_open(first, first + count):
            buffers.accept_run(first, self._socket.received[:count], records)
            chunks = np.arange(first, first + count)
            window.complete(chunks, time.monotonic())
            if self._catch_up is not None:
                self._catch_up.applied(window.base + chunks, self._socket.received[:count], sizes)
            return
        others = np.ones(count, np.bool_)
        if self._catch_up is not None:
            others &= ~self._catch_up.ahead.put(self.next_sequence, records, self._socket.received, sizes)
        wanted_ones = buffers.wanted(records, sizes) & others
        rows = np.flatnonzero(wanted_ones)
        chunks = window.find(records["slot"][rows], records["round"][rows])
        rows, chunks = rows[chunks != NOTHING], chunks[chunks != NOTHING]
        self._accept(chunks, self._socket.received[rows], records[rows], sizes[rows])
        if self._window.manners.careful:
            flags = buffers.results.flags
            window.settle(lambda chunk: bool(flags[chunk] & p4.FLAG_MISSING))
        others &= ~wanted_ones
        if others.any():
            self._others(np.flatnonzero(others))

    def _take_in(self, wanted: int = 0) -> int:
        """How many datagrams lie in the socket's rows now; for ``wanted`` see :meth:`_receive`."""
        try:
            count = self._socket.receive(wanted)
        except OSError as error:
            self._note_failure(error)
            return 0
        self.stats.packets_received += count
        self.stats.bytes_received += int(self._socket.sizes[:count].sum()) + count * LOWER_HEADER_BYTES
        return count

    def _accept(
        self, chunks: NDArray[np.int64], rows: NDArray[np.uint8], records: NDArray[Any], sizes: NDArray[Any]
    ) -> None:
        """Results of open chunks, from the switch or another worker: datagrams, their headers, and the bytes in each;
        those up to the first that cannot be one."""
        buffers, now = self._buffers, time.monotonic()
        assert buffers is not None
        partial = records["flags"] & p4.FLAG_INCOMPLETE != 0
        wrong = partial | (records["bucket"] != buffers.bucket) | (chunks_of(records) != chunks)
        wrong |= records["op"] != buffers.op
        good = int(wrong.argmax()) if wrong.any() else len(rows)
        received = rows[:good]
        if self._catch_up is not None:
            self._catch_up.applied(self._window.base + chunks[:good], received, sizes[:good])
        buffers.fill_cut(received, records[:good])
        buffers.accept(chunks[:good], received, records[:good])
        self._window.complete(chunks[:good], now, marked=bool((records["flags"][:good] & p4.FLAG_CE).any()))
        if good < len(rows):
            chunk, record = int(chunks[good]), records[good]
            if partial[good]:
                raise self._partial_error(chunk, int(record["contributors"]), int(record["count"]))
            raise self._order_error(chunk, int(record["bucket"]), int(chunks_of(record)))

    def _others(self, rows: NDArray[np.intp]) -> None:
        """Packets that are no results of this exchange: STALE, late ones of an earlier one, or nothing of ours."""
        for row in rows:
            self._other(int(self._socket.sizes[row]), self._records[row])

    def _other(self, size: int, record: Any) -> None:
        config, buffers = self._config, self._buffers
        assert buffers is not None
        op, first = int(record["op"]), int(record["version_kind"])
        mine = (int(record["job"]), int(record["worker"])) == (config.job, config.seat)
        if size >= HEADER_BYTES and mine and op in OP_WORDS:
            if first == _STALE and size == HEADER_BYTES and op == buffers.op:
                self._window.on_stale(int(record["slot"]), int(record["round"]))
                return
            if first == _INFORM and size == HEADER_BYTES and op == buffers.op:
                self._window.on_inform(int(record["slot"]), int(record["round"]), send=self._wants_more(record))
                return
            if first == _RESULT and op != buffers.op and size == HEADER_BYTES + OP_WORDS[op][1] * WORD_BYTES:
                self._window.counters.duplicates += 1
                return
        self.stats.ignored += 1

    def _wants_more(self, inform: Any) -> bool:
        """Whether the switch would do something with this worker's contribution: fold it in, answer with the result,
        or send a partial result up once more."""
        contributors, flags = int(inform["contributors"]), int(inform["flags"])
        waiting = contributors == self._all_seats or flags & p4.FLAG_MISSING
        return bool(not contributors >> self._config.seat & 1 or flags & p4.FLAG_CLOSED or waiting)

    def _wait(self) -> None:
        """Sleep until packets, room in the socket, the window's timer or the deadline; take in what has come."""
        window, now = self._window, time.monotonic()
        try:
            window.check_deadline(now)
        except DeadlineError as error:
            self._ask_who_is_missing(error)
            return
        held = len(self._held) > 0
        self._listen_for(select.POLLIN | select.POLLOUT if held else select.POLLIN)
        # Rounded up: a timer must have expired when poll returns, else the loop would spin to its end.
        wake_at = window.wake_at()
        if self._catch_up is not None:
            wake_at = min(wake_at, self._catch_up.recovery.wake_at())
        ready = self._poll.poll(max(0, int((max(wake_at, now) - now) * 1000) + 1))
        if any(fd == self._socket.fileno() for fd, _ in ready):
            share = 0 if held else window.in_flight // _COLLECTED_SHARE
            self._receive(share if share > 1 else 0)

    def _listen_for(self, events: int) -> None:
        if events != self._events:
            self._poll.modify(self._udp, events)
            self._events = events

    def _ask_who_is_missing(self, error: DeadlineError) -> None:
        """Returns if the exchange goes on after all; else raises DeadlineError."""
        buffers, open_chunks = self._buffers, self._window.open_chunks
        assert buffers is not None
        if not self._window.contributes:
            raise error.with_detail("this worker only waits for what the others do")
        if self._catch_up is not None and (lost := self._catch_up.recovery.missing):
            detail = f"no other worker gave the results of {lost} chunks, which the switch has no more"
            if self._window.base == 0:
                detail += "; or it has state of an earlier run, and the job's generation was not renewed since"
            raise error.with_detail(detail)
        # With no least number of contributions: the slot closes whoever is in.
        question = buffers.packets[error.chunk].copy()
        record = headers(question.reshape(1, -1))
        record["flags"], record["contributors"] = p4.FLAG_RESYNC | p4.FLAG_FLUSH, 0
        for _ in range(_QUESTIONS):
            self._ask(question, buffers.protected_tos(error.chunk))
            until = time.monotonic() + _ANSWER_MS / 1000
            while (left_ms := int((until - time.monotonic()) * 1000)) > 0:
                self._listen_for(select.POLLIN)
                self._poll.poll(left_ms)
                self._recover()
                self._receive()
                if self._window.open_chunks < open_chunks:
                    return
        detail = "the switch does not answer at all" + (f"; {self._last_failure}" if self._last_failure else "")
        raise error.with_detail(detail)

    def _ask(self, question: NDArray[np.uint8], tos: int | None) -> None:
        control = [] if tos is None else [(socket.IPPROTO_IP, socket.IP_TOS, bytes([tos]))]
        with contextlib.suppress(BlockingIOError):
            try:
                self._udp.sendmsg([question.data], control, socket.MSG_DONTWAIT)
                self.stats.packets_sent += 1
                self.stats.bytes_sent += LOWER_HEADER_BYTES + len(question)
            except OSError as failure:
                self._note_failure(failure)

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
        assert self._buffers is not None
        return OrderError(
            f"job {self._config.job}: slot {slot}, round {round_} came back as bucket {bucket} chunk {number}; this "
            f"worker has bucket {self._buffers.bucket} chunk {chunk} there: workers must reduce the same tensors in "
            "the same order"
        )

    def _note_failure(self, error: OSError) -> None:
        if error.errno not in _PASSING:
            raise TransportError(f"job {self._config.job}: the worker's socket failed: {error}") from error
        self.stats.send_failures += 1
        self._last_failure = f"last network error: {error.strerror}"


def _manners(config: JobConfig, delivery: Delivery | None) -> Manners:
    left_out = config.quorum < config.workers
    early = left_out or (delivery is not None and delivery.loss_bound > 0)
    return Manners(
        careful=delivery is not None or left_out,
        probes=delivery is None or delivery.probes,
        early=early,
        recovers=early,
        lapped=left_out,
        paths=config.paths,
        turn=seats_of_turn(list(config.seats), config.seat),
    )


def _open_socket(config: JobConfig) -> socket.socket:
    """Bound to the worker's address, connected to the aggregator: other senders are filtered out."""
    own = config.own_address
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        enlarge_buffers(udp)
        udp.bind((own.ip, own.udp_port))
        udp.connect((config.aggregator, p4.SUMWIRE_PORT))
    except OSError:
        udp.close()
        raise
    return udp
