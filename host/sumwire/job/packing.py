# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""In which op's packets payload travels: in its own op's, or, where contributions are masked, in SUM32's."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.blind.masks import Lanes, Places, TableLanes, VoteLanes
from sumwire.codec.errors import CodecError
from sumwire.config import OP_NAMES, JobConfig
from sumwire.errors import ConfigError
from sumwire.transport.guard import tampered
from sumwire.transport.options import PLAIN, ExchangeOptions
from sumwire.transport.udp import Transport

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

    def __init__(self, lanes: Lanes, workers: int) -> None:
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
