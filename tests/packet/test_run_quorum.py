# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The quorum of a run: contributions that say how many workers they are, in a job that lets them."""

from __future__ import annotations

import pytest
from golden import model
from helpers.packet.play import Game
from helpers.packet.star import ELASTIC, EVERY, FULL

OPS = pytest.mark.parametrize("op", model.OPS)


@OPS
@pytest.mark.parametrize("run", [2, 3])
def test_a_slot_closes_when_the_run_is_in(game: Game, op: int, run: int) -> None:
    for round_ in range(2):
        for worker in range(run - 1):
            assert game.contribute(ELASTIC, worker, round_=round_, op=op, contributors=run) == []
        out = game.contribute(ELASTIC, run - 1, round_=round_, op=op, contributors=run)
        assert {model.decode(frame[42:]).count for _, frame in out} == {run}
        assert model.decode(out[0][1][42:]).flags & ~model.OVERFLOW == 0
    game.contribute(ELASTIC, 0, round_=1, op=op, contributors=run)
    assert game.golden.verdicts["DUPLICATE"] == 1


@pytest.mark.parametrize("said", [0, 1, 4, 5, 255, 256 + 2, 2**16 + 2, 2**31, 2**32 - 2])
def test_other_numbers_are_the_jobs_quorum(game: Game, said: int) -> None:
    """Below the fewest, the quorum itself, more, and numbers whose low bits would be good ones."""
    for worker in range(3):
        assert game.contribute(ELASTIC, worker, contributors=said) == []
    assert len(game.contribute(ELASTIC, 3, contributors=said)) == 4


@pytest.mark.parametrize("job", [EVERY, FULL], ids=["every", "full"])
def test_a_job_without_such_runs_takes_no_notice(game: Game, job: model.Job) -> None:
    for worker in range(3):
        assert game.contribute(job, worker, contributors=worker + 1) == []


def test_each_packet_speaks_for_itself(game: Game) -> None:
    """Two are in and ask for four; the third says that three are enough."""
    for worker in range(2):
        assert game.contribute(ELASTIC, worker) == []
    assert len(game.contribute(ELASTIC, 2, contributors=3)) == 4


def test_a_repeat_does_not_close(game: Game) -> None:
    """Two are in, and one of them says afterwards that two are enough: a FLUSH could, a repeat cannot."""
    for worker in range(2):
        game.contribute(ELASTIC, worker)
    assert game.contribute(ELASTIC, 0, contributors=2) == []
    assert game.golden.verdicts["REPEAT"] == 1


def test_with_flush_the_field_means_something_else(game: Game) -> None:
    """A FLUSH of one who is not in counts first, and closes only what is full by the job's quorum."""
    assert game.contribute(ELASTIC, 0, flags=model.FLUSH, contributors=2) == []
    assert game.contribute(ELASTIC, 1, flags=model.FLUSH, contributors=2) == []
    out = game.contribute(ELASTIC, 1, flags=model.FLUSH, contributors=2)
    assert model.decode(out[0][1][42:]).flags == model.MISSING
