# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One worker's masks in one run of a job: key streams of AES-256 in counter mode, one for each other worker.

Chunk K of the run has bytes 1024 K to 1024 K + 1023 of every stream, 256 numbers of 32 bits, the least significant byte
first. Of two workers the one with the lower number adds their stream, and the other one subtracts it, modulo 2**32. So
the masks cancel in the sum of all workers, and in no sum of fewer.

A chunk's place in the streams is used once: places only rise. A retransmission is the same packet, masked already; what
is encoded anew has a sequence number of its own; a new run has keys of its own.

:class:`MaskedPackets` sends packets of THC and VOTE as packets of SUM32, the only op that can be masked. C does the
work; without a compiler, or with SUMWIRE_NATIVE=0, numpy does.

Example: workers 0 and 1, one element each, 5 and 7, and their stream's number is 100. They send 105 and -93; the sum is
12.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import SUM32, THC, VOTE, Op

from sumwire.codec.errors import CodecError
from sumwire.codec.layout import pack_index_planes, unpack_index_planes
from sumwire.errors import MaskReuseError
from sumwire.native import NativeFolder

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

NATIVE: Final = NativeFolder(
    "sumwire-blind",
    Path(__file__).parent / "native",
    {
        "BLIND_WORD_BYTES": p4.WORD_BYTES,
        "BLIND_WORDS": p4.SLOT_WORDS,
        "BLIND_INDEX_PLANES": p4.THC_INDEX_PLANES,
    },
    without="numpy masks contributions, at a higher price than C",
)
CHUNK_BYTES: Final = SUM32.up.words * p4.WORD_BYTES
_AES_BYTES: Final = 16
_TAG_BYTES: Final = 16
# Behind all chunks.
_FACTORS_FROM: Final = 1 << 64
_BLOCKS: Final = CHUNK_BYTES // _AES_BYTES
# Chunks whose streams stay in cache.
_STEP_CHUNKS: Final = 128


class Masks:
    """One worker's masks. ``pairs``: a key of 32 bytes for each other worker. The other fields are keys that all
    workers have."""

    def __init__(self, worker: int, pairs: Mapping[int, bytes], *, common: bytes, tags: bytes, sums: bytes) -> None:
        self._streams = [(KeyStream(key), worker < other) for other, key in pairs.items()]
        self._common = common
        self._tags = tags
        self._sums = sums
        self._factors = self._drawn(_FACTORS_FROM, CHUNK_BYTES // 4)
        # Chunks from this one on were never masked.
        self._unused = 0

    def hide(self, sequence: int, payload: NDArray[np.uint8]) -> None:
        """Add the masks of the chunks from ``sequence`` on to their payload, uint8 (chunks, 8, 128), in place.

        Raises MaskReuseError if a chunk's masks were used before, or if a later chunk was masked before it.
        """
        if sequence < self._unused:
            raise MaskReuseError(
                f"chunk {sequence} of the run would be masked a second time, or after chunk {self._unused - 1}; "
                "start all workers again"
            )
        self._unused = sequence + len(payload)
        for first in range(0, len(payload), _STEP_CHUNKS):
            part = payload[first : first + _STEP_CHUNKS]
            _add(part, [(stream.chunks(sequence + first, len(part)), adds) for stream, adds in self._streams])

    def places(self, sequence: int, chunks: int) -> NDArray[np.uint32]:
        """Return random numbers that only this run's workers know, (chunks x 256,), for chunks from ``sequence`` on.

        Each may hide one value of one worker. They are independent of the masks that :meth:`hide` adds.
        """
        return KeyStream(self._common).chunks(sequence, chunks).view("<u4").astype(np.uint32)

    def tag(self, content: bytes) -> bytes:
        """Return a 16-byte tag of the content that only this run's workers can compute, so that they notice changes."""
        return hashlib.blake2b(content, digest_size=_TAG_BYTES, key=self._tags).digest()

    def weights(self, sequence: int, chunks: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Return the secret weights, below 2**61, that :mod:`sumwire.blind.sums` uses: for the elements of every chunk,
        shape (256,), and for the chunks from ``sequence`` on, shape (chunks,)."""
        return self._factors, self._drawn(sequence, chunks)

    def _drawn(self, first: int, count: int) -> NDArray[np.uint64]:
        """Of the key stream the lower 61 bits of each block."""
        blocks = _encryptor(self._sums, first).update(bytes(count * _AES_BYTES))
        drawn: NDArray[np.uint64] = np.frombuffer(blocks, "<u8")[::2] & np.uint64(2**61 - 1)
        return np.ascontiguousarray(drawn, np.uint64)


class KeyStream:
    """The key stream of one key. The array that :meth:`chunks` returns is overwritten by the next call."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._encryptor: CipherContext | None = None
        self._next = 0
        self._zeros = np.zeros(0, np.uint8)
        self._out = np.zeros(0, np.uint8)

    def chunks(self, sequence: int, count: int) -> NDArray[np.uint8]:
        """Return the stream's bytes for ``count`` chunks, uint8 (count x 1024,)."""
        if self._encryptor is None or sequence != self._next:
            self._encryptor = _encryptor(self._key, sequence * _BLOCKS)
        size = count * CHUNK_BYTES
        if len(self._zeros) < size:
            self._zeros = np.zeros(size, np.uint8)
            # As long as `update_into` asks for.
            self._out = np.empty(size + _AES_BYTES - 1, np.uint8)
        self._encryptor.update_into(self._zeros[:size].data, self._out.data)
        self._next = sequence + count
        return self._out[:size]


def _encryptor(key: bytes, block: int) -> CipherContext:
    """The key stream of AES-256 in counter mode, from a block on."""
    # Here, since an open job has to do without the package.
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import AES256
    from cryptography.hazmat.primitives.ciphers.modes import CTR

    return Cipher(AES256(key), CTR(block.to_bytes(_AES_BYTES))).encryptor()


def _add(payload: NDArray[np.uint8], streams: Sequence[tuple[NDArray[np.uint8], bool]]) -> None:
    """Add the numbers of streams to elements, or subtract them where it is False. payload may have any stride between
    chunks."""
    native = NATIVE.kernels()
    if native is not None:
        signed = ((stream.ctypes.data, 1 if adds else -1) for stream, adds in streams)
        array = (native.blind_stream * len(streams))(*signed)
        native.blind_add(payload.ctypes.data, payload.strides[0], len(payload), array, len(streams))
        return
    elements = payload.view(">u4")
    for stream, adds in streams:
        numbers = stream.view("<u4").reshape(*payload.shape[:2], -1)
        if adds:
            elements += numbers
        else:
            elements -= numbers


_INDICES: Final = 1 << p4.THC_INDEX_PLANES
_COUNTER_BITS: Final = 4


class MaskedPackets(ABC):
    """Carries the packets of one op as packets of SUM32. ``op``: the op whose words are replaced; the number of values
    stays the same."""

    op: Op

    @abstractmethod
    def up(self, words: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Convert a host's words of the op, uint8 (chunks, up words, 128), to SUM32 elements in ``out``, uint8 (chunks,
        8, 128) with any stride between chunks."""

    @abstractmethod
    def down(self, sums: NDArray[np.uint8], workers: int) -> NDArray[np.uint8]:
        """Convert all workers' summed elements, uint8 (chunks, 8, 128), to what the op's switch would have sent down,
        uint8 (chunks, down words, 128)."""


class TableLanes(MaskedPackets):
    """The lanes of THC. ``table``: at most 16 values of at most 255."""

    op = THC

    def __init__(self, table: tuple[int, ...]) -> None:
        self._table = np.zeros(_INDICES, np.uint8)
        self._table[: len(table)] = table

    def up(self, words: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        native = NATIVE.kernels()
        if native is None:
            out[:] = self._table[unpack_index_planes(words)].reshape(out.shape)
            return
        planes = np.ascontiguousarray(words)
        native.blind_to_lanes(
            planes.ctypes.data, len(planes), self._table.ctypes.data, out.ctypes.data, out.strides[0]
        )  # fmt: skip

    def down(self, sums: NDArray[np.uint8], workers: int = 0) -> NDArray[np.uint8]:
        native = NATIVE.kernels()
        if native is None:
            return pack_index_planes(np.ascontiguousarray(sums).reshape(len(sums), -1), p4.SLOT_WORDS)
        planes = np.empty((len(sums), THC.down.words, p4.WORD_BYTES), np.uint8)
        native.blind_to_planes(sums.ctypes.data, sums.strides[0], len(sums), planes.ctypes.data)
        return planes


class VoteLanes(MaskedPackets):
    """The lanes of VOTE."""

    op = VOTE

    def up(self, words: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        plus = np.unpackbits(np.ascontiguousarray(words).reshape(len(words), -1), axis=1)
        out[:] = (plus[:, ::2] << _COUNTER_BITS | plus[:, 1::2]).reshape(out.shape)

    def down(self, sums: NDArray[np.uint8], workers: int) -> NDArray[np.uint8]:
        octets = np.ascontiguousarray(sums).reshape(len(sums), -1)
        counts = np.stack([octets >> _COUNTER_BITS, octets & ((1 << _COUNTER_BITS) - 1)], axis=2)
        plus = counts.reshape(len(sums), -1) * 2 >= workers
        return np.packbits(plus, axis=1).reshape(len(sums), VOTE.down.words, p4.WORD_BYTES)


_ELEMENTS: Final = SUM32.values
_TAG_ELEMENTS: Final = _TAG_BYTES // 4


class Places:
    """Room for ``count`` numbers and a tag from each worker, in the chunks from ``sequence`` on.

    With it workers exchange numbers, such as the norms of their tensors, that the switch cannot read. Each worker
    writes to places of its own, and zeros elsewhere. The tag, under a key that all workers have, shows before use
    whether the numbers are those that the worker sent.
    """

    def __init__(self, masks: Masks, sequence: int, count: int, *, worker: int, workers: int) -> None:
        self._room = count + _TAG_ELEMENTS
        self.chunks = -(-self._room * workers // _ELEMENTS)
        self._hidden = masks.places(sequence, self.chunks)
        self._masks = masks
        self._sequence = sequence
        self._worker = worker
        self._workers = workers

    def pack(self, own: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """Return this worker's payload, uint8 (chunks, 8, 128), which contains its numbers, shape (count,)."""
        elements = np.zeros(self.chunks * _ELEMENTS, ">u4")
        here = slice(self._worker * self._room, (self._worker + 1) * self._room)
        elements[here] = np.concatenate([own, self._tag(self._worker, own)]) + self._hidden[here]
        return elements.view(np.uint8).reshape(self.chunks, SUM32.up.words, p4.WORD_BYTES)

    def unpack(self, words: NDArray[np.uint8]) -> NDArray[np.uint32]:
        """Return the numbers of all workers, shape (workers, count), from the sums, uint8 (chunks, 8, 128).

        Raises CodecError if a tag does not fit, so that the numbers were changed. A change goes unnoticed with
        probability 2**-128.
        """
        elements = np.ascontiguousarray(words).reshape(-1).view(">u4").astype(np.uint32)
        filled = self._workers * self._room
        if bool(elements[filled:].any()):
            raise CodecError("numbers of workers: an element that belongs to no worker is not 0")
        rows = (elements[:filled] - self._hidden[:filled]).reshape(self._workers, self._room)
        numbers, tags = rows[:, :-_TAG_ELEMENTS], rows[:, -_TAG_ELEMENTS:]
        for worker in range(self._workers):
            if not np.array_equal(tags[worker], self._tag(worker, numbers[worker])):
                raise CodecError(f"numbers of worker {worker}: their tag does not fit them")
        return numbers

    def _tag(self, worker: int, numbers: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Of a worker's numbers at these places, shape (4,)."""
        place = np.array([self._sequence, worker, len(numbers)], ">u8").tobytes()
        return np.frombuffer(self._masks.tag(place + numbers.astype(">u4").tobytes()), ">u4").astype(np.uint32)
