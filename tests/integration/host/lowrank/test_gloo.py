# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""ACP-SGD on real gloo ranks: plain models, and models inside DistributedDataParallel."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from helpers.gloo import lowrank_cases as gloo_cases
from helpers.gloo.ranks import Ranks, fork_context
from sumwire.lowrank import check

RANKS = 2


@pytest.mark.parametrize(
    ("view", "unused", "accumulation"),
    [(False, False, 1), (True, False, 1), (False, True, 1), (True, True, 1), (False, False, 2)],
)
def test_model_inside_ddp_trains_as_the_plain_one(ranks: Ranks, view: bool, unused: bool, accumulation: int) -> None:
    one, other = ranks.run(gloo_cases.ddp_and_plain, view, unused, accumulation)
    assert one == other, "replicas differ"
    torch.manual_seed(1)
    torch.testing.assert_close(one["ddp"], one["plain"], rtol=0, atol=1e-12)
    start = torch.cat([p.detach().reshape(-1) for p in gloo_cases.Net().parameters()])
    assert float((torch.tensor(one["ddp"], dtype=torch.float64) - start).norm()) > 0.05


def test_four_processes_follow_the_reference() -> None:
    fork_context()
    found = check.over_gloo()
    assert check.difference(found, check.by_reference()) <= 1e-9
    assert check.replicas_equal(found)


def test_command_prints_what_was_found(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = check.by_reference()
    off = [[(x + 2e-9 * (step == 7), e) for step, (x, e) in enumerate(history)] for history in expected]
    monkeypatch.setattr(sys, "argv", ["check", "--json"])
    monkeypatch.setattr(check, "in_lock_step", lambda: off)
    for gloo, code in ((expected, 1), (off, 1)):
        monkeypatch.setattr(check, "over_gloo", lambda gloo=gloo: gloo)
        assert check.main() == code
        found = json.loads(capsys.readouterr().out)
        assert found["largest_difference"] == pytest.approx(2e-9)
        assert (found["workers"], found["steps"], found["target"], found["holds"]) == (4, 20, 1e-9, False)
    monkeypatch.setattr(check, "in_lock_step", lambda: expected)
    monkeypatch.setattr(check, "over_gloo", lambda: expected)
    assert check.main() == 0
    assert json.loads(capsys.readouterr().out)["holds"] is True
