# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""FSDP2 and FSDP1 on a GPU that the ranks share."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.device import sharded
from helpers.device.rig import DEVICE, RANKS, beside_rank_0, needs_device, of_two_nodes
from helpers.gloo.ranks import Ranks

pytestmark = needs_device


@pytest.mark.parametrize("kind", ["float32", "mixed", "FULL_SHARD", "NO_SHARD"])
def test_over_all_ranks(tmp_path: Path, kind: str) -> None:
    with Ranks(RANKS, tmp_path) as ranks:
        outcomes = ranks.run(sharded.sharded, DEVICE, beside_rank_0(), kind)
    for outcome in outcomes:
        assert outcome["error"] < 5e-3
        assert outcome["operations"] >= sharded.STEPS


def test_within_nodes(tmp_path: Path) -> None:
    with Ranks(4, tmp_path) as ranks, of_two_nodes() as options:
        outcomes = ranks.run(sharded.sharded, DEVICE, options, "float32", 2)
    for outcome in outcomes:
        assert outcome["error"] < 5e-3
