# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Follows packets as they come: which answers which, and which was sent before."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, NamedTuple

from sumwire_protocol import constants as p4

from sumwire.see.packets import Seen

# Questions that are remembered. Those of longest ago are forgotten first.
_REMEMBERED: Final = 1 << 18

SENT, RESENT, ASKED, RESULT, AGAIN, INFORMED, STALE, REFUSED, LOST = (
    "sent", "resent", "asked", "result", "result again", "informed", "stale", "refused", "lost",
)  # fmt: skip
"""What an event is. LOST is only known where both ends of a link are captured (:mod:`sumwire.see.losses`)."""


class Chunk(NamedTuple):
    """A slot's round in one run: at every switch of a tree, and for all workers, the same chunk of a tensor.

    ``round`` is None, and ``token`` 0, for questions about slot 0 whatever its round (HELLO).
    """

    job: int
    slot: int
    round: int | None
    token: int


@dataclass(frozen=True, slots=True)
class Event:
    """One packet of a chunk's life, as seen at one point of capture. ``what``: one of the names above.

    ``worker``: its number at the switch, and ``host`` and ``switch`` the two addresses. ``copy``: which copy of a
    question it is, from 1 on. ``answered``: of a copy, whether the one before had its answer. ``after_s``: seconds
    since the copy before it, or since the question that it answers.
    """

    at_s: float
    point: str
    what: str
    seen: Seen
    copy: int = 1
    answered: bool = False
    after_s: float | None = None

    @property
    def host(self) -> str:
        """The address of the worker."""
        return self.seen.ends.source if self.seen.from_worker else self.seen.ends.target

    @property
    def switch(self) -> str:
        """The address of the switch."""
        return self.seen.ends.target if self.seen.from_worker else self.seen.ends.source


@dataclass(slots=True)
class _Question:
    chunk: Chunk
    latest_s: float
    copies: int = 0
    answered: bool = False
    has_result: bool = False


class Follower:
    """Takes packets in the order in which they were captured. Each point of capture is followed by itself."""

    def __init__(self) -> None:
        self._questions: OrderedDict[tuple[object, ...], _Question] = OrderedDict()

    def take(self, seen: Seen) -> tuple[Chunk, Event]:
        """The chunk that a packet belongs to, and what it is in the chunk's life."""
        return self._question(seen) if seen.from_worker else self._answer(seen)

    def _question(self, seen: Seen) -> tuple[Chunk, Event]:
        chunk = _chunk_of(seen)
        own, by_call = _keys(seen)
        asks = seen.kind
        question = self._questions.get((*own, asks))
        if question is None:
            question = _Question(chunk, seen.at_s)
        # The same question again is a new one once it has its answer.
        if asks == p4.KIND_PROBE and question.answered:
            question.copies = 0
        after_s = seen.at_s - question.latest_s if question.copies else None
        question.copies += 1
        again = question.copies > 1
        what = ASKED if asks == p4.KIND_PROBE else RESENT if again else SENT
        event = Event(seen.at_s, seen.point, what, seen, question.copies, question.answered and again, after_s)
        question.latest_s, question.answered = seen.at_s, False
        for key in (own, by_call):
            self._remember((*key, asks), question)
            self._remember(key, question)
        return chunk, event

    def _answer(self, seen: Seen) -> tuple[Chunk, Event]:
        own, by_call = _keys(seen)
        key = by_call if seen.kind == p4.KIND_STALE else own
        asked = {p4.KIND_RESULT: (p4.KIND_CONTRIBUTE,), p4.KIND_INFORM: (p4.KIND_PROBE,)}.get(seen.kind, ())
        question = self._questions.get((*key, *asked))
        what = _ANSWERS[seen.kind]
        if question is None:
            return _chunk_of(seen), Event(seen.at_s, seen.point, what, seen)
        if what == RESULT and question.has_result:
            what = AGAIN
        question.has_result = question.has_result or what == RESULT
        question.answered = True
        event = Event(seen.at_s, seen.point, what, seen, question.copies, after_s=seen.at_s - question.latest_s)
        return question.chunk, event

    def _remember(self, key: tuple[object, ...], question: _Question) -> None:
        self._questions[key] = question
        self._questions.move_to_end(key)
        if len(self._questions) > _REMEMBERED:
            self._questions.popitem(last=False)


_ANSWERS: Final = {
    p4.KIND_RESULT: RESULT,
    p4.KIND_STALE: STALE,
    p4.KIND_INFORM: INFORMED,
    p4.KIND_REFUSED: REFUSED,
}


def _chunk_of(seen: Seen) -> Chunk:
    if seen.is_hello:
        return Chunk(seen.job, seen.slot, None, 0)
    return Chunk(seen.job, seen.slot, seen.round, seen.token)


def _keys(seen: Seen) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Equal for a question and its answers: with the round, and, as STALE has another, with the call instead."""
    ends = seen.ends
    sides = (ends.source, ends.source_port, ends.target, ends.target_port)
    sides = sides if seen.from_worker else (*sides[2:], *sides[:2])
    who = (seen.point, *sides, seen.job, seen.slot, seen.worker, seen.op)
    if seen.is_hello:
        # Its answer has the job's generation in the token's place.
        return (*who, "hello"), (*who, "hello")
    return (*who, seen.token, "round", seen.round), (*who, seen.token, "call", seen.bucket, seen.chunk)
