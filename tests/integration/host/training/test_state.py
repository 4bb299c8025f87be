# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Training that goes on from a checkpoint in new processes, against training that was never cut."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.aggregator.served import every_op_mapping, serving
from helpers.dlcp.lanes import lane_mapping
from helpers.gloo import state_cases as cases
from helpers.gloo.ranks import Ranks

CUT, END = 4, 8
OVER_A_GROUP: dict[str, dict[str, Any]] = {
    "ssgd": {},
    "thc": {},
    "topk": {"k": 0.1},
    "ef-sign": {},
    "powersgd": {"rank": 1, "start_iter": 2, "min_compression": 1.1},
    "acp": {"rank": 2, "min_compression": 1.0},
    "acp-thc": {"rank": 2, "min_compression": 1.0},
    "marsit-ring": {"global_lr": 0.01, "full_precision_every": 3},
    "marsit-torus": {"global_lr": 0.01, "full_precision_every": 3, "rows": 1},
    "cascade": {"stochastic": True},
}
OVER_A_SWITCH: dict[str, dict[str, Any]] = {
    "thc": {},
    "dlcp": {},
    "sum32": {},
    "acp": {"rank": 2, "min_compression": 1.0},
    "acp-thc": {"rank": 2, "min_compression": 1.0},
}

# The aggregator draws signs from a generator of its own, in the order of arrival: no two runs are alike.
DRAWN: dict[str, dict[str, Any]] = {
    "ef-sign": {},
    "marsit": {"global_lr": 0.01, "full_precision_every": 3},
}


def run(ranks: int, folder: Path, name: str, mapping: cases.Job, *case: Any) -> list[list[float]]:
    """What every rank returns, in processes that end afterwards, with an aggregator that does so too."""
    folder.mkdir()
    with contextlib.nullcontext() if mapping is None else serving(dict(mapping)), Ranks(ranks, folder) as started:
        return started.run(cases.train, name, mapping, *case)


def compare(tmp_path: Path, name: str, mapping: cases.Job, options: Mapping[str, Any], ddp: bool) -> None:
    store = str(tmp_path)
    whole = [
        run(2, tmp_path / f"whole{number}", name, mapping, options, ddp, (0, END), str(tmp_path / f"unused{number}"))
        for number in range(2)
    ]
    assert whole[0] == whole[1], "two runs without a cut differ"
    assert whole[0][0] == whole[0][1], "the replicas differ"
    before = run(2, tmp_path / "before", name, mapping, options, ddp, (0, CUT), store)
    assert before[0] != whole[0][0]
    after = run(2, tmp_path / "after", name, mapping, options, ddp, (CUT, END), store)
    assert after == whole[0]


@pytest.mark.parametrize("ddp", [False, True], ids=["plain", "ddp"])
@pytest.mark.parametrize("name", OVER_A_GROUP)
def test_over_a_group_it_goes_on_with_the_same_bits(tmp_path: Path, name: str, ddp: bool) -> None:
    compare(tmp_path, name, None, OVER_A_GROUP[name], ddp)


@pytest.mark.parametrize("ddp", [False, True], ids=["plain", "ddp"])
@pytest.mark.parametrize("name", OVER_A_SWITCH)
def test_over_a_switch_it_goes_on_with_the_same_bits(tmp_path: Path, name: str, ddp: bool) -> None:
    mapping = lane_mapping(2, 2) if name == "dlcp" else every_op_mapping(workers=2)
    compare(tmp_path, name, mapping, OVER_A_SWITCH[name], ddp)


@pytest.mark.parametrize("name", DRAWN)
def test_a_state_is_restored_bit_for_bit_where_the_switch_draws(tmp_path: Path, name: str) -> None:
    mapping, options = every_op_mapping(workers=2), DRAWN[name]
    run(2, tmp_path / "before", name, mapping, options, False, (0, CUT), str(tmp_path))
    (tmp_path / "after").mkdir()
    with serving(mapping), Ranks(2, tmp_path / "after") as ranks:
        assert ranks.run(cases.saved, name, mapping, options, str(tmp_path)) == [True, True]


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 3)])
def test_another_number_of_processes_divides_the_residuals(tmp_path: Path, before: int, after: int) -> None:
    outcomes = []
    for number in (before, after):
        (tmp_path / f"{number}").mkdir()
        with Ranks(number, tmp_path / f"{number}") as ranks:
            outcomes.append(ranks.run(cases.divided, "topk", {"k": 0.2}, str(tmp_path)))
    (old, _), (new, refused) = (zip(*outcome, strict=True) for outcome in outcomes)
    means = [torch.tensor(residuals).mean(0) for residuals in (old, new)]
    torch.testing.assert_close(means[0], means[1])
    assert float(means[0].norm()) > 1
    assert f"saved by {before} workers, loaded by worker {after - 1} of {after}" in refused[-1]
    assert "sumwire.checkpoint.read(path, name)" in refused[-1]
