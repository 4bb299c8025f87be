# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Kinds of simulated schedules that a flag asks for: threads that are preempted, lanes, virtual queues, trees of
aggregators, and exchanges by C alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from golden import model
from simulate import cli, mutations
from simulate.locks import Condition, Lock
from simulate.play import Play, play
from simulate.preempt import MODULES, Preempter, Preemption
from simulate.schedule import Schedule, Variant
from simulate.switches import Frames
from simulate.world import Process, World
from sumwire_lab.verify import security

pytestmark = pytest.mark.cc
PAGE = Path(__file__).parents[3] / "docs" / "simulator.md"


def packets_of(schedule: Schedule) -> tuple[Counter[tuple[int, int]], Play]:
    """What switches sent in a schedule that violates nothing: how many packets of each job and flag."""
    run, seen = Play(schedule), Counter[tuple[int, int]]()

    def look(name: str, port: int, frame: bytes, leaving: Frames) -> None:
        for _, sent in leaving:
            packet = model.decode(sent[42:])
            if packet.kind == model.RESULT:
                seen[packet.job, packet.flags & model.TRIMMED] += 1

    run.network.on_frame = look
    assert run.play().violations == []
    return seen, run


def test_lanes_are_jobs_of_one_process() -> None:
    seen, run = packets_of(Variant(lanes=True).of(27))
    assert len({job for job, _ in seen}) == run.schedule.terms.lanes > 1


@pytest.mark.parametrize("seed", [4, 31])
def test_lanes_with_keys_violate_nothing(seed: int) -> None:
    assert play(Variant(keys=True, lanes=True).of(seed)).violations == []


def test_packets_are_cut_on_their_way() -> None:
    """What they lack is in no residual, but all workers have the same sums."""
    seen, _ = packets_of(Variant(queues=True).of(92))
    assert seen[7, model.TRIMMED] > 10
    assert seen[7, 0] > 50


def test_sums_without_what_a_switch_drops_on_purpose_add_up() -> None:
    assert play(Variant(queues=True).of(6200257)).violations == []


@pytest.mark.parametrize("seed", [10, 31])
def test_queues_in_front_of_hosts_and_switches_violate_nothing(seed: int) -> None:
    assert play(Variant(queues=True, lanes=True).of(seed)).violations == []


@pytest.mark.parametrize("seed", [4, 13])
def test_trees_of_aggregators_with_keys_violate_nothing(seed: int) -> None:
    run = Play(Variant(keys=True, aggregators=True).of(seed))
    assert len(run.network.switches) >= 3
    assert run.play().violations == []


@pytest.mark.parametrize("seed", [2, 5])
def test_long_packets_violate_nothing(seed: int) -> None:
    run, ops = Play(Variant(long=True).of(seed)), Counter[int]()

    def look(name: str, port: int, frame: bytes, leaving: Frames) -> None:
        ops.update(model.decode(sent[42:]).op for _, sent in leaving)

    run.network.on_frame = look
    assert run.play().violations == []
    assert ops[model.JUMBO] > 3


@pytest.mark.parametrize(("seed", "early"), [(1, ""), (13, ""), (9, "bound"), (10, "quorum")])
def test_c_makes_most_of_an_exchange_alone(seed: int, early: str) -> None:
    """Also where slots may close without a worker."""
    run = Play(schedule := Variant(fast=True).of(seed))
    quorum = schedule.terms.quorum < schedule.workers
    assert (bool(schedule.loss_bound), quorum) == (early == "bound", early == "quorum")
    assert run.play().violations == []
    assert run.machine.fast_kernels.results > 20


@pytest.mark.parametrize("seed", [13, 31])
def test_preempted_threads_violate_nothing_and_play_the_same_again(seed: int) -> None:
    first, second = (play(Variant(preempt=MODULES).of(seed), traced=True) for _ in range(2))
    assert first.violations == []
    assert first == second


def test_who_is_held_again_and_again_is_as_one_who_is_stopped() -> None:
    """Its job may end with an error."""
    assert play(Variant(preempt=MODULES).of(5001804)).violations == []


def test_a_lock_that_is_missing_shows_only_where_threads_are_preempted() -> None:
    """The control thread tells the others of a call that the other thread has not described yet."""
    (seed,) = re.findall(r"^\| control-has-no-lock[^|]*\| (\d+) \|", PAGE.read_text(), re.MULTILINE)
    schedule = Variant(preempt=mutations.OF_PREEMPTION["control-has-no-lock"]).of(int(seed))
    with mutations.mutated("control-has-no-lock"):
        assert "OrderError" in play(schedule).violations[0]
        assert play(replace(schedule, preemption=None)).violations == []


def in_a_world(*works: Callable[[World], None], lines: int = 0) -> World:
    """Threads of one process."""
    world = World(1)
    if lines:
        world.tracer = Preempter(world, Preemption((__name__,), lines, 0.01)).trace
    process = Process(world, "process")
    threads = [process.start(f"thread {number}", partial(work, world)) for number, work in enumerate(works)]
    world.run(10.0, lambda: all(thread.over for thread in threads))
    world.end()
    return world


def test_a_thread_gives_way_where_another_one_has_the_lock() -> None:
    said: list[str] = []
    locks: list[Lock] = []

    def first(world: World) -> None:
        locks.append(Lock(world))
        with locks[0]:
            world.sleep(1.0)
            said.append("first")

    def second(world: World) -> None:
        assert not locks[0].acquire(blocking=False)
        with locks[0]:
            said.append(f"second at {world.now}")

    assert in_a_world(first, second).violations == []
    assert said == ["first", "second at 1.0"]


def test_a_condition_is_waited_for_with_its_lock_only() -> None:
    world = in_a_world(lambda world: Condition(world).wait(1.0) and None)
    assert "without its lock" in world.violations[0]


@pytest.mark.parametrize("lines", [0, 2])
def test_threads_change_places_between_two_lines(lines: int) -> None:
    """Nobody sleeps, so without the second scheduler one thread counts to the end before the other one begins."""
    counted: list[int] = []

    def count(world: World, who: int) -> None:
        for _ in range(50):
            counted.append(who)

    assert in_a_world(partial(count, who=1), partial(count, who=2), lines=lines).violations == []
    changes = sum(one != other for one, other in pairwise(counted))
    assert (changes == 1) == (lines == 0)


def test_the_command_preempts_at_lines_of_a_module(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--seed", "4", "--preempt=sumwire.lifecycle"]) == 0
    assert "modules=('sumwire.lifecycle',)" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main(["--preempt=sumwire.nothing"])
    assert "sumwire.nothing: must be a module that is loaded" in capsys.readouterr().err


def test_the_verification_plays_flags_that_the_command_has() -> None:
    for flags in security.MODES:
        asked = cli._parser().parse_args(list(flags))
        assert Variant(**{name: getattr(asked, name) for name in Variant._fields}).flags == sorted(
            flags, key=[f"--{name}" for name in Variant._fields].index
        )
    assert 0 < sum(security.MODES.values()) < 1
