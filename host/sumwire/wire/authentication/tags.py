# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Writes and checks the tags of a worker's packets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.wire.authentication.kernels import TagsMessages, kernels
from sumwire.wire.authentication.reference import tags_of

_REFUSED: Final = p4.KIND_REFUSED
_PAYLOAD_MOST: Final = p4.SLOT_WORDS * p4.WORD_BYTES
# NH takes two numbers at a time. The header has a multiple of that.
_PAIR_BYTES: Final = 16


def without_tags(rows: NDArray[np.uint8], sizes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The bytes of received datagrams, (n,), without the tags that all but REFUSED have."""
    bare = (sizes == p4.SUMWIRE_BYTES) & (rows[: len(sizes), 0] & 0xF == _REFUSED)
    return np.where(bare, sizes, np.maximum(sizes, p4.TAG_BYTES) - p4.TAG_BYTES).astype(np.uint32)


class Tags:
    """The tags of a job's packets between this worker and its switch, or between two workers.

    ``key``: a record of :data:`sumwire.wire.authentication.keys.KEY`.
    """

    def __init__(self, key: NDArray[Any]) -> None:
        self._key = np.ascontiguousarray(key)
        self._library = kernels()

    @property
    def is_native(self) -> bool:
        """Whether C checks messages where they were received (:meth:`check_messages`)."""
        return self._library is not None

    def write(self, rows: NDArray[np.uint8], numbers: NDArray[np.int64]) -> None:
        """Write the tags of some of these packets, uint8 (n, bytes of one), into their last 8 bytes."""
        if self._library is None:
            chosen = rows[numbers]
            tags = self._tags(chosen[:, : -p4.TAG_BYTES])
            rows[numbers, -p4.TAG_BYTES :] = tags.astype(">u8").view(np.uint8).reshape(-1, p4.TAG_BYTES)
            return
        contiguous = np.ascontiguousarray(numbers, np.int64)
        self._library.tags_write(
            self._key.ctypes.data, rows.ctypes.data, rows.shape[1], contiguous.ctypes.data, len(contiguous)
        )

    def tagged(self, packet: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """One packet, uint8 (bytes,), with its tag behind it."""
        row = np.zeros((1, len(packet) + p4.TAG_BYTES), np.uint8)
        row[0, : len(packet)] = packet
        self.write(row, np.zeros(1, np.int64))
        return row.reshape(-1)

    def sealed(self, datagram: bytes | bytearray) -> bytes:
        """A datagram with its tag behind it. A payload of any length is hashed with zeros up to a multiple of 16."""
        return bytes(datagram) + self._tag(bytes(datagram))

    def opened(self, datagram: bytes) -> bytes | None:
        """A datagram of :meth:`sealed` without its tag; None if that is wrong."""
        bare = datagram[: -p4.TAG_BYTES]
        right = p4.SUMWIRE_BYTES <= len(bare) <= p4.SUMWIRE_BYTES + _PAYLOAD_MOST
        return bare if right and self._tag(bare) == datagram[-p4.TAG_BYTES :] else None

    def _tag(self, datagram: bytes) -> bytes:
        filled = datagram + bytes(-len(datagram) % _PAIR_BYTES)
        tag = self._tags(np.frombuffer(filled, np.uint8).reshape(1, -1))
        return bytes(tag.astype(">u8").tobytes())

    def check_messages(self, places: Sequence[int], messages: int) -> int:
        """Check the datagrams of so many received messages. Returns how many have a wrong tag: these lose their first
        byte, so that nobody takes them for anything.

        ``places``: where messages lie, as :class:`sumwire.wire.messages.MessagePlaces`.
        """
        assert self._library is not None
        return int(self._library.tags_check(self._key.ctypes.data, TagsMessages(*places), messages))

    def check(self, rows: NDArray[np.uint8], sizes: NDArray[np.integer[Any]]) -> int:
        """:meth:`check_messages` for datagrams, uint8 (n or more, at least the longest), of so many bytes, (n,)."""
        rows, wrong = rows[: len(sizes)], np.ones(len(sizes), np.bool_)
        wrong[(sizes == p4.SUMWIRE_BYTES) & (rows[:, 0] & 0xF == _REFUSED)] = False
        for size in np.unique(sizes).tolist():
            payload = size - p4.SUMWIRE_BYTES - p4.TAG_BYTES
            if not 0 <= payload <= _PAYLOAD_MOST or payload % p4.WORD_BYTES:
                continue
            which = np.flatnonzero(sizes == size)
            chosen = rows[which, :size]
            found = np.ascontiguousarray(chosen[:, -p4.TAG_BYTES :]).view(">u8").reshape(-1)
            wrong[which] = self._tags(chosen[:, : -p4.TAG_BYTES]) != found
        rows[wrong, 0] = 0
        return int(np.count_nonzero(wrong))

    def _tags(self, packets: NDArray[np.uint8]) -> NDArray[np.uint64]:
        return tags_of(self._key, packets[:, : p4.SUMWIRE_BYTES], packets[:, p4.SUMWIRE_BYTES :])
