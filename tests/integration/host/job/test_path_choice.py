# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Means that go by the process group because that is faster, and small tensors across a fall-back, on real ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from golden import model
from helpers.gloo import path_cases
from helpers.gloo.ranks import Ranks
from helpers.transport.udp_bridge import Bridge, golden_switch, job_mapping
from sumwire.job.fallback import LARGE

RANKS = 4
# By the group up to some 3,000 values.
TABLE = {"thc": [[1000, 2e-3, 1e-3], [10_000, 1e-3, 2e-3]]}


def assert_exact(outcomes: list[dict[str, Any]], step: int, length: int) -> None:
    exact = torch.stack([path_cases.tensor(rank, step, length) for rank in range(RANKS)]).mean(0)
    for outcome in outcomes:
        assert outcome["means"][step] == outcomes[0]["means"][step]
        torch.testing.assert_close(torch.tensor(outcome["means"][step]), exact, rtol=0, atol=1e-6)
        assert not any(outcome["residuals"][step])


def test_all_means_go_by_the_group_if_told_to(ranks: Ranks) -> None:
    """No switch is asked: there is none."""
    mapping, lengths = job_mapping(RANKS, 8), [1, 1000, 70_000]
    outcomes = ranks.run(path_cases.reductions, mapping, lengths, {"through": "group"})
    for step, length in enumerate(lengths):
        assert_exact(outcomes, step, length)
    for outcome in outcomes:
        stats = outcome["stats"]
        assert (stats["group_operations"], stats["group_values"]) == (3, sum(lengths))
        assert (stats["operations"], stats["packets_sent"], stats["fallback_operations"]) == (3, 0, 0)


@pytest.mark.parametrize("own", [True, False], ids=["rank 0 has the table", "another rank has it"])
def test_the_table_of_rank_0_counts(ranks: Ranks, tmp_path: Path, own: bool) -> None:
    """Ranks on machines with different tables choose alike."""
    mapping, lengths = job_mapping(RANKS, 64), [1000, 5000, 1000]
    with Bridge(mapping, golden_switch(mapping)):
        for table in (TABLE, None):
            outcomes = []
            for rank in range(RANKS):
                cache = str(tmp_path / ("tuned" if (rank == 0) is own else "empty"))
                kept = table if (rank == 0) is own else None
                ranks.begin_on(rank, path_cases.reductions, mapping, lengths, {}, cache, kept)
            outcomes = ranks.outcomes()
    by_group = 2 if own else 0
    for outcome in outcomes:
        assert outcome["stats"]["group_operations"] == by_group
        assert outcome["means"] == outcomes[0]["means"]
        assert not outcome["log"]
    if own:
        assert_exact(outcomes, 0, 1000)
        assert_exact(outcomes, 2, 1000)


def test_a_broken_table_is_ignored_with_one_warning(ranks: Ranks, tmp_path: Path) -> None:
    mapping = job_mapping(RANKS, 64)
    with Bridge(mapping, golden_switch(mapping)):
        [path] = {outcome["file"] for outcome in ranks.run(path_cases.reductions, mapping, [5], {}, str(tmp_path))}
        Path(path).parent.mkdir()
        Path(path).write_text(json.dumps({"format": 1}))
        outcomes = ranks.run(path_cases.reductions, mapping, [1000], {}, str(tmp_path))
    for outcome in outcomes:
        [line] = outcome["log"]
        assert "is ignored: it must have" in line
        assert outcome["stats"]["group_operations"] == 0


def test_different_options_end_on_all_ranks(ranks: Ranks) -> None:
    mapping = job_mapping(RANKS, 8)
    for rank in range(RANKS):
        ranks.begin_on(rank, path_cases.reductions, mapping, [5], {"through": "group" if rank else "switch"})
    for outcome in ranks.outcomes():
        assert "through = ['switch', 'group', 'group', 'group']: must be equal on all ranks" in outcome["error"]


@pytest.mark.parametrize(
    ("lengths", "buckets", "before", "after"),
    [
        ([1000] * 4, [0, 0, 7, 0], 0, 0),
        ([1000, 1000, 1000, 900], [0] * 4, 0, 0),
        ([1000] * 4, [0, 0, 7, 0], 20, 0),
        ([LARGE] * 4, [0, 0, 7, 0], 20, 12),
    ],
    ids=["buckets", "lengths", "buckets, later", "of large tensors, within 16 calls"],
)
def test_workers_that_disagree_find_out(
    ranks: Ranks, lengths: list[int], buckets: list[int], before: int, after: int
) -> None:
    """Equally long tensors at any time, others in the first calls."""
    errors = ranks.run(path_cases.different_calls, job_mapping(RANKS, 8), lengths, buckets, before, after)
    for error in errors:
        assert error.startswith("OrderError")
        assert "make the same calls" in error


@pytest.mark.parametrize("length", [1000, LARGE])
def test_a_sum_by_the_group_is_exact(ranks: Ranks, length: int) -> None:
    outcomes = ranks.run(path_cases.sums, job_mapping(RANKS, 8), "group", length)
    assert outcomes == [[RANKS, sum(range(RANKS))]] * RANKS


def test_what_tune_measures_is_kept_and_found(ranks: Ranks, tmp_path: Path) -> None:
    mapping = {**job_mapping(RANKS, 64), "ops": ["thc", "max32", "sum32"]}
    with Bridge(mapping, golden_switch(mapping)):
        outcomes = ranks.run(path_cases.tuned, mapping, str(tmp_path), [100, 3000])
    for outcome in outcomes:
        assert outcome == outcomes[0]
        assert outcome["kept"]
        assert outcome["found"] == outcome["table"]
        for rows in outcome["table"].values():
            assert [row[0] for row in rows] == [100, 3000]
            assert all(seconds > 0 for row in rows for seconds in row[1:])
    assert sorted(outcomes[0]["table"]) == ["sum32", "thc"]
    # Calls that are compared take longer than later ones of the job. None of those was measured.
    assert len(outcomes[0]["compared"]) == 16
    assert all(" of 1 values," in call for call in outcomes[0]["compared"])


@pytest.mark.parametrize("group", [False, True], ids=["switch", "every second by the group"])
def test_after_a_fall_back_all_ranks_begin_with_no_scales(ranks: Ranks, group: bool) -> None:
    """The switch is restarted when one rank lacks a result that the others have: it has other scales than they."""
    mapping = job_mapping(RANKS, 64)
    lost = iter([True])
    with Bridge(mapping, golden_switch(mapping)) as bridge:

        def restart(number: int, frame: bytes) -> bool:
            packet = model.decode(frame[42:])
            victim = frame[33] == 2 and packet.kind == model.RESULT and packet.op == model.THC and packet.chunk == 2
            if victim and number > 100 and next(lost, False):
                bridge.switch = golden_switch(mapping)
                return True
            return False

        bridge.mute = restart
        outcomes = ranks.run(path_cases.until_returned, mapping, 6, 1500, group, timeout_s=300)
    for outcome in outcomes:
        assert outcome["means"] == outcomes[0]["means"]
        assert [change.kind for change in outcome["changes"]] == ["fallback", "return"]
        assert "takes no packets of this worker's run any more" in outcome["changes"][0].reason
        stats = outcome["stats"]
        assert stats["one_trip_operations"] >= 2
        assert stats["repeated_operations"] == 0
        assert bool(stats["group_operations"]) is group
