# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a Sumwire switch must do, in plain Python and numpy: the source of every expectation in the packet tests.

Written from docs/wire-format.md and docs/protocol.md alone. It imports nothing of the project and types the
numbers of the wire format once more, on purpose: a wrong number in the project must not reach its own test.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

# Tests say model.NAME, whichever of these files it is in.
from golden import ops
from golden.ops import *
from golden.packets import *
from golden.queues import *
from golden.refusals import *
from golden.tags import tag_of


@dataclass(frozen=True)
class Parent:
    """The switch above a job's slots, and this switch's number there."""

    switch: Host
    worker: int


@dataclass(frozen=True)
class Job:
    number: int
    workers: tuple[Host, ...]
    slot_base: int
    slots: int
    quorum: int
    table: tuple[int, ...] = ()
    ops: frozenset[int] = frozenset({THC, MAX32})
    parent: Parent | None = None
    # Several switches above share the slots, or the chunks one by one.
    parents: tuple[Parent, ...] = ()
    sprays: bool = False
    # The fewest workers that a run may say it has; 0 for none but the quorum.
    quorum_least: int = 0
    digest: int = 0
    # Bytes that its workers may send in 1024 us; 0 for any number.
    budget: int = 0
    # Of the authentication tags; empty for none.
    key: bytes = b""

    @property
    def is_root(self) -> bool:
        """Whether this switch is at the top of a tree, with others below."""
        return self.parent is None and any(worker.is_switch for worker in self.workers)

    def sealed(self, packet: Packet, switch: bytes) -> Packet:
        """The packet with the authentication tag that it must have. ``switch``: the address of the one that it is for,
        or from."""
        bare = packet._replace(tag=b"")
        if not self.key or packet.kind == REFUSED:
            return bare
        return bare._replace(tag=tag_of(self.key, bare.encode(), switch).to_bytes(8, "big"))

    def quorum_for(self, packet: Packet) -> int:
        """What closes the slot: the job's quorum, or what a contribution says of its run."""
        said = packet.contributors
        if self.quorum_least and not packet.flags & FLUSH and self.quorum_least <= said < self.quorum:
            return said
        return self.quorum

    def above(self, packet: Packet) -> Parent | None:
        """The switch above for a packet's slot and round; None at a root."""
        if not self.parents:
            return self.parent
        hashed = self.sprays and not 0 < packet.token < TOKENS_OF_RUNS
        selector = mix32(salted(packet.slot, packet.round)) & 0xFFFF if hashed else packet.slot
        return self.parents[selector % len(self.parents)]


@dataclass
class Slot:
    round: int
    op: int
    bucket: int
    content: Content
    token: int = NO_TOKEN
    contributors: int = 0
    # Who has arrived without being in the sum, by loss on purpose.
    void: set[int] = field(default_factory=set)
    count: int = 0
    flags: int = 0
    cut: int = 0
    # Open while None; then whether the result is here or only the partial result, on its way up.
    closed: bool = False
    waiting: bool = False
    # The result as it came from above or was made here.
    answer: bytes = b""

    @property
    def arrived(self) -> set[int]:
        return self.void | {worker for worker in range(32) if self.contributors >> worker & 1}


@dataclass
class GoldenSwitch:
    """One switch. `receive` gives the frames that leave, as (port, frame), in no particular order."""

    aggregator: Host
    hosts: tuple[Host, ...]
    jobs: tuple[Job, ...]
    verdicts: Counter[str] = field(default_factory=Counter)
    rejects: Counter[str] = field(default_factory=Counter)
    slots: dict[tuple[int, int], Slot] = field(default_factory=dict)
    queues: dict[int, Queue] = field(default_factory=dict)
    degrades: dict[int, Degrade] = field(default_factory=dict)
    budgets: dict[int, Budget] = field(default_factory=dict)
    # Of each job's latest run, the token and the round in which it was opened.
    runs: dict[int, tuple[int, int]] = field(default_factory=dict)
    # By port, whether of tagged packets, drop class and decision.
    decisions: Counter[tuple[int, int, int, int]] = field(default_factory=Counter)
    now: int = 0  # us
    # Of a job, by its number.
    generation_of: Callable[[int], int] = lambda job: 1

    def __post_init__(self) -> None:
        self.refusals = Refusals(self.aggregator)

    def receive(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        ethertype = frame[12:14]
        if ethertype == b"\x08\x06" and len(frame) >= 42:
            sender_fits = frame[22:28] == frame[6:12]
            return self._arp(port, frame) if sender_fits and self._knows(port, frame, frame[28:32]) else self._spoofed()
        if ethertype == b"\x08\x00" and len(frame) >= 34:
            if frame[30:34] == self.aggregator.ip:
                return self._sumwire(port, frame)
            if not self._knows(port, frame, frame[26:30]):
                return self._spoofed()
            return self._queued(self._forward(frame[30:34], frame))
        return []

    def _knows(self, port: int, frame: bytes, ip: bytes) -> bool:
        """Whether a frame's source is one of the network's, at the port behind which it is."""
        return any((host.port, host.mac, host.ip) == (port, frame[6:12], ip) for host in self.hosts)

    def _spoofed(self) -> list[tuple[int, bytes]]:
        self.verdicts["REJECT"] += 1
        self.rejects["SOURCE"] += 1
        return []

    def _queued(self, frames: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """What is left of frames that leave by a port each."""
        return [(port, left) for port, frame in frames if (left := self._through_queue(port, frame))]

    def _through_queue(self, port: int, frame: bytes) -> bytes:
        if port not in self.queues:
            return frame
        decision, left = self.queues[port].decide(frame, self.now)
        self.decisions[port, is_tagged(frame), drop_class(frame), decision] += 1
        return left

    def _forward(self, ip: bytes, frame: bytes) -> list[tuple[int, bytes]]:
        return [(host.port, frame) for host in self.hosts if host.ip == ip]

    def _arp(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        target = frame[38:42]
        if target != self.aggregator.ip:
            return self._forward(target, frame)
        if frame[20:22] != b"\x00\x01":
            return []
        asker = frame[22:32]
        mac = self.aggregator.mac
        reply = asker[:6] + mac + frame[12:20] + b"\x00\x02" + mac + self.aggregator.ip + asker
        return [(port, reply + frame[42:])]

    def _sumwire(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        reason = malformed(frame)
        packet = decode(frame[42:]) if reason is None else None
        if packet is not None:
            reason = self._refusal(port, frame, packet)
        if packet is None or reason is not None:
            self.verdicts["REJECT"] += 1
            self.rejects[str(reason)] += 1
            return self._queued(self.refusals.answer(port, frame, str(reason), self.now))
        job = next(job for job in self.jobs if job.number == packet.job)
        packet, cuts = self._degraded(job, packet)
        verdict = self._verdict(job, packet, cuts, frame[15] & 3 == 3)
        self.verdicts[verdict] += 1
        replies = self._reply(job, port, frame, packet, verdict)
        to_all = verdict in ("DOWN", "RELAY") or (verdict in ("LAST", "FLUSH") and job.above(packet) is None)
        return replies if to_all and not is_tagged(frame) else self._queued(replies)

    def _degraded(self, job: Job, packet: Packet) -> tuple[Packet, bool]:
        """What an experiment leaves of the packet, and whether a result it brings about is cut."""
        cuts = packet.op == THC and packet.kind == CONTRIBUTE and packet.words == WORDS_TRIMMED
        degrade = self.degrades.get(packet.job)
        whole = (packet.kind, packet.op, packet.words) == (CONTRIBUTE, THC, WORDS_UP[THC])
        if degrade is None or not whole or job.above(packet) or not degrade.hits(packet):
            return packet, cuts
        if degrade.mode == CUT_RESULTS:
            return packet, True
        if packet.flags & RESYNC or degrade.mode == DROP_CONTRIBUTIONS:
            return packet, False
        flags, payload = packet.flags | TRIMMED, packet.payload[: WORDS_TRIMMED * WORD]
        return packet._replace(words=WORDS_TRIMMED, flags=flags, payload=payload), True

    def _is_void(self, job: Job, slot: Slot | None, packet: Packet) -> bool:
        """Whether a contribution to the slot (None: a fresh one) arrives without counting."""
        degrade = self.degrades.get(packet.job)
        if degrade is None or degrade.mode != DROP_CONTRIBUTIONS or packet.flags & RESYNC:
            return False
        if packet.op != THC or packet.words != WORDS_UP[THC] or job.above(packet) or not degrade.hits(packet):
            return False
        here = slot.arrived if slot else set()
        # Somebody has to be in the result.
        alone = slot is None or slot.contributors == 0
        return not (alone and len(here | {packet.worker}) >= job.quorum_for(packet))

    def _refusal(self, port: int, frame: bytes, packet: Packet) -> str | None:
        job = next((job for job in self.jobs if job.number == packet.job), None)
        if ones_complement_sum(frame[14:34]) != 0xFFFF:
            return "CHECKSUM"
        if job is None:
            return "JOB"
        from_above = packet.kind in (RESULT, STALE, REFUSED)
        if not from_above and packet.worker >= len(job.workers):
            return "WORKER"
        worker = job.workers[packet.worker] if not from_above else self.aggregator
        parent = job.above(packet)
        above = parent.switch if parent else None
        source = (port, frame[6:12], frame[26:30])
        asks = packet.kind == PROBE
        any_call = packet.kind in (STALE, REFUSED) or is_hello(packet)
        cut_up = packet.op == THC and packet.kind == CONTRIBUTE and packet.words == WORDS_TRIMMED
        # Only THC's and VOTE's partial results look different from a host's contribution.
        as_switch = packet.words == WORDS_PARTIAL.get(packet.op)
        two_forms = WORDS_UP.get(packet.op) != WORDS_PARTIAL.get(packet.op)
        slot = self._slot_of(job, packet)
        # Another call in the slot's round.
        differs = slot is not None and slot.round == packet.round
        differs = differs and (slot.op, slot.bucket, slot.token) != (packet.op, packet.bucket, packet.token)
        if is_of_run(job, packet):
            run = run_refusal(packet, slot, self.runs.get(job.number), lower=parent is not None or job.is_root)
        else:
            run = generation_refusal(packet, slot, self.generation_of(job.number))
        checks = (
            (not from_above and port != worker.port, "PORT"),
            (not from_above and (frame[6:12], frame[26:30]) != (worker.mac, worker.ip), "ADDRESS"),
            (not from_above and int.from_bytes(frame[34:36]) != worker.udp_port, "UDP_PORT"),
            (packet.slot >= job.slots or is_beyond(job.slot_base + packet.slot, packet), "SLOT"),
            (packet.op not in job.ops and not is_hello(packet), "JOB_OP"),
            (not from_above and not 1 <= packet.count <= worker.weight, "COUNT"),
            (not from_above and not asks and two_forms and as_switch != worker.is_switch, "WORDS"),
            (not from_above and bool(packet.flags & FLAGS_OF_SWITCHES) and not worker.is_switch, "FLAGS"),
        )
        early = next((reason for failed, reason in checks if failed), None)
        if early is not None:
            return early
        if job.budget and not from_above:
            budget = self.budgets.setdefault(job.number, Budget(job.budget))
            if not budget.takes(frame, self.now):
                return "BUDGET"
        late_checks = (
            (cut_up and above is not None, "WORDS"),
            (from_above and source != (above and (above.port, above.mac, above.ip)), "PARENT"),
            (packet != job.sealed(packet, above.ip if from_above and above else self.aggregator.ip), "TAG"),
            (run == "TOKEN", "TOKEN"),
            (run == "ROUND", "ROUND"),
            (not any_call and differs, "CALL"),
        )
        return next((reason for failed, reason in late_checks if failed), None)

    def _slot_of(self, job: Job, packet: Packet) -> Slot | None:
        """The packet's slot; None if what it holds is another run's, of an older round."""
        slot = self.slots.get((job.number, packet.slot))
        if slot and is_of_run(job, packet) and slot.token != packet.token:
            return None if 0 < (packet.round - slot.round) % 2**32 < 2**31 else slot
        return slot

    def _verdict(self, job: Job, packet: Packet, cuts: bool, ce: bool) -> str:
        key = (job.number, packet.slot)
        slot = self._slot_of(job, packet)
        ahead = (packet.round - slot.round) % 2**32 if slot else 0
        fresh = slot is None or 0 < ahead < 2**31
        if is_hello(packet):
            return "INFORM"
        if packet.kind == STALE:
            return "RELAY" if fresh else "KNOWN"
        if packet.kind == REFUSED:
            return "RELAY" if slot and not ahead and not slot.closed else "KNOWN"
        if packet.kind == RESULT:
            return self._from_above(job, packet, None if fresh else slot, older=bool(ahead) and not fresh)
        if ahead and not fresh:
            return "STALE"
        if packet.kind == PROBE:
            return "INFORM"
        if slot is None or fresh:
            content = ops.read(packet.op, packet.payload, job.table, job.workers[packet.worker].is_switch)
            void = self._is_void(job, None, packet)
            content = np.zeros(VALUES, np.int64) if void else content
            slot = Slot(packet.round, packet.op, packet.bucket, content, packet.token)
            self.slots[key] = slot
            return self._contributed(job, slot, packet, "FIRST", cuts, ce, void)
        if slot.closed:
            # Two words cannot grow to eight.
            short = packet.op == THC and packet.words == WORDS_TRIMMED
            return "INFORM" if short and not slot.cut & CUT_RESULT else "DUPLICATE"
        if slot.waiting:
            return "ASK"
        if slot.contributors >> packet.worker & 1:
            least = packet.contributors
            if not packet.flags & FLUSH or len(slot.arrived) < least:
                return "REPEAT"
            slot.flags |= MISSING if least else INCOMPLETE
            self._close(job, slot, packet, cuts)
            return "FLUSH"
        void = self._is_void(job, slot, packet)
        if not void:
            added = ops.read(packet.op, packet.payload, job.table, job.workers[packet.worker].is_switch)
            slot.content, overflow = ops.fold(packet.op, slot.content, added)
            slot.flags |= OVERFLOW if overflow else 0
        return self._contributed(job, slot, packet, "ADD", cuts, ce, void)

    def _contributed(self, job: Job, slot: Slot, packet: Packet, verdict: str, cuts: bool, ce: bool, void: bool) -> str:
        if void:
            slot.void.add(packet.worker)
        else:
            slot.void.discard(packet.worker)
            slot.contributors |= 1 << packet.worker
            slot.count += packet.count
        slot.flags |= packet.flags & KEPT | (CE if ce else 0)
        if packet.op == THC and packet.words == WORDS_TRIMMED:
            slot.cut += 2
        if len(slot.arrived) < job.quorum_for(packet):
            return verdict
        self._close(job, slot, packet, cuts)
        return "LAST"

    def _close(self, job: Job, slot: Slot, packet: Packet, cuts: bool) -> None:
        self._note_run(job, slot)
        if job.above(packet):
            slot.waiting = True
        else:
            slot.closed = True
            slot.flags |= MISSING if slot.void else 0
            if cuts:
                assert not isinstance(slot.content, Signs)
                slot.content = slot.content // 4 * 4 + STAND_IN
                slot.cut |= CUT_RESULT
            slot.answer = ops.result(slot.op, slot.content, slot.count)

    def _note_run(self, job: Job, slot: Slot) -> None:
        if slot.token >= TOKENS_OF_RUNS and slot.bucket == OPENS_RUN:
            self.runs[job.number] = slot.token, slot.round

    def _from_above(self, job: Job, packet: Packet, slot: Slot | None, *, older: bool) -> str:
        parent = job.above(packet)
        assert parent is not None
        if older or (slot is not None and slot.closed):
            return "KNOWN"
        if slot is None:
            slot = Slot(packet.round, packet.op, packet.bucket, np.zeros(0, np.int64), packet.token)
            self.slots[job.number, packet.slot] = slot
        self._note_run(job, slot)
        slot.closed, slot.waiting = True, False
        slot.contributors *= packet.contributors >> parent.worker & 1
        slot.count, slot.answer, slot.cut = packet.count, packet.payload, packet.cut
        if packet.op == THC and packet.words == WORDS_CUT:
            slot.answer += to_planes(STAND_IN, 2)
        if packet.op == SIGN:
            drawn = np.frombuffer(packet.payload, np.uint8)
            slot.content = Signs(drawn, drawn)
        slot.flags |= packet.flags
        return "DOWN"

    def _reply(self, job: Job, port: int, frame: bytes, packet: Packet, verdict: str) -> list[tuple[int, bytes]]:
        if verdict == "INFORM":
            told = self._greeted(job, packet) if is_hello(packet) else self._informed(job, packet)
            return [self._to(job, packet.worker, told, frame)]
        if verdict == "RELAY":
            return [self._to(job, worker, packet, frame) for worker in range(len(job.workers))]
        if verdict == "KNOWN":
            return []
        slot = self.slots[job.number, packet.slot]
        if verdict == "STALE":
            stale = packet._replace(
                kind=STALE, round=slot.round, count=0, contributors=0, flags=0, words=0, cut=0, payload=b""
            )
            return [self._to(job, packet.worker, stale, frame)]
        if slot.waiting and verdict in ("LAST", "FLUSH", "ASK"):
            gives_up = verdict == "ASK" and packet.contributors == 0
            return [self._up(job, slot, packet, frame, packet.flags & FLUSH if gives_up else 0)]
        if verdict not in ("LAST", "FLUSH", "DUPLICATE", "DOWN"):
            return []
        answer = slot.answer
        small = packet.words in (WORDS_TRIMMED, WORDS_CUT) or (verdict != "DUPLICATE" and packet.kind == CONTRIBUTE)
        if packet.op == THC and slot.cut & CUT_RESULT and small:
            answer = answer[: WORDS_CUT * WORD]
        result = packet._replace(
            kind=RESULT, count=slot.count, contributors=slot.contributors, flags=slot.flags, cut=slot.cut,
            words=len(answer) // WORD, payload=answer,
        )  # fmt: skip
        if verdict == "DUPLICATE":
            return [self._to(job, packet.worker, result, frame)]
        return [self._to(job, worker, result, frame) for worker in range(len(job.workers))]

    def _informed(self, job: Job, packet: Packet) -> Packet:
        """The answer to one who asks, or who has no room for the result."""
        slot = self._slot_of(job, packet)
        told = packet._replace(kind=INFORM, count=0, contributors=0, flags=0, cut=0, words=0, payload=b"")
        if slot is None or slot.round != packet.round:
            return told
        flags = slot.flags | (CLOSED if slot.closed else 0)
        return told._replace(count=slot.count, contributors=slot.contributors, flags=flags, cut=slot.cut)

    def _greeted(self, job: Job, packet: Packet) -> Packet:
        """The answer to a HELLO: the slot as it is, whatever the round, and what there is to know of the switch."""
        slot = self.slots.get((packet.job, packet.slot))
        told = self._informed(job, packet._replace(round=slot.round if slot else packet.round))
        chunk, generation = REVISION << 16 | job.digest & 0xFFFF, self.generation_of(job.number)
        return told._replace(bucket=job.digest >> 16, chunk=chunk, token=generation)

    def _up(self, job: Job, slot: Slot, packet: Packet, request: bytes, flush: int) -> tuple[int, bytes]:
        parent = job.above(packet)
        assert parent is not None
        payload = ops.partial(slot.op, slot.content)
        up = packet._replace(
            kind=CONTRIBUTE, worker=parent.worker, count=slot.count, contributors=0, flags=slot.flags | flush, cut=0,
            words=len(payload) // WORD, payload=payload,
        )  # fmt: skip
        above = parent.switch
        up = job.sealed(up, above.ip)
        return above.port, udp_frame(self.aggregator, above, up.encode(), dscp_ecn=reply_tos(request))

    def _to(self, job: Job, worker: int, packet: Packet, request: bytes) -> tuple[int, bytes]:
        host = job.workers[worker]
        source = replace(self.aggregator, udp_port=UDP_PORT)
        body = job.sealed(packet._replace(worker=worker), self.aggregator.ip).encode()
        return host.port, udp_frame(source, host, body, dscp_ecn=reply_tos(request))

    def settle(self, job_number: int, slot_number: int, bits: bytes) -> None:
        """The switch has drawn: an open draw of this slot's signs is `bits` from now on.

        Raises AssertionError if not all contributors could have led to them.
        """
        slot = self.slots[job_number, slot_number]
        drawn = np.frombuffer(bits, np.uint8)
        if slot.op != SIGN or not isinstance(slot.content, Signs) or not (slot.waiting or slot.closed):
            return
        assert slot.content.allows(drawn), "signs that no draw can give: all contributors say otherwise"
        slot.content = Signs(drawn, drawn)
        if slot.closed:
            slot.answer = bits


# -- which run's packets a switch takes ---------------------------------------------------------------------


def is_of_run(job: Job, packet: Packet) -> bool:
    """Whether the packet's run matters. Else the round alone decides: in greetings, in notices of switches above, and
    where several roots share a slot."""
    greets = packet.token < TOKENS_OF_RUNS or packet.bucket == OPENS_RUN or is_hello(packet)
    return not greets and packet.kind not in (STALE, REFUSED) and not (job.sprays and not job.above(packet))


def run_refusal(packet: Packet, slot: Slot | None, known: tuple[int, int] | None, *, lower: bool) -> str | None:
    """Why a run's packet is refused for its run. ``slot``: None if the packet is the run's first one in it. ``known``:
    token and first round of the job's run."""
    if slot is not None and slot.token == packet.token:
        ahead = (packet.round - slot.round) % 2**32
        return "ROUND" if 1 < ahead < 2**31 and not lower else None
    if known is None or known[0] != packet.token:
        return "TOKEN"
    if slot is not None:
        return None
    ahead = (packet.round - known[1]) % 2**32
    return None if ahead <= 1 or (lower and ahead < 2**31) else "ROUND"


def generation_refusal(packet: Packet, slot: Slot | None, generation: int) -> str | None:
    """What greets or opens a run names the job's generation, where it begins a round: the one in its token, the other
    in its first element. A greeting may leave it out."""
    begins = slot is None or 0 < (packet.round - slot.round) % 2**32 < 2**31
    if packet.kind != CONTRIBUTE or not begins:
        return None
    named = packet.token or generation
    if packet.token >= TOKENS_OF_RUNS:
        named = int.from_bytes(packet.payload[:4]) if packet.bucket == OPENS_RUN else generation
    return None if named == generation else "TOKEN"


def digest_of(
    number: int, ops: Sequence[str], workers: int, *, quorum: int, least: int, slots: int, table: Sequence[int]
) -> int:
    """The digest of a job's configuration."""
    names = ",".join(f'"{name}"' for name in sorted(ops))
    values = f"[{','.join(map(str, table))}]" if table else "null"
    text = f'{{"job":{number},"ops":[{names}],"quorum":{quorum},"quorum_least":{least},"slots":{slots},'
    text += f'"table":{values},"workers":{workers}}}'
    return int.from_bytes(hashlib.sha256(text.encode("ascii")).digest()[:4]) or 1
