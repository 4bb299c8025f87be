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
from sumwire_protocol.ops import SHORT_OPS, SUM32, Op

from sumwire.aggregator import batches, folds
from sumwire.aggregator.admission import (
    DOWN_WORDS,
    PARTIAL_WORDS,
    UP_WORDS,
    are_hellos,
    from_above,
    lost_planes,
    refusals,
)
from sumwire.aggregator.batches import WORDS_BYTES, Batch, Replies
from sumwire.aggregator.state import State
from sumwire.wire.authentication import tags_of
from sumwire.wire.messages import are_marked
from sumwire.wire.packets import HEADER_BYTES, WORD_BYTES, chunks_of, cuts_of, first_byte, headers

Numbers = NDArray[np.intp]
# The slot is complete: all workers get the result, or the aggregator above the partial one.
CLOSES = (p4.VERDICT_LAST, p4.VERDICT_FLUSH)
# What the aggregator above has sent goes on to all workers.
_GOES_ON = (p4.VERDICT_DOWN, p4.VERDICT_RELAY)
_TO_SENDER = (p4.VERDICT_DUPLICATE, p4.VERDICT_STALE, p4.VERDICT_INFORM)
_ANSWERED = (*CLOSES, *_GOES_ON, *_TO_SENDER, p4.VERDICT_ASK)
# Kinds of replies to workers, by verdict. A RELAY is of the kind that it passes on.
_KINDS = np.full(p4.VERDICTS, p4.KIND_RESULT, np.uint8)
_KINDS[[p4.VERDICT_STALE, p4.VERDICT_INFORM]] = p4.KIND_STALE, p4.KIND_INFORM
# Above the chunk's number in a header is `cut`.
_CHUNK_BITS = dict(p4.SUMWIRE_FIELDS)["chunk"]


class ReferenceReplies:
    """Collects the replies to one batch. Each turn is noted on its own, because later turns change the slots again."""

    def __init__(self, state: State, batch: Batch, index: NDArray[np.int32]) -> None:
        self._state, self._index = state, index
        self._records, self._tos = headers(batch.rows), batch.tos
        self._slots: list[NDArray[Any]] = []
        self._words: list[folds.Planes] = []
        self._rows: list[Numbers] = []

    def note(self, rows: Numbers, verdicts: NDArray[np.uint8], slots: NDArray[Any], numbers: NDArray[Any]) -> None:
        """Record one turn: its packets' rows and verdicts, a copy of their slots' present contents, and the slots'
        numbers."""
        answered = np.isin(verdicts, _ANSWERED)
        self._rows.append(rows[answered])
        self._slots.append(slots[answered])
        self._words.append(np.asarray(self._state.words[numbers[answered]]))

    def write(self, verdicts: NDArray[np.uint8], replies: Replies) -> None:
        """Fill ``replies``, given the verdicts of the whole batch."""
        replies.count = 0
        if not self._rows:
            return
        rows = np.concatenate(self._rows)
        order = np.argsort(rows)
        rows, slots = rows[order], np.concatenate(self._slots)[order]
        words = np.concatenate(self._words)[order]
        upward = self._go_up(rows, verdicts)
        source, seat = self._receivers(rows, verdicts, upward)
        replies.count = len(source)
        up, index, answered = upward[source], self._index[rows[source]], verdicts[rows[source]]
        asked, slots = self._records[rows[source]], slots[source]
        _write_headers(replies, asked, slots, seat, _KINDS[answered])
        _write_partials(replies, asked, np.flatnonzero(up), answered == p4.VERDICT_ASK)
        _pass_on(replies, asked, np.flatnonzero(answered == p4.VERDICT_RELAY))
        _introduce(replies, asked, self._state.jobs["digest"][index], self._state.jobs["generation"][index])
        replies.tos[: len(source)] = self._tos[rows[source]] & batches.PRIORITY_BITS | p4.ECN_ECT
        votes = upward & (self._records["op"][rows] == p4.OP_VOTE)
        words[votes, : p4.VOTE_WORDS_PARTIAL] = folds.counters_passed(words[votes])
        replies.payloads[: len(words), :WORDS_BYTES] = words.reshape(len(words), WORDS_BYTES)
        replies.payload_of[: len(source)] = source
        _authenticate(replies, self._state.jobs, index, up)
        places, above = self._state.jobs["places"][index, seat], self._state.jobs["above"][index]
        replies.places[: len(source)] = np.where(up, above, places)

    def _go_up(self, rows: Numbers, verdicts: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Which rows make their slot's partial result go to the parent aggregator, (n,)."""
        closes = np.isin(verdicts[rows], CLOSES) & (self._state.jobs["above"][self._index[rows]] >= 0)
        return np.asarray(closes | (verdicts[rows] == p4.VERDICT_ASK))

    def _receivers(
        self, rows: Numbers, verdicts: NDArray[np.uint8], upward: NDArray[np.bool_]
    ) -> tuple[Numbers, Numbers]:
        """For each reply: the packet that it answers (an index into ``rows``), and the receiver's seat (for the parent
        aggregator this one's own seat there)."""
        index = self._index[rows]
        workers = self._state.jobs["places"][index] >= 0
        single = np.where(upward, self._state.jobs["above_seat"][index], self._records["worker"][rows])
        to_all = np.isin(verdicts[rows], (*CLOSES, *_GOES_ON)) & ~upward
        alone = np.arange(p4.JOB_WORKERS_MAX) == single[:, None]
        source, seat = np.nonzero(np.where(to_all[:, None], workers, alone))
        return source, seat


def _write_partials(replies: Replies, asked: NDArray[Any], which: Numbers, asks: NDArray[np.bool_]) -> None:
    """Turn the replies ``which`` into contributions to the parent aggregator.

    One that is sent again (``asks``) keeps the FLUSH flag only if the flush names no least number of contributors: the
    number in this slot says nothing about the whole tree.
    """
    heads, asked, asks = headers(replies.heads), asked[which], asks[which]
    flush = np.where(asks & (asked["contributors"] == 0), asked["flags"] & p4.FLAG_FLUSH, 0).astype(np.uint8)
    heads["version_kind"][which], heads["contributors"][which] = first_byte(p4.KIND_CONTRIBUTE), 0
    heads["flags"][which] |= flush
    heads["words"][which] = PARTIAL_WORDS[asked["op"]]
    replies.sizes[which] = HEADER_BYTES + heads["words"][which].astype(np.uint32) * WORD_BYTES


def _pass_on(replies: Replies, asked: NDArray[Any], which: Numbers) -> None:
    """Copy notices of the parent aggregator unchanged."""
    heads = headers(replies.heads)
    for name in ("version_kind", "round", "count", "contributors", "flags", "cut_chunk", "words"):
        heads[name][which] = asked[name][which]
    replies.sizes[which] = HEADER_BYTES


def _write_headers(
    replies: Replies, asked: NDArray[Any], slots: NDArray[Any], seat: Numbers, kinds: NDArray[np.uint8]
) -> None:
    heads = headers(replies.heads)[: replies.count]
    for name in ("op", "job", "slot", "bucket", "token"):
        heads[name] = asked[name]
    heads["version_kind"] = first_byte(0) | kinds
    heads["worker"] = seat
    heads["round"] = slots["round"]
    stale = kinds == p4.KIND_STALE
    for name in ("count", "contributors", "flags"):
        heads[name] = np.where(stale, 0, slots[name])
    closed = (kinds == p4.KIND_INFORM) & (slots["phase"] == p4.PHASE_CLOSED)
    heads["flags"] |= np.where(closed, p4.FLAG_CLOSED, 0).astype(np.uint8)
    heads["cut_chunk"] = np.where(stale, 0, slots["cut"]).astype(np.uint32) << _CHUNK_BITS | chunks_of(asked)
    # What comes down goes on in as many words.
    comes_down = asked["version_kind"] & 0xF == p4.KIND_RESULT
    words = np.where(comes_down, asked["words"], DOWN_WORDS[asked["op"]])
    words = np.where(lost_planes(asked), p4.THC_WORDS_CUT, words)
    heads["words"] = np.where(kinds == p4.KIND_RESULT, words, 0)
    replies.sizes[: replies.count] = HEADER_BYTES + heads["words"].astype(np.uint32) * WORD_BYTES


def _authenticate(replies: Replies, jobs: NDArray[Any], index: NDArray[np.int32], up: NDArray[np.bool_]) -> None:
    """Write tags behind the payloads of replies for jobs with a key. ``index``: the job of each reply, ``up``: whether
    it is for the aggregator above. A REFUSED has none."""
    kinds = headers(replies.heads)["version_kind"][: replies.count] & 0xF
    keyed = np.flatnonzero((jobs["key"]["present"][index] != 0) & (kinds != p4.KIND_REFUSED))
    for size, number, above in sorted({(int(replies.sizes[row]), int(index[row]), bool(up[row])) for row in keyed}):
        which = keyed[(replies.sizes[keyed] == size) & (index[keyed] == number) & (up[keyed] == above)]
        payloads, words = replies.payload_of[which], size - HEADER_BYTES
        key = jobs["above_key" if above else "key"][number]
        tags = tags_of(key, replies.heads[which], replies.payloads[payloads, :words])
        replies.payloads[payloads, words : words + p4.TAG_BYTES] = tags.astype(">u8").view(np.uint8).reshape(-1, 8)
    replies.sizes[keyed] += np.uint32(p4.TAG_BYTES)


def _introduce(
    replies: Replies, asked: NDArray[Any], digests: NDArray[np.uint32], generations: NDArray[np.uint32]
) -> None:
    """Write what answers to HELLOs carry beside the slot's state: the job's digest and generation, and the revision of
    the program."""
    which = np.flatnonzero(are_hellos(asked))
    heads = headers(replies.heads)
    heads["token"][which] = generations[which]
    heads["bucket"][which] = digests[which] >> np.uint32(16)
    cut = cuts_of(heads[which]).astype(np.uint32) << _CHUNK_BITS
    heads["cut_chunk"][which] = cut | p4.PROGRAM_REVISION << 16 | digests[which] & np.uint32(0xFFFF)


_FOLDS = (p4.VERDICT_FIRST, p4.VERDICT_ADD, p4.VERDICT_LAST)
# Flags of a contribution that become flags of the result.
_FLAGS_KEPT = p4.FLAG_INCOMPLETE | p4.FLAG_OVERFLOW | p4.FLAG_TRIMMED | p4.FLAG_CE | p4.FLAG_MISSING
_LOST_PLANES = p4.THC_INDEX_PLANES - p4.THC_WORDS_TRIMMED
_HALF_CIRCLE = 1 << 31
_ALL = slice(None)


def process(state: State, batch: Batch, replies: Replies) -> None:
    """Process a batch. Afterwards ``replies`` has the replies, in the order of the packets they answer."""
    batch = batch.only()
    reasons, index = refusals(state, batch)
    admitted = np.flatnonzero(reasons == p4.REJECT_NONE)
    verdicts = np.full(batch.count, p4.VERDICT_REJECT, np.uint8)
    records = headers(batch.rows)
    answers = ReferenceReplies(state, batch, index)
    slots = state.jobs["first_slot"][index[admitted]] + records["slot"][admitted]
    for turn in _turns(slots):
        rows = admitted[turn]
        step = _SlotTurn(state, batch, rows, index[rows])
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


class _SlotTurn:
    """One turn: n packets of n different slots. Arrays are of shape (n,)."""

    def __init__(self, state: State, batch: Batch, rows: Numbers, index: NDArray[np.int32]) -> None:
        self._state, self._batch = state, batch
        self.rows = rows
        self._index = index
        self._packets = headers(batch.rows)[rows]
        self._kinds = self._packets["version_kind"] & 0xF
        self._probes = self._kinds == p4.KIND_PROBE
        self._above = from_above(self._packets)
        self._results = self._kinds == p4.KIND_RESULT
        self._has_above = self._job("above") >= 0
        self._partial = self._are_partial()
        self._hellos = are_hellos(self._packets)
        self._trimmed = lost_planes(self._packets)
        has_run = self._packets["token"] >= p4.TOKENS_OF_RUNS
        self._opens = has_run & (self._packets["bucket"] == p4.BUCKET_OPENS_RUN)
        self._of_run = has_run & ~self._opens & ~self._hellos & (~self._above | self._results)
        self.numbers = self._job("first_slot") + self._packets["slot"]
        self.slots = state.slots[self.numbers]
        self._fresh = np.zeros(len(rows), np.bool_)
        self.verdicts = np.zeros(len(rows), np.uint8)
        # Why slots refuse packets.
        self.reasons = np.full(len(rows), p4.REJECT_NONE, np.uint8)

    def _job(self, name: str, which: Numbers | slice = _ALL) -> NDArray[Any]:
        """A field of the packets' jobs. Records of jobs are long, so they are not copied whole."""
        return np.asarray(self._state.jobs[name][self._index[which]])

    def run(self) -> None:
        """Decide on the verdicts, and update slots and words."""
        self._decide()
        folding, down = np.isin(self.verdicts, _FOLDS), self.verdicts == p4.VERDICT_DOWN
        changed = folding | down | (self.verdicts == p4.VERDICT_FLUSH)
        self._take_in(folding)
        self._take_down(np.flatnonzero(down))
        closing = np.isin(self.verdicts, CLOSES)
        self.slots["phase"][closing] = np.where(self._has_above, p4.PHASE_WAITING, p4.PHASE_CLOSED)[closing]
        self._open_runs(np.flatnonzero((closing | down) & self._opens))
        flushed = np.where(self._packets["contributors"] == 0, p4.FLAG_INCOMPLETE, p4.FLAG_MISSING).astype(np.uint8)
        self.slots["flags"] |= np.where(self.verdicts == p4.VERDICT_FLUSH, flushed, 0).astype(np.uint8)
        self._close_votes(np.flatnonzero(closing & ~self._has_above & (self._packets["op"] == p4.OP_VOTE)))
        self._close_cut(np.flatnonzero(closing & self._trimmed))
        self._state.slots[self.numbers[changed]] = self.slots[changed]

    def _decide(self) -> None:
        slots, packets = self.slots, self._packets
        # Serial-number arithmetic (RFC 1982): newer by less than half the circle.
        ahead = packets["round"].astype(np.uint32) - slots["round"]
        newer = (ahead != 0) & (ahead < _HALF_CIRCLE) & ~self._hellos
        others = self._of_run & (slots["token"] != packets["token"])
        begins = (slots["used"] == 0) | newer
        # In a tree a round may be any newer one: the workers may have results from others that this aggregator missed.
        self._refuse_runs(others, begins, newer & (ahead != 1) & (self._job("in_tree") == 0))
        older = ~begins & (ahead != 0) & (self.reasons == p4.REJECT_NONE)
        self._refuse_generations(begins)
        refused, notices = self.reasons != p4.REJECT_NONE, self._above & ~self._results
        passes = self._pass_on(begins, ahead == 0)
        self._fresh = begins & ~refused & ~notices
        self._forget()
        call = (slots["op"] != packets["op"]) | (slots["bucket"] != packets["bucket"])
        call |= slots["token"] != packets["token"]
        self.reasons[~refused & ~older & ~self._hellos & ~notices & call] = p4.REJECT_CALL
        bit = np.uint32(1) << packets["worker"].astype(np.uint32)
        # A flush names the fewest contributions that are enough for its sender; 0 is any number.
        arrived = self._arrived()
        flush = (packets["flags"] & p4.FLAG_FLUSH != 0) & (arrived >= packets["contributors"])
        last = arrived + np.uint32(1) >= self._quorums()
        closed = slots["phase"] == p4.PHASE_CLOSED
        rules = [
            (self._hellos & (self._job("in_doubt") != 0), p4.VERDICT_KNOWN),
            (self._hellos, p4.VERDICT_INFORM),
            (passes, p4.VERDICT_RELAY),
            (notices | self._results & older, p4.VERDICT_KNOWN),
            (older, p4.VERDICT_STALE),
            (self.reasons != p4.REJECT_NONE, p4.VERDICT_REJECT),
            (self._results & closed, p4.VERDICT_KNOWN),
            (self._results, p4.VERDICT_DOWN),
            (self._probes, p4.VERDICT_INFORM),
            (self._too_short(), p4.VERDICT_INFORM),
            (closed, p4.VERDICT_DUPLICATE),
            (slots["phase"] == p4.PHASE_WAITING, p4.VERDICT_ASK),
            ((slots["contributors"] & bit != 0) & flush, p4.VERDICT_FLUSH),
            (slots["contributors"] & bit != 0, p4.VERDICT_REPEAT),
            (last, p4.VERDICT_LAST),
            (self._fresh, p4.VERDICT_FIRST),
        ]
        self.verdicts = np.select([rule for rule, _ in rules], [verdict for _, verdict in rules], p4.VERDICT_ADD)
        self.verdicts = self.verdicts.astype(np.uint8)

    def _pass_on(self, begins: NDArray[np.bool_], level: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which notices of the parent aggregator are relayed to the workers, (n,): a STALE of a newer round, and a
        REFUSED of the slot's round while there is no result. ``begins``: of a newer round than the slot's, ``level``:
        of the same."""
        waits = self.slots["phase"] != p4.PHASE_CLOSED
        stale, refused = self._kinds == p4.KIND_STALE, self._kinds == p4.KIND_REFUSED
        return np.asarray(stale & begins | refused & ~begins & level & waits)

    def _arrived(self) -> NDArray[np.uint32]:
        """How many contributions are in each slot, each of a worker or of all below a lower aggregator."""
        octets = np.ascontiguousarray(self.slots["contributors"]).view(np.uint8).reshape(-1, 4)
        return np.asarray(np.unpackbits(octets, axis=1).sum(axis=1, dtype=np.uint32))

    def _are_partial(self) -> NDArray[np.bool_]:
        """Which packets hold sums or counters of a lower aggregator where a host's would hold indices or votes,
        (n,)."""
        op, seat = self._packets["op"], self._packets["worker"].astype(np.uint32)
        lower = self._job("lower") >> np.minimum(seat, np.uint32(p4.JOB_WORKERS_MAX - 1)) & 1 != 0
        return np.asarray(lower & (UP_WORDS[op] != PARTIAL_WORDS[op]))

    def _refuse_runs(self, others: NDArray[np.bool_], begins: NDArray[np.bool_], far: NDArray[np.bool_]) -> None:
        """Refuse packets for their run. ``others``: whose slot has another run's. ``begins``: which are of a newer
        round than their slot's, ``far``: of a newer one than its next."""
        packets, runs = self._packets, self._state.shared.runs[self._index]
        ahead = packets["round"].astype(np.uint32) - runs["round"]
        first = (ahead <= 1) | ((self._job("in_tree") != 0) & (ahead < _HALF_CIRCLE))
        self.reasons[np.where(others, begins & ~first, self._of_run & far)] = p4.REJECT_ROUND
        self.reasons[others & (runs["token"] != packets["token"])] = p4.REJECT_TOKEN

    def _refuse_generations(self, begins: NDArray[np.bool_]) -> None:
        """Refuse packets that greet or open a run for another generation. ``begins``: a new round of the slot."""
        named = np.where(self._opens, self._first_elements(), self._packets["token"])
        named = np.where(self._packets["token"] == p4.TOKEN_NONE, self._job("generation"), named)
        looked_at = begins & ~self._of_run & (self._kinds == p4.KIND_CONTRIBUTE)
        self.reasons[looked_at & (named != self._job("generation"))] = p4.REJECT_TOKEN

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
        named = self._packets["contributors"].astype(np.uint32)
        allowed = (
            (self._job("quorum_least") != 0) & (self._job("quorum_least") <= named) & (named < self._job("quorum"))
        )
        return np.where(allowed & (self._packets["flags"] & p4.FLAG_FLUSH == 0), named, self._job("quorum"))

    def _too_short(self) -> NDArray[np.bool_]:
        """Trimmed packets to a closed slot with a whole result, which has no room in so short a packet."""
        whole = self.slots["cut"] & p4.CUT_RESULT == 0
        return np.asarray((self.slots["phase"] == p4.PHASE_CLOSED) & self._trimmed & whole)

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
        slots["count"] += packets["count"]
        slots["flags"] |= packets["flags"] & _FLAGS_KEPT
        marked = are_marked(self._batch.tos[self.rows[folding]])
        slots["flags"] |= np.where(marked, p4.FLAG_CE, 0).astype(np.uint8)
        slots["cut"] += np.where(self._trimmed[folding], _LOST_PLANES, 0).astype(np.uint8)
        self.slots[folding] = slots
        for op in SHORT_OPS:
            of_op = folding & (self._packets["op"] == op.code)
            for form in (of_op & ~self._partial, of_op & self._partial):
                self._start(op, np.flatnonzero(form & self._fresh))
                self._fold(op, np.flatnonzero(form & ~self._fresh))

    def _take_down(self, which: Numbers) -> None:
        """Results of aggregators above replace what is here. Their contributors are aggregators: a worker is in the
        result if it is in this one's partial result, and this one is in the result."""
        slots, packets = self.slots[which], self._packets[which]
        is_in = packets["contributors"].astype(np.uint32) >> self._job("above_seat", which).astype(np.uint32) & 1
        slots["contributors"] *= is_in
        slots["count"], slots["flags"] = packets["count"], slots["flags"] | packets["flags"]
        slots["cut"], slots["phase"] = cuts_of(packets), p4.PHASE_CLOSED
        self.slots[which] = slots
        words = packets["words"]
        for count in np.unique(words):
            of = which[words == count]
            payload = self._batch.rows[self.rows[of], HEADER_BYTES:][:, : int(count) * WORD_BYTES]
            self._state.words[self.numbers[of], : int(count)] = payload.reshape(len(of), -1, WORD_BYTES)
        cut = which[(packets["op"] == p4.OP_THC) & (words == p4.THC_WORDS_CUT)]
        self._state.words[self.numbers[cut], p4.THC_WORDS_CUT :] = folds.FILL

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
        partial = bool(self._partial[which[0]])
        words = op.partial.words if partial else op.up.words
        rows = self._batch.rows[self.rows[which], HEADER_BYTES:][:, : words * WORD_BYTES]
        payload = rows.reshape(len(which), -1, WORD_BYTES)
        trimmed = np.flatnonzero(self._trimmed[which])
        if len(trimmed):
            payload[trimmed, p4.THC_WORDS_TRIMMED :] = folds.FILL
        slots = self.slots[which]
        keys = folds.merge_keys(self._state.seed, self.numbers[which], slots["round"], slots["count"])
        coefficients, weights = self._job("coefficients", which), self._packets["count"][which]
        return folds.Contributions(payload, coefficients, slots["count"], keys, weights, partial)

    def _close_votes(self, which: Numbers) -> None:
        if len(which):
            numbers = self.numbers[which]
            won = folds.votes(self._state.words[numbers], self.slots["count"][which])
            self._state.words[numbers, : p4.VOTE_WORDS_DOWN] = won

    def _close_cut(self, which: Numbers) -> None:
        """Cut the results of slots that trimmed packets close: a whole result has no room in so short a packet."""
        self._state.words[self.numbers[which], p4.THC_WORDS_CUT :] = folds.FILL
        self.slots["cut"][which] |= p4.CUT_RESULT
