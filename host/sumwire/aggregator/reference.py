# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The slot protocol in numpy: for machines without a C compiler, and for tests to compare the C kernel with.

The packets of one slot must be processed in the order they came. So a batch is processed in turns: in the first turn
every slot's first packet, in the second every slot's second, and so on. Within a turn all slots are processed at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import OPS, SUM32, Op

from sumwire.aggregator import draws, folds
from sumwire.aggregator.admission import are_hellos, lost_planes, refusals
from sumwire.aggregator.answers import CLOSES, Answers, Numbers
from sumwire.aggregator.batches import Batch, Replies
from sumwire.aggregator.state import State
from sumwire.wire.controls import are_marked
from sumwire.wire.header import HEADER_BYTES, WORD_BYTES
from sumwire.wire.packets import headers

_FOLDS = (p4.VERDICT_FIRST, p4.VERDICT_ADD, p4.VERDICT_LAST)
# Flags of a contribution that become flags of the result.
_FLAGS_KEPT = p4.FLAG_INCOMPLETE | p4.FLAG_OVERFLOW | p4.FLAG_TRIMMED | p4.FLAG_CE | p4.FLAG_MISSING
_LOST_PLANES = p4.THC_INDEX_PLANES - p4.THC_WORDS_TRIMMED
_HALF_CIRCLE = 1 << 31


def process(state: State, batch: Batch, replies: Replies) -> None:
    """Process a batch. Afterwards ``replies`` has the replies, in the order of the packets they answer."""
    batch = batch.only()
    reasons, index = refusals(state, batch)
    admitted = np.flatnonzero(reasons == p4.REJECT_NONE)
    verdicts = np.full(batch.count, p4.VERDICT_REJECT, np.uint8)
    records = headers(batch.rows)
    answers = Answers(state, batch, index)
    slots = state.jobs["first_slot"][index[admitted]] + records["slot"][admitted]
    for turn in _turns(slots):
        rows = admitted[turn]
        step = _Step(state, batch, rows, index[rows])
        step.run()
        verdicts[rows] = step.verdicts
        reasons[rows] = step.reasons
        answers.note(step.rows, step.verdicts, step.slots, step.numbers)
    state.verdicts += np.bincount(verdicts, minlength=p4.VERDICTS).astype(np.uint64)
    refused = reasons[verdicts == p4.VERDICT_REJECT]
    state.rejects += np.bincount(refused, minlength=p4.REJECTS).astype(np.uint64)
    replies.reasons[: batch.count] = reasons
    answers.write(verdicts, replies)


def _turns(slots: NDArray[Any]) -> Iterator[Numbers]:
    """For each turn the places of its packets in ``slots``, the slots' numbers in the order of the packets."""
    if not len(slots):
        return
    order = np.argsort(slots, kind="stable")
    places = np.arange(len(slots))
    begins = np.ones(len(slots), np.bool_)
    begins[1:] = slots[order][1:] != slots[order][:-1]
    number = np.empty(len(slots), np.intp)
    number[order] = places - np.maximum.accumulate(np.where(begins, places, 0))
    for turn in range(int(number.max()) + 1):
        yield np.flatnonzero(number == turn)


class _Step:
    """One turn: n packets of n different slots. Arrays are of shape (n,)."""

    def __init__(self, state: State, batch: Batch, rows: Numbers, index: NDArray[np.int32]) -> None:
        self._state, self._batch = state, batch
        self.rows = rows
        self._packets = headers(batch.rows)[rows]
        self._jobs = state.jobs[index]
        self._probes = self._packets["version_kind"] & 0xF == p4.KIND_PROBE
        self._hellos = are_hellos(self._packets)
        self._trimmed = lost_planes(self._packets)
        has_run = self._packets["token"] >= p4.TOKENS_OF_RUNS
        self._opens = has_run & (self._packets["bucket"] == p4.BUCKET_OPENS_RUN)
        self._of_run = has_run & ~self._opens & ~self._hellos
        self.numbers = self._jobs["first_slot"] + self._packets["slot"]
        self.slots = state.slots[self.numbers]
        self._fresh = np.zeros(len(rows), np.bool_)
        self.verdicts = np.zeros(len(rows), np.uint8)
        # Why slots refuse packets.
        self.reasons = np.full(len(rows), p4.REJECT_NONE, np.uint8)
        self._index = index

    def run(self) -> None:
        """Decide on the verdicts, and update slots and words."""
        self._decide()
        folding = np.isin(self.verdicts, _FOLDS)
        changed = folding | (self.verdicts == p4.VERDICT_FLUSH)
        self._take_in(folding)
        closing = np.isin(self.verdicts, CLOSES)
        self.slots["closed"][closing] = 1
        self._open_runs(np.flatnonzero(closing & self._opens))
        flushed = np.where(self._packets["contributors"] == 0, p4.FLAG_INCOMPLETE, p4.FLAG_MISSING).astype(np.uint8)
        self.slots["flags"] |= np.where(self.verdicts == p4.VERDICT_FLUSH, flushed, 0).astype(np.uint8)
        self._close_votes(np.flatnonzero(closing & (self._packets["op"] == p4.OP_VOTE)))
        self._close_cut(np.flatnonzero(closing & self._trimmed))
        self._state.slots[self.numbers[changed]] = self.slots[changed]

    def _decide(self) -> None:
        slots, packets = self.slots, self._packets
        # Serial-number arithmetic (RFC 1982): newer by less than half the circle.
        ahead = packets["round"].astype(np.uint32) - slots["round"]
        newer = (ahead != 0) & (ahead < _HALF_CIRCLE) & ~self._hellos
        others = self._of_run & (slots["token"] != packets["token"])
        older = (slots["used"] != 0) & (ahead != 0) & ~newer & ~others
        self._refuse_runs(others, newer & (ahead != 1))
        self._refuse_generations((slots["used"] == 0) | newer)
        refused = self.reasons != p4.REJECT_NONE
        self._fresh = ((slots["used"] == 0) | newer | others) & ~refused
        self._forget()
        call = (slots["op"] != packets["op"]) | (slots["bucket"] != packets["bucket"])
        call |= slots["token"] != packets["token"]
        self.reasons[~refused & ~older & ~self._hellos & call] = p4.REJECT_CALL
        bit = np.uint32(1) << packets["worker"].astype(np.uint32)
        # A flush names the fewest contributions that are enough for its sender; 0 is any number.
        flush = (packets["flags"] & p4.FLAG_FLUSH != 0) & (slots["count"] >= packets["contributors"])
        last = slots["count"] + np.uint32(1) >= self._quorums()
        rules = [
            (self._hellos, p4.VERDICT_INFORM),
            (older, p4.VERDICT_STALE),
            (self.reasons != p4.REJECT_NONE, p4.VERDICT_REJECT),
            (self._probes, p4.VERDICT_INFORM),
            (self._too_short(), p4.VERDICT_INFORM),
            (slots["closed"] != 0, p4.VERDICT_DUPLICATE),
            ((slots["contributors"] & bit != 0) & flush, p4.VERDICT_FLUSH),
            (slots["contributors"] & bit != 0, p4.VERDICT_REPEAT),
            (last, p4.VERDICT_LAST),
            (self._fresh, p4.VERDICT_FIRST),
        ]
        self.verdicts = np.select([rule for rule, _ in rules], [verdict for _, verdict in rules], p4.VERDICT_ADD)
        self.verdicts = self.verdicts.astype(np.uint8)

    def _refuse_runs(self, others: NDArray[np.bool_], far: NDArray[np.bool_]) -> None:
        """Refuse packets for their run. ``others``: whose slot has another run's. ``far``: which are of a newer round
        than their slot's next one."""
        packets, runs = self._packets, self._state.shared.runs[self._index]
        first = packets["round"].astype(np.uint32) - runs["round"] <= 1
        self.reasons[np.where(others, ~first, self._of_run & far)] = p4.REJECT_ROUND
        self.reasons[others & (runs["token"] != packets["token"])] = p4.REJECT_TOKEN

    def _refuse_generations(self, begins: NDArray[np.bool_]) -> None:
        """Refuse packets that greet or open a run for another generation. ``begins``: a new round of the slot."""
        named = np.where(self._opens, self._first_elements(), self._packets["token"])
        named = np.where(self._packets["token"] == p4.TOKEN_NONE, self._jobs["generation"], named)
        looked_at = begins & ~self._of_run & ~self._hellos & ~self._probes
        self.reasons[looked_at & (named != self._jobs["generation"])] = p4.REJECT_TOKEN

    def _first_elements(self) -> NDArray[np.uint64]:
        """The first element of each payload."""
        first = self._batch.rows[self.rows, HEADER_BYTES : HEADER_BYTES + 4]
        return np.ascontiguousarray(first).view(">u4")[:, 0].astype(np.uint64)

    def _open_runs(self, which: Numbers) -> None:
        runs = self._state.shared.runs
        for name in ("token", "round"):
            runs[name][self._index[which]] = self._packets[name][which]

    def _quorums(self) -> NDArray[np.uint32]:
        """How many contributions complete each slot: the job's quorum, or that of the run if the packet names one."""
        jobs, named = self._jobs, self._packets["contributors"].astype(np.uint32)
        allowed = (jobs["quorum_least"] != 0) & (jobs["quorum_least"] <= named) & (named < jobs["quorum"])
        return np.where(allowed & (self._packets["flags"] & p4.FLAG_FLUSH == 0), named, jobs["quorum"])

    def _too_short(self) -> NDArray[np.bool_]:
        """Trimmed packets to a closed slot with a whole result, which has no room in so short a packet."""
        whole = self.slots["cut"] & p4.CUT_RESULT == 0
        return np.asarray((self.slots["closed"] != 0) & self._trimmed & whole)

    def _forget(self) -> None:
        """Clear the slots that are unused, or of an older round."""
        fresh = self._fresh
        self.slots[fresh] = 0
        self.slots["used"][fresh] = 1
        self.slots["round"][fresh] = self._packets["round"][fresh]
        self.slots["op"][fresh] = self._packets["op"][fresh]
        self.slots["bucket"][fresh] = self._packets["bucket"][fresh]
        self.slots["token"][fresh] = self._packets["token"][fresh]

    def _take_in(self, folding: NDArray[np.bool_]) -> None:
        slots, packets = self.slots[folding], self._packets[folding]
        slots["contributors"] |= np.uint32(1) << packets["worker"].astype(np.uint32)
        slots["count"] += 1
        slots["flags"] |= packets["flags"] & _FLAGS_KEPT
        marked = are_marked(self._batch.tos[self.rows[folding]])
        slots["flags"] |= np.where(marked, p4.FLAG_CE, 0).astype(np.uint8)
        slots["cut"] += np.where(self._trimmed[folding], _LOST_PLANES, 0).astype(np.uint8)
        self.slots[folding] = slots
        for op in OPS:
            of_op = folding & (self._packets["op"] == op.code)
            self._start(op, np.flatnonzero(of_op & self._fresh))
            self._fold(op, np.flatnonzero(of_op & ~self._fresh))

    def _start(self, op: Op, which: Numbers) -> None:
        if len(which):
            words = folds.start(op.code, self._contributions(op, which))
            self._state.words[self.numbers[which], : words.shape[1]] = words

    def _fold(self, op: Op, which: Numbers) -> None:
        if not len(which):
            return
        numbers, new = self.numbers[which], self._contributions(op, which)
        held = self._state.words[numbers]
        words = folds.fold(op.code, held, new)
        if op == SUM32:
            self.slots["flags"][which[folds.overflows(held, new.payload, words)]] |= p4.FLAG_OVERFLOW
        self._state.words[numbers, : words.shape[1]] = words

    def _contributions(self, op: Op, which: Numbers) -> folds.Contributions:
        rows = self._batch.rows[self.rows[which], HEADER_BYTES:][:, : op.up.words * WORD_BYTES]
        payload = rows.reshape(len(which), -1, WORD_BYTES)
        trimmed = np.flatnonzero(self._trimmed[which])
        if len(trimmed):
            payload[trimmed, p4.THC_WORDS_TRIMMED :] = folds.FILL
        slots = self.slots[which]
        keys = draws.keys(self._state.seed, self.numbers[which], slots["round"], slots["count"])
        return folds.Contributions(payload, self._jobs["coefficients"][which], slots["count"], keys)

    def _close_votes(self, which: Numbers) -> None:
        if len(which):
            numbers = self.numbers[which]
            won = folds.votes(self._state.words[numbers], self.slots["count"][which])
            self._state.words[numbers, : p4.VOTE_WORDS_DOWN] = won

    def _close_cut(self, which: Numbers) -> None:
        """Cut the results of slots that trimmed packets close: a whole result has no room in so short a packet."""
        self._state.words[self.numbers[which], p4.THC_WORDS_CUT :] = folds.FILL
        self.slots["cut"][which] |= p4.CUT_RESULT
