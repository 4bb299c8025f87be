# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which replies a batch of packets gets, and what is in them, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.aggregator import folds, marks
from sumwire.aggregator.admission import DOWN_WORDS, PARTIAL_WORDS, are_hellos, lost_planes
from sumwire.aggregator.batches import WORDS_BYTES, Batch, Replies
from sumwire.aggregator.state import State
from sumwire.wire.authentication.reference import tags_of
from sumwire.wire.header import HEADER_BYTES, WORD_BYTES
from sumwire.wire.packets import chunks_of, cuts_of, first_byte, headers

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


class Answers:
    """The replies to one batch. They are noted turn by turn, since slots change again in later turns."""

    def __init__(self, state: State, batch: Batch, index: NDArray[np.int32]) -> None:
        self._state, self._index = state, index
        self._records, self._tos = headers(batch.rows), batch.tos
        self._slots: list[NDArray[Any]] = []
        self._words: list[folds.Planes] = []
        self._rows: list[Numbers] = []

    def note(self, rows: Numbers, verdicts: NDArray[np.uint8], slots: NDArray[Any], numbers: NDArray[Any]) -> None:
        """Note a turn: its packets' rows and verdicts, their slots as they are now, and the slots' numbers."""
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
        replies.tos[: len(source)] = self._tos[rows[source]] & marks.PRIORITY_BITS | p4.ECN_ECT
        votes = upward & (self._records["op"][rows] == p4.OP_VOTE)
        words[votes, : p4.VOTE_WORDS_PARTIAL] = folds.counters_passed(words[votes])
        replies.payloads[: len(words), :WORDS_BYTES] = words.reshape(len(words), WORDS_BYTES)
        replies.payload_of[: len(source)] = source
        _authenticate(replies, self._state.jobs, index, up)
        places, above = self._state.jobs["places"][index, seat], self._state.jobs["above"][index]
        replies.places[: len(source)] = np.where(up, above, places)

    def _go_up(self, rows: Numbers, verdicts: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Whose slots' partial results go to the aggregator above, (n,)."""
        closes = np.isin(verdicts[rows], CLOSES) & (self._state.jobs["above"][self._index[rows]] >= 0)
        return np.asarray(closes | (verdicts[rows] == p4.VERDICT_ASK))

    def _receivers(
        self, rows: Numbers, verdicts: NDArray[np.uint8], upward: NDArray[np.bool_]
    ) -> tuple[Numbers, Numbers]:
        """For each reply the packet that it answers, as a place in ``rows``, and the receiver's seat, or this
        aggregator's own one above."""
        index = self._index[rows]
        workers = self._state.jobs["places"][index] >= 0
        single = np.where(upward, self._state.jobs["above_seat"][index], self._records["worker"][rows])
        to_all = np.isin(verdicts[rows], (*CLOSES, *_GOES_ON)) & ~upward
        alone = np.arange(p4.JOB_WORKERS_MAX) == single[:, None]
        source, seat = np.nonzero(np.where(to_all[:, None], workers, alone))
        return source, seat


def _write_partials(replies: Replies, asked: NDArray[Any], which: Numbers, asks: NDArray[np.bool_]) -> None:
    """What goes up is a contribution. A FLUSH goes along with one that is sent again (``asks``), if any number is
    enough for it: how many are in here says nothing of the whole tree."""
    heads, asked, asks = headers(replies.heads), asked[which], asks[which]
    flush = np.where(asks & (asked["contributors"] == 0), asked["flags"] & p4.FLAG_FLUSH, 0).astype(np.uint8)
    heads["version_kind"][which], heads["contributors"][which] = first_byte(p4.KIND_CONTRIBUTE), 0
    heads["flags"][which] |= flush
    heads["words"][which] = PARTIAL_WORDS[asked["op"]]
    replies.sizes[which] = HEADER_BYTES + heads["words"][which].astype(np.uint32) * WORD_BYTES


def _pass_on(replies: Replies, asked: NDArray[Any], which: Numbers) -> None:
    """Notices of the aggregator above go to each worker as they are."""
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
    """Write what HELLOs are told beside the slot's state: the digest of the job, its generation and the program's
    revision."""
    which = np.flatnonzero(are_hellos(asked))
    heads = headers(replies.heads)
    heads["token"][which] = generations[which]
    heads["bucket"][which] = digests[which] >> np.uint32(16)
    cut = cuts_of(heads[which]).astype(np.uint32) << _CHUNK_BITS
    heads["cut_chunk"][which] = cut | p4.PROGRAM_REVISION << 16 | digests[which] & np.uint32(0xFFFF)
