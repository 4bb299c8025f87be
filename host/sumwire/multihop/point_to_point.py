# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One tensor from one host to another, over UDP, of which a bounded share may be missing: DLCP's transport alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sumwire.multihop.frames import VALUES, Numbers
from sumwire.multihop.incoming import Incoming
from sumwire.multihop.neighbours import Neighbours
from sumwire.multihop.outgoing import Outgoing
from sumwire.multihop.ring_tags import UNTAGGED, Tagger, tagged


@dataclass(frozen=True, eq=False)
class Received:
    """``values``, float32 (values,), zeros where nothing came; ``came``, bool (values,)."""

    values: NDArray[np.float32]
    came: NDArray[np.bool_]


class PointToPoint:
    """One end; ``neighbours`` has the other host on both sides. Both ends have the same ``bound``: the share of a
    tensor's
    packets that may be missing, in [0, 1). When one sends, the other must receive."""

    def __init__(self, neighbours: Neighbours, bound: float = 0.0) -> None:
        self._neighbours = neighbours
        self._bound = bound

    def send(self, values: NDArray[np.float32], tag: Tagger | None = None) -> NDArray[np.float32]:
        """Send ``values``, float32 (values,). Returns those that the other end did without, and zeros elsewhere: what
        error feedback adds to the next tensor. ``tag``: the packets' TOS bytes. Raises HopError."""
        chunks = _chunks(values.size)
        rows = np.zeros((chunks, VALUES), np.float32)
        rows.reshape(-1)[: values.size] = values
        tos, kept = tagged(tag, rows) if tag and chunks else (np.zeros(chunks, np.uint8), UNTAGGED)
        # Memory of its own, since what is sent again is protected.
        outgoing = Outgoing(chunks, values.size, tos.copy(), kept)
        outgoing.fill(np.arange(chunks), rows, np.ones(chunks, np.int64))
        self._neighbours.run(outgoing, _incoming(0, _Nothing(0), 0), answer_tos=kept)
        rows[~outgoing.left_out] = 0.0
        return rows.reshape(-1)[: values.size]

    def receive(self, length: int) -> Received:
        """Receive a tensor of ``length`` values. Raises HopError, also if the other end sends another length."""
        sink = _Nothing(_chunks(length))
        incoming = _incoming(length, sink, math.floor(self._bound * _chunks(length)))
        self._neighbours.run(Outgoing(0, length, np.zeros(0, np.uint8), UNTAGGED), incoming)
        came = np.repeat(~incoming.left_out, VALUES)[:length]
        return Received(sink.values.reshape(-1)[:length], came)


class _Nothing:
    """What came, and zeros for the rest."""

    def __init__(self, chunks: int) -> None:
        self.values = np.zeros((chunks, VALUES), np.float32)

    def take(self, numbers: Numbers, values: NDArray[np.float32], counts: NDArray[np.int64]) -> None:
        """See Sink."""
        self.values[numbers] = values

    def leave_out(self, numbers: Numbers) -> None:
        """See Sink: they stay zeros."""


def _incoming(length: int, sink: _Nothing, allowed: int) -> Incoming:
    chunks = _chunks(length)
    return Incoming(chunks, length, sink, np.zeros(chunks, np.int64), np.array([allowed]))


def _chunks(values: int) -> int:
    return -(-values // VALUES)
