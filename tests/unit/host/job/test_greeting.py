# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The greeting's chunks, summed by hand: what each worker accepts, and what it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from golden import model
from helpers.transport.udp_bridge import TABLE, job_mapping
from numpy.typing import NDArray
from sumwire.config import JobConfig, parse_job
from sumwire.errors import MismatchError
from sumwire.job.greeting import Greeting, SpoiledError, UnlikeError
from sumwire.transport.buffers import Results
from sumwire_protocol import constants as p4


def configs(workers: int, **fields: Any) -> list[JobConfig]:
    """Leaves of 20 workers."""
    mapping = {**job_mapping(workers, 8), "ops": ["max32"], **fields}
    for number, entry in enumerate(mapping["addresses"]):
        entry.update(aggregator=f"10.0.{number // 20}.250", seat=number % 20)
    return [parse_job(mapping, worker) for worker in range(workers)]


def maximum(payloads: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    return np.max([payload.view(">u4") for payload in payloads], axis=0).astype(">u4").view(np.uint8)


def exchange_nonces(greetings: list[Greeting], senders: list[Greeting] | None = None) -> None:
    """All of them take in the sums of the ``senders``' nonces; all send if none are named."""
    for group in greetings[0].groups:
        for block in greetings[0].blocks:
            everyone = senders or greetings
            words = maximum([everyone[worker].nonce(block) for worker in group])
            for greeting in greetings:
                greeting.take_nonces(block, group, words)


@pytest.mark.parametrize("workers", [1, 2, 32, 33, 100])
def test_all_workers_recognise_each_other(workers: int) -> None:
    greetings = [Greeting(config, {}) for config in configs(workers)]
    exchange_nonces(greetings)
    words = maximum([greeting.digests() for greeting in greetings])
    for greeting in greetings:
        greeting.check_digests(words)
        assert greeting.nonces == greetings[0].nonces
    assert all(greetings[0].nonces)


@pytest.mark.parametrize("place", [0, 39])
def test_a_dead_processs_nonce_is_noticed_by_its_successor_and_by_all(place: int) -> None:
    greetings = [Greeting(config, {}) for config in configs(40)]
    before = list(greetings)
    before[place] = Greeting(configs(40)[place], {})
    others = [greeting for worker, greeting in enumerate(greetings) if worker != place]
    exchange_nonces(others, before)
    block = place // 32
    with pytest.raises(SpoiledError, match="not those of this run"):
        greetings[place].take_nonces(block, greetings[0].groups[0], maximum([one.nonce(block) for one in before]))
    # The successor has seen its own nonce elsewhere, so its digest is another one.
    greetings[place].take_nonces(1 - block, greetings[0].groups[0], maximum([one.nonce(1 - block) for one in before]))
    words = maximum([greeting.digests() for greeting in greetings])
    for greeting in greetings:
        with pytest.raises(SpoiledError, match="not all seen the same"):
            greeting.check_digests(words)


@pytest.mark.parametrize("element", [1, 2, 31])
def test_a_nonce_that_is_missing_and_one_of_nobody(element: int) -> None:
    greetings = [Greeting(config, {}) for config in configs(2)]
    words = maximum([greeting.nonce(0) for greeting in greetings])
    words.reshape(-1).view(">u4")[element] = 0 if element < 2 else 9
    with pytest.raises(SpoiledError):
        greetings[0].take_nonces(0, [0, 1], words)


def test_other_settings_of_one_of_many_are_told_to_all() -> None:
    greetings = [Greeting(config, {"block": 1 if config.worker == 37 else 2}) for config in configs(40)]
    exchange_nonces(greetings)
    words = maximum([greeting.digests() for greeting in greetings])
    for greeting in greetings:
        with pytest.raises(UnlikeError):
            greeting.check_digests(words)


@pytest.mark.parametrize(("workers", "quorum"), [(5, 2), (4, 3), (3, 1), (4, 4), (6, 3)])
def test_groups_have_a_quorum_each_and_all_workers_together(workers: int, quorum: int) -> None:
    greeting = Greeting(configs(workers, quorum=quorum)[0], {})
    assert all(len(group) == quorum for group in greeting.groups)
    assert {worker for group in greeting.groups for worker in group} == set(range(workers))
    assert greeting.announces == (quorum < workers)


def sums(config: JobConfig, table: tuple[int, ...], without: int | None = None) -> Results:
    """The switch's sum of all workers' known indices by this table, as the wire has it."""
    inside = [worker for worker in range(config.workers) if worker != without]
    planes = [Greeting(replace(config, worker=worker), {}).indices() for worker in inside]
    values = np.sum([np.array(table)[model.from_planes(one.tobytes())] for one in planes], axis=0)
    words = np.frombuffer(model.to_planes(values, 8), np.uint8).reshape(1, 8, 128)
    one = np.ones(1, np.uint8)
    bitmap = np.array([sum(1 << worker for worker in inside)], np.uint32)
    return Results(words, one * len(inside), bitmap, one * 0, one * 0)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_switchs_table_is_the_job_files(workers: int) -> None:
    everyone = configs(workers, ops=["max32", "thc"])
    for config in everyone:
        Greeting(config, {}).check_table(sums(config, TABLE))


@pytest.mark.parametrize("index", range(1, 16))
@pytest.mark.parametrize("workers", [1, 3])
def test_every_entry_of_the_table_is_tried(workers: int, index: int) -> None:
    config = configs(workers, ops=["max32", "thc"])[0]
    other = [*TABLE[:index], TABLE[index] - 1, *TABLE[index + 1 :]]
    with pytest.raises(MismatchError, match=r"value \d+, indices \[.*: the sum is \d+, by the job file \d+; apply"):
        Greeting(config, {}).check_table(sums(config, tuple(other)))


def test_a_sum_without_one_worker_is_right_too_if_it_says_so() -> None:
    config = configs(3, ops=["max32", "thc"], quorum=2)[0]
    results = sums(config, TABLE, without=1)
    Greeting(config, {}).check_table(results)
    with pytest.raises(MismatchError):
        Greeting(config, {}).check_table(replace(results, contributors=np.array([0b110], np.uint32)))


def test_sums_that_an_experiment_has_changed_say_nothing_about_the_table() -> None:
    config = configs(3, ops=["max32", "thc"])[0]
    results = sums(config, TABLE, without=1)
    Greeting(config, {}).check_table(replace(results, flags=np.array([p4.FLAG_MISSING], np.uint8)))
    Greeting(config, {}).check_table(replace(results, cuts=np.array([2], np.uint8)))
