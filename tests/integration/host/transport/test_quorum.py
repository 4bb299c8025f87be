# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs with a quorum go on without a straggler, and the straggler ends with the same results as the others."""

from __future__ import annotations

import os
import random
import select
import socket
import threading
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pytest
import sumwire
import torch
from golden import model
from helpers.transport.exchanges import assert_sums, planes, thc_sums
from helpers.transport.soft_tree import TWO_SPINES, soft_tree
from helpers.transport.udp_bridge import Bridge, Impairment, configs, golden_switch, job_mapping, run_workers
from helpers.waiting import until
from numpy.typing import NDArray
from sumwire.errors import DeadlineError, StaleRunError
from sumwire.transport.buffers import Results
from sumwire.transport.options import Delivery, ExchangeOptions, TransportOptions
from sumwire.transport.recovery_service import PORT_OFFSET
from sumwire.transport.stats import JobStats
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


def data_of(seed: int, lengths: list[int]) -> Exchanges:
    return [planes(seed + number, chunks, WORKERS) for number, chunks in enumerate(lengths)]


def assert_replicas(outcomes: list[list[Results]], data: Exchanges) -> None:
    """All workers have the same, and it is the sum of those that are said to be in it."""
    for number, up in enumerate(data):
        assert_sums([results[number] for results in outcomes], up, least=QUORUM)


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
    """All workers but the slow one work through; it begins when they are done, in a job of ``slots``.

    ``muted``: nothing reaches it while it computes. ``gone``: workers that leave before it has caught up.
    """

    def __init__(
        self,
        slots: int,
        lengths: list[int],
        *,
        muted: bool = False,
        gone: Collection[int] = (),
        kept_chunks: int = 1000,
        deadline_s: float = 20.0,
        before_slow: Callable[[Transport], None] = lambda transport: None,
        after_others: Callable[[dict[str, Any], int], None] = lambda mapping, worker: None,
    ) -> None:
        self.mapping = quorum_mapping(slots)
        self.data = data_of(1, lengths)
        self.bridge = Bridge(self.mapping, golden_switch(self.mapping), mute=self._mute if muted else None)
        self.open = threading.Barrier(WORKERS)
        self.ahead = threading.Barrier(QUORUM)
        self.others_done = threading.Event()
        self.slow_done = threading.Event()
        self.gone = gone
        self.options = TransportOptions(deadline_s=deadline_s, kept_chunks=kept_chunks)
        self.before_slow, self.after_others = before_slow, after_others

    def _mute(self, _: int, frame: bytes) -> bool:
        """Whether a frame is for the slow worker, and no answer to a packet of its own."""
        sender, _ = self.bridge.seen[-1]
        own = sender == self.mapping["addresses"][SLOW]["ip"]
        return not own and model.decode(frame[42:]).worker == SLOW

    def work(self, worker: int) -> tuple[list[Results], JobStats]:
        with Transport(configs(self.mapping)[worker], self.options) as transport:
            if worker == SLOW:
                self.before_slow(transport)
            self.open.wait(30)
            if worker == SLOW:
                assert self.others_done.wait(30)
                until(self.bridge.idle)
                try:
                    return exchange_all(transport, self.data, worker), transport.stats
                finally:
                    self.slow_done.set()
            results = exchange_all(transport, self.data, worker)
            if self.ahead.wait(30) == 0:
                self.others_done.set()
            self.after_others(self.mapping, worker)
            if worker not in self.gone:
                assert self.slow_done.wait(30)
            return results, transport.stats

    def run(self) -> JobStats:
        """What the slow worker has counted."""
        with self.bridge:
            outcomes = run_workers(self.work, WORKERS)
        assert_replicas([results for results, _ in outcomes], self.data)
        return outcomes[SLOW][1]


@pytest.mark.parametrize("slots", [2, 5, 16])
def test_a_straggler_takes_what_has_come_and_sends_nothing_of_it(slots: int) -> None:
    stats = StragglerJob(slots, [7, 1, 0, 40]).run()
    assert (stats.ahead, stats.recovered, stats.packets_sent) == (48, 0, 0)


def junk(mapping: dict[str, Any], worker: int) -> None:
    """Sent to the worker's recovery port, from the next worker's address."""
    rng = random.Random(1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind((mapping["addresses"][(worker + 1) % WORKERS]["ip"], 0))
        for _ in range(300):
            to = (mapping["addresses"][worker]["ip"], model.UDP_PORT + PORT_OFFSET)
            udp.sendto(rng.randbytes(rng.randrange(1100)), to)


@pytest.mark.parametrize(
    ("lengths", "options"),
    [([30, 9, 21], {}), ([40], {"gone": (0, 1)}), ([60], {"after_others": junk})],
    ids=["peers", "peers that die", "junk at the recovery port"],
)
def test_a_straggler_whose_results_were_all_lost_gets_them_from_the_others(
    lengths: list[int], options: dict[str, Any]
) -> None:
    """What is still in the switch, the last round of each slot, it gets there."""
    stats = StragglerJob(8, lengths, muted=True, **options).run()
    assert (stats.ahead, stats.recovered) == (0, sum(lengths) - 8)


def test_a_socket_that_overflows_while_its_worker_computes() -> None:
    def shrink(transport: Transport) -> None:
        transport.link.udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20_000)

    stats = StragglerJob(8, [120, 30], before_slow=shrink).run()
    assert 0 < stats.ahead < 140
    assert stats.recovered > 0


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        (
            {"gone": range(WORKERS), "deadline_s": 1.0},
            DeadlineError,
            r"no result for \d+\.\d\d s.*no other worker gave the results of 4 chunks",
        ),
        (
            {"kept_chunks": 16},
            StaleRunError,
            r"waits for round 0: the others are \d+ chunks ahead and keep the results of 16",
        ),
    ],
    ids=["nobody has it", "further behind than others keep"],
)
def test_a_straggler_that_cannot_catch_up_is_told(options: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        StragglerJob(8, [60], muted=True, **options).run()


@pytest.mark.parametrize("seed", range(2))
def test_bad_network_and_uneven_workers(seed: int) -> None:
    """Every worker rests now and then for as long as the others take for several exchanges."""
    rng = random.Random(seed)
    mapping = quorum_mapping(rng.choice([4, 7, 16]))
    data = data_of(seed, [rng.randrange(1, 40) for _ in range(8)])
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


# -- jobs ----------------------------------------------------------------------------------------------


def job_of(mapping: dict[str, Any], worker: int, **options: Any) -> sumwire.Job:
    return sumwire.Job(configs(mapping)[worker], block=1024, **options)


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
        bridge = Bridge(self.mapping, golden_switch(self.mapping))

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


def test_nothing_is_ahead_before_the_others_begin_and_before_the_greeting() -> None:
    def late(job: sumwire.Job) -> tuple[bool, int]:
        sent = job.stats.packets_sent
        return job.results_ahead(), job.stats.packets_sent - sent

    assert SlowJob().run(lambda job, worker: None, late)[SLOW] == (False, 0)
    with job_of(quorum_mapping(8), SLOW) as job:
        assert late(job) == (False, 0)


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

    with Bridge(mapping, golden_switch(mapping), deaf=deaf, mute=mute) as bridge:
        outcomes = run_workers(work, WORKERS)
    for mean, _ in outcomes:
        # 100 is sent as 1.0, the largest that exponents of values below 1 can say.
        torch.testing.assert_close(mean, torch.full((300,), (0.25 + 0.75 + 1.0) / 3), atol=1e-6, rtol=0)
    torch.testing.assert_close(outcomes[SLOW][1], torch.full((300,), 99.0), atol=1e-6, rtol=0)
    torch.testing.assert_close(outcomes[0][1], values[0], atol=1e-6, rtol=0)


def test_following_needs_a_quorum_below_the_workers() -> None:
    config = configs(job_mapping(2, 8))[0]
    with Transport(config) as transport:
        assert transport.catch_up is None, "nothing is kept"
    refused = pytest.raises(sumwire.ConfigError, match=r"quorum = 2: must be below 2, the workers")
    with sumwire.Job(config) as job, refused:
        job.follow(10)


# -- in a tree, with a loss bound ------------------------------------------------------------------------


def test_a_result_that_is_lost_with_the_switch_above_comes_from_workers_elsewhere() -> None:
    """One spine's results reach the first leaf only: at the second, asking the switches again brings nothing."""
    workers, chunks = TWO_SPINES.workers, 12
    up = planes(5, chunks, workers)
    expected = thc_sums(up)
    end = threading.Barrier(workers)

    def work(worker: int) -> tuple[Results, Any]:
        options = TransportOptions(delivery=Delivery(loss_bound=0.001), deadline_s=60.0)
        with Transport(configs(mapping)[worker], options) as transport:
            results = transport.exchange(p4.OP_THC, up[worker], options=ExchangeOptions(bounded_from=0))
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
