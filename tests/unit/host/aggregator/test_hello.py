# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""HELLO, and the quorum of a run: what a run needs to know of an aggregator, and to tell it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from golden import model
from golden.model import Packet
from helpers.aggregator.streams import Datagram, load
from helpers.packet.aggregator_rig import job_config
from helpers.packet.play import contribution
from helpers.packet.star import FULL, NORMS
from sumwire.aggregator.core import Aggregator
from sumwire.aggregator.jobs import lanes_of
from sumwire.aggregator.state import State
from sumwire_protocol import constants as p4
from sumwire_protocol.digest import job_digest


def served(*, native: bool, workers_min: int = 0) -> Aggregator:
    jobs = [replace(job_config(job), workers_min=workers_min or len(job.workers)) for job in (FULL, NORMS)]
    return Aggregator(State(lanes_of(jobs)), batch=4, native=native)


def replies(aggregator: Aggregator, packet: Packet, job: model.Job = FULL) -> list[Packet]:
    got = aggregator.process(load([Datagram(job.workers[packet.worker].ip, packet.encode())], rng()), 0.0)
    assert got.refusals == []
    return [model.decode(got.data(k)) for k in range(got.count)]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def hello(job: model.Job, worker: int = 0, slot: int = 0, round_: int = 0) -> Packet:
    return contribution(job, worker, slot, round_, b"", op=0, kind=model.PROBE)


def maximum(worker: int, round_: int, **fields: int) -> Packet:
    return contribution(NORMS, worker, 0, round_, bytes(128), model.MAX32, **fields)


@pytest.mark.parametrize("job", [FULL, NORMS], ids=["thc", "max32"])
@pytest.mark.parametrize("workers_min", [0, 2])
def test_a_fresh_slot_tells_the_digest_and_the_round_asked(native: bool, job: model.Job, workers_min: int) -> None:
    (answer,) = replies(served(native=native, workers_min=workers_min), hello(job, 1, round_=77), job)
    config = job_config(job)
    table = config.thc.table if config.thc else None
    digest = job_digest(config.job, config.ops, 4, 4, config.slots, table, workers_min)
    assert (answer.kind, answer.op, answer.job, answer.worker, answer.round) == (model.INFORM, 0, job.number, 1, 77)
    assert (answer.contributors, answer.count, answer.flags, answer.words, answer.cut) == (0, 0, 0, 0, 0)
    assert (answer.bucket, answer.chunk) == (digest >> 16, p4.PROGRAM_REVISION << 16 | digest & 0xFFFF)


@pytest.mark.parametrize("asked", [0, 5, 6, 4, 2**31 + 5, 2**32 - 1])
def test_a_used_slot_tells_its_own_round_whatever_is_asked(native: bool, asked: int) -> None:
    aggregator = served(native=native)
    for worker in (0, 2):
        replies(aggregator, maximum(worker, 5), NORMS)
    (answer,) = replies(aggregator, hello(NORMS, 3, round_=asked), NORMS)
    assert (answer.round, answer.contributors, answer.count, answer.flags) == (5, 0b101, 2, 0)
    for worker in (1, 3):
        replies(aggregator, maximum(worker, 5), NORMS)
    (answer,) = replies(aggregator, hello(NORMS, 3, round_=asked), NORMS)
    assert (answer.round, answer.contributors, answer.count, answer.flags) == (5, 0b1111, 4, model.CLOSED)
    # It has changed nothing.
    (repeat,) = replies(aggregator, maximum(0, 5), NORMS)
    assert (repeat.kind, repeat.round, repeat.contributors) == (model.RESULT, 5, 0b1111)


def test_hellos_in_one_batch_with_what_they_ask_about(native: bool) -> None:
    """Between two contributions, in order."""
    aggregator = served(native=native)
    packets = [hello(NORMS), maximum(0, 3), hello(NORMS, 2), maximum(1, 3)]
    batch = load([Datagram(NORMS.workers[packet.worker].ip, packet.encode()) for packet in packets], rng())
    got = aggregator.process(batch, 0.0)
    told = [model.decode(got.data(k)) for k in range(got.count)]
    assert [(packet.round, packet.contributors) for packet in told] == [(0, 0), (3, 1)]


@pytest.mark.parametrize("named", [2, 3])
def test_a_run_of_fewer_workers_names_its_quorum(native: bool, named: int) -> None:
    aggregator = served(native=native, workers_min=2)
    for worker in range(named - 1):
        assert replies(aggregator, maximum(worker, 0, contributors=named), NORMS) == []
    results = replies(aggregator, maximum(named - 1, 0, contributors=named), NORMS)
    assert [packet.worker for packet in results] == [0, 1, 2, 3]
    assert all((packet.count, packet.contributors, packet.flags) == (named, (1 << named) - 1, 0) for packet in results)


@pytest.mark.parametrize(
    ("workers_min", "fields"),
    [
        (0, {"contributors": 2}),
        (3, {"contributors": 2}),
        (2, {"contributors": 0}),
        (2, {"contributors": 4}),
        (2, {"contributors": 0x102}),
        (2, {"contributors": 2, "flags": model.FLUSH}),
    ],
)
def test_any_other_number_has_no_effect(native: bool, workers_min: int, fields: dict[str, int]) -> None:
    """The file has no workers_min, or a higher one; the number is none of a quorum; with FLUSH it means another."""
    aggregator = served(native=native, workers_min=workers_min)
    for worker in range(3):
        assert replies(aggregator, maximum(worker, 0, **fields), NORMS) == []
    assert len(replies(aggregator, maximum(3, 0, **fields), NORMS)) == 4
