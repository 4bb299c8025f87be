# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Receives, processes and answers packets in a single call of C, for a process that serves all slots."""

from __future__ import annotations

import ctypes
import os

from sumwire.aggregator.batches import Batch
from sumwire.aggregator.core import Aggregator
from sumwire.aggregator.kernels import Served, SocketArrays
from sumwire.aggregator.sender import Sender
from sumwire.aggregator.sockets import Datagrams, UdpReceiver


class OneCall:
    """``datagrams``: those of ``receiver``."""

    def __init__(
        self,
        library: ctypes.CDLL,
        receiver: UdpReceiver,
        datagrams: Datagrams,
        aggregator: Aggregator,
        sender: Sender,
    ) -> None:
        self._serve = library.aggregator_serve
        self._datagrams, self._aggregator, self._sender = datagrams, aggregator, sender
        self._socket = SocketArrays(
            descriptor=receiver.fileno(), messages=receiver.address, room=receiver.messages, most=aggregator.batch
        )
        self._served = Served()

    def serve(self, now: float) -> tuple[Batch, bool]:
        """What has arrived, and whether it was processed and answered: too much for one batch is only received.

        Raises OSError.
        """
        aggregator, sender, served = self._aggregator, self._sender, self._served
        aggregator.load(self._datagrams.batch)
        self._socket.trains = sender.sends_trains
        error = self._serve(
            self._socket,
            aggregator.state_arrays,
            self._datagrams.arrays,
            aggregator.batch_arrays,
            aggregator.reply_arrays,
            sender.arrays,
            served,
        )
        if error:
            raise OSError(error, os.strerror(error))
        batch = self._datagrams.taken(int(served.datagrams))
        if batch.count > aggregator.batch:
            return batch, False
        aggregator.replies.count = int(served.replies)
        # What is left met an error.
        sender.send_from(int(served.sent), int(served.messages))
        aggregator.refuse(batch, now)
        return batch, True
