# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which replies a batch of packets gets, and what is in them, in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.aggregator import folds, marks
from sumwire.aggregator.admission import DOWN_WORDS, are_hellos, lost_planes
from sumwire.aggregator.batches import WORDS_BYTES, Batch, Replies
from sumwire.aggregator.state import State
from sumwire.wire.authentication.reference import tags_of
from sumwire.wire.header import HEADER_BYTES, WORD_BYTES
from sumwire.wire.packets import chunks_of, cuts_of, first_byte, headers

Numbers = NDArray[np.intp]
# All workers get the result.
CLOSES = (p4.VERDICT_LAST, p4.VERDICT_FLUSH)
_ANSWERED = (*CLOSES, p4.VERDICT_DUPLICATE, p4.VERDICT_STALE, p4.VERDICT_INFORM)
# Kinds of replies, by verdict.
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
        source, seat = self._receivers(rows, verdicts)
        replies.count = len(source)
        asked, slots = self._records[rows[source]], slots[source]
        _write_headers(replies, asked, slots, seat, _KINDS[verdicts[rows[source]]])
        _introduce(replies, asked, self._state.jobs[self._index[rows[source]]])
        replies.tos[: len(source)] = self._tos[rows[source]] & marks.PRIORITY_BITS | p4.ECN_ECT
        replies.payloads[: len(words), :WORDS_BYTES] = words.reshape(len(words), WORDS_BYTES)
        replies.payload_of[: len(source)] = source
        _authenticate(replies, self._state.jobs, self._index[rows[source]])
        replies.places[: len(source)] = self._state.jobs["places"][self._index[rows[source]], seat]

    def _receivers(self, rows: Numbers, verdicts: NDArray[np.uint8]) -> tuple[Numbers, Numbers]:
        """For each reply the packet that it answers, as a place in ``rows``, and the receiver's seat."""
        workers = self._state.jobs["places"][self._index[rows]] >= 0
        sender = np.arange(p4.JOB_WORKERS_MAX) == self._records["worker"][rows][:, None]
        source, seat = np.nonzero(np.where(np.isin(verdicts[rows], CLOSES)[:, None], workers, sender))
        return source, seat


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
    closed = (kinds == p4.KIND_INFORM) & (slots["closed"] != 0)
    heads["flags"] |= np.where(closed, p4.FLAG_CLOSED, 0).astype(np.uint8)
    heads["cut_chunk"] = np.where(stale, 0, slots["cut"]).astype(np.uint32) << _CHUNK_BITS | chunks_of(asked)
    words = np.where(lost_planes(asked), p4.THC_WORDS_CUT, DOWN_WORDS[asked["op"]])
    heads["words"] = np.where(kinds == p4.KIND_RESULT, words, 0)
    replies.sizes[: replies.count] = HEADER_BYTES + heads["words"].astype(np.uint32) * WORD_BYTES


def _authenticate(replies: Replies, jobs: NDArray[Any], index: NDArray[np.int32]) -> None:
    """Write tags behind the payloads of replies for jobs with a key. ``index``: the job of each reply."""
    keyed = np.flatnonzero(jobs["key"]["present"][index])
    for size, number in sorted({(int(replies.sizes[row]), int(index[row])) for row in keyed}):
        which = keyed[(replies.sizes[keyed] == size) & (index[keyed] == number)]
        payloads, words = replies.payload_of[which], size - HEADER_BYTES
        tags = tags_of(jobs["key"][number], replies.heads[which], replies.payloads[payloads, :words])
        replies.payloads[payloads, words : words + p4.TAG_BYTES] = tags.astype(">u8").view(np.uint8).reshape(-1, 8)
    replies.sizes[keyed] += np.uint32(p4.TAG_BYTES)


def _introduce(replies: Replies, asked: NDArray[Any], jobs: NDArray[Any]) -> None:
    """Write what HELLOs are told beside the slot's state: the digest of the job, its generation and the program's
    revision."""
    which = np.flatnonzero(are_hellos(asked))
    heads, digests = headers(replies.heads), jobs["digest"]
    heads["token"][which] = jobs["generation"][which]
    heads["bucket"][which] = digests[which] >> np.uint32(16)
    cut = cuts_of(heads[which]).astype(np.uint32) << _CHUNK_BITS
    heads["cut_chunk"][which] = cut | p4.PROGRAM_REVISION << 16 | digests[which] & np.uint32(0xFFFF)
