# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The sending side of one exchange: moves packets from the window to the socket."""

from __future__ import annotations

from typing import Final

import numpy as np

from sumwire.transport.buffers import Buffers
from sumwire.transport.connection import Connection
from sumwire.transport.in_flight import Chunks
from sumwire.transport.retries import Outgoing, SendKind

_NO_CHUNKS: Final = np.zeros(0, np.int64)
# Chunks that the window releases in one call.
_BATCH: Final = 512
# Seconds between two questions for the configuration of the switch, while packets are lost.
_ASK_EVERY_S: Final = 1.0


class Sender:
    """``held``: chunks that the window has released and the full socket has not accepted yet."""

    def __init__(self, connection: Connection, buffers: Buffers) -> None:
        self.held: Chunks = _NO_CHUNKS
        self._connection = connection
        self._buffers = buffers

    def send(self) -> None:
        """Send all that may be sent now, until the window or the socket has enough."""
        connection = self._connection
        now = connection.clock()
        few_first = False
        while True:
            if not len(self.held):
                outgoing = connection.window.take(now, _BATCH)
                if outgoing is None:
                    return
                if outgoing.kind != SendKind.FIRST:
                    self._ask_for_configuration(now)
                    if not self._prepare(outgoing):
                        continue
                self.held = outgoing.chunks
                # Retries come before first transmissions, or by a timer that is looked at soon.
                few_first = outgoing.kind == SendKind.FIRST and len(self.held) < _BATCH
            self.held = self.held[connection.link.send(self.held, connection.pace.train) :]
            if len(self.held) or few_first:
                return

    def _ask_for_configuration(self, now: float) -> None:
        """Say HELLO, now and then: packets were lost, maybe because the switch was given another configuration."""
        if now - self._connection.link.asked_at >= _ASK_EVERY_S:
            self._connection.say_hello()

    def _prepare(self, outgoing: Outgoing) -> bool:
        """Make the packets of a retry. Returns False if the exchange's own packets are not to be sent."""
        connection, buffers, (chunks, kind) = self._connection, self._buffers, outgoing
        if kind == SendKind.RECOVER:
            self._recover(chunks)
        elif kind == SendKind.PROBE:
            for chunk in chunks.tolist():
                connection.link.send_one(buffers.probe(chunk), buffers.protected_tos(chunk))
        else:
            buffers.prepare(chunks, kind, connection.closing_contributions - 1)
            return True
        return False

    def _recover(self, chunks: Chunks) -> None:
        connection = self._connection
        if connection.catch_up is not None:
            connection.catch_up.recovery.ask((connection.window.base + chunks).tolist(), self._buffers.op)
            connection.catch_up.recovery.send(connection.clock())
