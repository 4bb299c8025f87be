# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The aggregator without its sockets: turns a batch of datagrams into a batch of replies. Used by `server` and
tests."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from nativelib.declarations import Native
from sumwire_protocol import constants as p4

from sumwire.aggregator import reference
from sumwire.aggregator.batches import Batch, Replies
from sumwire.aggregator.kernels import kernels
from sumwire.aggregator.parent_link import ParentLink
from sumwire.aggregator.refusals import Rejecter
from sumwire.aggregator.state import State
from sumwire.errors import UsageError
from sumwire.wire.messages import address_of

# The most datagrams of a batch.
BATCH: Final = 512


class Aggregator:
    """Processes packets on one State: in C (`kernels`), or without a compiler in numpy (`reference`).

    ``replies`` are those of the latest batch. The next batch overwrites them.
    """

    def __init__(self, state: State, *, batch: int = BATCH, native: bool = True) -> None:
        self.state = state
        self.batch = batch
        self.replies = Replies(batch * max(1, state.most_seats))
        self._library = kernels() if native else None
        if self._library is not None:
            self.state_arrays = _state_arrays(self._library, state)
            self.reply_arrays = reply_arrays(self._library, self.replies)
            self.batch_arrays = self._library.aggregator_batch()
        self._loaded: Batch | None = None
        self._addresses = np.zeros(0, np.uintp)
        self._rejecter, self._refused = Rejecter(state), int(state.verdicts[p4.VERDICT_REJECT])
        self.upward = ParentLink(state.parts, state.shared)

    @property
    def is_native(self) -> bool:
        return self._library is not None

    def process(self, batch: Batch, now: float) -> Replies:
        """Process up to ``batch`` datagrams at ``now``, in seconds of the monotonic clock.

        The replies are in the order of the packets they answer, and by seat. No content of a datagram makes it raise.
        Raises UsageError for more datagrams than the arrays have room for.
        """
        if batch.count > self.batch:
            limit = f"this aggregator takes at most {self.batch}"
            raise UsageError(f"a batch of {batch.count} datagrams: {limit}: make it with batch={batch.count}")
        if self._library is None:
            reference.process(self.state, batch, self.replies)
        else:
            self._process_native(self._library, batch)
        self.refuse(batch, now)
        return self.replies

    def refuse(self, batch: Batch, now: float) -> None:
        """Prepare REFUSED answers to the refused packets of a batch, and process the parent aggregators' answers in
        it."""
        if self.upward:
            self._hear(batch)
        replies, refused = self.replies, int(self.state.verdicts[p4.VERDICT_REJECT])
        replies.refused, self._refused = refused - self._refused, refused
        replies.refusals = self._rejecter.answers(batch, replies.reasons[: batch.count], now) if replies.refused else []

    def _hear(self, batch: Batch) -> None:
        """Process parents' answers to HELLOs. Workers may not send their kind, so they were counted as refused: they
        are counted as KNOWN instead."""
        state, heard = self.state, self.upward.hear(batch, self.replies.reasons)
        state.verdicts[p4.VERDICT_KNOWN] += np.uint64(heard)
        for refused in (state.verdicts[p4.VERDICT_REJECT :], state.rejects[p4.REJECT_KIND :]):
            refused[0] -= np.uint64(heard)

    def _process_native(self, library: Native, batch: Batch) -> None:
        self.load(batch)
        self.batch_arrays.count = batch.count
        self.replies.count = library.aggregator_process(self.state_arrays, self.batch_arrays, self.reply_arrays)

    def load(self, batch: Batch) -> None:
        """Point the C structures at the arrays of this batch."""
        arrays = self.batch_arrays
        # The arrays of a batch that knows its addresses stay where they are.
        if batch is not self._loaded or batch.at is None:
            self._loaded, self._addresses = batch, batch.addresses()
            arrays.data = address_of(self._addresses)
            arrays.sizes, arrays.size_bytes = address_of(batch.sizes), batch.sizes.strides[0]
            arrays.sources, arrays.source_bytes = address_of(batch.sources), batch.sources.strides[0]
            arrays.ports, arrays.port_bytes = address_of(batch.ports), batch.ports.strides[0]
            arrays.tos, arrays.tos_bytes = address_of(batch.tos), batch.tos.strides[0]


def _state_arrays(library: Native, state: State) -> Any:
    return library.aggregator_state(
        job_of=address_of(state.job_of),
        jobs=address_of(state.jobs),
        runs=address_of(state.shared.runs),
        slots=address_of(state.slots),
        words=address_of(state.words),
        verdicts=address_of(state.verdicts),
        rejects=address_of(state.rejects),
        seed=state.seed,
    )


def reply_arrays(library: Native, replies: Replies) -> Any:
    """Return the replies' arrays in the form that C takes."""
    return library.aggregator_replies(
        heads=address_of(replies.heads),
        payloads=address_of(replies.payloads),
        payload_of=address_of(replies.payload_of),
        sizes=address_of(replies.sizes),
        places=address_of(replies.places),
        tos=address_of(replies.tos),
        reasons=address_of(replies.reasons),
    )
