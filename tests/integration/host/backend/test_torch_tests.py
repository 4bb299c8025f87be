# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own tests of process groups on the backend: those that docs/backend.md lists."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from helpers.gloo import backend_cases, torch_cases
from helpers.gloo.ranks import Ranks
from helpers.paths import ROOT
from helpers.transport.udp_bridge import job_mapping

RANKS = 4
PAGE = (ROOT / "docs" / "backend.md").read_text()
SHORT = {
    "DistributedDataParallelCPU", "accumulate_gradients_no_sync", "all_gather_coalesced_simple",
    "all_reduce_coalesced_max", "all_reduce_group_min", "all_reduce_min", "all_reduce_sum_async", "barrier",
    "broadcast_group", "gather_object", "get_backend", "get_future", "reduce_group_max", "reduce_max", "scatter",
    "send_recv_any_source", "sparse_all_reduce_sum",
}  # fmt: skip


def listed() -> list[str]:
    """The names in the page, without their prefix."""
    block = re.search(r"```text\n(.*?)```", PAGE.partition("## PyTorch's own tests")[2], re.DOTALL)
    assert block is not None
    return block[1].split()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    """Everything that the network can do exactly goes through it."""
    pytest.importorskip("expecttest")
    mapping = {**job_mapping(RANKS, 64), "ops": ["thc", "max32", "sum32"]}
    with backend_cases.ranks_with_job(mapping, tmp_path_factory.mktemp("torch")) as started:
        started.run(backend_cases.chosen, "exact", 1)
        yield started


@pytest.mark.parametrize("name", [n if n in SHORT else pytest.param(n, marks=pytest.mark.long) for n in listed()])
def test_of_torch(ranks: Ranks, name: str) -> None:
    assert ranks.run(torch_cases.run_test, f"test_{name}", timeout_s=300) == ["passed"] * RANKS


def test_the_network_took_part(ranks: Ranks) -> None:
    """In what the tests above have done, and in this one."""
    ranks.run(torch_cases.run_test, "test_all_reduce_full_group_max", timeout_s=300)
    ranks.run(torch_cases.run_test, "test_all_reduce_max", timeout_s=300)
    assert min(ranks.run(backend_cases.network_operations)) > 0


def test_the_count_in_the_page_is_that_of_its_list() -> None:
    assert f"These {len(listed())} pass" in PAGE
    assert len({*listed()}) == len(listed())
    assert {*listed()} >= SHORT
