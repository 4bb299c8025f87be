# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The backend on a GPU."""

from __future__ import annotations

from pathlib import Path

from helpers.aggregator.served import every_op_mapping, serving
from helpers.device import collectives
from helpers.device.rig import DEVICE, RANKS, needs_device
from helpers.gloo.ranks import Ranks

pytestmark = needs_device


def test_ranks_that_share_a_gpu(tmp_path: Path) -> None:
    check(tmp_path, RANKS, "sumwire", nccl=False)


def test_one_rank_with_nccl_beneath(tmp_path: Path) -> None:
    """Alone: NCCL takes a GPU for each rank."""
    check(tmp_path, 1, "sumwire", nccl=True)


def test_tensors_of_a_gpu_by_nccl_alone(tmp_path: Path) -> None:
    check(tmp_path, 1, "cpu:sumwire,cuda:nccl", nccl=True, through_network=DEVICE == "cpu")


def check(folder: Path, ranks: int, backend: str, *, nccl: bool, through_network: bool = True) -> None:
    mapping = every_op_mapping(ranks)
    with Ranks(ranks, folder) as started, serving(mapping):
        outcomes = started.run(collectives.wrong, DEVICE, mapping, str(folder), backend, nccl, timeout_s=300)
    for outcome in outcomes:
        assert outcome["wrong"] == []
        assert bool(outcome["used"]) == through_network
