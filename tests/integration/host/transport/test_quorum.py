# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs with a quorum go on without a straggler, and the straggler ends with the same results as the others."""

from __future__ import annotations

import os
import random
import select
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sumwire
import torch
from golden import model
from helpers.transport.soft_tree import TWO_SPINES, soft_tree
from helpers.transport.udp_bridge import (
    TABLE,
    Bridge,
    Impairment,
    configs,
    golden_switch,
    job_mapping,
    run_workers,
)
from helpers.waiting import until
from numpy.typing import NDArray
from sumwire.errors import DeadlineError, StaleRunError
from sumwire.transport.buffers import Results
from sumwire.transport.options import Delivery, ExchangeOptions, TransportOptions
from sumwire.transport.recovery_service import PORT_OFFSET
from sumwire.transport.udp import Transport
from sumwire_protocol import constants as p4
from torch import Tensor

# Packets of the greeting have this bucket or a higher one.
GREETINGS = model.OPENS_RUN
WORKERS = 4
QUORUM = 3
BUCKET = 5
SLOW = 3

Exchanges = list[NDArray[np.uint8]]


def quorum_mapping(slots: int, quorum: int = QUORUM) -> dict[str, Any]:
    return {**job_mapping(WORKERS, slots), "quorum": quorum}


def planes(seed: int, lengths: list[int]) -> Exchanges:
    """Index planes of every worker, each (workers, chunks, 4, 128)."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, (WORKERS, chunks, 4, 128), dtype=np.uint8) for chunks in lengths]


def sum_of(up: NDArray[np.uint8], chunk: int, contributors: int) -> bytes:
    """Golden sum planes of the workers of a bitmap."""
    workers = [worker for worker in range(WORKERS) if contributors >> worker & 1]
    values = [np.array(TABLE)[model.from_planes(up[worker, chunk].tobytes())] for worker in workers]
    return model.to_planes(np.sum(values, axis=0), 8)


def snapshot(results: Results) -> list[tuple[bytes, int, int]]:
    return [
        (words.tobytes(), int(count), int(bitmap))
        for words, count, bitmap in zip(results.words, results.counts, results.contributors, strict=True)
    ]


def assert_replicas(outcomes: list[list[Results]], data: Exchanges, least: int = QUORUM) -> None:
    """All workers have the same, and it is the sum of those that are said to be in it."""
    for number, up in enumerate(data):
        ours = snapshot(outcomes[0][number])
        for other in outcomes[1:]:
            assert snapshot(other[number]) == ours
        for chunk, (words, count, contributors) in enumerate(ours):
            assert count == contributors.bit_count() >= least
            assert words == sum_of(up, chunk, contributors)


def exchange_all(transport: Transport, data: Exchanges, worker: int) -> list[Results]:
    return [transport.exchange(p4.OP_THC, up[worker], bucket=3) for up in data]


def test_a_late_answer_of_another_worker_does_not_keep_a_waiting_worker_awake() -> None:
    mapping = quorum_mapping(slots=16)
    with Transport(configs(mapping)[0], TransportOptions(deadline_s=60)) as transport:
        assert transport.catch_up is not None
        recovery = transport.catch_up.recovery
        exchange = transport.open(p4.OP_THC, 1)
        with socket.socket(fileno=os.dup(recovery.fileno())) as inbox, socket.socket(type=socket.SOCK_DGRAM) as other:
            other.sendto(b"late", inbox.getsockname())
            assert select.select([inbox], [], [], 10)[0], "the datagram is there"
            exchange.progress(block=True)
            exchange.progress(block=True)
            assert not select.select([inbox], [], [], 0)[0], "and read, though nothing waits for it"
        assert recovery.counters.ignored == 1
        exchange.close()


class StragglerJob:
    """All workers but the slow one work through; it begins when they are done, in a job of ``slots``."""

    def __init__(self, slots: int, lengths: list[int], *, seed: int = 1, **bridge: Any) -> None:
        self.mapping = quorum_mapping(slots)
        self.data = planes(seed, lengths)
        self.bridge = Bridge(self.mapping, golden_switch(self.mapping), **bridge)
        self.open = threading.Barrier(WORKERS)
        self.ahead = threading.Barrier(QUORUM)
        self.others_done = threading.Event()
        self.slow_done = threading.Event()
        self.stats: dict[int, Any] = {}
        self.kept_chunks = 1000
        self.deadline_s = 20.0

    def before_slow(self, transport: Transport) -> None:
        """What happens to the slow worker while it computes; to be replaced."""

    def after_others(self, worker: int) -> None:
        """What a quick worker does when it is done; to be replaced."""

    def work(self, worker: int) -> list[Results]:
        config = configs(self.mapping)[worker]
        options = TransportOptions(deadline_s=self.deadline_s, kept_chunks=self.kept_chunks)
        with Transport(config, options) as transport:
            self.stats[worker] = transport.stats
            if worker == SLOW:
                self.before_slow(transport)
            self.open.wait(30)
            if worker == SLOW:
                assert self.others_done.wait(30)
                until(self.bridge.idle)
                try:
                    return exchange_all(transport, self.data, worker)
                finally:
                    self.slow_done.set()
            results = exchange_all(transport, self.data, worker)
            if self.ahead.wait(30) == 0:
                self.others_done.set()
            self.after_others(worker)
            if not self.gone(worker):
                assert self.slow_done.wait(30)
            return results

    def gone(self, worker: int) -> bool:
        """Whether the worker leaves before the slow one has caught up."""
        return False

    def run(self) -> list[list[Results]]:
        with self.bridge:
            outcomes: list[list[Results]] = run_workers(self.work, WORKERS)
        assert_replicas(outcomes, self.data)
        return outcomes


@pytest.mark.parametrize("slots", [2, 5, 16])
def test_a_straggler_takes_what_has_come_and_sends_nothing_of_it(slots: int) -> None:
    straggler = StragglerJob(slots, [7, 1, 0, 40])
    straggler.run()
    stats = straggler.stats[SLOW]
    assert (stats.ahead, stats.recovered, stats.packets_sent) == (48, 0, 0)


def test_a_straggler_whose_results_were_all_lost_gets_them_from_the_others() -> None:
    """Nothing reaches it while it computes. What is still in the switch it gets there, all else from the others."""
    straggler = StragglerJob(8, [30, 9, 21], mute=lambda _, frame: mute_slow(straggler, frame))
    straggler.run()
    stats = straggler.stats[SLOW]
    assert stats.ahead == 0
    # The last round of each slot.
    assert stats.recovered == 60 - 8


def mute_slow(straggler: StragglerJob, frame: bytes) -> bool:
    """Whether a frame is for the slow worker, and no answer to a packet of its own."""
    sender, _ = straggler.bridge.seen[-1]
    own = sender == straggler.mapping["addresses"][SLOW]["ip"]
    return not own and model.decode(frame[42:]).worker == SLOW


def test_a_socket_that_overflows_while_its_worker_computes() -> None:
    straggler = StragglerJob(8, [120, 30])

    def shrink(transport: Transport) -> None:
        transport.link.udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20_000)

    straggler.before_slow = shrink  # type: ignore[method-assign]
    straggler.run()
    stats = straggler.stats[SLOW]
    assert 0 < stats.ahead < 140
    assert stats.recovered > 0


def test_peers_that_die() -> None:
    """Workers 0 and 1 are gone when the slow one asks: only worker 2 has what it lacks."""
    straggler = StragglerJob(8, [40], mute=lambda _, frame: mute_slow(straggler, frame))
    straggler.gone = lambda worker: worker in (0, 1)  # type: ignore[method-assign]
    straggler.run()
    assert straggler.stats[SLOW].recovered == 32


def test_when_nobody_has_it_the_deadline_ends_it() -> None:
    straggler = StragglerJob(8, [40], mute=lambda _, frame: mute_slow(straggler, frame))
    straggler.gone = lambda worker: True  # type: ignore[method-assign]
    straggler.deadline_s = 1.0
    with pytest.raises(DeadlineError, match=r"no result for \d+\.\d\d s.*no other worker gave the results of 4 chunks"):
        straggler.run()


def test_further_behind_than_others_keep_is_a_stale_run() -> None:
    straggler = StragglerJob(8, [60], mute=lambda _, frame: mute_slow(straggler, frame))
    straggler.kept_chunks = 16
    with pytest.raises(
        StaleRunError, match=r"waits for round 0: the others are \d+ chunks ahead and keep the results of 16"
    ):
        straggler.run()


@pytest.mark.parametrize("seed", range(6))
def test_bad_network_and_uneven_workers(seed: int) -> None:
    """Every worker rests now and then for as long as the others take for several exchanges."""
    rng = random.Random(seed)
    mapping = quorum_mapping(rng.choice([4, 7, 16]))
    data = planes(seed, [rng.randrange(1, 40) for _ in range(8)])
    impairment = Impairment(seed, drop=0.05, duplicate=0.05, reorder=0.05, late=0.05)
    done = threading.Barrier(WORKERS)

    def work(worker: int) -> tuple[list[Results], Any]:
        own = random.Random(seed * WORKERS + worker)
        rest = threading.Event()
        with Transport(configs(mapping)[worker], TransportOptions(deadline_s=20.0)) as transport:
            results = []
            for up in data:
                if own.random() < 0.3:
                    rest.wait(own.uniform(0, 0.3))
                results.append(transport.exchange(p4.OP_THC, up[worker], bucket=3))
            # The others may still ask.
            done.wait(60)
            return results, transport.stats

    with Bridge(mapping, golden_switch(mapping), impairment):
        outcomes = run_workers(work, WORKERS)
    assert_replicas([results for results, _ in outcomes], data)
    assert sum(stats.ahead + stats.recovered for _, stats in outcomes) > 0


def test_junk_at_the_recovery_port_while_a_worker_catches_up() -> None:
    straggler = StragglerJob(8, [60], mute=lambda _, frame: mute_slow(straggler, frame))
    rng = random.Random(1)

    def junk(worker: int) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind((straggler.mapping["addresses"][(worker + 1) % WORKERS]["ip"], 0))
            for _ in range(300):
                udp.sendto(
                    rng.randbytes(rng.randrange(1100)),
                    (straggler.mapping["addresses"][worker]["ip"], model.UDP_PORT + PORT_OFFSET),
                )

    straggler.after_others = junk  # type: ignore[method-assign]
    straggler.run()
    assert straggler.stats[SLOW].recovered == 52


def test_with_a_quorum_of_all_nothing_is_kept() -> None:
    mapping = quorum_mapping(8, WORKERS)
    with Transport(configs(mapping)[0]) as transport:
        assert transport.catch_up is None


# -- jobs ----------------------------------------------------------------------------------------------


def job_of(mapping: dict[str, Any], worker: int, **options: Any) -> sumwire.Job:
    return sumwire.Job(configs(mapping)[worker], block=1024, **options)


def switch_of(mapping: dict[str, Any]) -> model.GoldenSwitch:
    """The golden switch, with all of the job's ops."""
    switch = golden_switch(mapping)
    ops = frozenset({model.THC, model.MAX32, model.SUM32})
    return replace(switch, jobs=tuple(replace(job, ops=ops) for job in switch.jobs))


def greet(job: sumwire.Job) -> None:
    """An operation of all workers, after which the greeting is over."""
    job.max32(np.zeros(1, np.uint32))


class SlowJob:
    """Jobs of three quick workers and a slow one, which begins with ``late`` when they have done their operations."""

    def __init__(self, slots: int = 16) -> None:
        self.mapping = {**quorum_mapping(slots), "ops": ["thc", "max32", "sum32"]}
        self.begun = threading.Barrier(WORKERS)
        self.others = threading.Barrier(QUORUM)
        self.others_done = threading.Event()
        self.end = threading.Barrier(WORKERS)

    def run(self, quick: Callable[[sumwire.Job, int], Any], late: Callable[[sumwire.Job], Any]) -> list[Any]:
        bridge = Bridge(self.mapping, switch_of(self.mapping))

        def work(worker: int) -> Any:
            with job_of(self.mapping, worker) as job:
                greet(job)
                self.begun.wait(30)
                if worker == SLOW:
                    assert self.others_done.wait(30)
                    until(bridge.idle)
                    outcome = late(job)
                else:
                    outcome = quick(job, worker)
                    if self.others.wait(30) == 0:
                        self.others_done.set()
                self.end.wait(30)
                return outcome

        with bridge:
            return run_workers(work, WORKERS)


def tensors(length: int, count: int) -> list[list[Tensor]]:
    """By worker."""
    make = [torch.Generator().manual_seed(worker) for worker in range(WORKERS)]
    return [[torch.randn(length, generator=generator) for _ in range(count)] for generator in make]


def test_a_slow_job_takes_the_others_means_and_keeps_its_own_part() -> None:
    data = tensors(5000, 3)

    def reduce_all(job: sumwire.Job, worker: int) -> list[tuple[Tensor, Tensor]]:
        outcomes = []
        for x in data[worker]:
            mean, residual = job.reduce(x)
            outcomes.append((mean.clone(), residual()))
        return outcomes

    outcomes = SlowJob().run(reduce_all, lambda job: reduce_all(job, SLOW))
    for number in range(3):
        means = [outcomes[worker][number][0] for worker in range(WORKERS)]
        assert all(torch.equal(mean, means[0]) for mean in means)
        shares = [data[worker][number] - outcomes[worker][number][1] for worker in range(QUORUM)]
        torch.testing.assert_close(means[0], torch.stack(shares).mean(dim=0), atol=1e-4, rtol=0)
        # Nothing of it is in the means: all of it is left.
        torch.testing.assert_close(outcomes[SLOW][number][1], data[SLOW][number], atol=1e-6, rtol=0)


def test_a_slow_job_follows_without_computing() -> None:
    data = tensors(5000, 3)

    def quick(job: sumwire.Job, worker: int) -> list[Tensor]:
        return [job.reduce(x, bucket)[0].clone() for bucket, x in enumerate(data[worker])]

    def late(job: sumwire.Job) -> list[Tensor]:
        means = []
        sent = job.stats.packets_sent
        for bucket in range(3):
            assert job.results_ahead()
            means.append(job.follow(5000, bucket).clone())
        assert not job.results_ahead()
        assert job.stats.packets_sent == sent
        assert job.stats.operations == 1 + 3
        return means

    outcomes = SlowJob().run(quick, late)
    for number in range(3):
        assert all(torch.equal(outcome[number], outcomes[0][number]) for outcome in outcomes)


def test_following_what_the_others_still_do_and_then_going_on_together() -> None:
    """It follows while they wait for nobody, then contributes again: the last sum has all that came in time."""
    data = tensors(3000, 4)
    begun = threading.Event()
    greeted = threading.Barrier(WORKERS)

    def reduce(job: sumwire.Job, worker: int, number: int) -> Tensor:
        return job.reduce(data[worker][number], number)[0].clone()

    mapping = quorum_mapping(8)
    end = threading.Barrier(WORKERS)

    def work(worker: int) -> list[Tensor]:
        with job_of(mapping, worker) as job:
            greet(job)
            greeted.wait(30)
            if worker != SLOW:
                means = [reduce(job, worker, 0)]
                begun.set()
                means += [reduce(job, worker, number) for number in (1, 2, 3)]
            else:
                assert begun.wait(30)
                means = []
                for number in range(4):
                    behind = job.results_ahead()
                    means.append(job.follow(3000, number).clone() if behind else reduce(job, worker, number))
            end.wait(30)
            return means

    with Bridge(mapping, golden_switch(mapping), Impairment(3, drop=0.03)):
        outcomes = run_workers(work, WORKERS)
    for number in range(4):
        assert all(torch.equal(outcome[number], outcomes[0][number]) for outcome in outcomes)


def test_nothing_is_ahead_before_the_others_begin() -> None:
    def quick(job: sumwire.Job, worker: int) -> Any:
        return None

    def late(job: sumwire.Job) -> tuple[bool, int]:
        sent = job.stats.packets_sent
        return job.results_ahead(), job.stats.packets_sent - sent

    assert SlowJob().run(quick, late)[SLOW] == (False, 0)


def test_nothing_is_ahead_before_the_greeting() -> None:
    mapping = quorum_mapping(8)
    with job_of(mapping, SLOW) as job:
        assert not job.results_ahead()
        assert job.stats.packets_sent == 0


def test_exponents_agreed_on_without_the_slow_worker_clamp_its_values() -> None:
    """It was left out of the exponents, yet its contribution to the sum comes in time: worker 0's never does."""
    mapping = {**quorum_mapping(16), "ops": ["max32", "sum32"]}
    values = [torch.full((300,), scale) for scale in (0.5, 0.25, 0.75, 100.0)]
    end = threading.Barrier(WORKERS)
    slow_ip, first_ip = (mapping["addresses"][worker]["ip"] for worker in (SLOW, 0))
    norms = threading.Event()

    def deaf(_: int, datagram: bytes) -> bool:
        """Exponents without the slow worker, the sums without worker 0 until they are made."""
        sender, packet = bridge.seen[-1][0], model.decode(datagram)
        if sender == slow_ip and packet.op == model.MAX32 and packet.bucket < GREETINGS:
            return not norms.is_set()
        return sender == first_ip and packet.op == model.SUM32

    def mute(_: int, frame: bytes) -> bool:
        packet = model.decode(frame[42:])
        if packet.op == model.MAX32 and packet.kind == model.RESULT and packet.bucket < GREETINGS:
            norms.set()
        return False

    def work(worker: int) -> tuple[Tensor, Tensor]:
        with job_of(mapping, worker) as job:
            mean, residual = job.reduce_with(job._sum32, values[worker], BUCKET)
            end.wait(30)
            return mean.clone(), residual()

    with Bridge(mapping, switch_of(mapping), deaf=deaf, mute=mute) as bridge:
        outcomes = run_workers(work, WORKERS)
    for mean, _ in outcomes:
        # 100 is sent as 1.0, the largest that exponents of values below 1 can say.
        torch.testing.assert_close(mean, torch.full((300,), (0.25 + 0.75 + 1.0) / 3), atol=1e-6, rtol=0)
    torch.testing.assert_close(outcomes[SLOW][1], torch.full((300,), 99.0), atol=1e-6, rtol=0)
    torch.testing.assert_close(outcomes[0][1], values[0], atol=1e-6, rtol=0)


def test_following_needs_a_quorum_below_the_workers() -> None:
    with (
        sumwire.Job(configs(job_mapping(2, 8))[0]) as job,
        pytest.raises(sumwire.ConfigError, match=r"quorum = 2: must be below 2, the workers"),
    ):
        job.follow(10)


def test_a_quorum_below_the_workers_needs_one_switch() -> None:
    mapping = quorum_mapping(8)
    mapping["addresses"][0]["aggregator"] = mapping["addresses"][0]["aggregator"].replace(".250", ".251")
    with pytest.raises(sumwire.ConfigError, match=r"quorum = 3: must be 4, all workers: in a tree a lower switch"):
        sumwire.Job(configs(mapping)[0])


@pytest.mark.parametrize("quorum", [QUORUM, WORKERS])
def test_a_later_run_is_told(quorum: int) -> None:
    """Slot 0 is in a later round. Where all are needed, nobody can have gone there in this run."""
    mapping = quorum_mapping(8, quorum)
    up = planes(1, [1])[0]

    def late(worker: int) -> None:
        packet = model.Packet(model.CONTRIBUTE, model.THC, 7, 0, worker, 1, 5, 1 << worker, 0, 4, 0, 0, bytes(512))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind((mapping["addresses"][worker]["ip"], model.UDP_PORT))
            udp.sendto(packet.encode(), (mapping["addresses"][0]["aggregator"], model.UDP_PORT))

    with Bridge(mapping, golden_switch(mapping)) as bridge:
        late(1)
        until(lambda: bridge.heard == 1)
        options = TransportOptions(deadline_s=0.5, delivery=Delivery(loss_bound=0.1))
        with Transport(configs(mapping)[0], options) as transport:
            error = DeadlineError if quorum < WORKERS else StaleRunError
            with pytest.raises(error, match=r"another run of the job has begun"):
                transport.exchange(p4.OP_THC, up[0])


# -- in a tree, with a loss bound ------------------------------------------------------------------------


def test_a_result_that_is_lost_with_the_switch_above_comes_from_workers_elsewhere() -> None:
    """One spine's results reach the first leaf only: at the second, asking the switches again brings nothing."""
    workers, chunks = TWO_SPINES.workers, 12
    up = np.random.default_rng(5).integers(0, 256, (workers, chunks, 4, 128), dtype=np.uint8)
    values = np.array(TABLE)
    expected = [
        model.to_planes(np.sum([values[model.from_planes(one.tobytes())] for one in up[:, chunk]], axis=0), 8)
        for chunk in range(chunks)
    ]
    end = threading.Barrier(workers)

    def work(worker: int) -> tuple[Results, Any]:
        options = TransportOptions(delivery=Delivery(loss_bound=0.001), deadline_s=60.0)
        with Transport(configs(mapping)[worker], options) as transport:
            results = transport.exchange(p4.OP_THC, up[worker], options=ExchangeOptions(bounded=True))
            end.wait(120)
            return results, transport.stats

    with soft_tree(TWO_SPINES, {"sums": 16}) as rig:
        mapping = rig.fresh_job("sums")
        with rig.bridge(mapping, dead=frozenset({("spine1", 2)})):
            outcomes = run_workers(work, workers)
    for worker, (results, stats) in enumerate(outcomes):
        leaf = configs(mapping)[worker].aggregator
        seats = sum(entry["aggregator"] == leaf for entry in mapping["addresses"])
        assert [words.tobytes() for words in results.words] == expected
        assert results.counts.tolist() == [workers] * chunks
        assert results.contributors.tolist() == [(1 << seats) - 1] * chunks
        # Two spines share the slots. On a busy machine others also ask for results that are only late.
        assert stats.recovered >= (0 if seats == TWO_SPINES.leaves["leaf1"] else chunks // 2)
