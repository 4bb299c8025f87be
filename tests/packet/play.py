# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Plays frames at a switch and at the golden model side by side, and compares all that leaves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from golden import model
from golden.model import GoldenSwitch, Host, Job, Packet, udp_frame
from packet.star import AGGREGATOR, golden_switch

Frames = list[tuple[int, bytes]]


class Rig(Protocol):
    """A switch under test with the star's entries installed."""

    name: str

    def renew(self) -> None:
        """Give every job a new generation: all slots are as new."""

    def exchange(self, port: int, frame: bytes) -> Frames:
        """Put one frame in at a port; all frames that come out because of it."""

    def counters(self) -> tuple[Counter[str], Counter[str]]:
        """Packets by verdict and by reject reason, read over P4Runtime."""


def random_payload(rng: np.random.Generator, op: int) -> bytes:
    return bytes(rng.integers(0, 256, model.WORDS_UP[op] * model.WORD, dtype=np.uint8))


def contribution(
    job: Job, worker: int, slot: int, round_: int, payload: bytes, op: int = model.THC, **fields: int
) -> Packet:
    base = Packet(
        model.CONTRIBUTE, op, job.number, slot, worker, 1, round_, 0, 0, model.WORDS_UP[op],
        bucket=7, chunk=slot + 1000, payload=payload,
    )  # fmt: skip
    return base._replace(**fields)


def describe(frame: bytes) -> str:
    """A frame for a failure message: the Sumwire header if there is one, else the start in hex."""
    if len(frame) >= 66 and model.UDP_PORT in (int.from_bytes(frame[34:36]), int.from_bytes(frame[36:38])):
        packet = model.decode(frame[42:])
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

    def frame(self, port: int, frame: bytes) -> Frames:
        """Both switches get the frame; raises AssertionError with both answers where they differ."""
        expected = sorted(self.golden.receive(port, frame))
        got = sorted(self.rig.exchange(port, frame))
        if got != expected:
            lines = [f"{self.rig.name}: in at port {port}: {describe(frame)}", "expected:"]
            lines += [f"  {port}: {describe(out)}" for port, out in expected]
            lines += ["got:"] + [f"  {port}: {describe(out)}" for port, out in got]
            raise AssertionError("\n".join(lines))
        return got

    def send(self, job: Job, packet: Packet, sender: Host | None = None) -> Frames:
        """A packet from the worker it names, or from another sender."""
        sender = sender or job.workers[packet.worker]
        # Values that no reply may have kept.
        kept = {"ttl": 63, "ident": 0x1234, "udp_checksum": 0x5678}
        return self.frame(sender.port, udp_frame(sender, AGGREGATOR, packet.encode(), **kept))

    def contribute(
        self, job: Job, worker: int, slot: int = 0, round_: int = 0, op: int = model.THC, **fields: int
    ) -> Frames:
        return self.send(job, contribution(job, worker, slot, round_, random_payload(self.rng, op), op, **fields))

    def check_counters(self) -> None:
        """The switch counted what the model counted since this game began."""
        verdicts, rejects = self.rig.counters()
        verdicts.subtract(self._start[0])
        rejects.subtract(self._start[1])
        assert +verdicts == +self.golden.verdicts
        assert +rejects == +self.golden.rejects
