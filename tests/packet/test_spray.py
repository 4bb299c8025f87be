# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A leaf with two switches above: which one it is for a slot and a round, on the way up and for what comes down."""

from __future__ import annotations

import pytest
from golden import model
from helpers.packet.layers import encoded
from helpers.packet.play import Game, contribution, random_payload
from helpers.packet.star import AGGREGATOR, SHARED, SPRAYED

OPS = pytest.mark.parametrize("op", model.OPS)


def way_up(game: Game, job: model.Job, slot: int, round_: int, op: int) -> int:
    game.contribute(job, 0, slot, round_, op)
    ((port, _),) = game.contribute(job, 1, slot, round_, op)
    return port


@OPS
def test_by_slot(game: Game, op: int) -> None:
    ports = [[way_up(game, SHARED, slot, round_, op) for slot in range(8)] for round_ in (0, 1, 6)]
    assert ports == [[4, 3] * 4] * 3


@OPS
def test_by_hash_of_slot_and_round(game: Game, op: int) -> None:
    """Not all rounds of a slot go the same way, nor all slots of a round; and a repeat goes where the first went."""
    ports = [[way_up(game, SPRAYED, slot, round_, op) for slot in range(4)] for round_ in range(6)]
    assert all(len(set(ways)) == 2 for ways in (*ports[:2], *zip(*ports, strict=True)))
    ((port, _),) = game.contribute(SPRAYED, 0, 3, 5, op)
    assert port == ports[5][3]


def test_a_greeting_goes_by_slot_there_too(game: Game) -> None:
    """Workers that greet in different rounds meet at one root."""
    token = game.rig.generation(SPRAYED.number)
    for round_ in range(8):
        game.contribute(SPRAYED, 0, 0, round_, model.MAX32, token=token)
        ((port, _),) = game.contribute(SPRAYED, 1, 0, round_, model.MAX32, token=token)
        assert port == SPRAYED.parents[0].switch.port
        assert len(game.result_from_above(SPRAYED, 0, round_, model.MAX32, token=token)) == 2
    assert game.golden.rejects == {}


def test_a_result_is_taken_from_the_switch_that_was_asked_alone(game: Game) -> None:
    for round_ in range(4):
        asked = way_up(game, SPRAYED, 0, round_, model.THC)
        other = next(parent for parent in SPRAYED.parents if parent.switch.port != asked)
        payload = random_payload(game.rng, model.THC, 8)
        result = contribution(SPRAYED, other.worker, 0, round_, payload)
        result = result._replace(kind=model.RESULT, contributors=0xFF, count=4)
        frame = model.udp_frame(other.switch, AGGREGATOR, encoded(result))
        assert game.frame(other.switch.port, frame) == []
        assert len(game.result_from_above(SPRAYED, 0, round_)) == 2
    assert game.golden.rejects == {"PARENT": 4}
