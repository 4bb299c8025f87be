# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Hours of training: what they add up to, what failures and stragglers cost, seeds, and the work that they take."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sumwire_lab.errors import OptionError
from sumwire_lab.options.fabric import Fabric
from sumwire_lab.simulate.days import ASKED_S, Days, Failures, days
from sumwire_lab.simulate.flows import Exchanged, Step
from sumwire_lab.simulate.stragglers import given, lognormal, none, slowest

FABRIC = Fabric(workers=8, levels=(4, 2))
STEP = Step(0.02, 0.06, (0.06,), (Exchanged(0.02, 0.0, 0.0, ""),))
SLOW = Step(0.02, 0.06, (0.06,), (Exchanged(0.92, 0.0, 0.0, ""),))
NEVER = math.inf


def adds_up(found: Days) -> bool:
    return found.stepped_s + found.lost_s + found.stalled_s == pytest.approx(found.seconds)


def test_without_failures_every_step_counts() -> None:
    found = days(FABRIC, STEP, 1)
    assert (found.seconds, found.steps, found.worker_steps) == (3600, 36_000, 8 * 36_000)
    assert found.stalled_s == 0
    assert found.lost_s < 0.1
    assert found.share(FABRIC, STEP) == pytest.approx(1, rel=1e-4)


def test_a_constant_slowness_is_exact() -> None:
    """Twice as slow: passes of 0.16 s, and the exchange of 0.02 s as before."""
    found = days(FABRIC, STEP, 1, slowness=given([2.0]))
    assert found.step_s == pytest.approx(0.18)
    assert found.steps == 20_000


FAILING = Failures(worker_mean_s=40_000.0, worker_away_s=500.0)
SWITCHES = Failures(switch_mean_s=20_000.0, switch_away_s=100.0)


def test_an_elastic_training_goes_on_with_fewer() -> None:
    found = days(FABRIC, STEP, 100, failures=FAILING, seed=3)
    # 8 workers, 360,000 s, one failure in 40,500 s of each.
    assert 45 < found.worker_failures < 100
    assert found.least_workers < 8
    assert adds_up(found)
    assert found.stalled_s == pytest.approx(12 * found.worker_failures, abs=12)
    away = found.worker_failures * FAILING.worker_away_s / (8 * found.seconds)
    stalled = found.stalled_s / found.seconds
    assert found.share(FABRIC, STEP) == pytest.approx((1 - away) * (1 - stalled), rel=0.01)


def test_a_rejoining_worker_gets_the_model() -> None:
    """1 GB over 1 Gbit/s takes 8 s, in which all wait."""
    plain, carried = (
        days(FABRIC, STEP, 100, failures=replace(FAILING, state_bytes=size), seed=3) for size in (0.0, 1e9)
    )
    assert carried.stalled_s / carried.worker_failures == pytest.approx(
        plain.stalled_s / plain.worker_failures + 8, rel=0.05
    )


def test_without_elastic_all_go_back_to_the_checkpoint() -> None:
    failures = replace(FAILING, elastic=False, checkpoint_s=600.0, restart_s=60.0)
    found = days(FABRIC, STEP, 200, failures=failures, seed=5)
    assert adds_up(found)
    assert found.worker_failures > 50
    # What is taken back is not counted in any sum.
    assert found.steps * STEP.seconds == pytest.approx(found.stepped_s, rel=1e-3)
    assert found.worker_steps == 8 * found.steps
    # Half a period is lost in the mean, and all wait until the worker is back.
    assert found.lost_s / found.worker_failures == pytest.approx(300, rel=0.25)
    assert found.stalled_s / found.worker_failures == pytest.approx(500, rel=0.03)
    often = days(FABRIC, STEP, 200, failures=replace(failures, checkpoint_s=60.0), seed=5)
    assert often.lost_s / often.worker_failures == pytest.approx(30, rel=0.25)


def test_a_lost_switch_means_gloo_until_it_is_back() -> None:
    found = days(FABRIC, STEP, 100, fallback=SLOW, failures=SWITCHES, seed=1)
    assert found.switch_failures > 20
    assert adds_up(found)
    assert found.fallen_back_s / found.switch_failures == pytest.approx(97, rel=0.1)
    assert found.stalled_s / found.switch_failures == pytest.approx(3 + ASKED_S / 2, rel=0.05)
    quick = (found.steps - found.fallen_back_s / SLOW.seconds) * STEP.seconds
    assert quick == pytest.approx(found.stepped_s - found.fallen_back_s, rel=0.01)


def test_more_switches_fail_more_often() -> None:
    few, many = (
        days(fabric, STEP, 100, fallback=SLOW, failures=SWITCHES, seed=1).switch_failures
        for fabric in (Fabric(workers=8), Fabric(workers=8, levels=(1, 8), spines=4))
    )
    # One, and eight leaves with four spines.
    assert 8 < many / few < 17


@pytest.mark.parametrize("seed", range(2))
def test_equal_seeds_play_the_same_and_others_do_not(seed: int) -> None:
    def played(number: int) -> Days:
        failures = replace(FAILING, switch_mean_s=50_000.0)
        return days(FABRIC, STEP, 50, fallback=SLOW, slowness=lognormal(0.2), failures=failures, seed=number)

    assert played(seed) == played(seed)
    assert played(seed) != played(seed + 100)


def test_a_day_of_100_000_workers_takes_few_draws() -> None:
    """Every draw is of a whole batch of steps. So the work grows with steps / 65,536 and with events, not with workers
    times steps, which are 10**11 here."""
    fabric = Fabric(workers=100_000, levels=(50, 50, 40))
    failures = Failures(worker_mean_s=3e7, switch_mean_s=1e8)
    found = days(fabric, STEP, 24, fallback=SLOW, slowness=lognormal(0.1), failures=failures, seed=1)
    assert found.worker_failures > 200
    events = 2 * (found.worker_failures + found.switch_failures)
    assert found.draws < 5 * events + 4 * (found.steps / 65_536 + 1)
    assert found.worker_steps > 10**10


def test_all_workers_may_be_away() -> None:
    failures = Failures(worker_mean_s=10.0, worker_away_s=1000.0)
    found = days(Fabric(workers=2), STEP, 10, failures=failures, seed=1)
    assert found.least_workers == 0
    assert adds_up(found)


def test_wrong_values_are_refused() -> None:
    for wrong, told in [
        (lambda: days(FABRIC, STEP, 0), "hours=0: must be above 0"),
        (lambda: days(FABRIC, STEP, 1, failures=SWITCHES), "switch-mean-s=20000: needs a fall-back"),
        (lambda: Failures(worker_mean_s=0.0), "worker-mean-s=0.0: must be above 0"),
        (lambda: Failures(restart_s=-1.0), "restart-s=-1.0: must not be negative"),
        (lambda: lognormal(-0.1), "sigma=-0.1: must be 0 to 2"),
        (lambda: given([]), r"stragglers=\[\]: must be at least one factor"),
        (lambda: given([1.0, 0.0]), "each above 0"),
    ]:
        with pytest.raises(OptionError, match=told):
            wrong()


# -- the slowest of many ----------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2, 30, 1000])
def test_the_slowest_is_distributed_as_the_largest_of_many(workers: int) -> None:
    drawn = np.exp(0.3 * np.random.default_rng(1).standard_normal((20_000, workers))).max(axis=1)
    direct = slowest(lognormal(0.3), workers, np.random.default_rng(2).random(200_000))
    shares = [0.01, 0.1, 0.5, 0.9, 0.99]
    assert np.quantile(direct, shares) == pytest.approx(np.quantile(drawn, shares), rel=0.02)


def test_the_example_of_the_docstring() -> None:
    assert slowest(lognormal(0.1), 1000, np.array([0.5]))[0] == pytest.approx(1.377, abs=5e-4)


def test_a_normal_distribution_is_right_to_six_digits() -> None:
    from statistics import NormalDist

    for tail in (0.999, 0.5, 0.1, 1e-3, 1e-9, 1e-15):
        expected = -NormalDist().inv_cdf(tail)
        assert math.log(lognormal(1.0)(np.array([tail]))[0]) == pytest.approx(expected, abs=2e-6)


def test_measured_factors_are_drawn_as_they_are() -> None:
    factors = given([1.0, 3.0, 2.0, 1.5])
    found = slowest(factors, 1, np.random.default_rng(0).random(40_000))
    assert {float(one) for one in found} == {1.0, 1.5, 2.0, 3.0}
    assert np.mean(found) == pytest.approx(1.875, abs=0.02)
    # The largest of three is 3 unless all three are below: 1 - (3/4)**3.
    most = slowest(factors, 3, np.random.default_rng(0).random(40_000))
    assert np.mean(most == 3.0) == pytest.approx(1 - 0.75**3, abs=0.01)


@pytest.mark.parametrize("uniform", [0.0, 5e-324, 0.5, 1 - 2**-53])
def test_any_uniform_number_gives_a_finite_factor(uniform: float) -> None:
    for slowness in (none, lognormal(0.5), given([1.0, 2.0])):
        found = slowest(slowness, 100_000, np.array([uniform]))
        assert np.isfinite(found).all()
        assert found[0] > 0
