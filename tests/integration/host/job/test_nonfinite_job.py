# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""NaN and infinity through a job: by every codec, in one switch and in a tree, with loss, and after a fall-back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import sumwire
import torch
from helpers.gloo import ddp_cases
from helpers.gloo.ranks import Ranks
from helpers.transport.soft_tree import LEAF_SPINE, STAR, TreeRig, soft_tree
from helpers.transport.udp_bridge import Impairment, configs, job_mapping, run_workers
from sumwire.codec.base import GradientCodec
from sumwire.codec.sign import EfSignCodec, SignCodec, SsdmCodec, VoteCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.config import JobConfig

LENGTH = 20_000
# Of the bad values: in the tensor's first and last part.
PLACES = (5, LENGTH - 1)
# Whole values that are NaN where one is bad; 0 for all of the tensor.
CODECS: dict[str, tuple[Callable[[JobConfig], GradientCodec], int]] = {
    "sum32": (lambda config: Sum32Codec(workers=config.workers), 256),
    "sign": (lambda config: SignCodec(), 8192),
    "vote": (lambda config: VoteCodec(), 2048),
    "ef-sign": (lambda config: EfSignCodec(workers=config.workers), 0),
    "ssdm": (lambda config: SsdmCodec(job=config.job, worker=config.worker), 0),
}


@pytest.fixture(scope="module", params=[STAR, LEAF_SPINE], ids=["star", "tree"])
def rig(request: pytest.FixtureRequest) -> Iterator[TreeRig]:
    with soft_tree(request.param, {"train": 16}) as running:
        yield running


def tensor(worker: int, bad: dict[int, float]) -> torch.Tensor:
    x = torch.randn(LENGTH, generator=torch.Generator().manual_seed(worker))
    if worker in bad:
        x[list(PLACES)] = bad[worker]
    return x


def spoiled(values: int) -> torch.Tensor:
    places = torch.arange(LENGTH)
    return torch.isin(places // values, torch.tensor(PLACES) // values) if values else places >= 0


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.few(5)
def test_where_one_worker_is_bad_all_have_nan_and_the_next_is_good(rig: TreeRig, name: str) -> None:
    make, values = CODECS[name]
    mapping = rig.fresh_job("train")
    everybody = dict.fromkeys(range(rig.shape.workers), float("nan"))

    def work(worker: int) -> list[torch.Tensor]:
        config = configs(mapping)[worker]
        with sumwire.Job(config, fallback="never") as job:
            codec = make(config)
            turns: tuple[dict[int, float], ...] = ({1: float("nan")}, {0: -float("inf")}, everybody, {})
            return [job.reduce_with(codec, tensor(worker, bad))[0] for bad in turns]

    # Contributions that are sent again have the flag too.
    with rig.bridge(mapping, Impairment(3, drop=0.02, duplicate=0.02, reorder=0.02)):
        outcomes = run_workers(work, rig.shape.workers)
    for results in outcomes:
        for result, first in zip(results, outcomes[0], strict=True):
            assert np.array_equal(result.numpy().view(np.uint32), first.numpy().view(np.uint32))
    for result in outcomes[0][:3]:
        assert torch.equal(result.isnan(), spoiled(values))
    assert outcomes[0][3].isfinite().all()


RANKS = 4


def test_after_a_fall_back_it_is_the_same(ranks: Ranks) -> None:
    """No switch answers, so the workers use the process group."""
    mapping: dict[str, Any] = {**job_mapping(RANKS, 8), "ops": ["thc", "max32", "sum32", "sign", "vote"]}
    outcomes = ranks.run(ddp_cases.bad_after_fall_back, mapping)
    for outcome in outcomes:
        assert outcome == outcomes[0]
        assert outcome["fallen"]
        for name, places in outcome["bad"].items():
            assert places == (list(range(9)) if name == "ssdm" else [3]), name
        assert outcome["agreed"] == [False, True]
