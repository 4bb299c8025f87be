# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The link of a lower aggregator to its parent aggregator: it asks for the generation of each job by HELLO probes.

(For the parent process of the operating system see :class:`sumwire.aggregator.processes.ParentProcess`.)

All aggregators of a job must use the same generation, because the packets of the workers name it. The root draws it
when it starts. A lower aggregator serves a job only once it knows the generation, and asks again every second. If the
parent has another generation, the parent was restarted and its slots are empty, so this aggregator empties its own.

The parent is in doubt when it has not answered a HELLO by the time the next is due, or when it refuses a run that it
should know (TOKEN). It is then asked ten times a second. Until it answers, HELLOs of workers are not answered, because
a run that they open now would fail.

Each HELLO names a random slot, and an answer counts only if it names the slot of the open HELLO. So a replayed answer
is ignored, except with small probability. Used by `core`, `server` and `processes`.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.events import Event

from sumwire.aggregator import batches
from sumwire.aggregator.batches import ROW_BYTES, Batch, Refusal
from sumwire.aggregator.jobs import Above, Part
from sumwire.aggregator.state import Shared, packed_address
from sumwire.wire import Header, pack
from sumwire.wire.authentication import key_record, tags_of
from sumwire.wire.packets import HEADER_BYTES, chunks_of, first_byte, headers

ASK_S: Final = 1.0
# Until the first answer, and in doubt.
FIRST_ASK_S: Final = 0.1
# Between looks at whether it is to be asked.
_LOOK_S: Final = 0.5
_SILENCE_S: Final = 3.0
_SAY_AGAIN_S: Final = 10.0
_NOT_ASKED: Final = -1
_HALF_BITS: Final = 16
# While waiting for the first answer: seconds between two HELLOs or checks for a signal, and the most datagrams that are
# read in between, so that a flood does not delay either.
_WAIT_S: Final = 0.05
_DATAGRAMS_MOST: Final = 256
_LOG: Final = logging.getLogger("sumwire.aggregator")


@dataclass
class _ParentLink:
    """One job's link to the parent aggregator. ``index``: of the job in the shared arrays."""

    index: int
    part: Part
    above: Above
    key: NDArray[Any]
    asked_at: float = -np.inf
    # When the latest question's slot was drawn.
    drawn_at: float = -np.inf
    # Of the latest answer, or of the first question. Silence is logged only after it.
    heard_at: float = np.inf
    said_at: float = -np.inf

    @property
    def tag_bytes(self) -> int:
        return self.part.job.tag_bytes


class ParentLink:
    """The links of all jobs that have a parent aggregator. The open HELLOs are shared with the other processes."""

    def __init__(self, parts: Sequence[Part], shared: Shared) -> None:
        self._shared = shared
        self._links = {
            part.job.job: _ParentLink(index, part, part.above, key_record(part.job.key, part.job.job, part.above.ip))
            for index, part in enumerate(parts)
            if part.above is not None
        }
        self._sources = np.array([packed_address(link.above.ip) for link in self._links.values()], np.uint32)

    def __bool__(self) -> bool:
        return bool(self._links)

    @property
    def is_known(self) -> bool:
        """Whether the generation of every job is known."""
        generations = self._shared.runs["generation"]
        return all(generations[link.index] for link in self._links.values())

    @property
    def look_s(self) -> float:
        """Seconds until :meth:`questions` should be called again."""
        return FIRST_ASK_S if self._shared.doubted.any() else _LOOK_S

    def questions(self, now: float) -> Iterator[Refusal]:
        """Yield the HELLOs that are due at ``now`` (seconds of the monotonic clock), with their receivers."""
        for link in self._links.values():
            known, doubted = self._shared.runs["generation"][link.index], self._shared.doubted[link.index]
            self._warn_of_silence(link, now)
            if now - link.asked_at >= (ASK_S if known and not doubted else FIRST_ASK_S):
                link.asked_at = now
                link.heard_at = min(link.heard_at, now)
                if self._shared.asked[link.index] == _NOT_ASKED:
                    self._shared.asked[link.index] = secrets.randbelow(link.part.job.slots)
                    link.drawn_at = now
                elif now - link.drawn_at >= ASK_S:
                    self._shared.doubted[link.index] = 1
                slot = int(self._shared.asked[link.index])
                yield Refusal(_hello(link, slot), (link.above.ip, link.above.udp_port), batches.PLAIN_REPLY)

    def _warn_of_silence(self, link: _ParentLink, now: float) -> None:
        """Log a warning if the parent aggregator is silent."""
        if self._shared.asked[link.index] == _NOT_ASKED and link.asked_at > -np.inf:
            link.heard_at = now
        if now - link.heard_at >= _SILENCE_S and now - link.said_at >= _SAY_AGAIN_S:
            link.said_at = now
            name, at = link.part.job.name, f"{link.above.ip}:{link.above.udp_port}"
            reason = f"no answer from the aggregator above, {at}, for {now - link.heard_at:.0f} s"
            _LOG.warning(
                "job %r: %s: start it there, with the same job file: sumwire-aggregator JOB.json --at %s",
                name, reason, link.above.ip, extra=Event.ABOVE_SILENT(name=name, reason=reason),
            )  # fmt: skip

    def hear(self, batch: Batch, reasons: NDArray[np.uint8]) -> int:
        """Process the parent aggregators' answers in a batch. Returns how many there were.

        Admission has refused these answers, because no worker may send their kind; their ``reasons`` become
        REJECT_NONE. A REFUSED with reason TOKEN puts the parent in doubt.
        """
        # Python loops only over datagrams from parents, so that a flood from others costs little.
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
        """The parent refused a run of the job."""
        link = self._links.get(job)
        if link is not None:
            self._shared.doubted[link.index] = 1

    def take(self, datagram: bytes, source: tuple[int, int]) -> bool:
        """Process a datagram if it is a parent's answer, and return whether it is. ``source``: the sender's packed
        address and UDP port."""
        if len(datagram) < HEADER_BYTES:
            return False
        octets = np.frombuffer(datagram, np.uint8)
        head = headers(octets[None, :HEADER_BYTES])
        link = self._links.get(int(head["job"][0]))
        if link is None or not self._is_answer(link, octets, head, source):
            return False
        # A late answer is ignored.
        if int(head["slot"][0]) == self._shared.asked[link.index]:
            self._shared.asked[link.index] = _NOT_ASKED
            if _fits(link, head):
                self._learn(link, int(head["token"][0]))
                self._shared.doubted[link.index] = 0
        return True

    def _is_answer(
        self, link: _ParentLink, octets: NDArray[np.uint8], head: NDArray[Any], source: tuple[int, int]
    ) -> bool:
        kind = int(head["version_kind"][0]), int(head["op"][0]), int(head["words"][0])
        from_above = source == (packed_address(link.above.ip), link.above.udp_port)
        if not from_above or kind != (first_byte(p4.KIND_INFORM), p4.OP_NONE, 0):
            return False
        # Generations are kept as uint32.
        if not p4.TOKEN_NONE < int(head["token"][0]) < p4.TOKENS_OF_RUNS:
            return False
        if int(head["worker"][0]) != link.above.seat or len(octets) != HEADER_BYTES + link.tag_bytes:
            return False
        return not link.tag_bytes or octets[HEADER_BYTES:].tobytes() == _tag(link, octets[:HEADER_BYTES])

    def _learn(self, link: _ParentLink, generation: int) -> None:
        run = self._shared.runs[link.index : link.index + 1]
        before = int(run["generation"][0])
        if generation == before:
            return
        # A run of the previous generation has ended.
        run["token"], run["generation"] = p4.TOKEN_NONE, generation
        name = link.part.job.name
        _LOG.info(
            "job %r: generation %d, from the aggregator above, %s%s", name, generation, link.above.ip,
            ": all slots are empty" if before else "", extra=Event.ABOVE_HEARD(name=name, generation=generation),
        )  # fmt: skip


def _hello(link: _ParentLink, slot: int) -> bytes:
    job = link.part.job
    head = pack(Header(p4.KIND_PROBE, p4.OP_NONE, job.job, slot=slot, worker=link.above.seat))
    return head + (_tag(link, np.frombuffer(head, np.uint8)) if link.tag_bytes else b"")


def _tag(link: _ParentLink, head: NDArray[np.uint8]) -> bytes:
    tags = tags_of(link.key, head[None, :], np.zeros((1, 0), np.uint8))
    return tags.astype(">u8").tobytes()


def _datagram(batch: Batch, row: int) -> bytes:
    size = int(batch.sizes[row])
    if batch.at is None:
        return batch.rows[row, :size].tobytes()
    return ctypes.string_at(int(batch.at[row]), size)


def _fits(link: _ParentLink, head: NDArray[Any]) -> bool:
    """Whether the answer names this aggregator's job digest and program revision. Logs a warning if not."""
    told, job = int(chunks_of(head)[0]), link.part.job
    digest, revision = int(head["bucket"][0]) << _HALF_BITS | told & (1 << _HALF_BITS) - 1, told >> _HALF_BITS
    if (digest, revision) == (job.digest, p4.PROGRAM_REVISION):
        return True
    if digest != job.digest:
        reason = f"the aggregator above, {link.above.ip}, has another job file: its digest is {digest:#010x}, not "
        reason, cure = f"{reason}{job.digest:#010x}", "give all aggregators and workers the same file"
    else:
        reason = f"the aggregator above, {link.above.ip}, has revision {revision}, not {p4.PROGRAM_REVISION}"
        cure = "install one version of Sumwire on all"
    _LOG.warning("job %r: %s: %s", job.name, reason, cure, extra=Event.ABOVE_UNFIT(name=job.name, reason=reason))
    return False


def wait_for_above(upward: ParentLink, sockets: Sequence[socket.socket], stopped: Callable[[float], bool]) -> None:
    """Send HELLOs on the first socket until the parent aggregator has reported every job's generation, or until
    ``stopped(timeout)`` returns True. Other datagrams are dropped; workers retransmit."""
    while not upward.is_known and not stopped(_WAIT_S):
        for question in upward.questions(time.monotonic()):
            # The next HELLO follows soon.
            with contextlib.suppress(OSError):
                sockets[0].sendto(question.data, question.to)
        for udp in sockets:
            _take_all(upward, udp)


def _take_all(upward: ParentLink, udp: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
        for _ in range(_DATAGRAMS_MOST):
            data, (ip, port) = udp.recvfrom(ROW_BYTES, socket.MSG_DONTWAIT)
            upward.take(data, (packed_address(ip), port))
