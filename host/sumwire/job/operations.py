# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The operations of a job: their interface, and how a tensor becomes packets.

A :class:`Signature` is a text about a call that the workers compare, and its tag is in every packet of the operation. A
slot of the switch takes packets of one tag only, so different calls are never summed. Example: operation 12 is "mean by
thc of 2000 values, bucket 3" on all workers, and tagged with the CRC-16 of that.

An :class:`Operation` belongs to one call. It can be made in two ways: through the switch, or by the process group's
collectives. :class:`sumwire.job.job.Job` adds the lock, the order and the fall-back. The operation on a tensor through
a codec is in :mod:`sumwire.job.codec_operation`, those on integers and signs in :mod:`sumwire.job.collectives`.
:class:`ResultCache` has the latest results, for ranks that lack them when the switch is lost.

A word of MAX32 has 32 big-endian elements of 32 bits. Payload travels in packets of its own op or, where contributions
are masked, of SUM32 (:class:`MaskedPayload`).

:func:`carry` keeps link and processor busy at the same time: while one part is encoded or decoded, packets of other
parts travel. A part is an eighth of the tensor, but not so small that the overhead of calls counts, nor so large that
the window runs empty meanwhile. Example: three parts. Part 0 is encoded and sent; part 1 is encoded while part 0
travels; once all results of part 0 are there, it is decoded while parts 1 and 2 travel.
"""

from __future__ import annotations

import binascii
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import JUMBO, MAX32, THC
from torch import Tensor

from sumwire import trace
from sumwire.blind.masks import MaskedPackets, Places, TableLanes, VoteLanes
from sumwire.codec.errors import CodecError
from sumwire.config import OP_NAMES, JobConfig
from sumwire.errors import ConfigError
from sumwire.job.gloo import Fallback
from sumwire.transport.exchange import Exchange, tampered
from sumwire.transport.options import PLAIN, ExchangeOptions
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport
from sumwire.wire.packets import WORD_BYTES

# Elements of one word.
ELEMENTS: Final = p4.WORD_BITS // p4.ELEMENT_BITS
ELEMENT: Final = np.dtype(">u4")


def to_words(values: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """uint32 values as words, uint8 (chunks, 1, 128). The last word is padded with zeros."""
    chunks = -(-len(values) // ELEMENTS)
    elements = np.zeros(chunks * ELEMENTS, ELEMENT)
    elements[: len(values)] = values
    return elements.view(np.uint8).reshape(chunks, 1, WORD_BYTES)


def from_words(words: NDArray[np.uint8], count: int) -> NDArray[np.uint32]:
    """Return the first ``count`` values of words: the inverse of :func:`to_words`."""
    return words.reshape(-1).view(ELEMENT)[:count].astype(np.uint32)


# Writes the words of some chunks, uint8 (chunks, up words, 128).
Fill = Callable[[NDArray[np.uint8]], None]


class Payload:
    """How the chunks of an op travel: in packets of their own. ``op``: the packets'. ``chunks``: how many a packet has.
    ``checked``: the check of elements, if sums are checked."""

    chunks: ClassVar[int] = 1
    checked: ClassVar[Literal["signed", "unsigned"]] = "signed"

    def __init__(self, op: int) -> None:
        self.op = op

    def put(self, fill: Fill, out: NDArray[np.uint8], chunks: int) -> None:
        """Let ``fill`` write the words of so many chunks, uint8 (chunks, up words of the op, 128), into ``out``, a part
        of the packets' payload."""
        fill(out)

    def take(self, words: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the chunks' words down (from the switch) out of a part of the results."""
        return words

    def by_chunk(self, of_packets: NDArray[Any], chunks: int) -> NDArray[Any]:
        """Return what packets have, shape (packets,), for each of the first ``chunks`` chunks."""
        return of_packets if self.chunks == 1 else of_packets.repeat(self.chunks)[:chunks]


class MaskedPayload(Payload):
    """Packs the payload of an op into SUM32 packets, where masks cancel."""

    checked = "unsigned"

    def __init__(self, packets: MaskedPackets, workers: int) -> None:
        super().__init__(p4.OP_SUM32)
        self._packets = packets
        self._workers = workers

    def put(self, fill: Fill, out: NDArray[np.uint8], chunks: int) -> None:
        words = np.empty((len(out), self._packets.op.up.words, p4.WORD_BYTES), np.uint8)
        fill(words)
        self._packets.up(words, out)

    def take(self, words: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return self._packets.down(words, self._workers)


class JumboPayload(Payload):
    """Packs eight chunks of THC into a packet of JUMBO, as lanes: a byte for each value. ``table``: the job's.
    ``from_lanes``: the chunks' words are lanes already (:meth:`sumwire.codec.base.CodecRound.use_lanes`)."""

    chunks = JUMBO.values // THC.values

    def __init__(self, table: tuple[int, ...]) -> None:
        super().__init__(p4.OP_JUMBO)
        self.from_lanes = False
        self._table = TableLanes(table)

    def put(self, fill: Fill, out: NDArray[np.uint8], chunks: int) -> None:
        lanes = np.empty((len(out) * self.chunks, THC.down.words, p4.WORD_BYTES), np.uint8)
        if self.from_lanes:
            fill(lanes[:chunks])
        else:
            words = np.empty((chunks, THC.up.words, p4.WORD_BYTES), np.uint8)
            fill(words)
            self._table.up(words, lanes[:chunks])
        lanes[chunks:] = 0
        out[:] = lanes.reshape(out.shape)

    def take(self, words: NDArray[np.uint8]) -> NDArray[np.uint8]:
        lanes = words.reshape(-1, THC.down.words, p4.WORD_BYTES)
        return lanes if self.from_lanes else self._table.down(lanes)


# Of every op.
OWN_PACKETS: Final = {op: Payload(op) for op in OP_NAMES}


def payload_of(op: int, chunks: int, config: JobConfig) -> Payload:
    """Return how ``chunks`` chunks of an op travel in a job. Raises ConfigError if a blind job cannot mask them."""
    if config.blind:
        return masked_payload(op, config) or OWN_PACKETS[op]
    # A shorter tensor would be mostly padding.
    if op == p4.OP_THC and JUMBO.name in config.ops and config.thc is not None and chunks >= JumboPayload.chunks:
        return JumboPayload(config.thc.table)
    return OWN_PACKETS[op]


def masked_payload(op: int, config: JobConfig) -> MaskedPayload | None:
    """Return the masked payload of an op in a blind job; None for SUM32's own. Raises ConfigError if contributions
    cannot be masked."""
    if op == p4.OP_SUM32:
        return None
    if op == p4.OP_THC and config.thc is not None:
        return MaskedPayload(TableLanes(config.thc.table), config.workers)
    if op == p4.OP_VOTE:
        return MaskedPayload(VoteLanes(), config.workers)
    raise unmaskable(config, OP_NAMES[op])


def unmaskable(config: JobConfig, what: str) -> ConfigError:
    """Return the error for something that a blind job cannot do."""
    rule = f"must not be true with {what}; means by thc and sum32, sums, maxima, minima and votes can be masked"
    return ConfigError("blind", True, rule, where=f"job {config.name}", cure="use one of them, or leave `blind` out")


def told_by_all(
    transport: Transport, config: JobConfig, own: NDArray[np.uint32], tag: int, options: ExchangeOptions = PLAIN
) -> NDArray[np.uint32]:
    """Exchange numbers between the workers of a blind job. Returns those of all, shape (workers, count). ``own``: this
    worker's.

    Raises TamperedError if the numbers were changed on the way.
    """
    places = Places(transport.secrets, transport.next_sequence, len(own), worker=config.worker, workers=config.workers)
    words = transport.exchange(p4.OP_SUM32, places.pack(own), tag, options).words
    try:
        return places.unpack(words)
    except CodecError as error:
        raise tampered(config.job, error) from error


# Values of a part.
PART_VALUES_LEAST: Final = 1 << 17
PART_VALUES_MOST: Final = 1 << 19
# Chunks of a part, whatever their values: a packet of signs has 8192.
_PART_CHUNKS_LEAST: Final = 128
_PARTS: Final = 8

# Encodes or decodes chunks first..last-1.
Step = Callable[[int, int], None]


def carry(exchange: Exchange, encode: Step, decode: Step, *, step: int, stats: JobStats, at_end: bool = False) -> None:
    """Carry out an exchange. ``encode`` fills its payload and ``decode`` uses its results, once for each chunk.

    ``step``: chunks per part; the last part may be shorter. ``at_end``: nothing is decoded before all results are
    there. Raises what the exchange, ``encode`` and ``decode`` raise.
    """
    chunks = exchange.chunks
    encoded = decoded = 0
    while decoded < chunks:
        if encoded < chunks:
            upto = min(encoded + step, chunks)
            began = time.monotonic()
            with trace.now.encode:
                encode(encoded, upto)
            stats.encode_s += time.monotonic() - began
            encoded = upto
            exchange.ready(encoded)
            done = exchange.progress(block=False)
        else:
            done = exchange.progress(block=True, upto=chunks if at_end else min(decoded + step, chunks))
        # Where slots may close early, results can arrive of chunks that this worker has not encoded yet.
        done = min(done, encoded)
        while decoded < chunks and (done == chunks or (done - decoded >= step and not at_end)):
            upto = min(decoded + step, chunks)
            began = time.monotonic()
            with trace.now.decode:
                decode(decoded, upto)
            stats.decode_s += time.monotonic() - began
            decoded = upto
            if done < chunks:
                done = min(exchange.progress(block=False), encoded)


@cache
def part_chunks(chunks: int, chunk_values: int, grain: int) -> int:
    """Return the chunks per part for a tensor of ``chunks`` chunks: a multiple of ``grain``, the codec's smallest
    unit."""
    values = min(max(chunks * chunk_values // _PARTS, PART_VALUES_LEAST), PART_VALUES_MOST)
    return max(1, max(values // chunk_values, _PART_CHUNKS_LEAST) // grain) * grain


# Higher ones are the greeting's.
_TAGS: Final = p4.BUCKET_OPENS_RUN

# Numbers of buckets in a packet's header.
BUCKETS: Final = 1 << 16


@dataclass(frozen=True)
class Signature:
    """Describes a call. ``number``: that of the operation in the job, from 0. ``given``: a text for whatever else must
    be equal."""

    number: int
    what: str
    values: int
    bucket: int
    given: str = ""

    @cached_property
    def text(self) -> str:
        given = f", {self.given}" if self.given else ""
        return f"{self.what} of {self.values} values, bucket {self.bucket}{given}"

    @property
    def tag(self) -> int:
        """16 bits for the packets' field ``bucket``."""
        return binascii.crc_hqx(f"{self.number}: {self.text}".encode(), 0) % _TAGS


def tag_in_one_trip(tag: int, carried: bytes) -> int:
    """Return the tag for the same call encoded with carried scales. Workers that carry other scales, or none, are then
    refused instead of summed."""
    return binascii.crc_hqx(b"one trip" + carried, tag) % _TAGS


# A chunk's result as float32 values.
BYTES_PER_CHUNK: Final = 4096


# Contributors of a result that has all.
ALL: Final = torch.zeros(0, dtype=torch.int64, device="cpu")


@dataclass(frozen=True)
class CachedResult:
    """A result: the tensor itself, or a function that computes it again. ``nbytes``: the memory held for it.

    ``contributors``: int64 (chunks,), bitmaps of the seats at this rank's switch; :data:`ALL` if no chunk lacks any.
    """

    nbytes: int
    tensor: Callable[[], Tensor]
    contributors: Tensor = ALL


@dataclass(frozen=True)
class HandedOut:
    """A result that another rank hands out. ``worker``: the number of that rank. ``contributors``: see
    :class:`CachedResult`.
    """

    worker: int
    tensor: Tensor
    contributors: Tensor = ALL


class ResultCache:
    """The latest results. ``most``: how many are kept; 1 with a quorum of all workers, since ranks are at most one
    operation apart, otherwise None. ``most_bytes``: the oldest results beyond it are dropped, but never the latest."""

    def __init__(self, *, most: int | None, most_bytes: int) -> None:
        # Results of the operations first..first + n - 1.
        self.first = 0
        self._results: deque[CachedResult] = deque()
        self._bytes = 0
        self._most = most
        self._most_bytes = most_bytes

    def __len__(self) -> int:
        return len(self._results)

    def add(self, operation: int, result: CachedResult) -> None:
        """Keep the result of the operation after the latest one, or of a later one if nothing is kept."""
        if not self._results:
            self.first = operation
        assert operation == self.first + len(self._results), "results are kept without a gap"
        self._results.append(result)
        self._bytes += result.nbytes
        while len(self._results) > 1 and (
            self._bytes > self._most_bytes or (self._most is not None and len(self._results) > self._most)
        ):
            self._drop()

    def trim(self, operation: int) -> None:
        """Drop results that all ranks have: those of operations below this one."""
        while self._results and self.first < operation:
            self._drop()

    def result(self, operation: int) -> CachedResult:
        """Return the kept result of an operation."""
        return self._results[operation - self.first]

    def _drop(self) -> None:
        self._bytes -= self._results.popleft().nbytes
        self.first += 1


class Operation(ABC):
    """One collective call. ``values``: its length. ``tag``: carried by every packet. ``by_group``: it uses the process
    group by choice, even if there is a switch. ``compared``: the workers compare its description separately, just
    before or with a later operation."""

    ops: tuple[str, ...]
    by_group: ClassVar[bool] = False
    values: int
    tag: int = 0
    compared: bool = False

    @abstractmethod
    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> Tensor:
        """Return the result, whose bits are equal on all workers."""

    @abstractmethod
    def ordinary(self, fallback: Fallback) -> Tensor:
        """Return the result computed by the process group's collectives, with equal bits on all workers."""

    @abstractmethod
    def like(self) -> Tensor:
        """Return a CPU tensor of the result's shape and dtype, to receive a result that another worker hands out."""

    def take(self, handed_out: HandedOut, *, begun: bool) -> Tensor:
        """Accept a result that another worker handed out. Its sum contains this worker's contribution only if this
        worker had ``begun`` to send it."""
        return handed_out.tensor

    def kept(self, result: Tensor) -> CachedResult:
        """Return the result that :meth:`through_switch` or :meth:`ordinary` returned, in a form to keep for workers
        that lack it."""
        return CachedResult(result.nbytes, lambda: result)


def check_ops(config: JobConfig, ops: tuple[str, ...]) -> None:
    """Raise ConfigError for an operation whose ops the job lacks, or that a blind job cannot make."""
    require(config, ops, "for this operation")
    if config.blind and "sign" in ops:
        raise unmaskable(config, "merged signs")


def require(config: JobConfig, ops: tuple[str, ...], what: str) -> None:
    """Raise ConfigError unless the job has all the ops. ``what`` ends the message: "must have thc to ..."."""
    for op in ops:
        if op not in config.ops:
            raise ConfigError("ops", config.ops, f"must have {op} {what}", where=f"job {config.name}")


class Nothing(Operation):
    """A call of length 0, whose result is ``empty``. The workers only compare their calls, by one chunk of MAX32.

    ``contribute=False``: this worker follows the others.
    """

    ops = ("max32",)
    values = 0

    def __init__(self, empty: Tensor, *, contribute: bool = True) -> None:
        self._empty = empty
        self._contribute = contribute

    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> Tensor:
        options = ExchangeOptions(waits_for_workers=True, contribute=self._contribute)
        if config.blind:
            told_by_all(transport, config, np.zeros(0, np.uint32), self.tag, options)
        else:
            transport.exchange(MAX32.code, to_words(np.zeros(1, np.uint32)), self.tag, options)
        return self._empty

    def ordinary(self, fallback: Fallback) -> Tensor:
        return self._empty

    def like(self) -> Tensor:
        return self._empty

    def take(self, handed_out: HandedOut, *, begun: bool) -> Tensor:
        return self._empty


@dataclass(frozen=True)
class Asked:
    """The request of a job's caller. ``what``: how descriptions name it; the workers compare these. ``given``: see
    :meth:`sumwire.job.job.Job.reduce_with`.
    """

    ops: tuple[str, ...]
    what: str
    length: int
    bucket: int
    given: str = ""
    contribute: bool = True
    by_group: bool = False

    def nothing(self, empty: Tensor) -> Operation:
        return Nothing(empty, contribute=self.contribute)
