# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The memory of one exchange: its packets, built in place, and the results.

A run is a set of plain results of consecutive chunks. Nearly all received messages are runs. C checks and stores a run
in one pass (:class:`Runs`), numpy in several (:meth:`Buffers.plain_run`).
"""

from __future__ import annotations

import math
import mmap
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
from nativelib.declarations import Native
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.blocks import new_block
from sumwire.config import JobConfig
from sumwire.errors import UsageError
from sumwire.transport.retransmission import SendKind
from sumwire.wire.messages import MessagePlaces
from sumwire.wire.packets import (
    COMPLETE_MASK,
    COUNT_MASK,
    HEADER_BYTES,
    OP_WORDS,
    RESULT_MASK,
    WORD_BYTES,
    cuts_of,
    first_byte,
    headers,
    number_of,
    result_heads,
    without_flags,
    write_headers,
)

_RESULT: Final = first_byte(p4.KIND_RESULT)
_NO_RUN: Final = -1
# Length of a THC result that lacks its two low planes.
_CUT_BYTES: Final = HEADER_BYTES + p4.THC_WORDS_CUT * WORD_BYTES
# What the switch assumes for the two planes: half of the values 2, half 1.
_CUT_FILL: Final = np.repeat(np.array([p4.CUT_FILL_BYTE, 0xFF ^ p4.CUT_FILL_BYTE], np.uint8), WORD_BYTES)
# The priority's bits in a TOS byte. The others say drop class 0 (never dropped on purpose) and ECN capable.
TOS_PRIORITY: Final = p4.DSCP_PRIORITY << 2


def protected(tos: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return TOS bytes with the same priorities in drop class 0, for packets that must not be dropped on purpose."""
    return tos & np.uint8(TOS_PRIORITY) | np.uint8(p4.ECN_ECT)


@dataclass(frozen=True)
class Results:
    """The results of all chunks of an exchange.

    ``words``: uint8 (chunks, down words, 128). ``counts``: uint8 (chunks,), contributions in the sum, of the whole
    tree. ``contributors``: uint32 (chunks,), bitmaps of the seats at this worker's switch. ``flags``: uint8 (chunks,).
    ``cuts``: uint8 (chunks,), planes that contributions lacked, and CUT_RESULT if the sum itself lacks two.
    """

    words: NDArray[np.uint8]
    counts: NDArray[np.uint8]
    contributors: NDArray[np.uint32]
    flags: NDArray[np.uint8]
    cuts: NDArray[np.uint8]

    def first(self, chunks: int) -> Results:
        """Return the results of the first ``chunks`` chunks, in the same memory."""
        return self if chunks == len(self.counts) else self._part(slice(chunks))

    def after(self, chunks: int) -> Results:
        """Return the results after the first ``chunks`` chunks, in the same memory."""
        return self._part(slice(chunks, None))

    def _part(self, of: slice) -> Results:
        return Results(self.words[of], self.counts[of], self.contributors[of], self.flags[of], self.cuts[of])


class ExpectedHeads(NamedTuple):
    """The heads of plain results, uint64 (chunks, 4), in the fields of ``mask``, uint64 (4,)."""

    heads: NDArray[np.uint64]
    mask: NDArray[np.uint64]


class Pool:
    """Memory that successive exchanges reuse, because a page fault costs more than writing to the page. On a virtual
    machine whose host reclaims free memory, a fault costs twenty times as much.

    ``size``: its bytes, all of which are allocated pages.
    """

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    @property
    def size(self) -> int:
        return len(self._memory)

    def take(self, size: int) -> NDArray[np.uint8]:
        """Return uint8 (size,): the memory of the last call if that is large enough, otherwise new memory."""
        if len(self._memory) < size:
            self._memory = new_block(size)
            # The system gives a page when it is written to.
            self._memory[:: mmap.PAGESIZE] = 0
        return self._memory[:size]


class Buffers:
    """Packets and results of the chunks of one exchange.

    ``packets``: uint8 (chunks, bytes of one), with their headers, and ``tag_bytes`` of room for an authentication tag.
    ``payload``: uint8 (chunks, up words, 128), the part of them that the caller fills. ``results``: filled by
    :meth:`accept`. ``tos``: uint8 (chunks,) or None. ``expected``: heads of their plain results. ``token``: that of the
    run. ``complete``: how many contributions every result must have; 0 if some may be missing. ``ignored``: flags that
    are ignored in results. Raises UsageError for more chunks than a packet can number, and for a TOS of another shape.
    """

    def __init__(
        self,
        config: JobConfig,
        op: int,
        chunks: int,
        *,
        bucket: int,
        first_sequence: int,
        up: Pool,
        down: Pool,
        tos: NDArray[np.uint8] | None = None,
        token: int = p4.TOKEN_NONE,
        complete: int = 0,
        ignored: int = 0,
    ) -> None:
        if chunks > p4.CHUNKS_MAX:
            raise UsageError(f"{chunks} chunks in one tensor: a packet can number {p4.CHUNKS_MAX}: split it")
        if tos is not None and (tos.dtype != np.uint8 or tos.shape != (chunks,)):
            raise UsageError(f"{tos.dtype} TOS bytes of shape {tos.shape}: need uint8 ({chunks},)")
        up_words, down_words = OP_WORDS[op]
        self.op = op
        self.bucket = bucket
        self.token = token
        self.chunks = chunks
        # Without the authentication tag, for which there is room behind it in a job with a key.
        self._up_bytes = HEADER_BYTES + up_words * WORD_BYTES
        row_bytes = self._up_bytes + config.tag_bytes
        self.tag_bytes = config.tag_bytes
        self.packets = up.take(chunks * row_bytes).reshape(chunks, row_bytes)
        words = down.take(chunks * down_words * WORD_BYTES).reshape(chunks, down_words, WORD_BYTES)
        write_headers(
            self.packets,
            op=op,
            job=config.job,
            seat=config.seat,
            slots=config.slots,
            first_sequence=first_sequence,
            bucket=bucket,
            quorum=config.run_quorum,
            token=token,
        )
        self.complete = complete
        mask = COMPLETE_MASK if complete else RESULT_MASK
        mask = without_flags(mask, ignored) if ignored else mask
        self._kept_flags = np.uint8(0xFF & ~ignored)
        self.expected = ExpectedHeads(result_heads(self.packets, down_words, complete), mask)
        self._quorum = config.run_quorum
        self.payload = self.packets[:, HEADER_BYTES : self._up_bytes].reshape(chunks, up_words, WORD_BYTES)
        self.results = Results(
            words,
            np.zeros(chunks, np.uint8),
            np.zeros(chunks, np.uint32),
            np.zeros(chunks, np.uint8),
            np.zeros(chunks, np.uint8),
        )
        # A copy, since retransmissions change it.
        self.tos = None if tos is None else tos.copy()
        # Flags that the contributions of these chunks have however often they are sent; None for none.
        self._own_flags: NDArray[np.uint8] | None = None
        self._job = config.job
        self._seat = config.seat
        self._down_words = down_words
        self._down_bytes = down_words * WORD_BYTES

    @cached_property
    def _records(self) -> NDArray[Any]:
        return headers(self.packets)

    def mark(self, first: int, flags: NDArray[np.uint8]) -> None:
        """Set flags, uint8 (n,), in the contributions of the chunks from ``first`` on, before they are sent."""
        if self._own_flags is None:
            self._own_flags = np.zeros(self.chunks, np.uint8)
        self._own_flags[first : first + len(flags)] = flags
        self._records["flags"][first : first + len(flags)] = flags

    def prepare(self, chunks: NDArray[np.int64], kind: SendKind, least: int) -> None:
        """Turn packets into retransmissions. A FLUSH closes its slot if that has at least ``least`` contributions."""
        flush = kind == SendKind.FLUSH
        flags = np.uint8(p4.FLAG_RESYNC | p4.FLAG_FLUSH if flush else p4.FLAG_RESYNC)
        self._records["flags"][chunks] = flags if self._own_flags is None else flags | self._own_flags[chunks]
        self._records["contributors"][chunks] = least if flush else self._quorum
        if self.tos is not None:
            self.tos[chunks] = protected(self.tos[chunks])

    def protected_tos(self, chunk: int) -> int | None:
        """Return the TOS byte for a single packet about a chunk that must not be dropped; None without tags."""
        return None if self.tos is None else int(protected(self.tos[chunk : chunk + 1])[0])

    def probe(self, chunk: int) -> NDArray[np.uint8]:
        """Return the PROBE of a chunk, uint8 (32,)."""
        probe: NDArray[np.uint8] = self.packets[chunk, :HEADER_BYTES].copy()
        record = headers(probe.reshape(1, -1))
        record["version_kind"] = first_byte(p4.KIND_PROBE)
        record["contributors"], record["flags"], record["words"] = 0, 0, 0
        return probe

    def contribution(self, chunk: int) -> NDArray[np.uint8]:
        """Return the packet of a chunk as it is now, without its authentication tag, uint8 (packet bytes,)."""
        return self.packets[chunk, : self._up_bytes]

    def closing_flush(self, chunk: int) -> NDArray[np.uint8]:
        """Return a contribution with FLUSH that closes its slot whoever has contributed, uint8 (packet bytes,)."""
        packet = self.contribution(chunk).copy()
        record = headers(packet.reshape(1, -1))
        own = 0 if self._own_flags is None else self._own_flags[chunk]
        record["flags"], record["contributors"] = p4.FLAG_RESYNC | p4.FLAG_FLUSH | own, 0
        return packet

    def plain_run(self, heads: NDArray[np.uint64], sizes: NDArray[np.uint32]) -> int:
        """Return the first chunk if the received datagrams are results without flags of consecutive chunks, else -1.

        ``heads``: see :func:`sumwire.wire.packets.heads`. Nearly all received batches are such runs, and this check is
        faster than the general one.
        """
        first = int(number_of(heads[0]))
        last = first + len(heads)
        if last > self.chunks or bool((sizes != HEADER_BYTES + self._down_bytes).any()):
            return _NO_RUN
        plain = heads & self.expected.mask == self.expected.heads[first:last]
        counted = self.complete or (heads[:, 0] & COUNT_MASK).all()
        return first if plain.all() and counted else _NO_RUN

    def wanted(self, records: NDArray[Any], sizes: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Return which received datagrams are results of this op for this worker, complete or cut: bool (n,)."""
        whole = (sizes == HEADER_BYTES + self._down_bytes) & (records["words"] == self._down_words)
        if self.op == p4.OP_THC:
            whole |= self._are_cut(records, sizes)
        wanted: NDArray[np.bool_] = (
            whole
            & (records["version_kind"] == _RESULT)
            & (records["op"] == self.op)
            & (records["job"] == self._job)
            & (records["worker"] == self._seat)
            & (records["token"] == self.token)
            & (records["count"] != 0)
        )
        return wanted

    def fill_cut(self, rows: NDArray[np.uint8], records: NDArray[Any]) -> None:
        """Fill in the planes that cut results lack, with the values that the switch assumes."""
        if self.op == p4.OP_THC:
            cut = np.flatnonzero(records["words"] == p4.THC_WORDS_CUT)
            if len(cut):
                rows[cut, _CUT_BYTES : _CUT_BYTES + len(_CUT_FILL)] = _CUT_FILL

    @staticmethod
    def _are_cut(records: NDArray[Any], sizes: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        cut: NDArray[np.bool_] = np.logical_and(sizes == _CUT_BYTES, records["words"] == p4.THC_WORDS_CUT)
        if cut.any():
            cut &= cuts_of(records) & np.uint8(p4.CUT_RESULT) != 0
        return cut

    def accept_run(self, first: int, rows: NDArray[np.uint8], records: NDArray[Any]) -> None:
        """Store results that :meth:`plain_run` has accepted, for the chunks from ``first`` on."""
        results, last = self.results, first + len(rows)
        flat = results.words.reshape(self.chunks, self._down_bytes)
        flat[first:last] = rows[:, HEADER_BYTES : HEADER_BYTES + self._down_bytes]
        results.counts[first:last] = records["count"]
        results.contributors[first:last] = records["contributors"]

    def datagrams(self, chunks: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return results without flags as they were received: datagrams, and the bytes in each."""
        results = self.results
        rows = np.empty((len(chunks), HEADER_BYTES + self._down_bytes), np.uint8)
        rows[:, :HEADER_BYTES] = self.expected.heads[chunks].view(np.uint8)
        rows[:, HEADER_BYTES:] = results.words.reshape(self.chunks, self._down_bytes)[chunks]
        records = headers(rows)
        records["count"], records["contributors"] = results.counts[chunks], results.contributors[chunks]
        return rows, np.full(len(chunks), rows.shape[1])

    def accept(self, chunks: NDArray[np.int64], rows: NDArray[np.uint8], records: NDArray[Any]) -> None:
        """Store the results of chunks: one received row and its header for each."""
        results = self.results
        flat = results.words.reshape(self.chunks, self._down_bytes)
        flat[chunks] = rows[:, HEADER_BYTES : HEADER_BYTES + self._down_bytes]
        results.counts[chunks] = records["count"]
        results.contributors[chunks] = records["contributors"]
        results.flags[chunks] = records["flags"] & self._kept_flags
        results.cuts[chunks] = cuts_of(records)


class Run(NamedTuple):
    """Messages with datagrams of one size, about consecutive chunks. ``longest``: datagrams of the longest message."""

    first: int
    datagrams: int
    longest: int
    datagram_bytes: int


class Runs:
    """Finds and stores the runs among the results of one exchange.

    ``messages``: where received messages lie; ``exchange``: the state that they update. Both are C structures.
    ``flying``: bool (chunks,), whether a chunk is in flight; read at every call.
    """

    def __init__(self, library: Native, messages: MessagePlaces, buffers: Buffers, flying: NDArray[np.bool_]) -> None:
        expected, results = buffers.expected, buffers.results
        # The structures only have addresses.
        self._kept = expected.heads, results, flying
        self._take = library.runs_take
        self.messages = library.runs_messages(*messages)
        payload_bytes = math.prod(results.words.shape[1:])
        self.exchange = library.runs_exchange(
            expected.heads.ctypes.data,
            tuple(expected.mask.tolist()),
            buffers.chunks,
            payload_bytes,
            buffers.tag_bytes,
            *map(attrgetter("ctypes.data"), (flying, results.words, results.counts, results.contributors)),
        )
        # Of each result.
        self.datagram_bytes = HEADER_BYTES + payload_bytes + buffers.tag_bytes

    def take(self, messages: int) -> Run | None:
        """Store the results in ``messages`` received messages, if all are plain results of consecutive chunks in
        flight.

        Otherwise returns None and stores nothing.
        """
        exchange = self.exchange
        count = self._take(self.messages, messages, exchange)
        return Run(exchange.first, count, exchange.longest, self.datagram_bytes) if count else None
