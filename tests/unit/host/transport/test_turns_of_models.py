# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The models' counterexample to TURN_LONG (docs/models.md) on the real window: with an odd number of slots the result
of chunk 0 is lost on its way to worker 1, and worker 0 goes on."""

from __future__ import annotations

import pytest
from helpers.transport.simulation import Down, Up, World
from sumwire.transport.scheduling import SendSchedule


def play() -> World:
    world = World(1, workers=2, slots=5, lengths=[12], skew_s=0.0)
    losses: list[Up | Down] = []

    def lose_first(way: str, worker: int, packet: Up | Down) -> bool:
        if way == "down" and worker == 1 and (packet.slot, packet.round) == (0, 0) and len(losses) < 3:
            losses.append(packet)
            return False
        return True

    world.filter = lose_first
    world.run()
    return world


def test_with_the_rule_all_is_right() -> None:
    world = play()
    assert [worker.results for worker in world.workers] == [world.golden()] * 2


def test_without_the_rule_a_result_is_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SendSchedule.__init__

    def without(self: SendSchedule, *arguments: object) -> None:
        whole(self, *arguments)  # type: ignore[arg-type]
        self.long_step = self.short_step

    monkeypatch.setattr(SendSchedule, "__init__", without)
    with pytest.raises(AssertionError, match="worker 1 lacks chunk"):
        play()
