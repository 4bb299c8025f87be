# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trains: datagrams that cross the kernel in one piece, on the way out (UDP_SEGMENT) and in (UDP_GRO).

All datagrams of a train have one size, but the last may be shorter. A train costs the kernel little more than a single
datagram. On the wire there is no difference.

Example: rows 60 to 69, of which slot 0 has row 64, are sent as two trains: 60 to 63, and 64 to 69. Trains of up to 64
rows begin at slots that are multiples of 64. So a server that divides its slots among processes in blocks of 64 need
not split them.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# The most datagrams of a train that every kernel with UDP_SEGMENT takes; a power of two.
TRAIN_ROWS: Final = 64
# The longest UDP payload.
TRAIN_BYTES: Final = 65507


@cache
def train_limit(row_bytes: int, most: int = TRAIN_ROWS) -> int:
    """Return the most rows of ``row_bytes`` in one train, at least 1: a power of two, and at most ``most``."""
    fit = min(most, TRAIN_ROWS, TRAIN_BYTES // max(row_bytes, 1))
    return 1 << max(fit, 1).bit_length() - 1


def train_starts(
    rows: NDArray[np.integer[Any]], longest: int, phase: int = 0, tos: NDArray[np.uint8] | None = None
) -> NDArray[np.intp]:
    """Return the places in ``rows`` at which trains begin; ``rows`` has at least one row, (n,).

    A train begins with a row that does not follow the previous one, or has another TOS byte, or a slot that is a
    multiple of ``longest``, a power of two. ``phase``: the slot of row 0.
    """
    if longest == 1:
        return np.arange(len(rows))
    begins = np.empty(len(rows), np.bool_)
    begins[0] = True
    later = rows[1:]
    np.not_equal(later, rows[:-1] + 1, out=begins[1:])
    begins[1:] |= (later + phase) & (longest - 1) == 0
    if tos is not None:
        begins[1:] |= tos[1:] != tos[:-1]
    return np.flatnonzero(begins)


class Arrivals:
    """The messages of one receiving call, each a datagram or a train, and the datagrams in them.

    ``memory``: uint8 (messages, bytes of the longest), which the call fills. After :meth:`take_apart`: ``rows`` has a
    row for each datagram, with at least the first ``row_bytes`` of it; ``sizes`` has the bytes of each, longer ones are
    cut; ``counts`` has the datagrams of each message, or is None if there is one in each. Rows and sizes are valid
    until the next call.

    ``usual_bytes``: if all datagrams have this size, rows have it too. ``trains``: whether messages can be trains.
    """

    def __init__(self, messages: int, *, row_bytes: int, usual_bytes: int, trains: bool) -> None:
        # Whole datagrams of the usual size, so that those of all messages are rows of one array; an odd number, because
        # with a power of two the first lines of all messages would share a few places of the processor's cache.
        self._per_message = -(-(TRAIN_BYTES + 1) // usual_bytes) | 1
        self.memory = np.zeros((messages, self._per_message * usual_bytes if trains else row_bytes), np.uint8)
        self.rows = self._singles = self.memory[:, :row_bytes]
        self.sizes = np.zeros(0, np.uint32)
        self.counts: NDArray[np.intp] | None = None
        self._row_bytes, self._usual_bytes = row_bytes, usual_bytes
        self._usual = self.memory.reshape(-1, usual_bytes) if trains else self.memory
        self._copies = np.zeros(0, np.uint8)
        self._copied_sizes = np.zeros(0, np.uint32)

    def take_apart(self, lengths: NDArray[np.uint32], segments: NDArray[np.integer[Any]]) -> int:
        """Split messages into datagrams, and return the number of these.

        ``lengths``: bytes of each message. ``segments``: bytes of each datagram in it, 0 if it is a single one.
        """
        if not segments.any():
            self.rows, self.counts = self._singles, None
            self.sizes = np.minimum(lengths, self._row_bytes)
            return len(lengths)
        if self._are_usual(lengths, segments):
            return self._take_usual(lengths.astype(np.intp) // self._usual_bytes)
        self.counts = np.where(segments > 0, -(-lengths.astype(np.intp) // np.maximum(segments, 1)), 1)
        return self._copy(lengths.tolist(), segments.tolist(), self.counts.tolist())

    def _are_usual(self, lengths: NDArray[np.uint32], segments: NDArray[np.integer[Any]]) -> bool:
        """Whether all datagrams have the usual size."""
        usual = self._usual_bytes
        cut = (segments == usual) | (segments == 0) & (lengths == usual)
        return bool(cut.all()) and not (lengths % usual).any()

    def _take_usual(self, counts: NDArray[np.intp]) -> int:
        """A train that came alone stays where it is; those of several messages are copied."""
        self.counts, total = counts, int(counts.sum())
        rows = self._room(total, self._usual_bytes)
        self.sizes[:] = self._usual_bytes
        if len(counts) == 1:
            self.rows = self._usual[:total]
            return total
        # The row that a message would begin with if those before it had no rows of their own.
        bases = np.arange(len(counts)) * self._per_message - np.cumsum(counts) + counts
        places = np.repeat(bases, counts) + np.arange(total)
        # Other modes than "raise" write without a buffer in between. No place is out of bounds.
        np.take(self._usual, places, axis=0, out=rows, mode="clip")
        return total

    def _room(self, count: int, row_bytes: int) -> NDArray[np.uint8]:
        """Room for copies."""
        if count * row_bytes > len(self._copies):
            self._copies = np.zeros(2 * count * row_bytes, np.uint8)
        if count > len(self._copied_sizes):
            self._copied_sizes = np.zeros(2 * count, np.uint32)
        self.rows, self.sizes = self._copies[: count * row_bytes].reshape(count, row_bytes), self._copied_sizes[:count]
        return self.rows

    def _copy(self, lengths: list[int], segments: list[int], counts: list[int]) -> int:
        total, at = sum(counts), 0
        self._room(total, self._row_bytes)
        for message, length, size, count in zip(self.memory, lengths, segments, counts, strict=False):
            self._copy_message(message[:length], size or length, at, count)
            at += count
        np.minimum(self.sizes, self._row_bytes, out=self.sizes)
        return total

    def _copy_message(self, message: NDArray[np.uint8], size: int, at: int, count: int) -> None:
        """Copy a message of ``count`` datagrams of ``size`` bytes, of which the last may be shorter, to row ``at`` and
        those after it."""
        whole = len(message) // size if size else 0
        width = min(size, self._row_bytes)
        self.rows[at : at + whole, :width] = message[: whole * size].reshape(whole, size)[:, :width]
        self.sizes[at : at + whole] = size
        if whole < count:
            tail = message[whole * size :]
            self.sizes[at + whole] = len(tail)
            self.rows[at + whole, : len(tail)] = tail[: self._row_bytes]
