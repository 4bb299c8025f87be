# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a lower aggregator learns from the one above it: the generation of each job, asked for by HELLO as a worker
asks.

All aggregators of a job must have one generation, because the packets of its workers name it. It is the root's, which
draws it when it starts. A lower aggregator serves a job only once it knows it. Then it asks every second: if the one
above has another generation, it has forgotten all slots, and so this one forgets its own.

The one above is in doubt when it has left a question open until the next one, or refuses a run that it should know
(TOKEN). Then it is asked at once, and often. Until it answers, workers get no answer to a HELLO: a run that they would
begin, or return to, would come to nothing.

The slot that a question names is drawn, and an answer counts only if it names the slot of the open question. So an old
answer that somebody sends again is most likely none.
"""

from __future__ import annotations

import ctypes
import logging
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.logs.events import Event

from sumwire.aggregator import marks
from sumwire.aggregator.batches import Batch, Refusal
from sumwire.aggregator.parts import Above, Part
from sumwire.aggregator.senders import packed_address
from sumwire.aggregator.state import Shared
from sumwire.wire import Header, pack
from sumwire.wire.authentication.keys import key_record
from sumwire.wire.authentication.reference import tags_of
from sumwire.wire.header import HEADER_BYTES
from sumwire.wire.packets import chunks_of, first_byte, headers

ASK_S: Final = 1.0
# Until the first answer, and in doubt.
FIRST_ASK_S: Final = 0.1
# Between looks at whether it is to be asked.
_LOOK_S: Final = 0.5
_SILENCE_S: Final = 3.0
_SAY_AGAIN_S: Final = 10.0
_NOT_ASKED: Final = -1
_HALF_BITS: Final = 16
_LOG: Final = logging.getLogger("sumwire.aggregator")


@dataclass
class _Line:
    """The way to the aggregator above of one job. ``index``: of the job."""

    index: int
    part: Part
    above: Above
    key: NDArray[Any]
    asked_at: float = -np.inf
    # When the question was drawn that is open, or was the latest.
    drawn_at: float = -np.inf
    # Of the latest answer, or of the first question. No line of the log before that.
    heard_at: float = np.inf
    said_at: float = -np.inf

    @property
    def tag_bytes(self) -> int:
        return self.part.job.tag_bytes


class Upward:
    """The jobs of an aggregator that have another one above. Their questions are shared with other processes."""

    def __init__(self, parts: Sequence[Part], shared: Shared) -> None:
        self._shared = shared
        self._lines = {
            part.job.job: _Line(index, part, part.above, key_record(part.job.key, part.job.job, part.above.ip))
            for index, part in enumerate(parts)
            if part.above is not None
        }
        self._sources = np.array([packed_address(line.above.ip) for line in self._lines.values()], np.uint32)

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def is_known(self) -> bool:
        """Whether every generation is known."""
        generations = self._shared.runs["generation"]
        return all(generations[line.index] for line in self._lines.values())

    @property
    def look_s(self) -> float:
        """Seconds to the next look at whether questions are due."""
        return FIRST_ASK_S if self._shared.doubted.any() else _LOOK_S

    def questions(self, now: float) -> Iterator[Refusal]:
        """The HELLOs that are due at ``now``, in seconds of the monotonic clock, with those that they are for."""
        for line in self._lines.values():
            known, doubted = self._shared.runs["generation"][line.index], self._shared.doubted[line.index]
            self._look(line, now)
            if now - line.asked_at >= (ASK_S if known and not doubted else FIRST_ASK_S):
                line.asked_at = now
                line.heard_at = min(line.heard_at, now)
                if self._shared.asked[line.index] == _NOT_ASKED:
                    self._shared.asked[line.index] = secrets.randbelow(line.part.job.slots)
                    line.drawn_at = now
                elif now - line.drawn_at >= ASK_S:
                    self._shared.doubted[line.index] = 1
                slot = int(self._shared.asked[line.index])
                yield Refusal(_hello(line, slot), (line.above.ip, line.above.udp_port), marks.PLAIN_REPLY)

    def _look(self, line: _Line, now: float) -> None:
        """Say it if the aggregator above is silent."""
        if self._shared.asked[line.index] == _NOT_ASKED and line.asked_at > -np.inf:
            line.heard_at = now
        if now - line.heard_at >= _SILENCE_S and now - line.said_at >= _SAY_AGAIN_S:
            line.said_at = now
            name, at = line.part.job.name, f"{line.above.ip}:{line.above.udp_port}"
            reason = f"no answer from the aggregator above, {at}, for {now - line.heard_at:.0f} s"
            _LOG.warning(
                "job %r: %s: start it there, with the same job file: sumwire-aggregator JOB.json --at %s",
                name, reason, line.above.ip, extra=Event.ABOVE_SILENT(name=name, reason=reason),
            )  # fmt: skip

    def hear(self, batch: Batch, reasons: NDArray[np.uint8]) -> int:
        """Take the answers among the datagrams that were refused for their kind, and count them. Their ``reasons``
        become REJECT_NONE. Note what else the aggregators above have said that puts them in doubt."""
        # Whatever else comes, however much of it, is not looked at one by one.
        rows = np.flatnonzero(np.isin(batch.sources[: batch.count], self._sources))
        if not len(rows):
            return 0
        records = headers(batch.rows)[rows]
        kinds, reason = records["version_kind"] & 0xF, reasons[rows]
        for row in rows[
            (kinds == p4.KIND_REFUSED) & (reason == p4.REJECT_NONE) & (records["count"] == p4.REJECT_TOKEN)
        ]:
            self._doubt(int(headers(batch.rows)["job"][row]))
        heard = 0
        for row in rows[reason == p4.REJECT_KIND]:
            source = int(batch.sources[row]), int(batch.ports[row])
            if self.take(_datagram(batch, int(row)), source):
                reasons[row] = p4.REJECT_NONE
                heard += 1
        return heard

    def _doubt(self, job: int) -> None:
        """A run of the job is refused above."""
        line = self._lines.get(job)
        if line is not None:
            self._shared.doubted[line.index] = 1

    def take(self, datagram: bytes, source: tuple[int, int]) -> bool:
        """Learn from a datagram, if it is an answer. Returns whether. ``source``: the sender's packed address, and its
        UDP port."""
        if len(datagram) < HEADER_BYTES:
            return False
        octets = np.frombuffer(datagram, np.uint8)
        head = headers(octets[None, :HEADER_BYTES])
        line = self._lines.get(int(head["job"][0]))
        if line is None or not self._is_answer(line, octets, head, source):
            return False
        # What is late has nothing new to tell.
        if int(head["slot"][0]) == self._shared.asked[line.index]:
            self._shared.asked[line.index] = _NOT_ASKED
            if _fits(line, head):
                self._learn(line, int(head["token"][0]))
                self._shared.doubted[line.index] = 0
        return True

    def _is_answer(self, line: _Line, octets: NDArray[np.uint8], head: NDArray[Any], source: tuple[int, int]) -> bool:
        kind = int(head["version_kind"][0]), int(head["op"][0]), int(head["words"][0])
        from_above = source == (packed_address(line.above.ip), line.above.udp_port)
        if not from_above or kind != (first_byte(p4.KIND_INFORM), p4.OP_NONE, 0):
            return False
        # What is no generation would not fit where generations are kept.
        if not p4.TOKEN_NONE < int(head["token"][0]) < p4.TOKENS_OF_RUNS:
            return False
        if int(head["worker"][0]) != line.above.seat or len(octets) != HEADER_BYTES + line.tag_bytes:
            return False
        return not line.tag_bytes or octets[HEADER_BYTES:].tobytes() == _tag(line, octets[:HEADER_BYTES])

    def _learn(self, line: _Line, generation: int) -> None:
        run = self._shared.runs[line.index : line.index + 1]
        before = int(run["generation"][0])
        if generation == before:
            return
        # What was opened in the generation before goes on nowhere.
        run["token"], run["generation"] = p4.TOKEN_NONE, generation
        name = line.part.job.name
        _LOG.info(
            "job %r: generation %d, from the aggregator above, %s%s", name, generation, line.above.ip,
            ": all slots are empty" if before else "", extra=Event.ABOVE_HEARD(name=name, generation=generation),
        )  # fmt: skip


def _hello(line: _Line, slot: int) -> bytes:
    job = line.part.job
    head = pack(Header(p4.KIND_PROBE, p4.OP_NONE, job.job, slot=slot, worker=line.above.seat))
    return head + (_tag(line, np.frombuffer(head, np.uint8)) if line.tag_bytes else b"")


def _tag(line: _Line, head: NDArray[np.uint8]) -> bytes:
    tags = tags_of(line.key, head[None, :], np.zeros((1, 0), np.uint8))
    return tags.astype(">u8").tobytes()


def _datagram(batch: Batch, row: int) -> bytes:
    size = int(batch.sizes[row])
    if batch.at is None:
        return batch.rows[row, :size].tobytes()
    return ctypes.string_at(int(batch.at[row]), size)


def _fits(line: _Line, head: NDArray[Any]) -> bool:
    """Whether the aggregator above has the same job and program, as far as its answer tells."""
    told, job = int(chunks_of(head)[0]), line.part.job
    digest, revision = int(head["bucket"][0]) << _HALF_BITS | told & (1 << _HALF_BITS) - 1, told >> _HALF_BITS
    if (digest, revision) == (job.digest, p4.PROGRAM_REVISION):
        return True
    if digest != job.digest:
        reason = f"the aggregator above, {line.above.ip}, has another job file: its digest is {digest:#010x}, not "
        reason, cure = f"{reason}{job.digest:#010x}", "give all aggregators and workers the same file"
    else:
        reason = f"the aggregator above, {line.above.ip}, has revision {revision}, not {p4.PROGRAM_REVISION}"
        cure = "install one version of Sumwire on all"
    _LOG.warning("job %r: %s: %s", job.name, reason, cure, extra=Event.ABOVE_UNFIT(name=job.name, reason=reason))
    return False
