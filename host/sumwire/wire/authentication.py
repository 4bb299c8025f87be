# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Authentication tags: 64 bits behind every packet of a job with a key (docs/security.md).

C computes and checks them (native/tags.h). Without a compiler, or with SUMWIRE_NATIVE=0, numpy does it, much more
slowly.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ipaddress import IPv4Address
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.authentication import tag_keys

from sumwire.wire.messages import kernels

_NUMBERS: Final = p4.SLOT_WORDS * p4.WORD_BYTES // 8
KEY: Final = np.dtype(
    [("hash", np.uint64, _NUMBERS), ("sip", np.uint64, 2), ("address", np.uint32), ("present", np.uint32)], align=True
)
"""struct tags_key. ``present`` is 0 for a job without a key."""


def key_record(key: bytes | None, job: int, switch: str, *, recovery: bool = False) -> NDArray[Any]:
    """Return a record of KEY, (), for a job's packets to and from one switch, or to and from a worker's recovery port.

    ``switch``: the address of the switch or of that worker.
    """
    record = np.zeros((), KEY)
    if key is not None:
        keys = tag_keys(key, job)
        words = b"".join(word.to_bytes(p4.WORD_BYTES, "big") for word in keys.words)
        record["hash"] = np.frombuffer(words, ">u8")
        record["sip"] = keys.recovery if recovery else keys.sip
        record["address"] = int(IPv4Address(switch))
        record["present"] = 1
    return record


Numbers = NDArray[np.uint64]
_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)
_START: Final = np.array(
    [0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573], np.uint64
)  # SipHash's
# SipHash takes the length of what it hashes in with the last bytes.
_LENGTH: Final = np.uint64((p4.SUMWIRE_BYTES + 16 + 4) << 56)
_WORKER: Final = np.uint64(0xFF00)


def tags_of(key: NDArray[Any], heads: NDArray[np.uint8], payloads: NDArray[np.uint8]) -> Numbers:
    """Compute the tags of packets, uint64 (n,).

    ``key``: a record of KEY, () or (n,). ``heads``: uint8 (n, 32). ``payloads``: uint8 (n, payload bytes).
    """
    numbers = np.ascontiguousarray(heads).view(">u8").astype(np.uint64)
    kinds = heads[:, 0] & np.uint8(0xF)
    from_worker = (kinds == p4.KIND_CONTRIBUTE) | (kinds == p4.KIND_PROBE)
    numbers[:, 0] &= np.where(from_worker, ~np.uint64(0), ~_WORKER)
    high, low = universal(key["hash"], payloads)
    last = np.broadcast_to(_LENGTH | key["address"].astype(np.uint64), len(heads))
    with np.errstate(over="ignore"):
        return _siphash(key["sip"], [*numbers.T, high, low, last])


def universal(hash_key: Numbers, payloads: NDArray[np.uint8]) -> tuple[Numbers, Numbers]:
    """Compute NH of payloads: the high and the low halves of its 128 bits, (n,) each. ``hash_key``: (..., numbers)."""
    count, size = payloads.shape
    if not size:
        return np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    numbers = np.ascontiguousarray(payloads).view(">u8").astype(np.uint64)
    with np.errstate(over="ignore"):
        numbers += hash_key[..., : size // 8]
        high, low = _products(numbers[:, 0::2], numbers[:, 1::2])
        total = np.zeros(count, np.uint64)
        carries = np.zeros(count, np.uint64)
        for product in low.T:
            total += product
            carries += total < product
        return high.sum(axis=1, dtype=np.uint64) + carries, total


def _products(one: Numbers, other: Numbers) -> tuple[Numbers, Numbers]:
    """Products of 64 x 64 bits, their high and low halves."""
    a, b, c, d = one >> _HALF, one & _LOW, other >> _HALF, other & _LOW
    low, cross, across = b * d, a * d, b * c
    middle = (low >> _HALF) + (cross & _LOW) + (across & _LOW)
    high = a * c + (cross >> _HALF) + (across >> _HALF) + (middle >> _HALF)
    return high, (middle << _HALF) | (low & _LOW)


def _rotate(numbers: Numbers, by: int) -> Numbers:
    return (numbers << np.uint64(by)) | (numbers >> np.uint64(64 - by))


def _siphash(sip: Numbers, message: list[Numbers]) -> Numbers:
    """SipHash-2-4 of n messages: the numbers at each place, (n,), the last one with the length. ``sip``: (..., 2)."""
    count = len(message[0])
    low, high = (np.broadcast_to(sip[..., half], count) for half in (0, 1))
    state = [half ^ start for half, start in zip((low, high, low, high), _START, strict=True)]
    for numbers in message:
        state[3] = state[3] ^ numbers
        _rounds(state, 2)
        state[0] = state[0] ^ numbers
    state[2] = state[2] ^ np.uint64(0xFF)
    _rounds(state, 4)
    tags: Numbers = state[0] ^ state[1] ^ state[2] ^ state[3]
    return tags


def _rounds(state: list[Numbers], count: int) -> None:
    v0, v1, v2, v3 = state
    for _ in range(count):
        v0, v2 = v0 + v1, v2 + v3
        v1, v3 = _rotate(v1, 13) ^ v0, _rotate(v3, 16) ^ v2
        v0, v2 = _rotate(v0, 32) + v3, v2 + v1
        v1, v3 = _rotate(v1, 17) ^ v2, _rotate(v3, 21) ^ v0
        v2 = _rotate(v2, 32)
    state[:] = v0, v1, v2, v3


_REFUSED: Final = p4.KIND_REFUSED
_PAYLOAD_MOST: Final = p4.SLOT_WORDS * p4.WORD_BYTES
# NH takes two numbers at a time. The header has a multiple of that.
_PAIR_BYTES: Final = 16


def without_tags(rows: NDArray[np.uint8], sizes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the bytes of received datagrams, (n,), without the tags, which all packets but REFUSED have."""
    bare = (sizes == p4.SUMWIRE_BYTES) & (rows[: len(sizes), 0] & 0xF == _REFUSED)
    return np.where(bare, sizes, np.maximum(sizes, p4.TAG_BYTES) - p4.TAG_BYTES).astype(np.uint32)


class CompiledTags(NamedTuple):
    """Addresses: of the C functions that write and check tags, and of the key that both get."""

    write: int
    check: int
    key: int


class Tags:
    """The tags of a job's packets between this worker and its switch, or between two workers.

    ``key``: a record of :data:`sumwire.wire.authentication.KEY`.
    """

    def __init__(self, key: NDArray[Any]) -> None:
        self._key = np.ascontiguousarray(key)
        self._library = kernels()

    @property
    def is_native(self) -> bool:
        """Return whether C checks messages where they were received (:meth:`check_messages`)."""
        return self._library is not None

    def write(self, rows: NDArray[np.uint8], numbers: NDArray[np.int64]) -> None:
        """Write the tags of the packets with these numbers, out of uint8 (n, packet bytes), into their last 8 bytes."""
        if self._library is None:
            chosen = rows[numbers]
            tags = self._tags(chosen[:, : -p4.TAG_BYTES])
            rows[numbers, -p4.TAG_BYTES :] = tags.astype(">u8").view(np.uint8).reshape(-1, p4.TAG_BYTES)
            return
        contiguous = np.ascontiguousarray(numbers, np.int64)
        self._library.tags_write(
            self._key.ctypes.data, rows.ctypes.data, rows.shape[1], contiguous.ctypes.data, len(contiguous)
        )

    @property
    def compiled(self) -> CompiledTags | None:
        """Return what other C code needs for :meth:`write` and :meth:`check_messages`; None if numpy does it."""
        library = self._library
        if library is None:
            return None
        write, check = (
            ctypes.cast(one, ctypes.c_void_p).value or 0 for one in (library.tags_write, library.tags_check)
        )
        return CompiledTags(write, check, self._key.ctypes.data)

    def tagged(self, packet: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return one packet, uint8 (bytes,), with its tag behind it."""
        row = np.zeros((1, len(packet) + p4.TAG_BYTES), np.uint8)
        row[0, : len(packet)] = packet
        self.write(row, np.zeros(1, np.int64))
        return row.reshape(-1)

    def sealed(self, datagram: bytes | bytearray) -> bytes:
        """Return a datagram with its tag appended. A payload is hashed padded with zeros to a multiple of 16 bytes."""
        return bytes(datagram) + self._tag(bytes(datagram))

    def opened(self, datagram: bytes) -> bytes | None:
        """Return a datagram of :meth:`sealed` without its tag; None if the tag is wrong."""
        bare = datagram[: -p4.TAG_BYTES]
        right = p4.SUMWIRE_BYTES <= len(bare) <= p4.SUMWIRE_BYTES + _PAYLOAD_MOST
        return bare if right and self._tag(bare) == datagram[-p4.TAG_BYTES :] else None

    def _tag(self, datagram: bytes) -> bytes:
        filled = datagram + bytes(-len(datagram) % _PAIR_BYTES)
        tag = self._tags(np.frombuffer(filled, np.uint8).reshape(1, -1))
        return bytes(tag.astype(">u8").tobytes())

    def check_messages(self, places: Sequence[int], messages: int) -> int:
        """Check the datagrams in ``messages`` received messages. Returns how many have a wrong tag. These lose their
        first byte, so that they are no valid packets any more.

        ``places``: where messages lie, as :class:`sumwire.wire.messages.MessagePlaces`.
        """
        assert self._library is not None
        return int(self._library.tags_check(self._key.ctypes.data, self._library.tags_messages(*places), messages))

    def check(self, rows: NDArray[np.uint8], sizes: NDArray[np.integer[Any]]) -> int:
        """Like :meth:`check_messages`, for datagrams in rows, uint8 (n or more, at least the longest), with ``sizes``
        bytes each, (n,)."""
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
