# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs whose tensors may lack contributions: the mean is that of who is in it, and nothing is lost for good."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sumwire
import torch
from helpers.transport.udp_bridge import Bridge, Impairment, configs, golden_switch, job_mapping, run_workers
from numpy.typing import NDArray
from sumwire.transport.options import Delivery
from torch import Tensor

WORKERS = 4
CHUNK = 1024


def tensors(length: int, seed: int = 1) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(length, generator=generator) for _ in range(WORKERS)]


def reduced(
    delivery: Delivery, given: list[Tensor], weather: Impairment, **job: Any
) -> list[tuple[Tensor, Tensor, sumwire.transport.stats.JobStats]]:
    """(mean, residual, counters) of every worker."""
    mapping = job_mapping(WORKERS, 1024)

    def work(worker: int) -> tuple[Tensor, Tensor, Any]:
        with sumwire.Job(configs(mapping)[worker], delivery=delivery, **job) as one:
            mean, residual = one.reduce(given[worker])
            return mean, residual(), one.stats

    with Bridge(mapping, golden_switch(mapping), weather):
        return run_workers(work, WORKERS)


def left_out(x: Tensor, residual: Tensor) -> NDArray[np.bool_]:
    """Chunks of which everything is in the residual, shape (chunks,)."""
    same = torch.isclose(x, residual, atol=1e-5).view(-1, CHUNK).all(1)
    return same.numpy()


@pytest.mark.parametrize("divisor", ["contributors", "workers"])
def test_mean_of_contributors_and_the_rest_in_the_residual(divisor: Any) -> None:
    """A block of the rotation is a chunk here, so the parts of the mean can be told apart."""
    given = tensors(200 * CHUNK)
    outcomes = reduced(Delivery(loss_bound=0.2, divisor=divisor), given, Impairment(3, drop=0.05), block=CHUNK)
    means = [mean for mean, _, _ in outcomes]
    for mean in means[1:]:
        assert torch.equal(mean, means[0]), "replicas differ"
    out = np.array([left_out(given[w], outcomes[w][1]) for w in range(WORKERS)])
    assert 0 < out.sum() <= 0.2 * 200 * WORKERS
    assert [stats.left_out for _, _, stats in outcomes] == out.sum(axis=1).tolist()
    assert all(stats.missing == out.sum() for _, _, stats in outcomes)
    carried = torch.stack([given[w] - outcomes[w][1] for w in range(WORKERS)]).sum(0).view(-1, CHUNK)
    inside = torch.from_numpy(WORKERS - out.sum(axis=0))
    expected = carried / (inside[:, None] if divisor == "contributors" else WORKERS)
    assert torch.allclose(means[0].view(-1, CHUNK), expected, atol=1e-5)


def test_error_feedback_makes_up_for_what_was_left_out() -> None:
    """The sum of 30 lossy means plus what residuals still hold is the sum of what was given."""
    mapping, given = job_mapping(WORKERS, 1024), tensors(40 * CHUNK)

    def work(worker: int) -> tuple[Tensor, Tensor, int]:
        total, kept = torch.zeros(40 * CHUNK), torch.zeros(40 * CHUNK)
        with sumwire.Job(configs(mapping)[worker], delivery=Delivery(loss_bound=0.1, divisor="workers")) as job:
            for _ in range(30):
                mean, residual = job.reduce(given[worker] + kept)
                kept = residual()
                total += mean
            return total, kept, job.stats.missing

    with Bridge(mapping, golden_switch(mapping), Impairment(5, drop=0.04)):
        outcomes = run_workers(work, WORKERS)
    assert outcomes[0][2] > 20
    for total, _, _ in outcomes[1:]:
        assert torch.equal(total, outcomes[0][0])
    mean_given = 30 * torch.stack(given).mean(0)
    mean_kept = torch.stack([kept for _, kept, _ in outcomes]).mean(0)
    assert torch.allclose(outcomes[0][0] + mean_kept, mean_given, atol=1e-3)


@pytest.mark.parametrize(("length", "chunks"), [(0, 0), (1, 1), (1023, 1), (1025, 2), (5000, 5)])
def test_odd_lengths(length: int, chunks: int) -> None:
    """No packet, one, and a short last one, in a network that loses a tenth."""
    given = tensors(length)
    outcomes = reduced(Delivery(loss_bound=0.1), given, Impairment(7, drop=0.1))
    golden = torch.stack(given).mean(0)
    for mean, residual, stats in outcomes:
        assert torch.equal(mean, outcomes[0][0])
        assert mean.shape == residual.shape == (length,)
        assert stats.missing <= math.floor(0.1 * chunks * WORKERS)
        if stats.missing == 0 and length:
            assert torch.nn.functional.cosine_similarity(mean, golden, dim=0) > 0.9


def test_norms_and_other_ops_are_complete() -> None:
    mapping = {**job_mapping(WORKERS, 64), "ops": ["thc", "max32", "sum32"]}
    lanes = [np.arange(3000, dtype=np.int32) * (w + 1) for w in range(WORKERS)]

    def work(worker: int) -> tuple[Any, Any, int]:
        with sumwire.Job(configs(mapping)[worker], delivery=Delivery(loss_bound=0.5)) as job:
            return job.sum32(lanes[worker]), job.max32(lanes[worker].astype(np.uint32)), job.stats.missing

    switch = golden_switch(mapping)
    with Bridge(mapping, switch, Impairment(2, drop=0.05)):
        for sums, highest, missing in run_workers(work, WORKERS):
            assert (sums == np.arange(3000) * 10).all()
            assert (highest == np.arange(3000) * 4).all()
            assert missing == 0


def test_tags_come_from_magnitudes() -> None:
    mapping, given = job_mapping(2, 64), torch.cat([torch.full((4096,), 0.1), torch.full((4096,), 5.0)])
    asked: list[NDArray[np.float32]] = []

    def tag(magnitudes: NDArray[np.float32]) -> NDArray[np.uint8]:
        asked.append(magnitudes)
        return np.where(magnitudes > 20, 0xE2, 0x38).astype(np.uint8)

    with Bridge(mapping, golden_switch(mapping)):
        means = run_workers(
            lambda w: sumwire.Job(configs(mapping)[w], delivery=Delivery()).reduce(given, tag=tag)[0], 2
        )
    assert torch.equal(means[0], means[1])
    for magnitudes in asked:
        # Four chunks share a block's norm evenly.
        assert np.allclose(magnitudes, [0.1 * 32] * 4 + [5.0 * 32] * 4)


def test_tags_of_another_shape_are_refused_before_anything_is_sent() -> None:
    mapping = job_mapping(1, 64)
    with (
        Bridge(mapping, golden_switch(mapping)) as bridge,
        sumwire.Job(configs(mapping)[0]) as job,
    ):
        sumwire.all_reduce(torch.ones(10), job)
        heard = bridge.heard
        with pytest.raises(sumwire.UsageError, match=r"tags: uint8 of shape \(3,\): need TOS bytes, uint8 \(1,\)"):
            job.reduce(torch.ones(10), tag=lambda magnitudes: np.zeros(3, np.uint8))
        assert bridge.heard == heard
        sumwire.all_reduce(torch.ones(10), job)
