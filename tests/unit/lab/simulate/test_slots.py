# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rules that divide a switch's slots: shares by hand, completion times by hand, and which rule wins where."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from sumwire_lab.errors import OptionError
from sumwire_lab.simulate.flows import Exchanged, Step
from sumwire_lab.simulate.slots import RULES, Pool, Running, SlotJob, drawn_jobs, play

# Passes of 1 s, and 1 s of an exchange that begins behind them.
SENDS = Step(0.25, 0.75, (0.75,), (Exchanged(1.0, 0.0, 0.0, ""),))
COMPUTES = Step(0.25, 0.75, (0.0,), (Exchanged(0.1, 0.0, 0.0, ""),))


def running(number: int, need: int, left: float, full: Step = SENDS, server: float = 4.0) -> Running:
    return Running(number, SlotJob(0.0, "gpt2", 4, 1), need, server, full, left)


def paces(rule: str, *jobs: Running, slots: int = 100, shares: int = 4) -> list[float]:
    return list(RULES[rule](jobs, Pool(slots=slots, jobs=shares)))


LONG, SHORT, THIRD = running(0, 80, 1000), running(1, 80, 10), running(2, 80, 500)


def test_static_shares_are_there_also_for_nobody() -> None:
    assert paces("static", LONG) == [25 / 80]
    assert paces("static", LONG, SHORT) == [25 / 80] * 2
    # A fifth job waits.
    assert paces("static", *[running(number, 10, 1) for number in range(5)]) == [1, 1, 1, 1, 0]


def test_a_quota_is_the_whole_need_or_nothing() -> None:
    assert paces("quota", LONG, SHORT) == [1, 0]
    small = running(3, 20, 1)
    # Nobody overtakes the one that waits.
    assert paces("quota", LONG, SHORT, small) == [1, 0, 0]
    begun = running(4, 80, 1)
    begun.pace = 1.0
    assert paces("quota", LONG, begun) == [0, 1]
    assert paces("quota", running(0, 500, 1)) == [100 / 500]


def test_free_slots_are_kept() -> None:
    first, second, third = running(0, 80, 100), running(1, 80, 10), running(2, 80, 1)
    pool = Pool(slots=100, jobs=2)
    assert RULES["free"]([first, second, third], pool) == [1, 20 / 80, 0]
    # The second job does not get more when the first has ended; the third, which waited, gets the rest.
    assert RULES["free"]([second, third], pool) == [20 / 80, 1]


def test_useful_shares_are_no_more_than_the_need() -> None:
    assert paces("useful", running(9, 20, 1), LONG, SHORT) == pytest.approx([1, 40 / 80, 40 / 80])
    assert paces("useful", LONG) == [1]


def test_least_left_serves_the_shortest_first() -> None:
    assert paces("least-left", LONG, SHORT, THIRD) == [0, 1, 20 / 80]


def test_preempted_jobs_use_their_servers() -> None:
    assert paces("preempted", LONG, SHORT, THIRD) == pytest.approx([0.25, 1, 0.5])


def test_shared_slots_are_as_busy_as_their_jobs_make_them() -> None:
    found = paces("shared", LONG, SHORT, THIRD, slots=200)
    # All equal, so one equation: pace = 1 / (4 busy), busy = A / (A + 200), A = 3 x 40 x pace.
    pace = found[0]
    assert found == pytest.approx([pace] * 3)
    assert pace == pytest.approx(1 / (4 * (120 * pace / (120 * pace + 200))), rel=1e-9)
    assert paces("shared", LONG, slots=10_000) == [1]


def test_worth_gives_nothing_that_is_hidden_behind_a_pass() -> None:
    """The job that computes hides its exchange at a tenth of the pace; the rest is for the one that sends."""
    found = paces("worth", running(0, 80, 100, COMPUTES), running(1, 80, 100), slots=100)
    assert COMPUTES.at_pace(found[0]).seconds == pytest.approx(COMPUTES.seconds)
    assert found[0] < 0.25
    assert found[1] == 1


def test_worth_prefers_the_shorter_of_equals() -> None:
    found = paces("worth", LONG, SHORT, slots=80)
    assert found[1] == 1
    assert found[0] < 0.1


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("slots", [2, 30, 100, 5000])
def test_no_rule_gives_more_slots_than_there_are(rule: str, slots: int) -> None:
    jobs = [running(number, 10 + 30 * number, 10 * (7 - number)) for number in range(6)]
    found = paces(rule, *jobs, slots=slots, shares=6)
    assert all(0 <= pace <= 1 for pace in found)
    if rule not in ("shared", "preempted"):
        assert sum(pace * job.need for pace, job in zip(found, jobs, strict=True)) <= slots + 1e-9
    if slots >= 1000:
        assert found == [1] * 6 or rule in ("shared", "worth")


# -- completion times ---------------------------------------------------------------------------------------


POOL = Pool(slots=4096, rate_bit_s=1e11, delay_s=2e-5, change_s=0.0)


def test_one_job_alone_takes_its_steps() -> None:
    [job] = jobs = [SlotJob(5.0, "resnet50", 8, 1000)]
    for rule in set(RULES) - {"static", "shared"}:
        found = play(jobs, rule, POOL)
        assert found.slowdown == pytest.approx((1.0,), rel=1e-3)
        assert found.waited_s == (0,)
        assert found.mean_s > job.steps * 0.026
        assert found.fairness == pytest.approx(1)


def test_two_jobs_by_hand() -> None:
    """Slots for one job. By quota the second one waits for the first."""
    jobs = [SlotJob(0.0, "bert-large", 4, 1000), SlotJob(1.0, "bert-large", 4, 1000)]
    need = play(jobs[:1], "quota", POOL)
    narrow = Pool(slots=1000, jobs=2, rate_bit_s=1e11, delay_s=2e-5, change_s=0.0)
    found = play(jobs, "quota", narrow)
    assert found.completion_s[0] == pytest.approx(need.completion_s[0])
    assert found.completion_s[1] == pytest.approx(2 * need.completion_s[0] - 1)
    assert found.waited_s == pytest.approx((0, need.completion_s[0] - 1))
    assert found.mean_slowdown == pytest.approx((1 + found.slowdown[1]) / 2)


def test_a_change_of_slots_costs_time() -> None:
    """The second job takes slots from the first one, and gives them back when it ends."""
    jobs = [SlotJob(0.0, "bert-large", 4, 10_000), SlotJob(1.0, "bert-large", 4, 10)]
    quick, slow = (
        play(jobs, "least-left", Pool(slots=1000, rate_bit_s=1e11, delay_s=2e-5, change_s=change)).completion_s
        for change in (0.0, 5.0)
    )
    assert slow[1] == quick[1]
    assert slow[0] - quick[0] == pytest.approx(5.0, abs=0.5)


def test_jobs_of_a_seed_are_always_the_same() -> None:
    first, again, other = drawn_jobs(1), drawn_jobs(1), drawn_jobs(2)
    assert first == again != other
    assert len(first) == 20
    assert first[0].arrives_s == 0
    assert [job.arrives_s for job in first] == sorted(job.arrives_s for job in first)
    assert play(first, "worth", POOL) == play(again, "worth", POOL)


def test_arrivals_are_as_far_apart_as_asked() -> None:
    jobs = drawn_jobs(3, 2000, gap_s=50.0)
    assert jobs[-1].arrives_s / 2000 == pytest.approx(50, rel=0.1)
    assert len({job.workload for job in jobs}) == 5


SEEDS = range(1, 6)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("gap_s", [0.0, 240.0])
def test_worth_wins_where_slots_are_scarce(seed: int, gap_s: float) -> None:
    """Round trips of 80 us at 100 Gbit/s: 20 jobs could use seven times the slots that there are."""
    jobs = drawn_jobs(seed, gap_s=gap_s)
    pool = Pool(rate_bit_s=1e11, delay_s=2e-5)
    found = {rule: play(jobs, rule, pool) for rule in RULES}
    assert found["static"].mean_s / found["worth"].mean_s >= 1.3
    assert found["static"].mean_s / found["free"].mean_s >= 1.3 or gap_s == 0
    assert found["worth"].mean_s <= 1.001 * min(one.mean_s for one in found.values())
    assert found["worth"].fairness > found["static"].fairness


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("rate_bit_s", "delay_s"), [(1e10, 5e-6), (1e11, 1e-6)])
def test_no_rule_wins_where_there_are_slots_for_all(seed: int, rate_bit_s: float, delay_s: float) -> None:
    jobs = drawn_jobs(seed, gap_s=0.0)
    pool = Pool(rate_bit_s=rate_bit_s, delay_s=delay_s)
    assert play(jobs, "static", pool).mean_s / play(jobs, "worth", pool).mean_s == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda: play([], "static", POOL), "jobs=0: must be at least one"),
        (lambda: play(drawn_jobs(1), "first", POOL), "rule=first: known are static, quota, free, shared"),
        (lambda: play(drawn_jobs(1), "static", Pool(system="tcp")), "systems=tcp: known are"),
        (lambda: play([SlotJob(0.0, "alexnet", 4, 1)], "static", POOL), "model=alexnet: known are"),
        (lambda: play(drawn_jobs(1), "static", Pool(slots=20, jobs=20)), "slots=20: must be enough for one job"),
        (lambda: Pool(slots=1), "slots=1: must be at least 2"),
        (lambda: drawn_jobs(1, 0), "jobs=0: must be at least 1"),
        (lambda: drawn_jobs(1, gap_s=-1.0), "gap_s=-1.0: must be at least 0"),
        (lambda: drawn_jobs(1, lasting_s=(2.0, 1.0)), "lasting_s=2.0,1.0: must be two numbers above 0"),
        (lambda: drawn_jobs(1, lasting_s=(math.nan, 1.0)), "lasting_s=nan,1.0: must be two numbers"),
    ],
)
def test_wrong_values_are_refused(wrong: Callable[[], object], told: str) -> None:
    with pytest.raises(OptionError, match=told.replace(".", r"\.")):
        wrong()
