# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""FSDP2, FSDP1 and ZeRO on four gloo ranks, with gradients through a software aggregator on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from helpers.aggregator.served import serving as aggregator_serving
from helpers.gloo import sharded_cases
from helpers.gloo.ranks import Ranks
from helpers.transport.udp_bridge import addresses
from sumwire.start.job_request import JobRequest, job_file_for
from sumwire.start.service import serving

RANKS = 4
NODES = 2
# Squared error of one mean over its squared norm, at 4 bits and 4 workers; and what an exact one stays below.
MOST, LEAST, EXACT = 0.03, 0.003, 1e-9


@contextmanager
def job_of(ranks: Ranks, hosts: int, **options: Any) -> Iterator[None]:
    """A job of so many machines, open on all ranks."""
    aggregator, ips = addresses(hosts)
    description = job_file_for(ips, aggregator, JobRequest())
    with ExitStack() as stack:
        if options.get("fallback") != "always":
            stack.enter_context(aggregator_serving(description))
        port = stack.enter_context(serving(description, aggregator, 0))
        kinds = ranks.run(sharded_cases.open_job, {"service": f"{aggregator}:{port}", **options})
        assert kinds == ["Job" if hosts == RANKS else "NodeJob"] * RANKS
        yield
        ranks.run(sharded_cases.close_job)


@dataclass(frozen=True)
class Way:
    """``nodes``: over the ranks of each of so many the model is sharded; None: over all ranks."""

    ranks: Ranks
    nodes: int | None

    def run(self, case: Any, *arguments: Any) -> list[Any]:
        return self.ranks.run(case, *arguments)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((RANKS, None), id="every rank a worker"),
        pytest.param((NODES, None), id="over all ranks of nodes", marks=pytest.mark.long),
        pytest.param((NODES, NODES), id="shards in nodes"),
    ],
)
def way(ranks: Ranks, request: pytest.FixtureRequest) -> Iterator[Way]:
    hosts, nodes = request.param
    with job_of(ranks, hosts):
        yield Way(ranks, nodes)


def workers(outcomes: list[dict[str, Any]]) -> list[int]:
    """Operations through the network, of those ranks that make some."""
    return [outcome["used"] for outcome in outcomes if outcome["used"]]


def test_a_mean_is_near_and_feedback_brings_many_nearer(way: Way) -> None:
    """Errors of means without feedback are independent: five have a fifth of one's. With it they do not add up."""
    once = way.run(sharded_cases.repeated, way.nodes, 1, {})
    many = way.run(sharded_cases.repeated, way.nodes, 5, {})
    without = way.run(sharded_cases.repeated, way.nodes, 5, {"error_feedback": False, "overlap": False})
    for one, other, third in zip(once, many, without, strict=True):
        assert LEAST < one["error"] < MOST
        assert other["error"] < third["error"] / 2 < one["error"] / 5
    # A pass is one exchange of each of three units.
    assert set(workers(once)) == {3}
    assert set(workers(many)) == {15}


@pytest.mark.long
def test_precision_is_chosen(way: Way) -> None:
    for outcome in way.run(sharded_cases.repeated, way.nodes, 1, {"precision": "8bit"}):
        assert EXACT < outcome["error"] < MOST / 10
    for outcome in way.run(sharded_cases.repeated, way.nodes, 1, {"precision": "exact"}):
        assert outcome["error"] < EXACT


@pytest.mark.parametrize(
    ("reduce", "overlap"),
    [("bfloat16", True), *(pytest.param("float32", late, marks=pytest.mark.long) for late in (True, False))],
)
def test_mixed_precision(way: Way, reduce: str, overlap: bool) -> None:
    """Torch converts a mean of another type than the parameters' at once: the backward pass waits for it."""
    for outcome in way.run(sharded_cases.of_dtypes, way.nodes, reduce, overlap):
        assert outcome["deferred"] == 3 * [overlap and reduce == "float32"]
        assert LEAST < outcome["error"] < MOST
        assert outcome["dtypes"] == {"torch.float32"}


def test_gradients_accumulate_with_and_without_exchange(way: Way) -> None:
    outcomes = way.run(sharded_cases.accumulated, way.nodes)
    for outcome in outcomes:
        assert EXACT < outcome["error"] < MOST / 10
        assert outcome["silent"] == 0
        assert outcome["twice"] == 2 * outcome["once"]
    # At 8 bits an exchange is two operations.
    assert outcomes[0]["once"] == 6


@pytest.mark.parametrize("late", [False, pytest.param(True, marks=pytest.mark.long)])
def test_parameters_with_8_bits(job: Ranks, late: bool) -> None:
    """All ranks compute with the same rounded ones, and shards stay as they are. Units are gathered twice, as their
    parameters are resharded between the passes, but for the outermost."""
    for outcome in job.run(sharded_cases.rounded, None, late):
        assert LEAST < outcome["error"] < MOST
        assert 1e-4 < outcome["off"] <= 1.001 / 254
        assert outcome["equal"] and outcome["kept"]
        assert 2 * 8 < outcome["bits"] < 2 * 8.5
        assert outcome["used"] == 3


@pytest.fixture(scope="module")
def job(ranks: Ranks) -> Iterator[Ranks]:
    with job_of(ranks, RANKS):
        yield ranks


@pytest.mark.parametrize("strategy", ["FULL_SHARD", pytest.param("NO_SHARD", marks=pytest.mark.long)])
def test_fsdp1(job: Ranks, strategy: str) -> None:
    once, many = (job.run(sharded_cases.by_fsdp1, strategy, steps, {}) for steps in (1, 5))
    without = job.run(sharded_cases.by_fsdp1, strategy, 5, {"error_feedback": False})
    for one, other, third in zip(once, many, without, strict=True):
        assert LEAST < one["error"] < MOST
        assert other["error"] < third["error"] / 2
        assert one["used"] == 2


def test_unused_parameters(job: Ranks) -> None:
    """Their residuals know values by place. torch can fill up with zeros; without residuals nothing is needed."""
    for outcome in job.run(sharded_cases.unused, {}, False):
        assert "some had none in this pass: call model.set_reduce_scatter_unused_params(True)" in outcome["text"]
    for options, told in (({}, True), ({"error_feedback": False}, False)):
        for outcome in job.run(sharded_cases.unused, options, told):
            assert not outcome["text"]
            # Of the second pass: it has the first one's residual, which is not lost.
            assert LEAST < outcome["error"] < 2 * MOST


def test_a_pass_that_is_not_finite_leaves_all_residuals(job: Ranks) -> None:
    for outcome in job.run(sharded_cases.not_finite):
        assert outcome == {"spoilt": True, "same": True, "goes on": True, "units": 3}


def test_a_state_of_other_units_is_refused(job: Ranks) -> None:
    for text in job.run(sharded_cases.other_units):
        assert "on 4 ranks, here they are model: " in text


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("plain", "Sequential: is not sharded: call fully_shard(model) before"),
        ("two dimensions", 'the mesh of the shards alone, mesh["shard"]'),
        ("other ranks", "must be all ranks, or those of this node"),
        ("hybrid", "HYBRID_SHARD has no hook in torch"),
        ("rounded FSDP1", "parameters = '8bit': FSDP1 lets nobody gather for it: use fully_shard"),
        ("rounded in nodes", "so no parameters travel between nodes: leave parameters out"),
        ("rounded to 3 bits", "parameters = '3bit': must be one of 'exact', '8bit'"),
    ],
)
def test_models_that_cannot_be_served_are_refused(job: Ranks, what: str, text: str) -> None:
    assert all(text in said for said in job.run(sharded_cases.refused, what))


def test_zero_s_optimizer_beside_the_hook_of_ddp(job: Ranks) -> None:
    outcomes = job.run(sharded_cases.by_zero)
    for outcome in outcomes:
        assert LEAST / 10 < outcome["error"] < MOST
        assert outcome["equal"]
    # Each rank keeps the momentum of its parameters alone.
    assert sum(outcome["states"] for outcome in outcomes) == outcomes[0]["parameters"]


def test_without_an_aggregator_means_are_exact(ranks: Ranks) -> None:
    """The fall-back's, between the first ranks of the nodes."""
    with job_of(ranks, NODES, fallback="always"):
        outcomes = ranks.run(sharded_cases.repeated, NODES, 1, {})
    assert [outcome["fallbacks"] for outcome in outcomes] == [1, 0, 1, 0]
    assert all(outcome["error"] < EXACT for outcome in outcomes)


@pytest.mark.parametrize(
    ("hosts", "nodes"),
    [
        (NODES, NODES),
        *(pytest.param(hosts, None, marks=pytest.mark.long) for hosts in (RANKS, NODES)),
    ],
)
def test_training_goes_on_from_a_checkpoint_bit_for_bit(
    ranks: Ranks, hosts: int, nodes: int | None, tmp_path: Path
) -> None:
    """Each part with a new job, as new processes have one."""
    found = []
    for steps, folder in (((0, 5), "through"), ((0, 3), "cut"), ((3, 5), "cut")):
        with job_of(ranks, hosts):
            found.append(ranks.run(sharded_cases.trained, nodes, steps, str(tmp_path / folder)))
    through, cut, went_on = found
    assert went_on == through
    assert all(parameters == through[0] for parameters in through)
    assert cut[0] != through[0]
