# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The serving loop of one process: receive a batch, process it, send the replies. Started by `processes`."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Sequence
from typing import Final

import numpy as np
from nativelib.declarations import Native

from sumwire.aggregator.batches import Batch, Replies
from sumwire.aggregator.core import BATCH, Aggregator
from sumwire.aggregator.kernels import kernels
from sumwire.aggregator.refusals import RefusalLog
from sumwire.aggregator.sharing import HandOver, HandOverReceiver, owners
from sumwire.aggregator.sockets import Datagrams, ReplySender, UdpReceiver
from sumwire.aggregator.state import HANDED_OVER, SENT, UNSENT, State


class OneCall:
    """Receives, processes and answers packets in a single C call, for a process that serves all slots.

    ``datagrams``: the buffers of ``receiver``.
    """

    def __init__(
        self, library: Native, receiver: UdpReceiver, datagrams: Datagrams, aggregator: Aggregator, sender: ReplySender
    ) -> None:
        self._serve = library.aggregator_serve
        self._datagrams, self._aggregator, self._sender = datagrams, aggregator, sender
        self._socket = library.aggregator_socket(
            descriptor=receiver.fileno(), messages=receiver.address, room=receiver.messages, most=aggregator.batch
        )
        self._served = library.aggregator_served()

    def serve(self, now: float) -> tuple[Batch, bool]:
        """Return the datagrams that have arrived, and whether they were answered.

        Datagrams beyond one batch are received but not answered. Raises OSError.
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
        # C stops at the first error; the rest is sent here.
        sender.send_from(int(served.sent), int(served.messages))
        aggregator.refuse(batch, now)
        return batch, True


# Messages of a receiving call, each a datagram or a train of them.
_MESSAGES: Final = 256


class Server:
    """Serves the slots of one process, number ``process``, at a bound UDP socket.

    ``inboxes``: the inboxes of all processes, by number; empty for a single process.
    """

    def __init__(self, udp: socket.socket, state: State, inboxes: Sequence[HandOver] = (), process: int = 0) -> None:
        self._state = state
        self._aggregator, self._log = Aggregator(state), RefusalLog(state)
        self._sender = ReplySender(udp, state.places, self._aggregator.replies, kernels())
        self._udp = UdpReceiver(udp, _MESSAGES, kernels())
        self._inboxes, self._process = inboxes, process
        self._one_call = self._in_one_call()
        self._receivers: dict[int, UdpReceiver | HandOverReceiver] = {self._udp.fileno(): self._udp}
        if inboxes:
            own = HandOverReceiver(inboxes[process], _MESSAGES)
            self._receivers[own.fileno()] = own

    def run(self, stop: int) -> None:
        """Serve until the file descriptor ``stop`` is readable or its other end is closed."""
        poll = select.poll()
        for descriptor in (stop, *self._receivers):
            poll.register(descriptor, select.POLLIN)
        upward = self._aggregator.upward
        while True:
            ready = [descriptor for descriptor, _ in poll.poll(upward.look_s * 1000 if upward else None)]
            if upward:
                self._poll_parents(time.monotonic())
            if stop in ready:
                return
            for descriptor in ready:
                self._serve(self._receivers[descriptor])

    def _poll_parents(self, now: float) -> None:
        """Send due HELLOs to parent aggregators (process 0 only), and adopt the generations that they reported."""
        if self._process == 0:
            self._sender.tell(list(self._aggregator.upward.questions(now)))
        self._state.adopt()

    def _in_one_call(self) -> OneCall | None:
        """The single-call path, or None without a compiler or with several processes."""
        library, datagrams = kernels(), self._udp.datagrams
        if library is None or datagrams is None or self._inboxes:
            return None
        return OneCall(library, self._udp, datagrams, self._aggregator, self._sender)

    def _serve(self, receiver: UdpReceiver | HandOverReceiver) -> None:
        """Receive once, and process and answer what came."""
        now, replies = time.monotonic(), self._aggregator.replies
        batch, done = (self._take(receiver), False) if self._one_call is None else self._one_call.serve(now)
        for part in batch.parts(BATCH):
            if not done:
                self._answer(self._aggregator.process(part, now), part.longest)
            elif replies.refusals:
                self._sender.tell(replies.refusals)
            if replies.refused:
                self._log.note(part, replies.reasons[: part.count], now)
        counters = self._state.sockets
        counters[SENT], counters[UNSENT] = self._sender.sent, self._sender.unsent

    def _take(self, receiver: UdpReceiver | HandOverReceiver) -> Batch:
        batch = receiver.receive()
        if self._inboxes and receiver is self._udp:
            self._hand_over(batch)
        return batch

    def _answer(self, replies: Replies, longest: int) -> None:
        """Send replies in trains no longer than those received: workers adapt theirs to the links."""
        if replies.count:
            self._sender.send(longest)
        self._sender.tell(replies.refusals)

    def _hand_over(self, batch: Batch) -> None:
        """Pass datagrams on to the processes that own their slots. The batch keeps the rest."""
        owner = owners(batch, len(self._inboxes))
        if (owner == self._process).all():
            return
        for process, inbox in enumerate(self._inboxes):
            which = np.flatnonzero(owner == process)
            if process != self._process and len(which):
                # A datagram that does not fit into the inbox is dropped; its worker retransmits.
                self._state.sockets[HANDED_OVER] += np.uint64(inbox.put(batch, which))
        kept = np.flatnonzero(owner == self._process)
        batch.keep(kept)
