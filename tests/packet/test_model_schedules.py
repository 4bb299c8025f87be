# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Schedules that Spin found for the slot protocol without one of its rules (models/slot.pml, docs/models.md), on the
real program: it has the rule, so nothing goes wrong. A golden switch without the rule does what Spin says.

A step is as in the model: "arrive W K" is worker W's contribution to chunk K at the switch, "lose W K" loses the result
of chunk K on its way to worker W. Other results reach their workers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from golden import model, ops
from golden.model import GoldenSwitch, Job, Packet, udp_frame
from helpers.packet.play import Frames, Game, contribution, random_payload
from helpers.packet.star import AGGREGATOR, HOSTS, WIDE

SLOTS = 2
# Rounds wrap in the middle of a schedule.
FIRST_ROUND = 2**32 - 1


# By the rule that is left out.
SCHEDULES = {
    "REPEAT": "arrive 0 0, arrive 0 0, arrive 1 0",
    **dict.fromkeys(("OVERWRITE", "NEWER", "SERIAL"), "arrive 0 0, arrive 1 0, arrive 0 2, arrive 1 2"),
    "OLDER": "arrive 0 0, arrive 1 0, arrive 0 2, arrive 1 0, arrive 1 2",
    "DUPLICATE": "arrive 0 0, arrive 1 0, lose 1 0, arrive 1 0",
    **dict.fromkeys(("QUORUM", "TO_ALL"), "arrive 0 0, arrive 1 0"),
}


class Without(GoldenSwitch):
    """A golden switch that lacks a rule."""

    rule = ""

    def _verdict(self, job: Job, packet: Packet, cuts: bool, ce: bool) -> str:
        key = job.number, packet.slot
        slot = self.slots.get(key)
        ahead = (packet.round - slot.round) % 2**32 if slot else 0
        newer = 0 < ahead < 2**31
        if slot and not slot.closed and not ahead and self.rule == "REPEAT":
            slot.contributors &= ~(1 << packet.worker)
        if slot and slot.closed and not ahead and self.rule == "DUPLICATE":
            return "REPEAT"
        if newer and self.rule == "NEWER":
            return "REPEAT"
        if slot and packet.round < slot.round and self.rule == "SERIAL":
            return "STALE"
        if slot and ahead and not newer and self.rule == "OLDER":
            del self.slots[key]
        verdict = super()._verdict(job, packet, cuts, ce)
        here = self.slots[key]
        if slot and newer and self.rule == "OVERWRITE":
            here.content, _ = ops.fold(here.op, slot.content, here.content)
        if self.rule == "QUORUM" and verdict == "FIRST":
            self._close(job, here, packet, cuts)
            return "LAST"
        return verdict

    def _reply(self, job: Job, port: int, frame: bytes, packet: Packet, verdict: str) -> Frames:
        replies = super()._reply(job, port, frame, packet, verdict)
        if verdict == "LAST" and self.rule == "TO_ALL":
            return [reply for reply in replies if model.decode(reply[1][42:]).worker == packet.worker]
        return replies


def play(job: Job, steps: str, send: Callable[[Packet], Frames]) -> str:
    """What is wrong in the end, or ''. ``send``: gives a packet to the switch and returns what leaves it."""
    rng = np.random.default_rng(1)
    payloads = {(w, k): random_payload(rng, model.THC) for w in range(2) for k in range(2 * SLOTS)}
    sent: set[tuple[int, int]] = set()
    heard: dict[tuple[int, int], bytes] = {}
    for step in steps.split(", "):
        name, worker, chunk = step.split()
        at = int(worker), int(chunk)
        if name == "lose":
            del heard[at]
            continue
        sent.add(at)
        for result in _results(send(_packet(job, at, payloads[at]))):
            number = (result.round - FIRST_ROUND) % 2**32 * SLOTS + result.slot
            heard[result.worker, number] = result.payload
    for worker, chunk in sorted(sent):
        whole = {(0, chunk), (1, chunk)} <= sent
        if whole and (worker, chunk) not in heard:
            return f"worker {worker} has no result of chunk {chunk}"
    for (worker, chunk), payload in sorted(heard.items()):
        if payload != _right(job, payloads[0, chunk], payloads[1, chunk]):
            return f"worker {worker} has a wrong sum of chunk {chunk}"
    return ""


def _packet(job: Job, at: tuple[int, int], payload: bytes) -> Packet:
    worker, chunk = at
    return contribution(job, worker, chunk % SLOTS, (FIRST_ROUND + chunk // SLOTS) % 2**32, payload)


def _results(frames: Frames) -> list[Packet]:
    packets = [model.decode(frame[42:]) for _, frame in frames]
    return [packet for packet in packets if packet.kind == model.RESULT]


def _right(job: Job, one: bytes, other: bytes) -> bytes:
    contents = [ops.read(model.THC, payload, job.table, False) for payload in (one, other)]
    total, _ = ops.fold(model.THC, *contents)
    return ops.result(model.THC, total, 2)


@pytest.mark.parametrize("rule", SCHEDULES)
def test_with_the_rule_all_is_right(game: Game, rule: str) -> None:
    assert play(WIDE, SCHEDULES[rule], lambda packet: game.send(WIDE, packet)) == ""


@pytest.mark.parametrize("rule", SCHEDULES)
def test_without_the_rule_it_goes_wrong(rule: str) -> None:
    switch = Without(AGGREGATOR, HOSTS, (WIDE,))
    switch.rule = rule

    def send(packet: Packet) -> Frames:
        sender = WIDE.workers[packet.worker]
        return switch.receive(sender.port, udp_frame(sender, AGGREGATOR, packet.encode()))

    assert play(WIDE, SCHEDULES[rule], send) != ""
