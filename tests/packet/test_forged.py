# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Forged frames change no sum and say nothing to a worker in the switch's name.

A job runs on two switches that see the same frames of its workers. One of them also sees those of an attacker, who
knows the job's slots, rounds and calls. Whatever leaves because of a worker's frame must be the same.

SUMWIRE_FORGED: how many forged frames each attacker sends; `make verify-trust` sends a million.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from golden import model
from golden.model import Host, Job, udp_frame
from helpers.needs import missing
from helpers.packet import rigs
from helpers.packet.forger import FIELDS, KINDS, NEIGHBOUR, PLAIN_FIELDS, Forger, Target, is_of_the_aggregator, reaches
from helpers.packet.layers import encoded
from helpers.packet.play import Clock, Frames, contribution
from helpers.packet.rigs import ProcessRig
from helpers.packet.star import AGGREGATOR, FULL, QUORUM

FORGED = int(os.environ.get("SUMWIRE_FORGED", "3000"))
PER_FRAME = 40
OPS = (model.THC, model.MAX32)
FIRST_ROUND = 3


class Twins:
    """The switch that is attacked, and the one that is not."""

    def __init__(self, attacked: ProcessRig, quiet: ProcessRig, clock: Clock) -> None:
        self.attacked, self.quiet, self.clock = attacked, quiet, clock

    def renew(self) -> None:
        for rig in (self.attacked, self.quiet):
            rig.renew()

    def good(self, port: int, frame: bytes) -> Frames:
        """A worker's frame at both."""
        self.clock.now += model.GAP_US
        got, expected = (rig.switch.process(port, frame) for rig in (self.attacked, self.quiet))
        assert got == expected, "a forged frame had an effect on what workers get"
        return got

    def forged(self, port: int, frame: bytes) -> Frames:
        return self.attacked.switch.process(port, frame)


@pytest.fixture(scope="module")
def twins() -> Iterator[Twins]:
    clock = Clock()
    engine = "python" if missing("cc") else "native"
    with ExitStack() as stack:
        yield Twins(*(stack.enter_context(rigs.soft_in_process(engine, clock)) for _ in range(2)), clock)


def workers_frames(job: Job, seed: int) -> Iterator[tuple[int, Target, bytes]]:
    """What the workers of a job send, for ever: round after round, the ops in turn; and who comes next."""
    draw = random.Random(seed)
    round_ = FIRST_ROUND
    while True:
        for slot in range(job.slots):
            op = OPS[(round_ + slot) % len(OPS)]
            for worker, host in enumerate(job.workers):
                payload = draw.randbytes(model.WORDS_UP[op] * model.WORD)
                packet = contribution(job, worker, slot, round_, payload, op)
                yield host.port, Target(job, worker, slot, round_, op), udp_frame(host, AGGREGATOR, encoded(packet))
        round_ += 1


def attack(twins: Twins, job: Job, draw_one: Callable[[Target], tuple[int, bytes, Host]], count: int) -> Counter[str]:
    """Forged frames between those of the workers. Counts sums, forged frames, and those that a worker could believe."""
    counts: Counter[str] = Counter()
    twins.renew()
    for port, target, frame in workers_frames(job, seed=1):
        for _ in range(PER_FRAME):
            at, forged, sender = draw_one(target)
            out = twins.forged(at, forged)
            counts["forged"] += 1
            counts["believed"] += sum(_is_believed(left, out_port, job, sender) for out_port, left in out)
        results = sum(model.decode(left[42:]).kind == model.RESULT for _, left in twins.good(port, frame))
        counts["results"] += results
        if counts["forged"] >= count:
            return counts
    raise AssertionError("workers never stop")


def _is_believed(frame: bytes, port: int, job: Job, sender: Host) -> bool:
    """Whether a worker of the job, other than the attacker itself, may take a frame for one of its switch."""
    victims = [host for host in job.workers if host.port == port]
    told_to_sender = frame[30:34] == sender.ip and not reaches(frame, sender)
    return bool(victims) and is_of_the_aggregator(frame) and not told_to_sender


def test_ten_kinds_and_every_field() -> None:
    assert len(KINDS) == 10
    assert {field.name.split()[1] for field in FIELDS if field.name.startswith("sumwire")} >= {"round", "slot", "flags"}
    frame = bytearray(range(100))
    for field in FIELDS:
        value = (1 << field.bits) - 1 & 0x5A5A5A5A5A5A
        field.put(frame, value)
        assert field.get(frame) == value


def test_from_a_neighbour_s_port(twins: Twins) -> None:
    forger = Forger(1)
    counts = attack(
        twins, QUORUM, lambda target: (NEIGHBOUR.port, forger.from_neighbour(target, NEIGHBOUR), NEIGHBOUR), FORGED
    )
    assert counts["believed"] == 0
    assert counts["results"] > 0


def test_from_a_worker_s_host_without_rights(twins: Twins) -> None:
    forger, host = Forger(2, PLAIN_FIELDS), FULL.workers[0]
    counts = attack(twins, FULL, lambda target: (host.port, forger.from_another_user(target, host), host), FORGED)
    assert counts["believed"] == 0
    assert counts["results"] > 0
