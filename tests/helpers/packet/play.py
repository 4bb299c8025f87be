# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Plays frames at a switch and at the golden model side by side, and compares all that leaves."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import pytest
from golden import model
from golden.model import GoldenSwitch, Host, Job, Packet, udp_frame
from helpers.packet.layers import encoded
from helpers.packet.star import AGGREGATOR, WORKERS, golden_switch

Frames = list[tuple[int, bytes]]


class NotHereError(Exception):
    """The rig has no say in this frame: another layer of its machine decides."""


class Clock:
    """A switch's clock in microseconds, which stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


class Rig(Protocol):
    """A switch under test with the star's entries installed. ``exchange`` may raise NotHereError.

    ``told_at``: by port what is known of the time of the latest REFUSED: not before, and not after, in seconds of the
    real clock.
    """

    name: str
    told_at: dict[int, tuple[float, float]]

    @property
    def clock(self) -> Clock | None:
        """The switch's; None for the real one."""

    def renew(self) -> None:
        """Give every job a new generation: all slots are as new."""

    def generation(self, job: int) -> int:
        """Of a job, by its number."""

    def exchange(self, port: int, frame: bytes) -> Frames:
        """Put one frame in at a port; all frames that come out because of it."""

    def counters(self) -> tuple[Counter[str], Counter[str]]:
        """Packets by verdict and by reject reason, read over P4Runtime."""


@runtime_checkable
class ProgramRig(Rig, Protocol):
    """A rig that runs the P4 program, with what the software aggregator does not have."""

    def install(self, queues: dict[int, model.Queue], degrades: dict[int, model.Degrade], first: int) -> None:
        """Virtual queues by port, with a frame of `first` bytes in each, and loss on purpose by job."""

    def move(self, job: int, base: int) -> None:
        """Let a job's slots begin elsewhere until the next renewal, whatever the controller would say."""

    def decisions(self) -> Counter[tuple[int, int, int, int]]:
        """What the virtual queues have decided since they were installed, by port, whether of tagged packets,
        drop class and decision."""


def random_payload(rng: np.random.Generator, op: int, words: int | None = None) -> bytes:
    return bytes(rng.integers(0, 256, (words or model.WORDS_UP[op]) * model.WORD, dtype=np.uint8))


def random_partial(rng: np.random.Generator, op: int, weight: int) -> bytes:
    """What a lower switch may send for `weight` hosts: sums and counters within what they can add up to."""
    if op == model.THC:
        return model.to_planes(rng.integers(0, 30 * weight + 1, model.VALUES), 8)
    if op == model.JUMBO:
        return rng.integers(0, 30 * weight + 1, 8 * model.VALUES).astype(np.uint8).tobytes()
    if op == model.VOTE:
        halves = (rng.integers(0, weight + 1, model.VALUES) for _ in range(2))
        return b"".join(model.to_planes(half, 3) for half in halves)
    return random_payload(rng, op)


def contribution(
    job: Job, worker: int, slot: int, round_: int, payload: bytes, op: int = model.THC, **fields: int
) -> Packet:
    base = Packet(
        model.CONTRIBUTE, op, job.number, slot, worker, 1, round_, 0, 0, len(payload) // model.WORD,
        bucket=7, chunk=slot + 1000, payload=payload,
    )  # fmt: skip
    return base._replace(**fields)


def named(generation: int) -> bytes:
    """The payload of a packet that opens a run in this generation."""
    return generation.to_bytes(4) + bytes(model.WORD - 4)


def sumwire(frame: bytes) -> Packet | None:
    """The Sumwire packet of a frame to or from Sumwire's port, if it is one."""
    if len(frame) < model.BARE or model.UDP_PORT not in (int.from_bytes(frame[34:36]), int.from_bytes(frame[36:38])):
        return None
    return model.decode(frame[42:])


def describe(frame: bytes) -> str:
    """A frame for a failure message: the Sumwire header if there is one, else the start in hex."""
    packet = sumwire(frame)
    if packet is not None:
        return f"{frame[:42].hex(' ', 2)} {packet._replace(payload=packet.payload[:8])} ({len(frame)} bytes)"
    return f"{frame[:64].hex(' ', 2)} ({len(frame)} bytes)"


@dataclass
class Game:
    rig: Rig
    golden: GoldenSwitch = field(default_factory=golden_switch)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))

    def __post_init__(self) -> None:
        self.rig.renew()
        self._start = self.rig.counters()
        self.golden.generation_of = self.rig.generation
        self.golden.refusals.senders = frozenset((worker.port, worker.mac, worker.ip) for worker in WORKERS)
        self.later(model.GAP_US)
        self._let_gaps_pass()

    def _let_gaps_pass(self) -> None:
        """By the real clock: what another test was told is no reason to tell this one nothing."""
        over = max((ended for _, ended in self.rig.told_at.values()), default=0.0) + model.GAP_US / 1e6
        time.sleep(max(0.0, over - time.monotonic()))

    def later(self, microseconds: int) -> None:
        """Time passes, where it is the test's."""
        if self.rig.clock:
            self.rig.clock.now += microseconds
            self.golden.now = self.rig.clock.now

    def frame(self, port: int, frame: bytes) -> Frames:
        """Both switches get the frame; raises AssertionError with both answers where they differ."""
        if self.rig.clock is None:
            self.golden.refusals.last.clear()
        expected = sorted(self.golden.receive(port, frame))
        began = time.monotonic()
        try:
            got = sorted(self.rig.exchange(port, frame))
        except NotHereError as reason:
            pytest.skip(f"{self.rig.name}: {reason}")
        expected = self._settle_signs(expected, got)
        expected = self._settle_refusal(port, expected, got, began)
        if got != expected:
            lines = [f"{self.rig.name}: in at port {port}: {describe(frame)}", "expected:"]
            lines += [f"  {port}: {describe(out)}" for port, out in expected]
            lines += ["got:"] + [f"  {port}: {describe(out)}" for port, out in got]
            raise AssertionError("\n".join(lines))
        return got

    def _settle_signs(self, expected: Frames, got: Frames) -> Frames:
        """Merged signs are drawn in the switch: take its draw if it is one of those allowed, and hold it to it."""
        drawn = next((packet for _, out in got if (packet := sumwire(out)) and packet.op == model.SIGN), None)
        if drawn is None or not drawn.payload:
            return expected
        self.golden.settle(drawn.job, drawn.slot, drawn.payload)
        settled = []
        for port, unsettled in expected:
            out, packet = unsettled, sumwire(unsettled)
            if packet is not None and packet.op == model.SIGN and packet.payload:
                job = next(job for job in self.golden.jobs if job.number == packet.job)
                switch = out[30:34] if packet.kind == model.CONTRIBUTE else AGGREGATOR.ip
                out = out[:42] + job.sealed(packet._replace(payload=drawn.payload), switch).encode()
            settled.append((port, out))
        return settled

    def _settle_refusal(self, port: int, expected: Frames, got: Frames, began: float) -> Frames:
        """By the real clock a REFUSED may come too early after the last one. How much time has passed for the switch is
        not known to the microsecond: what cannot be is an error."""
        if self.rig.clock is not None or port not in self.golden.refusals.last:
            return expected
        gap, ended = model.GAP_US / 1e6, time.monotonic()
        first, last = self.rig.told_at.get(port, (began - gap, began - gap))
        if not got:
            assert began - last < gap, f"{self.rig.name}: port {port} was told nothing, and not of late either"
            return []
        assert ended - first >= gap, f"{self.rig.name}: port {port} was told twice within {gap} s"
        self.rig.told_at[port] = began, ended
        return expected

    def open_run(self, job: Job, worker: int, slot: int, round_: int, token: int) -> Frames:
        """A worker's contribution that opens a run, in the job's generation."""
        payload = named(self.rig.generation(job.number))
        packet = contribution(job, worker, slot, round_, payload, model.MAX32)
        return self.send(job, packet._replace(bucket=model.OPENS_RUN, token=token))

    def send(self, job: Job, packet: Packet, sender: Host | None = None, tos: int = 0) -> Frames:
        """A packet from the worker it names, or from another sender."""
        sender = sender or job.workers[packet.worker]
        packet = packet if packet.tag else job.sealed(packet, AGGREGATOR.ip)
        # Values that no reply may have kept.
        kept = {"ttl": 63, "ident": 0x1234, "udp_checksum": 0x5678, "dscp_ecn": tos}
        return self.frame(sender.port, udp_frame(sender, AGGREGATOR, encoded(packet), **kept))

    def contribute(
        self, job: Job, worker: int, slot: int = 0, round_: int = 0, op: int = model.THC, tos: int = 0,
        **fields: int,
    ) -> Frames:  # fmt: skip
        """Random content from a host, or from a lower switch for all it stands for."""
        sender = job.workers[worker]
        if not sender.is_switch:
            payload = random_payload(self.rng, op)
        else:
            payload = random_partial(self.rng, op, sender.weight)
            fields = {"count": sender.weight, **fields}
        return self.send(job, contribution(job, worker, slot, round_, payload, op, **fields), tos=tos)

    def cut(self, job: Job, worker: int, slot: int = 0, round_: int = 0, **fields: int) -> Frames:
        """A random THC contribution without its two low planes."""
        payload = random_payload(self.rng, model.THC, model.WORDS_TRIMMED)
        flags = fields.pop("flags", 0) | model.TRIMMED
        return self.send(job, contribution(job, worker, slot, round_, payload, flags=flags, **fields))

    def probe(self, job: Job, worker: int, slot: int = 0, round_: int = 0, op: int = model.THC) -> Packet:
        """The answer to a worker that asks how a slot stands; there is one, to it alone."""
        packet = contribution(job, worker, slot, round_, b"", op, count=job.workers[worker].weight)
        ((port, frame),) = self.send(job, packet._replace(kind=model.PROBE))
        assert port == job.workers[worker].port
        return model.decode(frame[42:])

    def hello(self, job: Job, worker: int, slot: int = 0, round_: int = 0, **fields: int) -> Packet:
        """The answer to a HELLO."""
        packet = contribution(job, worker, slot, round_, b"", model.NO_OP, count=job.workers[worker].weight)
        ((port, frame),) = self.send(job, packet._replace(kind=model.PROBE, **fields))
        assert port == job.workers[worker].port
        return model.decode(frame[42:])

    def limit(self, *queues: tuple[int, model.Queue], first: int) -> None:
        """Virtual queues at ports, with one frame of `first` bytes in each, in place of all there were."""
        self._install(queues=dict(queues), first=first)

    def degrade(self, job: Job, degrade: model.Degrade) -> None:
        """Loss on purpose for one job, in place of all there was."""
        self._install(degrades={job.number: degrade})

    def _install(
        self,
        *,
        queues: dict[int, model.Queue] | None = None,
        degrades: dict[int, model.Degrade] | None = None,
        first: int = 0,
    ) -> None:
        self.golden.queues, self.golden.degrades = queues or {}, degrades or {}
        if not isinstance(self.rig, ProgramRig):
            pytest.skip(f"{self.rig.name}: only the P4 program has virtual queues and loss on purpose")
        self.rig.install(self.golden.queues, self.golden.degrades, first)

    def result_from_above(
        self, job: Job, slot: int = 0, round_: int = 0, op: int = model.THC, payload: bytes = b"", **fields: int
    ) -> Frames:
        """A RESULT as the switch above would send it; by default all its workers are in."""
        payload = payload or random_payload(self.rng, op, model.WORDS_DOWN[op])
        base = contribution(job, 0, slot, round_, payload, op)
        parent = job.above(base._replace(token=fields.get("token", base.token)))
        assert parent is not None
        above = parent.switch
        packet = base._replace(kind=model.RESULT, worker=parent.worker, count=9, contributors=0xFF)._replace(**fields)
        packet = job.sealed(packet, above.ip)
        return self.frame(above.port, udp_frame(above, AGGREGATOR, encoded(packet), ident=0x1234, ttl=63))

    def notice_from_above(
        self, kind: int, job: Job, slot: int = 0, round_: int = 0, op: int = model.THC, **fields: int
    ) -> Frames:
        """A STALE or REFUSED as the switch above would send it."""
        base = contribution(job, 0, slot, round_, b"", op)
        parent = job.above(base._replace(token=fields.get("token", base.token)))
        assert parent is not None
        packet = base._replace(kind=kind, worker=parent.worker)._replace(**fields)
        packet = job.sealed(packet, parent.switch.ip)
        return self.frame(parent.switch.port, udp_frame(parent.switch, AGGREGATOR, encoded(packet), ident=1, ttl=63))

    def check_counters(self) -> None:
        """The switch counted what the model counted since this game began."""
        verdicts, rejects = self.rig.counters()
        verdicts.subtract(self._start[0])
        rejects.subtract(self._start[1])
        assert +verdicts == +self.golden.verdicts
        assert +rejects == +self.golden.rejects
        if self.golden.queues and isinstance(self.rig, ProgramRig):
            assert self.rig.decisions() == +self.golden.decisions
