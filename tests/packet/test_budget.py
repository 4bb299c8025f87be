# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A job with a limit takes no more of the switch than that."""

from __future__ import annotations

import pytest
from golden import model
from golden.model import Host
from helpers.packet.play import Game, ProgramRig, Rig, contribution
from helpers.packet.star import BUDGETED, EVERY, FULL, HOSTS

FRAME = model.BARE + 8 * model.WORD
# So many frames begin while there is room.
FIT = -(-model.BURST_BYTES // FRAME)
EMPTY_US = (1 + model.BURST_BYTES) * 1024


def test_what_is_beyond_a_job_s_limit_is_dropped_and_counted(rig: Rig) -> None:
    """Nobody is told, as in a full queue. By the real clock a packet more may get in."""
    if not isinstance(rig, ProgramRig):
        pytest.skip("the aggregator has no limits of jobs")
    game = Game(rig)
    game.later(2 * EMPTY_US)  # what an earlier test has used
    stranger = Host(HOSTS[2].port, HOSTS[2].mac, HOSTS[2].ip)
    game.send(BUDGETED, contribution(BUDGETED, 0, 0, 0, bytes(8 * model.WORD), model.SUM32), stranger)
    for _ in range(FIT):
        game.contribute(BUDGETED, 0, op=model.SUM32)
    assert game.golden.rejects == {"PORT": 1}
    for worker in range(4):
        assert game.contribute(BUDGETED, worker, op=model.SUM32) == []
    assert game.golden.rejects == {"PORT": 1, "BUDGET": 4}
    for worker in range(4):
        game.contribute(FULL, worker)
        game.contribute(EVERY, worker, op=model.SUM32)
    if rig.clock is None:
        _, rejects = rig.counters()
        assert rejects["BUDGET"] >= 1
        return
    game.check_counters()
    game.later(FRAME * 1024)  # as much as a frame and a little more
    game.contribute(BUDGETED, 1, op=model.SUM32)
    assert game.golden.verdicts["ADD"] >= 1
    assert game.golden.rejects["BUDGET"] == 4
    game.check_counters()


def test_a_job_without_a_limit_has_none(game: Game) -> None:
    for _ in range(FIT + 5):
        game.contribute(EVERY, 0, op=model.SUM32)
    assert not game.golden.rejects
