# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Small tensors in one round trip: over the golden switch, the software aggregator, and a tree of soft switches."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import sumwire
import torch
from golden import model
from helpers.aggregator.served import serving
from helpers.transport.soft_tree import LEAF_SPINE, soft_tree
from helpers.transport.udp_bridge import Bridge, Impairment, configs, golden_switch, job_mapping, run_workers
from sumwire.job.job import Job
from sumwire.transport.options import Delivery
from sumwire_protocol import constants as p4
from torch import Tensor

WORKERS = 4
# Two blocks of 1024 with THC, eight with SUM32; five steps, whose norms stay within a few percent.
LENGTH, STEPS = 1500, 5
Network = Callable[[dict[str, Any]], contextlib.AbstractContextManager[Any]]
Make = Callable[[int], Tensor]

NETWORKS: dict[str, Network] = {
    "golden": lambda mapping: Bridge(mapping, golden_switch(mapping)),
    "impaired": lambda mapping: Bridge(
        mapping, golden_switch(mapping), Impairment(3, drop=0.02, duplicate=0.02, reorder=0.04, late=0.02)
    ),
    "aggregator": serving,
}


def mapping_of(**fields: Any) -> dict[str, Any]:
    return {**job_mapping(WORKERS, 64), "ops": ["thc", "max32", "sum32"], **fields}


def tensor(worker: int, step: int, length: int = LENGTH) -> Tensor:
    base = torch.randn(length, generator=torch.Generator().manual_seed(worker))
    return base * (1 + step / 50)


def play(mapping: dict[str, Any], network: Network, work: Callable[[Job, int], Any], **options: Any) -> list[Any]:
    def run(worker: int) -> Any:
        with Job(configs(mapping)[worker], block=1024, **options) as job:
            return work(job, worker)

    with network(mapping):
        return run_workers(run, WORKERS)


def reductions(codec: str, inputs: Callable[[int, int], Tensor] = tensor) -> Callable[[Job, int], dict[str, Any]]:
    """Means and residuals of all steps, and what the job has counted."""

    def work(job: Job, worker: int) -> dict[str, Any]:
        chosen = job._sum32 if codec == "sum32" else job._thc_for("")
        means, residuals = [], []
        for step in range(STEPS):
            mean, residual = job.reduce_with(chosen, inputs(worker, step))
            means.append(mean.clone())
            residuals.append(residual())
        return {"means": means, "residuals": residuals, "stats": job.stats}

    return work


def assert_equal_and_whole(outcomes: list[dict[str, Any]], inputs: Callable[[int, int], Tensor] = tensor) -> None:
    """Equal bits on all workers; means and residuals account for the inputs."""
    for outcome in outcomes:
        for mean, first in zip(outcome["means"], outcomes[0]["means"], strict=True):
            assert np.array_equal(mean.numpy().view(np.uint32), first.numpy().view(np.uint32))
    for step in range(STEPS):
        exact = torch.stack([inputs(worker, step) for worker in range(WORKERS)]).mean(0)
        left = torch.stack([outcome["residuals"][step] for outcome in outcomes]).mean(0)
        largest = float(exact.abs().max())
        torch.testing.assert_close(outcomes[0]["means"][step] + left, exact, rtol=0, atol=4e-6 * max(1.0, largest))


@pytest.mark.parametrize("codec", ["thc", "sum32"])
@pytest.mark.parametrize("network", NETWORKS)
def test_all_but_the_first_need_one_round_trip(network: str, codec: str) -> None:
    mapping = mapping_of()
    outcomes = play(mapping, NETWORKS[network], reductions(codec))
    assert_equal_and_whole(outcomes)
    for outcome in outcomes:
        stats = outcome["stats"]
        assert (stats.one_trip_operations, stats.repeated_operations) == (STEPS - 1, 0)
    if codec == "sum32":
        exact = torch.stack([tensor(worker, 1) for worker in range(WORKERS)]).mean(0)
        # 8 x 2**-28 of the largest magnitude, and the rounding to float32.
        bound = 4 * 2.0**-25 + 4 * 2.0**-24
        assert float((outcomes[0]["means"][1] - exact).abs().max()) <= bound


def test_packets_of_one_round_trip() -> None:
    """The scales' chunk takes the place of the norms' packet, and nothing waits for it."""
    mapping, network = mapping_of(), NETWORKS["golden"]
    switch = golden_switch(mapping)
    with Bridge(mapping, switch) as bridge:

        def first_packets(job: Job) -> int:
            """A busy machine asks, and sends packets again."""
            return job.stats.packets_sent - job.stats.retransmissions - job.stats.probes

        def run(worker: int) -> int:
            with Job(configs(mapping)[worker], block=1024) as job:
                job.reduce(tensor(worker, 0))
                before = first_packets(job)
                job.reduce(tensor(worker, 1))
                return first_packets(job) - before

        assert run_workers(run, WORKERS) == [3] * WORKERS
        heard = [model.decode(datagram) for _, datagram in bridge.seen]
        firsts = [packet for packet in heard if packet.kind == model.CONTRIBUTE and not packet.flags & model.RESYNC]
        last = firsts[-3 * WORKERS :]
    assert {(packet.op, packet.chunk) for packet in last} == {(p4.OP_THC, chunk) for chunk in range(3)}
    assert len({packet.bucket for packet in last}) == 1
    two = play(mapping_of(), network, reductions("thc"), one_trip=False)
    assert all(outcome["stats"].one_trip_operations == 0 for outcome in two)


def test_over_a_tree_of_switches() -> None:
    with soft_tree(LEAF_SPINE, {"train": 16}) as rig:
        mapping = rig.fresh_job("train")

        def run(worker: int) -> tuple[list[Tensor], int]:
            with Job(configs(mapping)[worker], block=1024) as job:
                means = [job.reduce(tensor(worker, step))[0].clone() for step in range(3)]
                return means + [job.mean(tensor(worker, step)) for step in range(2)], job.stats.one_trip_operations

        with rig.bridge(mapping, Impairment(3, drop=0.02, duplicate=0.02, reorder=0.02)):
            outcomes = run_workers(run, LEAF_SPINE.workers)
    for means, trips in outcomes:
        assert trips == 3
        assert all(map(torch.equal, means, outcomes[0][0]))


def jumping(worker: int, step: int) -> Tensor:
    """One worker's tensor grows far beyond the scales of the step before, in step 2, and falls back in step 4."""
    return tensor(worker, step) * (100.0 if worker == 1 and step in (2, 3) else 1.0)


def shrinking(worker: int, step: int) -> Tensor:
    """All tensors fall, in step 2, so far that carried scales would cost their precision."""
    return tensor(worker, step) * (0.05 if step >= 2 else 1.0)


@pytest.mark.parametrize("codec", ["thc", "sum32"])
@pytest.mark.parametrize(("inputs", "trips", "repeated"), [(jumping, 1, 2), (shrinking, 2, 1)])
def test_scales_that_do_not_fit_are_agreed_on_and_the_tensor_is_sent_again(
    codec: str, inputs: Callable[[int, int], Tensor], trips: int, repeated: int
) -> None:
    """Step 1 goes by carried scales that fit, and step 2 by ones that do not. What is sent again has the bits that it
    has without carried scales."""
    outcomes = play(mapping_of(), NETWORKS["impaired"], reductions(codec, inputs))
    plain = play(mapping_of(), NETWORKS["golden"], reductions(codec, inputs), one_trip=False)
    assert_equal_and_whole(outcomes, inputs)
    for outcome in outcomes:
        assert (outcome["stats"].one_trip_operations, outcome["stats"].repeated_operations) == (trips, repeated)
    for step, same in ((0, True), (1, False), (2, True), (3, True)):
        assert torch.equal(outcomes[0]["means"][step], plain[0]["means"][step]) is same


@pytest.mark.parametrize("codec", ["thc", "sum32"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_on_one_worker_is_nan_on_all(codec: str, value: float) -> None:
    def inputs(worker: int, step: int) -> Tensor:
        x = tensor(worker, step)
        if worker == 2 and step == 2:
            x[5] = value
        return x

    outcomes = play(mapping_of(), NETWORKS["golden"], reductions(codec, inputs))
    bad = 1024 if codec == "thc" else 256
    for outcome in outcomes:
        means = outcome["means"]
        assert means[2][:bad].isnan().all()
        assert means[2][bad:].isfinite().all()
        assert all(torch.equal(mean, first) for mean, first in zip(means[3:], outcomes[0]["means"][3:], strict=True))
        # Step 2 is repeated, step 3 asks again.
        assert (outcome["stats"].one_trip_operations, outcome["stats"].repeated_operations) == (2, 1)


def test_zeros_need_no_second_trip() -> None:
    outcomes = play(mapping_of(), NETWORKS["golden"], reductions("thc", lambda worker, step: torch.zeros(LENGTH)))
    for outcome in outcomes:
        assert outcome["stats"].one_trip_operations == STEPS - 1
        assert not any(mean.any() for mean in outcome["means"])


@pytest.mark.parametrize(
    ("length", "dtype", "trips"),
    [
        (32 * 1024, torch.float32, 1),
        (32 * 1024 + 1, torch.float32, 0),
        (100, torch.bfloat16, 1),
        # Which keeps its precision.
        (100, torch.float64, 0),
    ],
)
def test_only_tensors_of_few_packets(length: int, dtype: torch.dtype, trips: int) -> None:
    def work(job: Job, worker: int) -> int:
        reduce = job.mean if dtype == torch.float64 else job.reduce
        for step in range(2):
            reduce(tensor(worker, step, length).to(dtype))
        return job.stats.one_trip_operations

    assert play(mapping_of(), NETWORKS["golden"], work) == [trips] * WORKERS


def test_not_where_the_scales_of_all_cannot_be_told() -> None:
    def work(job: Job, worker: int) -> int:
        for step in range(3):
            job.reduce(tensor(worker, step))
        return job.stats.one_trip_operations

    assert play(mapping_of(quorum=3), NETWORKS["golden"], work) == [0] * WORKERS


def test_with_a_loss_bound_the_tensors_chunks_may_lack_contributions() -> None:
    """But not the scales' chunk. What a mean lacks is in the residual of the worker that is not in it."""
    length = 20 * 1024

    def inputs(worker: int, step: int) -> Tensor:
        return tensor(worker, step, length)

    mapping, lost, work = mapping_of(), {2, 3, 9}, reductions("thc", inputs)

    def deaf(number: int, datagram: bytes) -> bool:
        """Worker 1's contributions to these chunks are lost, however often it sends them."""
        packet = model.decode(datagram)
        data = packet.kind == p4.KIND_CONTRIBUTE and packet.op == p4.OP_THC
        return data and packet.worker == 1 and packet.chunk in lost

    delivery = Delivery(loss_bound=0.5)

    def run(worker: int) -> Any:
        with Job(configs(mapping)[worker], block=1024, delivery=delivery) as job:
            return work(job, worker)

    with Bridge(mapping, golden_switch(mapping), deaf=deaf):
        outcomes = run_workers(run, WORKERS)
    for outcome in outcomes:
        stats = outcome["stats"]
        assert (stats.one_trip_operations, stats.repeated_operations) == (STEPS - 1, 0)
        # More where a thread stands still.
        assert STEPS * len(lost) <= stats.missing <= STEPS * 40
        for mean, first in zip(outcome["means"], outcomes[0]["means"], strict=True):
            assert np.array_equal(mean.numpy().view(np.uint32), first.numpy().view(np.uint32))
    # In one round trip the tensor's chunk k is the exchange's chunk k + 1.
    blocks = slice(1024, 2048)
    left, given = outcomes[1]["residuals"][1][blocks], inputs(1, 1)[blocks]
    torch.testing.assert_close(left, given)


def test_what_a_tensor_that_is_sent_once_more_lacks_counts_once() -> None:
    """In its last step every norm is three times as large, so that the carried ones do not fit."""
    chunks, lost = 20, {2, 9}
    mapping, allowed = mapping_of(), 3
    sent: Counter[tuple[int, int]] = Counter()

    def deaf(number: int, datagram: bytes) -> bool:
        """Where a thread stands still, others may be missing before these are, so at last they come."""
        packet = model.decode(datagram)
        data = packet.kind == p4.KIND_CONTRIBUTE and packet.op == p4.OP_THC
        if not data or packet.worker != 1 or packet.chunk not in lost:
            return False
        sent[packet.slot, packet.round] += 1
        return sent[packet.slot, packet.round] <= 16

    def work(worker: int) -> tuple[list[int], int]:
        delivery = Delivery(loss_bound=(allowed + 0.5) / (chunks * WORKERS))
        missing = []
        with Job(configs(mapping)[worker], block=1024, delivery=delivery) as job:
            for step in range(4):
                before = job.stats.missing
                job.reduce(tensor(worker, step, chunks * 1024) * (3.0 if step == 3 else 1.0))
                missing.append(job.stats.missing - before)
            return missing, job.stats.repeated_operations

    with Bridge(mapping, golden_switch(mapping), deaf=deaf):
        outcomes = run_workers(work, WORKERS)
    for missing, repeated in outcomes:
        assert repeated == 1
        assert all(1 <= one <= allowed for one in missing), missing


def test_tags_go_with_the_tensors_chunks() -> None:
    """The scales' chunk is as urgent as the most urgent of them."""
    seen: list[int] = []

    def tag(magnitudes: np.ndarray[Any, np.dtype[np.float32]]) -> np.ndarray[Any, np.dtype[np.uint8]]:
        seen.append(len(magnitudes))
        return np.arange(len(magnitudes), dtype=np.uint8) * np.uint8(0x20)

    def work(job: Job, worker: int) -> Tensor:
        job.reduce(tensor(worker, 0), tag=tag)
        return job.reduce(tensor(worker, 1), tag=tag)[0].clone()

    first, *others = play(mapping_of(), NETWORKS["golden"], work)
    assert all(torch.equal(first, other) for other in others)
    assert seen == [2] * 2 * WORKERS


@pytest.mark.parametrize("lost", ["the option", "the scales", "the right scales"])
def test_workers_that_disagree_are_refused(lost: str) -> None:
    """One asks for norms and the others do not, or it has others than they: nobody has a result."""
    mapping = mapping_of()

    def run(worker: int) -> str:
        one_trip = not (lost == "the option" and worker == 1)
        with Job(configs(mapping)[worker], block=1024, one_trip=one_trip, deadline_s=1.0) as job:
            try:
                job.reduce(tensor(worker, 0))
                if worker == 1 and job._carried is not None:
                    other = [[*key, scales + 1] for *key, scales in job._carried.kept()]
                    job._carried.restore(other if lost == "the right scales" else [])
                job.reduce(tensor(worker, 1))
            except sumwire.RecreateError as error:
                return type(error).__name__
        return ""

    with Bridge(mapping, golden_switch(mapping)):
        errors = run_workers(run, WORKERS)
    assert all(errors)
    assert "OrderError" in errors


@pytest.fixture(scope="module", params=[True, False], ids=["with their scales", "without"])
def keeping(request: pytest.FixtureRequest) -> Iterator[bool]:
    yield request.param


def test_a_run_that_goes_on_from_a_checkpoint_has_the_same_bits(keeping: bool) -> None:
    """Without the carried scales it would not: they are part of the state."""
    whole = play(mapping_of(), NETWORKS["golden"], reductions("thc"))
    states: list[dict[str, Any]] = [{}] * WORKERS

    def begin(job: Job, worker: int) -> None:
        for step in range(3):
            job.reduce(tensor(worker, step))
        states[worker] = job.state_dict()

    def go_on(job: Job, worker: int) -> list[Tensor]:
        job.load_state_dict(states[worker])
        if not keeping:
            assert job._carried is not None
            job._carried.clear()
        return [job.reduce(tensor(worker, step))[0].clone() for step in range(3, STEPS)]

    play(mapping_of(), NETWORKS["golden"], begin)
    for means in play(mapping_of(), NETWORKS["golden"], go_on):
        same = [torch.equal(mean, first) for mean, first in zip(means, whole[0]["means"][3:], strict=True)]
        assert same == ([True, True] if keeping else [False, True])
