# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How a tensor becomes packets: uint32 values as words, payload in an op's packets, and encoding part by part.

A word of MAX32 has 32 big-endian elements of 32 bits. Payload travels in packets of its own op or, where contributions
are masked, of SUM32.

:func:`carry` keeps link and processor busy at the same time: while one part is encoded or decoded, packets of other
parts travel. A part is an eighth of the tensor, but not so small that the overhead of calls counts, nor so large that
the window runs empty meanwhile. Example: three parts. Part 0 is encoded and sent; part 1 is encoded while part 0
travels; once all results of part 0 are there, it is decoded while parts 1 and 2 travel.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.blind.masks import MaskedPackets, Places, TableLanes, VoteLanes
from sumwire.codec.errors import CodecError
from sumwire.config import OP_NAMES, JobConfig
from sumwire.errors import ConfigError
from sumwire.trace import span
from sumwire.transport.exchange import Exchange
from sumwire.transport.guard import tampered
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
    """The first ``count`` values of words: the inverse of :func:`to_words`."""
    return words.reshape(-1).view(ELEMENT)[:count].astype(np.uint32)


# Writes the words of some chunks, uint8 (chunks, up words, 128).
Fill = Callable[[NDArray[np.uint8]], None]


class Packing:
    """Its own op's packets. ``op``: theirs."""

    # Of its elements, where these are summed.
    checked: ClassVar[Literal["signed", "unsigned"]] = "signed"

    def __init__(self, op: int) -> None:
        self.op = op

    def put(self, fill: Fill, out: NDArray[np.uint8]) -> None:
        """Let ``fill`` write words, and bring them to ``out``, a part of the packets' payload."""
        fill(out)

    def take(self, sums: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The op's words down from a part of the results."""
        return sums


class InLanes(Packing):
    """SUM32's packets."""

    checked = "unsigned"

    def __init__(self, lanes: MaskedPackets, workers: int) -> None:
        super().__init__(p4.OP_SUM32)
        self._lanes = lanes
        self._workers = workers

    def put(self, fill: Fill, out: NDArray[np.uint8]) -> None:
        words = np.empty((len(out), self._lanes.op.up.words, p4.WORD_BYTES), np.uint8)
        fill(words)
        self._lanes.up(words, out)

    def take(self, sums: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return self._lanes.down(sums, self._workers)


def packing_of(op: int, config: JobConfig) -> Packing:
    """That of an op's payload. Raises ConfigError if its contributions to a blind job cannot be masked."""
    if not config.blind or op == p4.OP_SUM32:
        return Packing(op)
    if op == p4.OP_THC and config.thc is not None:
        return InLanes(TableLanes(config.thc.table), config.workers)
    if op == p4.OP_VOTE:
        return InLanes(VoteLanes(), config.workers)
    raise unmaskable(config, OP_NAMES[op])


def unmaskable(config: JobConfig, what: str) -> ConfigError:
    """The error about something that a blind job cannot do."""
    rule = f"must not be true with {what}; means by thc and sum32, sums, maxima, minima and votes can be masked"
    return ConfigError("blind", True, rule, where=f"job {config.name}", cure="use one of them, or leave `blind` out")


def told_by_all(
    transport: Transport, config: JobConfig, own: NDArray[np.uint32], tag: int, options: ExchangeOptions = PLAIN
) -> NDArray[np.uint32]:
    """The numbers of all workers of a blind job, shape (workers, count): an exchange. ``own``: this worker's.

    Raises TamperedError for numbers that the workers have not sent.
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
            with span("encode"):
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
            with span("decode"):
                decode(decoded, upto)
            stats.decode_s += time.monotonic() - began
            decoded = upto
            if done < chunks:
                done = min(exchange.progress(block=False), encoded)


def part_chunks(chunks: int, chunk_values: int, grain: int) -> int:
    """Chunks per part of a tensor of ``chunks`` chunks: a multiple of ``grain`` chunks, the codec's smallest unit."""
    values = min(max(chunks * chunk_values // _PARTS, PART_VALUES_LEAST), PART_VALUES_MOST)
    return max(1, max(values // chunk_values, _PART_CHUNKS_LEAST) // grain) * grain
