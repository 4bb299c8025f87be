# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The schedule, played with sets of workers in place of signs: nobody is left out, nobody counts twice."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from sumwire.multihop import schedule
from sumwire.multihop.distributed import RingSigns
from sumwire.multihop.schedule import ScheduleError, Step

UNITS = (0, 1, 2, 5, 16, 37)
SHAPES = [(rows, cols) for rows in range(1, 17) for cols in range(1, 17) if rows * cols <= 16]


def play(plans: list[list[Step]], units: int) -> list[list[frozenset[int]]]:
    """Every unit of every rank starts as the rank itself; checks partners, sizes and weights at each hop."""
    ranks = len(plans)
    data = [[frozenset({rank})] * units for rank in range(ranks)]
    for steps in zip(*plans, strict=True):
        sent = [data[rank][step.send.start : step.send.stop] for rank, step in enumerate(steps)]
        for rank, step in enumerate(steps):
            peer = steps[step.source]
            assert (peer.to, peer.send, peer.send_weight) == (rank, step.receive, step.receive_weight)
            for unit, theirs in zip(range(step.receive.start, step.receive.stop), sent[step.source], strict=True):
                own = data[rank][unit]
                assert len(theirs) == step.receive_weight
                if step.merges:
                    assert len(own) == step.own_weight
                    assert not own & theirs
                data[rank][unit] = own | theirs if step.merges else theirs
    return data


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize("ranks", range(1, 17))
def test_ring(ranks: int, units: int) -> None:
    plans = [schedule.ring(ranks, rank, units) for rank in range(ranks)]
    assert play(plans, units) == [[frozenset(range(ranks))] * units] * ranks
    assert {len(plan) for plan in plans} == {2 * (ranks - 1)}
    assert sum(step.send.size for plan in plans for step in plan) == 2 * (ranks - 1) * units


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_torus(shape: tuple[int, int]) -> None:
    rows, cols = shape
    for units in UNITS:
        plans = [schedule.torus(rows, cols, rank, units) for rank in range(rows * cols)]
        assert play(plans, units) == [[frozenset(range(rows * cols))] * units] * (rows * cols)
        assert {len(plan) for plan in plans} == {2 * (rows - 1) + 2 * (cols - 1)}


def test_a_torus_talks_along_its_rows_and_columns_only() -> None:
    rows, cols = 2, 4
    for rank in range(8):
        for step in schedule.torus(rows, cols, rank, 64):
            same_row = step.to // cols == rank // cols
            same_column = step.to % cols == rank % cols
            assert same_row != same_column


def test_a_ring_step_moves_one_part_of_the_whole() -> None:
    assert {step.send.size for step in schedule.ring(8, 3, 64)} == {8}
    assert {step.send.size for step in schedule.ring(8, 3, 60)} == {7, 8}


@pytest.mark.parametrize(("ranks", "rows"), [(4, 3), (6, 4), (5, 2), (4, 0), (4, -2), (2, 4)])
def test_rows_that_do_not_divide_are_refused(ranks: int, rows: int) -> None:
    with pytest.raises(ScheduleError, match=f"{rows} rows"):
        schedule.columns_of(ranks, rows)


@pytest.mark.parametrize(("ranks", "rank"), [(4, 4), (4, -1), (0, 0), (256, 0)])
def test_ranks_out_of_range_are_refused(ranks: int, rank: int) -> None:
    with pytest.raises(ScheduleError, match="rank"):
        schedule.ring(ranks, rank, 8)


class Group:
    """One of NCCL."""

    _device_types = (torch.device("cuda"),)


def test_hops_need_a_group_for_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda _: 2)
    monkeypatch.setattr(dist, "get_rank", lambda _: 0)
    with pytest.raises(
        ScheduleError, match=r"for cuda alone: hops need .*: init_process_group\(.cpu:gloo,cuda:nccl.\)"
    ):
        RingSigns(Group())  # type: ignore[arg-type]
