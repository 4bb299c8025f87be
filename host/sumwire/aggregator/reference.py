# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The slot protocol in numpy: what the C kernel does, for machines without a compiler, and its tests' other side.

Packets of one slot must be taken in the order they came. So a batch is gone through in turns: in the first every slot's
first packet, in the second every slot's second, and so on; within a turn all slots are worked on at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.aggregator import draws, folds, marks
from sumwire.aggregator.admission import DOWN_WORDS, lost_planes, refusals
from sumwire.aggregator.batches import Batch, Replies
from sumwire.aggregator.state import State
from sumwire.wire.header import HEADER_BYTES, WORD_BYTES
from sumwire.wire.packets import OP_WORDS, chunks_of, first_byte, headers

Numbers = NDArray[np.intp]
_FOLDS = (p4.VERDICT_FIRST, p4.VERDICT_ADD, p4.VERDICT_LAST)
_CLOSES = (p4.VERDICT_LAST, p4.VERDICT_FLUSH)
_ANSWERS = (*_CLOSES, p4.VERDICT_DUPLICATE, p4.VERDICT_STALE, p4.VERDICT_INFORM)
# What a contribution's flags say that holds of the whole sum.
_EARNED_BELOW = p4.FLAG_INCOMPLETE | p4.FLAG_OVERFLOW | p4.FLAG_TRIMMED | p4.FLAG_CE | p4.FLAG_MISSING
# Of replies, by verdict.
_KINDS = np.full(p4.VERDICTS, p4.KIND_RESULT, np.uint8)
_KINDS[[p4.VERDICT_STALE, p4.VERDICT_INFORM]] = p4.KIND_STALE, p4.KIND_INFORM
_LOST_PLANES = p4.THC_INDEX_PLANES - p4.THC_WORDS_TRIMMED
_HALF_CIRCLE = 1 << 31
# Above it in a header is `cut`.
_CHUNK_BITS = dict(p4.SUMWIRE_FIELDS)["chunk"]


def process(state: State, batch: Batch, now: float, replies: Replies) -> None:
    """Take in a batch; afterwards ``replies`` has what it leads to, in the packets' order."""
    batch = batch.only()
    reasons, index = refusals(state, batch)
    admitted = np.flatnonzero(reasons == p4.REJECT_NONE)
    state.shared.heard_at[index[admitted]] = now
    verdicts = np.full(batch.count, p4.VERDICT_REJECT, np.uint8)
    records = headers(batch.rows)
    answers = _Answers(state, batch, index)
    slots = state.jobs["first_slot"][index[admitted]] + records["slot"][admitted]
    for turn in _turns(slots):
        rows = admitted[turn]
        step = _Step(state, batch, rows, index[rows])
        step.run()
        verdicts[rows] = step.verdicts
        reasons[rows[step.verdicts == p4.VERDICT_REJECT]] = p4.REJECT_SLOT_OP
        answers.note(step)
    state.verdicts += np.bincount(verdicts, minlength=p4.VERDICTS).astype(np.uint64)
    refused = reasons[verdicts == p4.VERDICT_REJECT]
    state.rejects += np.bincount(refused, minlength=p4.REJECTS).astype(np.uint64)
    answers.write(verdicts, replies)


def _turns(slots: NDArray[Any]) -> Iterator[Numbers]:
    """Places of every slot's first packet, of every slot's second, and so on."""
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
    """Packets of different slots; arrays are of shape (n,) if nothing else is said."""

    def __init__(self, state: State, batch: Batch, rows: Numbers, index: NDArray[np.int32]) -> None:
        self._state, self._batch = state, batch
        self.rows = rows
        self._packets = headers(batch.rows)[rows]
        self._jobs = state.jobs[index]
        self._probes = self._packets["version_kind"] & 0xF == p4.KIND_PROBE
        self._trimmed = lost_planes(self._packets)
        self._numbers = self._jobs["first_slot"] + self._packets["slot"]
        self._generations = state.shared.generations[index]
        self.slots = state.slots[self._numbers]
        self._fresh = np.zeros(len(rows), np.bool_)
        self.verdicts = np.zeros(len(rows), np.uint8)

    def run(self) -> None:
        """Comes to the verdicts, and leaves slots and words as they are afterwards."""
        self._decide()
        folding = np.isin(self.verdicts, _FOLDS)
        changed = folding | (self.verdicts == p4.VERDICT_FLUSH)
        self._take_in(folding)
        closing = np.isin(self.verdicts, _CLOSES)
        self.slots["closed"][closing] = 1
        left_out = np.where(self._packets["contributors"] == 0, p4.FLAG_INCOMPLETE, p4.FLAG_MISSING).astype(np.uint8)
        self.slots["flags"] |= np.where(self.verdicts == p4.VERDICT_FLUSH, left_out, 0).astype(np.uint8)
        self._close_votes(np.flatnonzero(closing & (self._packets["op"] == p4.OP_VOTE)))
        self._close_cut(np.flatnonzero(closing & self._trimmed))
        self._state.slots[self._numbers[changed]] = self.slots[changed]

    def words(self, which: NDArray[np.bool_]) -> folds.Planes:
        """The words of some of the slots, as they are now."""
        return np.asarray(self._state.words[self._numbers[which]])

    def _decide(self) -> None:
        slots, packets = self.slots, self._packets
        # Serial-number arithmetic (RFC 1982): newer by less than half the circle.
        ahead = packets["round"].astype(np.uint32) - slots["round"]
        self._fresh = (slots["owner"] != self._generations) | ((ahead != 0) & (ahead < _HALF_CIRCLE))
        older = ~self._fresh & (ahead != 0)
        self._forget()
        bit = np.uint32(1) << packets["worker"].astype(np.uint32)
        # A flush names the fewest contributions that its sender is content with; 0 is any number.
        flush = (packets["flags"] & p4.FLAG_FLUSH != 0) & (slots["count"] >= packets["contributors"])
        last = slots["count"] + np.uint32(1) >= self._jobs["quorum"]
        rules = [
            (older, p4.VERDICT_STALE),
            (slots["op"] != packets["op"], p4.VERDICT_REJECT),
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

    def _too_short(self) -> NDArray[np.bool_]:
        """A packet without its low planes gets the result only where that has lost them as well, else comes again."""
        whole = self.slots["cut"] & p4.CUT_RESULT == 0
        return np.asarray((self.slots["closed"] != 0) & self._trimmed & whole)

    def _forget(self) -> None:
        """Slots that are another owner's, or of an older round, are as new."""
        fresh = self._fresh
        self.slots[fresh] = 0
        self.slots["owner"][fresh] = self._generations[fresh]
        self.slots["round"][fresh] = self._packets["round"][fresh]
        self.slots["op"][fresh] = self._packets["op"][fresh]

    def _take_in(self, folding: NDArray[np.bool_]) -> None:
        slots, packets = self.slots[folding], self._packets[folding]
        slots["contributors"] |= np.uint32(1) << packets["worker"].astype(np.uint32)
        slots["count"] += 1
        slots["flags"] |= packets["flags"] & _EARNED_BELOW
        marked = self._batch.tos[self.rows[folding]] & marks.ECN_BITS == p4.ECN_CE
        slots["flags"] |= np.where(marked, p4.FLAG_CE, 0).astype(np.uint8)
        slots["cut"] += np.where(self._trimmed[folding], _LOST_PLANES, 0).astype(np.uint8)
        self.slots[folding] = slots
        for op in OP_WORDS:
            of_op = folding & (self._packets["op"] == op)
            self._start(op, np.flatnonzero(of_op & self._fresh))
            self._fold(op, np.flatnonzero(of_op & ~self._fresh))

    def _payload(self, op: int, which: Numbers) -> folds.Planes:
        rows = self._batch.rows[self.rows[which], HEADER_BYTES:][:, : OP_WORDS[op][0] * WORD_BYTES]
        words = rows.reshape(len(which), -1, WORD_BYTES)
        trimmed = np.flatnonzero(self._trimmed[which])
        if len(trimmed):
            words[trimmed, p4.THC_WORDS_TRIMMED :] = folds.FILL
        return words

    def _start(self, op: int, which: Numbers) -> None:
        if not len(which):
            return
        words = folds.start(op, self._payload(op, which), self._jobs["coefficients"][which])
        self._state.words[self._numbers[which], : words.shape[1]] = words

    def _fold(self, op: int, which: Numbers) -> None:
        if not len(which):
            return
        added, numbers = self._payload(op, which), self._numbers[which]
        held = self._state.words[numbers]
        if op == p4.OP_THC:
            words = folds.add_planes(held, folds.look_up(added, self._jobs["coefficients"][which]), 1)
        elif op == p4.OP_VOTE:
            words = folds.add_planes(held, folds.count_votes(added), folds.VOTE_COUNTERS)
        elif op == p4.OP_SUM32:
            words, left = folds.add_lanes(held, added)
            self.slots["flags"][which[left]] |= p4.FLAG_OVERFLOW
        elif op == p4.OP_SIGN:
            words = folds.merge_signs(held, added, self._keys(which), self.slots["count"][which])
        else:
            words = folds.keep_larger(held[:, : p4.MAX32_WORDS], added)
        self._state.words[numbers, : words.shape[1]] = words

    def _keys(self, which: Numbers) -> draws.Words:
        slots = self.slots[which]
        return draws.keys(self._state.seed, slots["owner"], self._numbers[which], slots["round"], slots["count"])

    def _close_votes(self, which: Numbers) -> None:
        if len(which):
            numbers = self._numbers[which]
            won = folds.votes(self._state.words[numbers], self.slots["count"][which])
            self._state.words[numbers, : p4.VOTE_WORDS_DOWN] = won

    def _close_cut(self, which: Numbers) -> None:
        """A switch has no room to make a whole result of so short a packet: all get the top planes, whoever asks."""
        self._state.words[self._numbers[which], p4.THC_WORDS_CUT :] = folds.FILL
        self.slots["cut"][which] |= p4.CUT_RESULT


class _Answers:
    """What is to be said to whom, noted turn by turn: the slots change again in later ones."""

    def __init__(self, state: State, batch: Batch, index: NDArray[np.int32]) -> None:
        self._state, self._index = state, index
        self._records, self._tos = headers(batch.rows), batch.tos
        self._slots: list[NDArray[Any]] = []
        self._words: list[folds.Planes] = []
        self._rows: list[Numbers] = []

    def note(self, step: _Step) -> None:
        answered = np.isin(step.verdicts, _ANSWERS)
        self._rows.append(step.rows[answered])
        self._slots.append(step.slots[answered])
        self._words.append(step.words(answered))

    def write(self, verdicts: NDArray[np.uint8], replies: Replies) -> None:
        """Fill ``replies``, given the verdicts on the whole batch."""
        replies.count = 0
        if not self._rows:
            return
        rows = np.concatenate(self._rows)
        order = np.argsort(rows)
        rows, slots = rows[order], np.concatenate(self._slots)[order]
        words = np.concatenate(self._words)[order]
        source, seat = self._receivers(rows, verdicts)
        replies.count = len(source)
        asked, slots = self._records[rows[source]], slots[source]
        _write_headers(replies, asked, slots, seat, _KINDS[verdicts[rows[source]]])
        replies.tos[: len(source)] = self._tos[rows[source]] & marks.PRIORITY_BITS | p4.ECN_ECT
        replies.rows[: len(source), HEADER_BYTES:] = words[source].reshape(len(source), p4.SLOT_WORDS * WORD_BYTES)
        replies.places[: len(source)] = self._state.jobs["places"][self._index[rows[source]], seat]

    def _receivers(self, rows: Numbers, verdicts: NDArray[np.uint8]) -> tuple[Numbers, Numbers]:
        """For each reply the answered packet it is from, by place in ``rows``, and the receiver's seat."""
        workers = self._state.jobs["places"][self._index[rows]] >= 0
        sender = np.arange(p4.JOB_WORKERS_MAX) == self._records["worker"][rows][:, None]
        source, seat = np.nonzero(np.where(np.isin(verdicts[rows], _CLOSES)[:, None], workers, sender))
        return source, seat


def _write_headers(
    replies: Replies, asked: NDArray[Any], slots: NDArray[Any], seat: Numbers, kinds: NDArray[np.uint8]
) -> None:
    heads = headers(replies.rows)[: replies.count]
    for name in ("op", "job", "slot", "bucket"):
        heads[name] = asked[name]
    heads["version_kind"] = first_byte(0) | kinds
    heads["worker"] = seat
    heads["round"] = slots["round"]
    stale = kinds == p4.KIND_STALE
    for name in ("count", "contributors", "flags"):
        heads[name] = np.where(stale, 0, slots[name])
    closed = (kinds == p4.KIND_INFORM) & (slots["closed"] != 0)
    heads["flags"] |= np.where(closed, p4.FLAG_CLOSED, 0).astype(np.uint8)
    heads["cut_chunk"] = np.where(stale, 0, slots["cut"]).astype(np.uint32) << _CHUNK_BITS | chunks_of(asked)
    words = np.where(lost_planes(asked), p4.THC_WORDS_CUT, DOWN_WORDS[asked["op"]])
    heads["words"] = np.where(kinds == p4.KIND_RESULT, words, 0)
    replies.sizes[: replies.count] = HEADER_BYTES + heads["words"].astype(np.uint32) * WORD_BYTES
