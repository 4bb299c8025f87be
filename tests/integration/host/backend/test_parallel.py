# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""DDP, FSDP2, HSDP, ZeRO, tensor-parallel layers and pipelines on the backend, unchanged, against gloo."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.gloo import backend_cases, parallel_cases
from helpers.gloo.ranks import Ranks
from helpers.transport.udp_bridge import job_mapping

RANKS = 4
# Squared distance of the parameters' changes after three steps, over their square: one step's is 0.02 at most, and
# errors of different steps are independent. Below: they did go by the codec.
MOST, LEAST = 0.03, 0.0003


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    with backend_cases.ranks_with_job(job_mapping(RANKS, 64), tmp_path_factory.mktemp("parallel")) as started:
        yield started


# A step is one bucket of DDP (five small ones with unused parameters), three groups of FSDP2's layers.
GRADIENTS = [
    ("ddp", 3), ("ddp unused", 15), ("ddp static", 3), ("ddp hook", 3), ("ddp compiled", 3), ("ddp joined", 3),
    ("zero", 3), ("fsdp1", 3), ("fsdp2", 9),
]  # fmt: skip


OTHERS = [("ddp own hook", 0), ("tensor parallel", 0), ("pipeline", 0)]


@pytest.mark.parametrize("name", parallel_cases.TRAININGS)
@pytest.mark.few(6)
def test_exact_trainings_have_gloo_s_bits(ranks: Ranks, name: str) -> None:
    for outcome in ranks.run(parallel_cases.trained, name, "exact"):
        assert outcome["equal"]
        assert outcome["used"] == 0
        assert outcome["moved"] > 0.1


@pytest.mark.parametrize(
    ("name", "operations", "precision"),
    # By default gradients alone. A step of tensor-parallel layers is one sum of activations whose gradient is no sum.
    [
        *[(name, operations, None) for name, operations in [*GRADIENTS, *OTHERS]],
        ("tensor parallel", 3, "4bit"),
        ("pipeline", 0, "4bit"),
    ],
)
@pytest.mark.few(5)
def test_trainings_at_4_bits_are_near(ranks: Ranks, name: str, operations: int, precision: str | None) -> None:
    for outcome in ranks.run(parallel_cases.trained, name, precision):
        assert outcome["used"] == operations
        assert outcome["error"] <= MOST
        assert outcome["equal"] == (operations == 0)
        assert operations == 0 or outcome["error"] > LEAST


def test_the_ddp_hook_refuses_fsdp1_with_a_cure(ranks: Ranks) -> None:
    for text in ranks.run(parallel_cases.hook_of_ddp):
        assert "gradient of FullyShardedDataParallel: leave out register_comm_hook, and call sumwire.sharded" in text


def test_the_built_in_hook_for_float16_is_refused_with_a_cure(ranks: Ranks) -> None:
    for text in ranks.run(parallel_cases.built_in_hook):
        assert text.startswith(
            "UsageError: DistributedDataParallel with the built-in hook FP16_COMPRESS: does not work"
        )
        assert "leave the hook out, since gradients are compressed here" in text


def test_replicas_of_hsdp_go_by_lanes(tmp_path: Path) -> None:
    """Two nodes of two ranks: shards within the node beneath, and replicas through the lane of their number."""
    mapping = job_mapping(parallel_cases.NODES, 64)
    mapping["lanes"] = [{"job": mapping["job"] + lane, "slots": 64} for lane in range(RANKS // parallel_cases.NODES)]
    with backend_cases.ranks_with_job(mapping, tmp_path) as ranks:
        exact, near = (ranks.run(parallel_cases.hybrid, precision) for precision in ("exact", None))
    for rank in range(RANKS):
        assert exact[rank]["error"] < 1e-9
        assert exact[rank]["operations"] == 0
        assert LEAST < near[rank]["error"] < MOST
        assert near[rank]["operations"] == 3 * parallel_cases.STEPS
        assert (near[rank]["worker"], near[rank]["lane"]) == (rank // 2, mapping["job"] + rank % 2)
        assert near[rank]["shards beneath"]
        assert near[rank]["world beneath"]
