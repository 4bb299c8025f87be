# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Memory of an exchange: its packets, made in place, and what comes back for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sumwire import _p4 as p4
from sumwire.config import JobConfig
from sumwire.packets import COUNT_MASK, OP_WORDS, RESULT_MASK, first_byte, number_of, result_heads, write_headers
from sumwire.wire import HEADER_BYTES, WORD_BYTES

_RESULT: Final = first_byte(p4.KIND_RESULT)
_NO_RUN: Final = -1


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


class Pool:
    """One piece of memory, used for one exchange after the other: fresh pages cost more than what is written there."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)

    def take(self, size: int) -> NDArray[np.uint8]:
        """uint8 (size,), the same memory as before where that is large enough."""
        if len(self._memory) < size:
            self._memory = np.empty(size, np.uint8)
        return self._memory[:size]


class Buffers:
    """``packets`` (chunks, bytes of one), whose headers are written; ``payload`` (chunks, up words, 128) lies inside
    them and is the sender's to fill; ``results`` is filled by :meth:`accept`.
    """

    def __init__(
        self, config: JobConfig, op: int, chunks: int, *, bucket: int, first_sequence: int, up: Pool, down: Pool
    ) -> None:
        up_words, down_words = OP_WORDS[op]
        self.op = op
        self.bucket = bucket
        self.chunks = chunks
        up_bytes = HEADER_BYTES + up_words * WORD_BYTES
        self.packets = up.take(chunks * up_bytes).reshape(chunks, up_bytes)
        write_headers(
            self.packets,
            op=op,
            job=config.job,
            seat=config.seat,
            slots=config.slots,
            first_sequence=first_sequence,
            bucket=bucket,
        )
        self._expected = result_heads(self.packets, down_words)
        self.payload = self.packets[:, HEADER_BYTES:].reshape(chunks, up_words, WORD_BYTES)
        self.results = Results(
            down.take(chunks * down_words * WORD_BYTES).reshape(chunks, down_words, WORD_BYTES),
            np.zeros(chunks, np.uint8),
            np.zeros(chunks, np.uint32),
            np.zeros(chunks, np.uint8),
        )
        self._job = config.job
        self._seat = config.seat
        self._down_words = down_words
        self._down_bytes = down_words * WORD_BYTES

    def plain_run(self, heads: NDArray[np.uint64], sizes: NDArray[np.uint32]) -> int:
        """The first chunk, if the received datagrams are flawless results of consecutive chunks, else -1.

        heads: see :func:`sumwire.packets.heads`. It is what nearly always comes, and quicker to tell than what else.
        """
        first = int(number_of(heads[0]))
        last = first + len(heads)
        if last > self.chunks or bool((sizes != HEADER_BYTES + self._down_bytes).any()):
            return _NO_RUN
        plain = heads & RESULT_MASK == self._expected[first:last]
        return first if plain.all() and (heads[:, 0] & COUNT_MASK).all() else _NO_RUN

    def wanted(self, records: NDArray[Any], sizes: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Which of the received datagrams are whole results of this op for this worker."""
        wanted: NDArray[np.bool_] = (
            (sizes == HEADER_BYTES + self._down_bytes)
            & (records["version_kind"] == _RESULT)
            & (records["op"] == self.op)
            & (records["job"] == self._job)
            & (records["worker"] == self._seat)
            & (records["words"] == self._down_words)
            & (records["count"] != 0)
        )
        return wanted

    def accept_run(self, first: int, rows: NDArray[np.uint8], records: NDArray[Any]) -> None:
        """Keep the results of consecutive chunks that :meth:`plain_run` has found good."""
        results, last = self.results, first + len(rows)
        flat = results.words.reshape(self.chunks, self._down_bytes)
        flat[first:last] = rows[:, HEADER_BYTES : HEADER_BYTES + self._down_bytes]
        results.counts[first:last] = records["count"]
        results.contributors[first:last] = records["contributors"]

    def accept(self, chunks: NDArray[np.int64], rows: NDArray[np.uint8], records: NDArray[Any]) -> None:
        """Keep the results of chunks: received rows and their headers, one for each."""
        results = self.results
        flat = results.words.reshape(self.chunks, self._down_bytes)
        flat[chunks] = rows[:, HEADER_BYTES : HEADER_BYTES + self._down_bytes]
        results.counts[chunks] = records["count"]
        results.contributors[chunks] = records["contributors"]
        results.flags[chunks] = records["flags"]
