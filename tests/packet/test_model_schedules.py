# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Counterexamples of the models (docs/models.md) on the real program: it has the rule, so nothing goes wrong. A switch
without the rule does what Spin says."""

from __future__ import annotations

import pytest
from golden.model import Packet, udp_frame
from helpers.packet.model_schedules import SCHEDULES, Schedule, Without, play
from helpers.packet.play import Frames, Game
from helpers.packet.star import AGGREGATOR, HOSTS, WIDE

ALL = pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.rule)


@ALL
def test_with_the_rule_all_is_right(game: Game, schedule: Schedule) -> None:
    assert play(WIDE, schedule.steps, lambda packet: game.send(WIDE, packet)) == ""


@ALL
def test_without_the_rule_it_goes_wrong(schedule: Schedule) -> None:
    switch = Without(AGGREGATOR, HOSTS, (WIDE,))
    switch.rule = schedule.rule

    def send(packet: Packet) -> Frames:
        sender = WIDE.workers[packet.worker]
        return switch.receive(sender.port, udp_frame(sender, AGGREGATOR, packet.encode()))

    assert play(WIDE, schedule.steps, send) != ""
