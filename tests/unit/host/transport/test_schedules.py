# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Windows against slots under seeded bad weather: always the sums of those in them, never more missing than the bound,
or the stated error, and never a hang.

Every play also checks that a slot is used again only where those who lack its result were left out since, and that at
most half of the slots are in flight.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.transport.simulation import Down, Slot, Terms, Up, Weather, World
from hypothesis import given, note, settings
from hypothesis import strategies as st
from sumwire.errors import DeadlineError, StaleRunError
from sumwire.transport.scheduling import SendSchedule

BAD = Weather(drop=0.05, duplicate=0.05, late=0.05)
IID = Weather(drop=0.05)
BURSTY = Weather(bursts=0.01, burst_packets=8)
ONE_WORKER = Weather(worker_drop=(2, 0.15))
STEADY = Weather(delay_s=(0.01, 0.01))


def play(world: World) -> World:
    """Everybody ends with the sums of those the switch had in them, and no tensor lacks more than its bound."""
    world.run()
    sums = world.sums()
    for worker in world.workers:
        assert worker.error is None, worker.error
        assert worker.results == sums
    bound, workers = world.terms.loss_bound, world.switch.workers
    if world.switch.quorum == workers:
        for missing, length in zip(world.missing(), world.lengths, strict=True):
            assert missing <= math.floor(bound * length * workers)
    return world


ADAPTIVE = st.builds(
    Terms,
    adaptive=st.just(True),
    loss_bound=st.sampled_from([0.0, 0.03, 0.3, 0.9]),
    probes=st.booleans(),
    congestion=st.booleans(),
    paths=st.sampled_from([1, 2]),
)


@settings(max_examples=120)
@given(
    seed=st.integers(0, 2**32),
    workers=st.integers(1, 5),
    slots=st.integers(2, 11),
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    drop=st.sampled_from([0.0, 0.01, 0.2]),
    duplicate=st.sampled_from([0.0, 0.01, 0.3]),
    late=st.sampled_from([0.0, 0.02, 0.3]),
    batch=st.sampled_from([1, 3, 7, 100]),
    collect_s=st.sampled_from([0.0, 0.01, 0.1]),
    part=st.sampled_from([1, 5, 100]),
    terms=st.just(Terms()) | ADAPTIVE,
    spare=st.integers(0, 2),
)
def test_any_schedule(
    seed: int, workers: int, drop: float, duplicate: float, late: float, terms: Terms, spare: int, **options: Any
) -> None:
    note(f"seed {seed}")
    terms = replace(terms, quorum=max(1, workers - spare)) if terms.adaptive else terms
    play(World(seed, workers=workers, weather=Weather(drop, duplicate, late), terms=terms, **options))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("slots", [2, 3, 5, 9, 33])
@pytest.mark.few(30)
def test_odd_slots_and_tensors_in_a_row(slots: int, seed: int) -> None:
    play(World(seed, workers=3, slots=slots, lengths=[slots - 1, 2 * slots + 1, 1], weather=BAD))


def test_tensor_smaller_than_the_window_with_loss() -> None:
    for seed in range(50):
        play(World(seed, workers=4, slots=64, lengths=[1, 2, 3], weather=Weather(drop=0.3)))


@pytest.mark.parametrize("weather", [IID, BURSTY, ONE_WORKER], ids=["iid", "bursty", "per-worker"])
@pytest.mark.parametrize("bound", [0.0, 0.01, 0.03, 0.1, 0.5])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.few(15)
def test_missing_share_is_never_above_the_bound(weather: Weather, bound: float, seed: int) -> None:
    terms = Terms(adaptive=True, loss_bound=bound)
    world = play(World(seed, workers=4, slots=32, lengths=[100, 1, 0, 37, 3], weather=weather, terms=terms))
    assert sum(world.missing()) > 0 or bound < 0.03


@pytest.mark.parametrize(
    ("loss", "later", "chunks"), [(0.01, 0.0, 1), (0.05, 0.0, 4), (0.01, 0.001, 4), (0.01, 0.001, 10), (0.05, 0.001, 1)]
)
def test_windows_that_are_cut_never_stand_still(loss: float, later: float, chunks: int) -> None:
    """Cut far below half of the slots, as marks do it: workers that have lost different results then have different
    chunks in flight."""
    weather = Weather(drop=loss, delay_s=(0.005, 0.005 + later))
    terms = Terms(adaptive=True)
    world = World(1, workers=4, slots=64, lengths=[200], weather=weather, skew_s=0.0, deadline_s=8.0, terms=terms)
    limit: Any = SimpleNamespace(most=32, chunks=32, round_trip=lambda _: None, results=lambda *_, **__: None)
    for worker in world.workers:
        worker.window.limit = limit
    world.at(0.05, lambda: setattr(limit, "chunks", chunks))
    play(world)


def test_others_may_be_ahead_in_a_first_exchange_that_may_lack_contributions() -> None:
    """Found by hypothesis: the late worker's chunk 0 is closed without it, and slot 0 is in its next round already."""
    terms = Terms(adaptive=True, loss_bound=0.3)
    play(World(46055, workers=2, slots=2, lengths=[7], weather=Weather(late=0.3), part=1, terms=terms))


# -- certain packets ---------------------------------------------------------------------------------------


def losing(world: World, most: int, lost: Callable[[str, int, Up | Down], bool]) -> list[Up | Down]:
    """Lose the first packets for which ``lost(way, worker, packet)`` holds. Returns those that were."""
    losses: list[Up | Down] = []

    def passes(way: str, worker: int, packet: Up | Down) -> bool:
        if len(losses) < most and lost(way, worker, packet):
            losses.append(packet)
            return False
        return True

    world.filter = passes
    return losses


@pytest.mark.parametrize("chunk", range(4))
@pytest.mark.parametrize("way", ["up", "down"])
def test_loss_in_the_first_window(way: str, chunk: int) -> None:
    world = World(1, workers=4, slots=8, lengths=[30])
    lost = losing(world, 1, lambda *of: (of[0], of[1], of[2].slot, of[2].round) == (way, 2, chunk, 0))
    play(world)
    assert len(lost) == 1
    assert world.workers[2].window.counters.resent >= 1


@pytest.mark.parametrize("rule", [True, False])
def test_turns_of_models(rule: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The models' counterexample to TURN_LONG (docs/models.md): with an odd number of slots the result of chunk 0 is
    lost on its way to worker 1, and worker 0 goes on. Without the rule a result is overwritten."""
    whole = SendSchedule.__init__

    def without(self: SendSchedule, *arguments: Any) -> None:
        whole(self, *arguments)
        self.long_step = self.short_step

    if not rule:
        monkeypatch.setattr(SendSchedule, "__init__", without)
    world = World(1, workers=2, slots=5, lengths=[12], skew_s=0.0)
    losing(world, 3, lambda way, worker, packet: (way, worker, packet.slot, packet.round) == ("down", 1, 0, 0))
    if rule:
        play(world)
    else:
        with pytest.raises(AssertionError, match="worker 1 lacks chunk"):
            play(world)


@pytest.mark.parametrize("lost", ["flush", "probe", "inform"])
def test_lost_twice(lost: str) -> None:
    """Contributions of worker 1 to one chunk are lost, until two packets of the kind that is to mend it are, too."""
    bound = 0.2 if lost == "flush" else 0.0
    world = World(3, workers=3, slots=16, lengths=[60], skew_s=0.0, terms=Terms(adaptive=True, loss_bound=bound))
    gone: list[str] = []

    def lose(way: str, worker: int, packet: Up | Down) -> bool:
        here = (packet.slot, packet.round) == (9, 1)
        kind = "flush" if isinstance(packet, Up) and packet.least is not None else packet.kind
        lose_it = here and gone.count(lost) < 2 and (kind == lost or (kind == "contribute" and worker == 1))
        gone.extend([kind] if lose_it else [])
        return not lose_it

    world.filter = lose
    play(world)
    assert gone.count("contribute") >= 1
    assert gone.count(lost) == 2
    assert world.now < 3.0


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
    play(world)
    assert world.workers[0].window.counters.stale == 1


def test_lost_result_followed_by_a_stale_packet() -> None:
    """Worker 1 misses the result of chunk 4 (slot 0, round 1), then hears STALE about slot 0 in an older round."""
    world = World(1, workers=2, slots=4, lengths=[12])

    def lose(way: str, worker: int, packet: Up | Down) -> bool:
        lost = isinstance(packet, Down) and worker == 1 and (packet.slot, packet.round) == (0, 1)
        if lost:
            world.at(world.now + 0.001, lambda: world.arrive(Up(1, 0, 0, 999)))
        return lost

    lost = losing(world, 1, lose)
    play(world)
    assert lost
    assert world.workers[1].window.counters.stale == 1


def test_stop_exactly_at_the_bound() -> None:
    """Worker 2 is not heard, until all is flushed that can be: the others leave it out as often as their shares allow,
    no more and no less.

    Of 16 each may leave out 4; of 15 the workers 0, 1 and 2 may, and 3 may leave out 3.
    """
    for bound, allowed in ((0.1, 12), (0.099, 11), (0.0062, 0), (0.00625, 1)):
        world = World(1, workers=4, slots=64, lengths=[40], terms=Terms(adaptive=True, loss_bound=bound))
        losing(world, 1 << 30, lambda way, worker, _, world=world: (way, worker) == ("up", 2) and world.now < 5.0)  # type: ignore[misc]
        assert play(world).missing() == [allowed]


# -- workers that come late, or never ------------------------------------------------------------------------


def beginning(world: World, *begin_s: float) -> World:
    """Workers that begin at these times."""
    world.events.clear()
    for worker, time in zip(world.workers, begin_s, strict=True):
        world.at(time, worker.begin_next)
    return world


def test_silent_worker_ends_in_the_deadline() -> None:
    world = World(1, workers=3, slots=8, lengths=[20], deadline_s=5.0)
    losing(world, 1 << 30, lambda way, worker, packet: (way, worker) == ("up", 2) and packet.round >= 1)
    world.run()
    for worker in world.workers:
        assert isinstance(worker.error, DeadlineError)
        assert "round 1" in str(worker.error)
    assert world.now < 60.0


@pytest.mark.parametrize("adaptive", [False, True])
def test_waiting_for_a_slow_worker_costs_few_packets(adaptive: bool) -> None:
    """The others ask ever again whether it is there, less and less often."""
    world = World(1, workers=3, slots=256, lengths=[300], weather=STEADY, terms=Terms(adaptive=adaptive))
    play(beginning(world, 0.0, 20.0, 0.0))
    for number in (0, 2):
        counters = world.workers[number].window.counters
        assert counters.probes + counters.resent < 130, "20 s of waiting: at most some 4 packets a second"
        assert counters.probes > 40 or not adaptive, "a header, not the contribution"


def test_a_chunk_that_stays_open_is_asked_for_less_and_less() -> None:
    """All others go on past it: it is overtaken with every round trip, which must not mean a packet each time."""
    world = World(1, workers=2, slots=64, lengths=[3000], skew_s=0.0, weather=STEADY, terms=Terms(adaptive=True))
    here = ("up", 1, 7, 0)
    losing(world, 1 << 30, lambda way, worker, p: (way, worker, p.slot, p.round) == here and world.now < 1.0)
    play(world)
    counters = world.workers[0].window.counters
    assert 3 <= counters.probes + counters.resent < 12


def test_left_out_worker_takes_results_of_chunks_it_never_sent() -> None:
    world = World(1, workers=3, slots=512, lengths=[600], weather=STEADY, terms=Terms(adaptive=True, quorum=2))
    play(beginning(world, 0.0, 0.0, 0.15))
    slow = world.workers[2].window.counters
    assert slow.sent < 500, "results that came before their turn need no contribution"


def test_straggler_asks_the_others() -> None:
    """Worker 2 hears nothing for a while, and the others go on by many rounds."""
    world = World(1, workers=3, slots=8, lengths=[400], terms=Terms(adaptive=True, quorum=2))
    losing(world, 1 << 30, lambda way, worker, packet: worker == 2 and 0.05 < world.now < 1.0)
    play(world)
    assert world.asked > 0
    assert world.workers[2].window.counters.stale > 0


def test_a_later_run_is_told() -> None:
    world = World(1, workers=2, slots=4, lengths=[10])
    for slot in range(4):
        world.switch.slots[slot] = Slot(5, 1, frozenset({0, 1}))
    world.run()
    for worker in world.workers:
        assert isinstance(worker.error, StaleRunError)
        assert "another run of the job has begun" in str(worker.error)
