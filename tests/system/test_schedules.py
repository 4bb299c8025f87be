# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Soft switches running the compiled program, real controller, real transport: seeded bad networks on every link
between them, in a star and in trees. Every op, end to end. Datagrams cross loopback; frames are made in process.

THC, MAX32, SUM32 and VOTE are compared with values computed here in numpy; of merged signs it is known that they are
equal on all workers, and what they are where all workers agree.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
import sumwire
import torch
from golden import model
from helpers.transport.soft_tree import (
    LEAF_SPINE,
    STAR,
    THREE_LEVELS,
    TWO_SPINES,
    UPLINK_PORT,
    TreeRig,
    soft_tree,
)
from helpers.transport.udp_bridge import TABLE, Impairment, configs, run_workers
from numpy.typing import NDArray
from simulate.network import Shape
from sumwire.transport.udp import Transport
from sumwire_protocol import constants as p4

SHAPES = {"star": STAR, "leaf-spine": LEAF_SPINE, "two spines": TWO_SPINES, "three levels": THREE_LEVELS}
# Name and slots of the jobs. Those of trees are even: slots are shared out among spines.
JOBS = {"small": 6, "large": 40}
JOBS_OF_STAR = {"two": 2, "seven": 7, "sixteen": 16, "many": 128}
ALL_OPS = (p4.OP_THC, p4.OP_MAX32, p4.OP_SUM32, p4.OP_SIGN, p4.OP_VOTE)


@pytest.fixture(scope="module", params=SHAPES)
def rig(request: pytest.FixtureRequest) -> Iterator[TreeRig]:
    with soft_tree(SHAPES[request.param], JOBS | JOBS_OF_STAR if request.param == "star" else JOBS) as running:
        yield running


def expected(op: int, up: NDArray[np.uint8]) -> list[bytes]:
    """Results of payloads (workers, chunks, words, 128), by chunk; nothing for SIGN."""
    workers, chunks = up.shape[:2]
    if op == p4.OP_THC:
        table = np.array(TABLE)
        sums = np.sum([[table[model.from_planes(one.tobytes())] for one in worker] for worker in up], axis=0)
        return [model.to_planes(chunk, 8) for chunk in sums]
    if op == p4.OP_MAX32:
        return [lanes.tobytes() for lanes in up.view(">u4").max(axis=0).astype(">u4")]
    if op == p4.OP_SUM32:
        total = up.view(">i4").astype(np.int64).sum(axis=0)
        return [lanes.astype(">u4").tobytes() for lanes in total & 0xFFFFFFFF]
    if op == p4.OP_VOTE:
        plus = np.unpackbits(up.reshape(workers, chunks, -1), axis=2).sum(axis=0, dtype=np.int64)
        return [bits.tobytes() for bits in np.packbits(2 * plus >= workers, axis=1)]
    return []


def payloads(op: int, workers: int, chunks: int, data: np.random.Generator) -> NDArray[np.uint8]:
    words = {p4.OP_THC: 4, p4.OP_MAX32: 1, p4.OP_SUM32: 8, p4.OP_SIGN: 8, p4.OP_VOTE: 2}[op]
    return data.integers(0, 256, (workers, chunks, words, 128), dtype=np.uint8)


CASES = [
    *((shape, job, 0) for shape in SHAPES for job in JOBS),
    *(pytest.param(shape, job, 1, marks=pytest.mark.long) for shape in SHAPES for job in JOBS),
    *(("star", job, seed) for job in JOBS_OF_STAR for seed in (2, 3)),
]


@pytest.mark.parametrize(("rig", "job", "seed"), CASES, indirect=["rig"])
@pytest.mark.few(4)
def test_every_op_under_any_schedule(rig: TreeRig, job: str, seed: int) -> None:
    """All ops in a random order, on the same slots; tensors of lengths around the window's. Odd seeds are very bad."""
    rng = random.Random(f"{job} {seed}")
    workers, slots = rig.shape.workers, {**JOBS, **JOBS_OF_STAR}[job]
    bad = {1: 0.05, 3: 0.15}.get(seed, 0.02)
    impairment = Impairment(seed, *(rng.uniform(0, bad) for _ in range(4)))
    most = slots + 3 if job in JOBS else min(3 * slots, 100)
    plan = [(op, rng.randrange(1, most)) for op in rng.sample(ALL_OPS, len(ALL_OPS))]
    schedule = f"seed {seed}, {slots} slots, {plan}, {impairment}"
    data = np.random.default_rng(seed)
    up = [payloads(op, workers, chunks, data) for op, chunks in plan]
    mapping = rig.fresh_job(job)

    def work(worker: int) -> list[list[bytes]]:
        outcome = []
        with Transport(configs(mapping)[worker]) as transport:
            for number, ((op, chunks), payload) in enumerate(zip(plan, up, strict=True)):
                results = transport.exchange(op, payload[worker], number)
                own_leaf = (1 << len(configs(mapping)[worker].seats)) - 1
                assert results.counts.tolist() == [workers] * chunks
                assert results.contributors.tolist() == [own_leaf] * chunks
                outcome.append([words.tobytes() for words in results.words])
        return outcome

    with rig.bridge(mapping, impairment):
        outcomes = run_workers(work, workers)
    for number, ((op, _), payload) in enumerate(zip(plan, up, strict=True)):
        for outcome in outcomes:
            assert outcome[number] == outcomes[0][number], f"op {op}: {schedule}"
        if op == p4.OP_SIGN:
            merged = np.frombuffer(b"".join(outcomes[0][number]), np.uint8)
            low, high = (f.reduce(payload.reshape(workers, -1)) for f in (np.bitwise_and, np.bitwise_or))
            assert not (low & ~merged).any(), schedule
            assert not (merged & ~high).any(), schedule
        else:
            assert outcomes[0][number] == expected(op, payload), f"op {op}: {schedule}"


def test_merged_signs_have_the_mean_of_the_workers(rig: TreeRig) -> None:
    """Weights count hosts, not switches: worker 0's plus comes through once in n times, wherever it sits."""
    workers, values = rig.shape.workers, 200_000
    mapping = rig.fresh_job("large")

    def work(worker: int) -> float:
        with sumwire.Job(configs(mapping)[worker], fallback="never") as job:
            return float(job.sign_merge(torch.full((values,), worker == 0)).float().mean())

    with rig.bridge(mapping):
        shares = run_workers(work, workers)
    assert len(set(shares)) == 1
    p = 1 / workers
    assert abs(shares[0] - p) < 5 * (p * (1 - p) / values) ** 0.5


def test_overflow_is_told_to_all_and_the_job_goes_on(rig: TreeRig) -> None:
    """One lane overflows between the last worker and the rest; with both signs nothing does."""
    workers = rig.shape.workers
    mapping = rig.fresh_job("small")

    def work(worker: int) -> list[int]:
        lanes = np.zeros(300, np.int32)
        lanes[290] = 2**31 - 1 if worker in (0, workers - 1) else 0
        with sumwire.Job(configs(mapping)[worker], fallback="never") as job:
            with pytest.raises(sumwire.SumOverflowError, match="leaves int32"):
                job.sum32(lanes)
            lanes[290] = (2**31 - 1) * (1 if worker == 0 else -1 if worker == workers - 1 else 0)
            lanes[0] = worker
            return job.sum32(lanes).tolist()

    with rig.bridge(mapping):
        for sums in run_workers(work, workers):
            assert sums == [workers * (workers - 1) // 2, *[0] * 299]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.few(3)
def test_all_ways_in_give_equal_bits_on_all_workers(rig: TreeRig, seed: int) -> None:
    workers, length = rig.shape.workers, 9000
    tensors = [torch.randn(length, generator=torch.Generator().manual_seed(w)) for w in range(workers)]
    exact = torch.stack(tensors).double().mean(0)
    mapping = rig.fresh_job("large")

    def work(worker: int) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        x = tensors[worker]
        with sumwire.Job(configs(mapping)[worker], fallback="never") as job:
            thc, residual = job.reduce(x)
            signs = x >= 0
            results = {"thc": thc, "sum32": job.mean(x), "sign": job.sign_merge(signs), "vote": job.vote(signs)}
            results["signs"] = sumwire.all_reduce(x.clone(), job, op="sign")
            return results, residual()

    with rig.bridge(mapping, Impairment(seed, 0.01, 0.01, 0.02, 0.01)):
        outcomes = run_workers(work, workers)
    first = outcomes[0][0]
    for outcome, _ in outcomes:
        for name, result in outcome.items():
            assert torch.equal(result, first[name]), name
    left = torch.stack([residual for _, residual in outcomes]).mean(0)
    torch.testing.assert_close((first["thc"] + left).double(), exact, rtol=0, atol=1e-5)
    assert float((first["thc"] - exact).square().sum() / exact.square().sum()) < 0.03
    torch.testing.assert_close(first["sum32"].double(), exact, rtol=1e-6, atol=1e-7)
    plus = torch.stack(tensors).ge(0).sum(0)
    assert torch.equal(first["vote"], 2 * plus >= workers)
    assert torch.equal(first["signs"].abs(), torch.ones(length))
    agreed = (plus == 0) | (plus == workers)
    assert torch.equal(first["signs"][agreed], torch.where(plus > 0, 1.0, -1.0)[agreed])
    # A mean of `workers` +-1, of which the merged sign is one: together they vary less than a fair coin.
    assert abs(float((first["signs"] - (2 * plus / workers - 1)).mean())) < 5 / length**0.5


def leaf_of(shape: Shape, worker: int) -> str:
    return [name for name, hosts in shape.leaves.items() for _ in range(hosts)][worker]


def missing(rig: TreeRig, absent: int) -> list[tuple[int, ...] | None]:
    """Who the others' errors say is missing."""
    mapping = rig.fresh_job("small")

    def work(worker: int) -> tuple[int, ...] | None:
        if worker == absent:
            return None
        with sumwire.Job(configs(mapping)[worker], join_s=2.0, fallback="never") as job:
            with pytest.raises(sumwire.DeadlineError) as caught:
                job.sign_merge(torch.ones(10, dtype=torch.bool))
            return caught.value.missing

    with rig.bridge(mapping):
        return run_workers(work, rig.shape.workers)


def test_missing_worker_is_named_at_its_leaf(rig: TreeRig) -> None:
    shape, absent = rig.shape, rig.shape.workers - 1
    for worker, named in enumerate(missing(rig, absent)):
        beside = worker != absent and leaf_of(shape, worker) == leaf_of(shape, absent)
        assert named == ((absent,) if beside else None)


def test_a_cut_off_leaf_ends_in_the_deadline() -> None:
    """The link up from a leaf is dead: its partial result never arrives, and nobody takes anything for a sum."""
    with soft_tree(LEAF_SPINE, {"small": 6}) as rig:
        mapping = rig.fresh_job("small")

        def work(worker: int) -> str:
            with sumwire.Job(configs(mapping)[worker], join_s=0.4, fallback="never") as job:
                with pytest.raises(sumwire.DeadlineError) as caught:
                    job.vote(torch.ones(10, dtype=torch.bool))
                return str(caught.value)

        with rig.bridge(mapping, dead=frozenset({("leaf2", UPLINK_PORT)})):
            texts = run_workers(work, LEAF_SPINE.workers)
    for text in texts[:4]:
        assert "missing workers: unknown" in text


@pytest.mark.parametrize("rig", ["star"], indirect=True)
def test_a_job_that_is_not_installed_is_told(rig: TreeRig) -> None:
    known = rig.fresh_job("small")
    mapping = {**known, "job": 999, "lanes": [{"job": 999, "slots": known["slots"]}]}

    def work(worker: int) -> str:
        with sumwire.Job(configs(mapping)[worker], fallback="never") as job:
            with pytest.raises(sumwire.RefusedError, match=r"job 999: .*`sumwire-controller apply CONFIG`") as refused:
                sumwire.all_reduce(torch.ones(10), job)
            return refused.value.name

    with rig.bridge(mapping):
        assert run_workers(work, STAR.workers) == ["JOB"] * STAR.workers


@pytest.mark.parametrize("rig", ["star"], indirect=True)
def test_runs_in_a_row_under_one_generation(rig: TreeRig) -> None:
    mapping = rig.fresh_job("small")

    def work(worker: int) -> int:
        with sumwire.Job(configs(mapping)[worker], fallback="never") as job:
            sumwire.all_reduce(x := torch.ones(10), job, op="sum")
            return round(float(x.mean()))

    with rig.bridge(mapping):
        for _ in range(3):
            assert run_workers(work, STAR.workers) == [STAR.workers] * STAR.workers
