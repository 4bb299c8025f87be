# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which election ids a controller asks for, whatever a switch has seen."""

from __future__ import annotations

import pytest
from google.rpc import code_pb2
from sumwire_controller.deploy.session import HIGHEST_ID, Election

PRIMARY, TAKEN, NOBODY = code_pb2.OK, code_pb2.ALREADY_EXISTS, code_pb2.NOT_FOUND


@pytest.mark.parametrize("highest", [0, 1, 2**63, 2**64 - 1, 2**64, HIGHEST_ID - 1])
def test_an_id_that_somebody_left_behind_is_followed_by_the_next(highest: int) -> None:
    election = Election()
    assert election.answer(NOBODY, highest) == highest + 1
    assert (election.answer(PRIMARY, highest + 1), election.won) == (None, True)


def test_bmv2_makes_primary_who_only_asked() -> None:
    election = Election()
    assert (election.answer(PRIMARY, 0), election.won) == (1, False)
    assert (election.answer(PRIMARY, 1), election.won) == (None, True)


def test_a_connected_primary_is_left_alone_until_it_leaves() -> None:
    election = Election()
    assert (election.answer(TAKEN, 9), election.primary, election.claimed) == (None, 9, None)
    assert (election.answer(NOBODY, 9), election.primary) == (10, None)
    assert (election.answer(PRIMARY, 10), election.won) == (None, True)


def test_a_connected_primary_is_outranked_only_on_demand() -> None:
    election = Election(take_over=True)
    assert (election.answer(TAKEN, 9), election.primary) == (10, 9)
    assert (election.answer(PRIMARY, 10), election.won) == (None, True)


def test_who_comes_in_between_is_outranked_by_one_more() -> None:
    election = Election()
    assert election.answer(NOBODY, 9) == 10
    assert (election.answer(TAKEN, 12), election.won) == (None, False)
    assert election.answer(NOBODY, 12) == 13
    assert (election.answer(PRIMARY, 13), election.won) == (None, True)


def test_old_news_is_no_answer() -> None:
    election = Election(take_over=True)
    assert election.answer(TAKEN, 9) == 10
    assert (election.answer(PRIMARY, 0), election.won) == (None, False)  # bmv2: the other has left meanwhile
    assert (election.answer(NOBODY, 9), election.won) == (None, False)
    assert (election.answer(PRIMARY, 10), election.won) == (None, True)


def test_the_highest_id_of_all_may_be_had_again() -> None:
    election = Election()
    assert (election.answer(NOBODY, HIGHEST_ID), election.refused) == (HIGHEST_ID, False)
    assert (election.answer(PRIMARY, HIGHEST_ID), election.won) == (None, True)


def test_nobody_outranks_the_highest_id_of_all() -> None:
    election = Election(take_over=True)
    assert (election.answer(TAKEN, HIGHEST_ID), election.refused, election.won) == (None, True, False)
    waiting = Election()
    assert (waiting.answer(TAKEN, HIGHEST_ID), waiting.refused) == (None, False)


def test_a_switch_that_grants_the_highest_id_only_once() -> None:
    election = Election()
    assert election.answer(NOBODY, HIGHEST_ID) == HIGHEST_ID
    assert (election.answer(NOBODY, HIGHEST_ID), election.refused) == (None, True)
