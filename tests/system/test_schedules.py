# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Soft switch running the compiled program, real controller, real transport: seeded bad networks between them.

Every schedule ends bit-equal to sums computed here in numpy. Datagrams cross loopback; frames are made in process.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
import sumwire
import torch
from golden import model
from helpers.transport.soft_tree import STAR, TreeRig, soft_tree
from helpers.transport.udp_bridge import TABLE, Impairment, configs, run_workers
from numpy.typing import NDArray
from sumwire.transport.udp import Transport
from sumwire_protocol import constants as p4

WORKERS = 4
# Name and slots of the jobs: odd and even, smaller and larger than the tensors.
JOBS = {"two": 2, "seven": 7, "sixteen": 16, "large": 128}


@pytest.fixture(scope="module")
def rig() -> Iterator[TreeRig]:
    with soft_tree(STAR, JOBS) as running:
        yield running


def thc_sums(up: NDArray[np.uint8]) -> list[bytes]:
    """Of index planes (workers, chunks, 4, 128): the sum planes of every chunk."""
    table = np.array(TABLE)
    looked_up = [[table[model.from_planes(one.tobytes())] for one in worker] for worker in up]
    return [model.to_planes(chunk, 8) for chunk in np.sum(looked_up, axis=0)]


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("seed", range(6))
def test_sums_are_bit_equal_under_any_schedule(rig: TreeRig, job: str, seed: int) -> None:
    """THC, MAX32 and THC again, of lengths around the window's; a quarter of the schedules are very bad."""
    rng = random.Random(f"{job} {seed}")
    slots = JOBS[job]
    bad = 0.15 if seed % 4 == 3 else 0.02
    impairment = Impairment(seed, *(rng.uniform(0, bad) for _ in range(4)))
    lengths = [rng.randrange(1, min(3 * slots, 150)), rng.randrange(1, slots), rng.randrange(1, 2 * slots)]
    schedule = f"seed {seed}, {slots} slots, lengths {lengths}, {impairment}"
    data = np.random.default_rng(seed)
    first, norms, last = (
        data.integers(0, 256, (WORKERS, length, words, 128), dtype=np.uint8)
        for length, words in zip(lengths, (4, 1, 4), strict=True)
    )
    mapping = rig.fresh_job(job)

    def work(worker: int) -> list[list[bytes]]:
        with Transport(configs(mapping)[worker]) as transport:
            exchanges = [
                transport.exchange(p4.OP_THC, first[worker], 1),
                transport.exchange(p4.OP_MAX32, norms[worker], 2),
                transport.exchange(p4.OP_THC, last[worker], 3),
            ]
            for exchange in exchanges:
                assert set(exchange.counts.tolist()) == {WORKERS}
                assert set(exchange.contributors.tolist()) == {2**WORKERS - 1}
            return [[words.tobytes() for words in exchange.words] for exchange in exchanges]

    with rig.bridge(mapping, impairment):
        outcomes = run_workers(work, WORKERS)
    maxima = [lanes.tobytes() for lanes in norms.view(">u4").max(axis=0).astype(">u4")]
    for outcome in outcomes:
        assert outcome == [thc_sums(first), maxima, thc_sums(last)], schedule


@pytest.mark.parametrize("seed", range(3))
def test_all_reduce_is_the_same_on_all_workers_in_any_weather(rig: TreeRig, seed: int) -> None:
    """The weather changes no bit, so a clean run tells what a bad one must give."""
    tensors = [torch.randn(20_000, generator=torch.Generator().manual_seed(w)) for w in range(WORKERS)]
    exact = torch.stack(tensors).mean(0)

    def play(impairment: Impairment) -> list[torch.Tensor]:
        mapping = rig.fresh_job("seven")

        def work(worker: int) -> torch.Tensor:
            with sumwire.Job(configs(mapping)[worker], fallback="never") as job:
                return torch.cat([sumwire.all_reduce(tensors[worker][:n].clone(), job) for n in (20_000, 1, 3000)])

        with rig.bridge(mapping, impairment):
            return run_workers(work, WORKERS)

    results = [*play(Impairment()), *play(Impairment(seed, 0.02, 0.02, 0.04, 0.02))]
    for result in results:
        assert torch.equal(result, results[0])
    assert float((results[0][:20_000] - exact).square().sum() / exact.square().sum()) < 0.025


def test_a_job_that_is_not_installed_is_told(rig: TreeRig) -> None:
    known = rig.fresh_job("seven")
    mapping = {**known, "job": 999, "lanes": [{"job": 999, "slots": known["slots"]}]}

    def work(worker: int) -> str:
        with sumwire.Job(configs(mapping)[worker], fallback="never") as job:
            with pytest.raises(sumwire.RefusedError, match=r"job 999: .*`sumwire-controller apply CONFIG`") as refused:
                sumwire.all_reduce(torch.ones(10), job)
            return refused.value.name

    with rig.bridge(mapping):
        assert run_workers(work, WORKERS) == ["JOB"] * WORKERS


def test_runs_in_a_row_under_one_generation(rig: TreeRig) -> None:
    mapping = rig.fresh_job("seven")

    def work(worker: int) -> int:
        with sumwire.Job(configs(mapping)[worker], fallback="never") as job:
            sumwire.all_reduce(x := torch.ones(10), job, op="sum")
            return round(float(x.mean()))

    with rig.bridge(mapping):
        for _ in range(3):
            assert run_workers(work, WORKERS) == [WORKERS] * WORKERS
