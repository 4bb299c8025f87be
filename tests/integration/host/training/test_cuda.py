# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Training on a GPU that two ranks share: DistributedDataParallel, single tensors, nodes and outer steps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from helpers.aggregator.served import serving
from helpers.device import ddp, sharded, tensors, ways
from helpers.device.rig import (
    DEVICE,
    RANKS,
    assert_learns,
    assert_replicas,
    beside_rank_0,
    every_op,
    mean_loss,
    needs_device,
    of_two_nodes,
)
from helpers.gloo.ranks import Ranks
from helpers.transport.udp_bridge import job_mapping

pytestmark = needs_device


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    with Ranks(RANKS, tmp_path) as started:
        yield started


@pytest.mark.parametrize("way", ddp.WAYS)
def test_replicas_are_equal_and_learn_as_without_the_hook(ranks: Ranks, way: str) -> None:
    outcomes = ranks.run(ddp.ddp, DEVICE, beside_rank_0(), way, timeout_s=300)
    assert_replicas(outcomes)
    ours, exact = mean_loss(outcomes), mean_loss(outcomes, "exact")
    assert float(ours[-5:].mean()) == pytest.approx(float(exact[-5:].mean()), rel=0.15)
    for outcome in outcomes:
        assert outcome["finite"]
        assert outcome["fallbacks"] == 0
        assert outcome["scale"] == outcomes[0]["scale"]
        assert outcome["scale"] == 1.0 if not ddp.WAYS[way].scaled else outcome["scale"] < ddp.SCALE


@pytest.mark.parametrize("side_stream", [False, True])
def test_buckets_are_whole_when_they_are_read(ranks: Ranks, side_stream: bool) -> None:
    size = 2048 if DEVICE == "cuda" else 256
    outcomes = ranks.run(ddp.whole_buckets, DEVICE, beside_rank_0(), side_stream, size)
    assert_replicas(outcomes)
    # The GPU adds in another order each time.
    assert outcomes[0]["error"] < 1e-3


def test_a_checkpoint_goes_on_bit_by_bit(ranks: Ranks) -> None:
    for outcome in ranks.run(ddp.goes_on_from_a_state, DEVICE, beside_rank_0()):
        assert outcome["going on"] == outcome["loaded"]


def test_training_goes_on_without_its_aggregator(ranks: Ranks, tmp_path: Path) -> None:
    mapping = job_mapping(RANKS, 64)
    with serving(mapping):
        ranks.begin(ddp.loses_its_aggregator, DEVICE, mapping, str(tmp_path))
        until = time.monotonic() + 50
        while not all((tmp_path / f"begun{rank}").exists() for rank in range(RANKS)) and time.monotonic() < until:
            time.sleep(0.01)
    (tmp_path / "ended").touch()
    outcomes = ranks.outcomes()
    assert_replicas(outcomes)
    assert [(outcome["fallbacks"], outcome["fallen"]) for outcome in outcomes] == [(1, True)] * RANKS
    assert_learns(outcomes)


@pytest.mark.parametrize("by", ["kernels", "mixed", "torch"])
def test_error_feedback(ranks: Ranks, by: str) -> None:
    outcomes = ranks.run(tensors.error_feedback, DEVICE, beside_rank_0(), by)
    assert outcomes[0]["digests"] == outcomes[1]["digests"], "a GPU and a processor have equal bits"
    assert outcomes[0]["error"] < 1e-3


@pytest.mark.parametrize("through", ["switch", "group"])
def test_one_tensor(ranks: Ranks, tmp_path: Path, through: str) -> None:
    with every_op(tmp_path) as options:
        outcomes = ranks.run(tensors.one_tensor, DEVICE, options, through)
    assert_replicas(outcomes)
    for outcome in outcomes:
        assert outcome["wrong"] == []
        assert outcome["nan"]


def test_ranks_share_the_worker_of_their_node(tmp_path: Path) -> None:
    with Ranks(4, tmp_path) as ranks, of_two_nodes() as options:
        outcomes = ranks.run(ways.of_nodes, DEVICE, options)
    assert_replicas(outcomes)
    for outcome in outcomes:
        assert outcome["kind"] == "NodeJob"
        assert outcome["error"] < 0.02
        assert outcome["total"] == (10 * torch.arange(100)).tolist()


@pytest.mark.parametrize(("precision", "overlap"), [("4bit", 0), ("8bit", 1), ("exact", 1)])
def test_outer_steps(ranks: Ranks, precision: str, overlap: int) -> None:
    outcomes = ranks.run(ways.outer, DEVICE, beside_rank_0(), precision, overlap)
    assert_replicas(outcomes)
    assert outcomes[0]["shared"] == outcomes[1]["shared"]
    assert all(loss < 2 for loss in outcomes[0]["losses"])


@pytest.mark.parametrize("backend", ["nccl", "cpu:gloo,cuda:nccl"])
def test_one_rank_with_nccl(tmp_path: Path, backend: str) -> None:
    """Alone: NCCL takes a GPU for each rank."""
    with Ranks(1, tmp_path, backend if DEVICE == "cuda" else "gloo") as ranks:
        for way in ("plain", "float16 scaler", "side stream", "compiled"):
            [outcome] = ranks.run(ddp.ddp, DEVICE, beside_rank_0(), way, timeout_s=300)
            assert outcome["finite"]
            assert outcome["fallbacks"] == 0
            assert outcome["losses"][-1] == pytest.approx(outcome["exact"][-1], rel=0.2)
        [text] = ranks.run(ways.hops)
        alone = DEVICE == "cuda" and backend == "nccl"
        assert text.startswith("a process group for cuda alone: hops need one for processors too" if alone else "")
        assert bool(text) == alone
        [outcome] = ranks.run(sharded.sharded, DEVICE, beside_rank_0(), "float32", timeout_s=300)
        assert outcome["error"] < 5e-3
