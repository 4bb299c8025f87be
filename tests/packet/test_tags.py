# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a packet's IPv4 header says of it: priority and drop class in the DSCP, ECN, and what replies make of them."""

from __future__ import annotations

import pytest
from golden import model
from helpers.packet.play import Game
from helpers.packet.star import EVERY, LEAF, ROOT, SINGLE

OPS = pytest.mark.parametrize("op", model.OPS)


def tos(priority: int, drop_class: int, ecn: int) -> int:
    return (priority << 3 | drop_class << 1) << 2 | ecn


@pytest.mark.parametrize("priority", range(8))
def test_replies_are_as_urgent_as_what_they_answer_and_protected(game: Game, priority: int) -> None:
    """RESULT to all and to one, STALE, INFORM: class 0 and ECN-capable, whatever class the last contribution had."""
    out = [frame for _, frame in game.contribute(SINGLE, 0, round_=5, tos=tos(priority, 3, 0))]
    for round_ in (5, 4):
        out += [frame for _, frame in game.contribute(SINGLE, 0, round_=round_, tos=tos(priority, 1, 0))]
    assert [model.decode(frame[42:]).kind for frame in out] == [model.RESULT, model.RESULT, model.STALE]
    assert {frame[15] for frame in out} == {tos(priority, 0, 2)}


def test_a_partial_result_keeps_its_priority(game: Game) -> None:
    game.contribute(LEAF, 0, tos=tos(2, 3, 0))
    ((_, frame),) = game.contribute(LEAF, 1, tos=tos(6, 2, 0))
    assert frame[15] == tos(6, 0, 2)


@OPS
@pytest.mark.parametrize("worker", range(4))
def test_congestion_of_any_contribution_is_told_to_all(game: Game, op: int, worker: int) -> None:
    for sender in range(4):
        out = game.contribute(EVERY, sender, op=op, tos=tos(7, 0, 3 if sender == worker else 2))
    assert {model.decode(frame[42:]).flags & ~model.OVERFLOW for _, frame in out} == {model.CE}
    # The next round starts without it.
    for sender in range(4):
        out = game.contribute(EVERY, sender, round_=1, op=op, tos=tos(7, 0, 2))
    assert {model.decode(frame[42:]).flags & ~model.OVERFLOW for _, frame in out} == {0}


def test_ecn_capable_is_not_congested(game: Game) -> None:
    for sender, ecn in enumerate((0, 1, 2, 0)):
        out = game.contribute(EVERY, sender, tos=tos(0, 0, ecn))
    assert model.decode(out[0][1][42:]).flags == 0


def test_congestion_of_a_packet_that_is_not_folded_in_says_nothing(game: Game) -> None:
    for sender in (0, 1, 1, 2, 3):
        repeated = sender == 1 and bool(game.golden.verdicts["ADD"])
        out = game.contribute(EVERY, sender, tos=tos(0, 0, 3 if repeated else 2))
    assert game.golden.verdicts["REPEAT"] == 1
    assert model.decode(out[0][1][42:]).flags == 0


def test_congestion_below_is_told_above_and_then_below(game: Game) -> None:
    game.contribute(LEAF, 0, tos=3)
    ((_, frame),) = game.contribute(LEAF, 1)
    assert model.decode(frame[42:]).flags == model.CE
    game.contribute(ROOT, 0, flags=model.CE)
    for worker in (1, 2):
        out = game.contribute(ROOT, worker)
    assert model.decode(out[0][1][42:]).flags == model.CE
    out = game.result_from_above(LEAF, 1, flags=model.CE)
    assert {model.decode(frame[42:]).flags for _, frame in out} == {model.CE}
