# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Windows against slots under seeded bad weather: always the golden sum or the stated error, never a hang.

Every play also checks that no slot is reused before all workers have its result, and that at most half of the
slots are in flight.
"""

from __future__ import annotations

import pytest
from helpers.transport.simulation import Down, Slot, Up, Weather, World
from hypothesis import given, note, settings
from hypothesis import strategies as st
from sumwire.errors import DeadlineError, StaleRunError

BAD = Weather(drop=0.05, duplicate=0.05, late=0.05)


def assert_golden(world: World) -> None:
    world.run()
    for worker in world.workers:
        assert worker.error is None
        assert worker.results == world.golden()


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32),
    workers=st.integers(1, 4),
    slots=st.integers(2, 11),
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    drop=st.sampled_from([0.0, 0.01, 0.2]),
    duplicate=st.sampled_from([0.0, 0.01, 0.3]),
    late=st.sampled_from([0.0, 0.02, 0.3]),
    batch=st.sampled_from([1, 3, 100]),
    collect_s=st.sampled_from([0.0, 0.01, 0.1]),
    part=st.sampled_from([1, 5, 100]),
)
def test_any_schedule(
    seed: int,
    workers: int,
    slots: int,
    lengths: list[int],
    drop: float,
    duplicate: float,
    late: float,
    batch: int,
    collect_s: float,
    part: int,
) -> None:
    note(f"seed {seed}")
    weather = Weather(drop, duplicate, late)
    batches = {"batch": batch, "collect_s": collect_s, "part": part}
    assert_golden(World(seed, workers=workers, slots=slots, lengths=lengths, weather=weather, **batches))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("slots", [2, 3, 5, 9, 33])
def test_odd_slots_and_tensors_in_a_row(slots: int, seed: int) -> None:
    assert_golden(World(seed, workers=3, slots=slots, lengths=[slots - 1, 2 * slots + 1, 1], weather=BAD))


@pytest.mark.parametrize("chunk", range(4))
@pytest.mark.parametrize("way", ["up", "down"])
def test_loss_in_the_first_window(way: str, chunk: int) -> None:
    world = World(1, workers=4, slots=8, lengths=[30])
    lost: list[Up | Down] = []

    def once(direction: str, worker: int, packet: Up | Down) -> bool:
        if direction == way and worker == 2 and (packet.slot, packet.round) == (chunk, 0) and not lost:
            lost.append(packet)
            return False
        return True

    world.filter = once
    assert_golden(world)
    assert len(lost) == 1
    assert world.workers[2].window.counters.resent >= 1


def test_tensor_smaller_than_the_window_with_loss() -> None:
    for seed in range(50):
        weather = Weather(drop=0.3)
        assert_golden(World(seed, workers=4, slots=64, lengths=[1, 2, 3], weather=weather))


@pytest.mark.parametrize("rounds_late", [1, 3, 7])
def test_packet_stale_by_many_rounds(rounds_late: int) -> None:
    """A copy of worker 0's first packet reaches the switch when its slot is rounds ahead: answered, and ignored."""
    world = World(1, workers=2, slots=4, lengths=[40])
    first: list[Up] = []

    def keep(direction: str, worker: int, packet: Up | Down) -> bool:
        if isinstance(packet, Up) and worker == 0:
            if not first:
                first.append(packet)
            if (packet.slot, packet.round) == (0, rounds_late):
                world.at(world.now + 0.03, lambda: world.arrive(first[0]))
        return True

    world.filter = keep
    assert_golden(world)
    assert world.workers[0].window.counters.stale == 1


def test_lost_result_followed_by_a_stale_packet() -> None:
    """Worker 1 misses the result of chunk 4 (slot 0, round 1), then hears STALE about slot 0 in an older round."""
    world = World(1, workers=2, slots=4, lengths=[12])
    dropped: list[Up | Down] = []

    def lose(direction: str, worker: int, packet: Up | Down) -> bool:
        if isinstance(packet, Down) and worker == 1 and (packet.slot, packet.round) == (0, 1) and not dropped:
            dropped.append(packet)
            stale = Up(1, 0, 0, 999)
            world.at(world.now + 0.001, lambda: world.arrive(stale))
            return False
        return True

    world.filter = lose
    assert_golden(world)
    assert dropped
    assert world.workers[1].window.counters.stale == 1


def test_silent_worker_ends_in_the_deadline() -> None:
    world = World(1, workers=3, slots=8, lengths=[20], deadline_s=5.0)
    world.filter = lambda direction, worker, packet: not (direction == "up" and worker == 2 and packet.round >= 1)
    world.run()
    for worker in world.workers:
        assert isinstance(worker.error, DeadlineError)
        assert "round 1" in str(worker.error)
    assert world.now < 60.0


def test_waiting_for_a_slow_worker_costs_few_packets() -> None:
    world = World(1, workers=2, slots=256, lengths=[300], weather=Weather(delay_s=(0.01, 0.01)))
    world.events.clear()
    world.at(0.0, world.workers[0].begin_next)
    world.at(20.0, world.workers[1].begin_next)
    assert_golden(world)
    assert world.workers[0].window.counters.resent < 120, "20 s of waiting: at most some 4 packets a second"


def test_a_later_run_is_told() -> None:
    world = World(1, workers=2, slots=4, lengths=[10])
    for slot in range(4):
        world.switch.slots[slot] = Slot(5, 1, frozenset({0, 1}))
    world.run()
    for worker in world.workers:
        assert isinstance(worker.error, StaleRunError)
        assert "another run of the job has begun" in str(worker.error)
