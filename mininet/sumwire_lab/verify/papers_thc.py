# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rows of `make verify-papers` on THC: experiments, and the checks computed from their measurements."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import sumwire_controller
import torch
import yaml
from sumwire.codec.oracles import codecs, loopback, nmse
from sumwire.codec.tables import ThcTable, for_workers
from sumwire.codec.thc import BLOCK_VALUES, ThcCodec, UnbiasedThcCodec
from sumwire.codec.thc_wide import wide_codec
from sumwire.config import parse_job
from sumwire.config.jobfile import FORMAT
from sumwire.start.job_request import JobRequest, job_file_for
from sumwire_protocol.tables import DEFAULT_BITS, DEFAULT_P, SUM_MAX
from torch import Tensor

from sumwire_lab.bench.thc_variants import train_variant
from sumwire_lab.experiments import signs_alone
from sumwire_lab.experiments.closed_forms import least_errors
from sumwire_lab.network import control_plane
from sumwire_lab.network.fabric import plan
from sumwire_lab.options.bench_options import THC, ThcOptions, Variant
from sumwire_lab.options.conditions import Conditions, OfHost
from sumwire_lab.options.priority_lanes import LanedOptions
from sumwire_lab.options.recipes import RECIPES
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.study.check import Check, at_least, at_most, equal, must_fail, reported
from sumwire_lab.training import digits_data
from sumwire_lab.verify.plan import Experiments, Verification

# Relative; both sides are computed in float64, in other orders.
SAME: Final = 1e-9
# Of all test images.
POINTS_MAX: Final = 0.01
# NMSE of one worker by 16 even levels, as 17 workers have by THC.
FOUR_BITS: Final = 0.0202
# Of the mean of independent gradients, by at least so much.
CORRELATED_GAIN: Final = 1.3
# Of the mean of ones; of other tensors, so many standard errors.
UNBIASED_ERROR: Final = 0.002
ONES: Final = "ones"
STANDARD_ERRORS: Final = 3.0
UNBIASED_WORKERS: Final = 8
ROUNDS: Final = 10_000
QUICK_ROUNDS: Final = 100


def table_checks(found: Mapping[int, float], least: Mapping[int, float], seconds: float) -> list[Check]:
    """Check the controller's tables. `found`: their error by number of workers; `least`: that of the best possible
    table."""
    worse = [workers for workers, error in found.items() if abs(error - least[workers]) > SAME * least[workers]]
    span = f"n = {min(found)} .. {max(found)}"
    return [
        equal(f"THC's table, {span}: workers whose error is not the least over all g <= 255 // n", worse, []),
        reported(f"THC's table, {span}: seconds to solve all", seconds),
    ]


def way_checks(found: Mapping[str, Mapping[int, ThcTable]]) -> list[Check]:
    """Check the default tables. `found`: the table of a job without a given one, by the way in which the job is made
    and by its number of workers."""
    first = next(iter(found.values()))
    other = [
        f"{way}, {workers} workers"
        for way, by_workers in found.items()
        for workers, table in by_workers.items()
        if table != first[workers]
    ]
    return [equal(f"THC's table, jobs by {', '.join(found)}: those that have another one", other, [])]


def uniform_checks(ratios: Mapping[int, float]) -> list[Check]:
    """Check the error ratio of two systems. `ratios`: expected NMSE of thc / thc-uniform by number of workers."""
    worst = max(ratios, key=lambda workers: ratios[workers])
    label = f"thc / thc-uniform NMSE, n = {min(ratios)} .. {max(ratios)}, largest (n = {worst})"
    return [at_most(label, ratios[worst], 1.0)]


def rounding_checks(
    apart: Mapping[int, float], spread: Mapping[int, float], unclipped: Mapping[int, float]
) -> list[Check]:
    """Check the NMSE of the mean by number of workers.

    `apart`: workers round by independent random numbers. `spread`: each takes its share of common random numbers.
    `unclipped`: as `spread`, with thc-unbiased.
    """
    gains = {workers: apart[workers] / spread[workers] for workers in spread}
    least = min(gains, key=lambda workers: gains[workers])
    label = f"THC, n = {min(gains)} .. {max(gains)}: NMSE of the mean, rounding apart / correlated"
    return [
        at_least(f"{label}, smallest (n = {least})", gains[least], CORRELATED_GAIN),
        reported(f"{label}, by number of workers", gains),
        reported("THC: NMSE of the mean with correlated rounding, by number of workers", dict(spread)),
        reported("NMSE of the mean, thc-unbiased / thc", {n: unclipped[n] / spread[n] for n in spread}),
    ]


def unbiased_checks(shares: Mapping[str, tuple[tuple[float, float], tuple[float, float]]]) -> list[Check]:
    """Check the bias. `shares`: how much of a tensor is returned, mean and standard error, by thc-unbiased and by thc,
    which clips."""
    checks = []
    for name, ((mean, error), (clipped, clipped_error)) in shares.items():
        bounds = [UNBIASED_ERROR if name == ONES else STANDARD_ERRORS * each for each in (error, clipped_error)]
        checks += [
            at_most(f"thc-unbiased, {name}: share that is lost, in bounds", abs(1 - mean) / bounds[0], 1.0),
            at_least(f"the same by thc, which clips: {name}", abs(1 - clipped) / bounds[1], 1.0),
            reported(f"{name}: share that comes back, by thc-unbiased and by thc", [mean, clipped]),
        ]
    return checks


def many_checks(errors: Mapping[int, float], by_thc: float) -> list[Check]:
    """Check many workers. `errors`: NMSE of one worker's values with `thc-wide`, by number of workers. `by_thc`: the
    smallest that `thc` has with these numbers, known to be bad."""
    worst = max(errors, key=lambda workers: errors[workers])
    label = f"thc-wide: NMSE of one of {min(errors)} to {max(errors)} workers, largest (n = {worst})"
    return [
        at_most(label, errors[worst], FOUR_BITS),
        at_least("the same by thc, known to be bad, smallest", by_thc, FOUR_BITS),
        reported("thc-wide: NMSE by number of workers", dict(errors)),
    ]


def accuracy_checks(found: Mapping[int, tuple[float, ...]], known_bad: float) -> list[Check]:
    """Check the accuracy lost by THC. ``found``: accuracies with the exact mean and with THC, means over the seeds, by
    number of workers. ``known_bad``: that of :data:`BAD` with the fewest workers, which must show that the task can
    tell."""
    checks = [
        at_most(f"digits, {workers} workers: accuracy lost by THC (exact mean {exact:.1%})", exact - thc, POINTS_MAX)
        for workers, (exact, thc) in found.items()
    ]
    fewest = min(found)
    label = f"digits, {fewest} workers: accuracy lost by 1 bit without rotation and error feedback, known to be bad"
    return [*checks, at_least(label, found[fewest][0] - known_bad, POINTS_MAX)]


def quorum_checks(all_: Mapping[str, Any], some: Mapping[str, Any], known_bad: float) -> list[Check]:
    """Check a quorum. `all_`: THC from all workers; `some`: with a quorum, while one worker is slow. `known_bad`: the
    accuracy of `signs_alone`."""
    label = "THC, one of 4 workers 3 times slower"

    def lost(accuracy: float) -> Check:
        return at_most(f"{label}: accuracy lost by quorum 3", all_["accuracy"] - accuracy, POINTS_MAX)

    return [
        reported(f"{label}: time per step, all / quorum 3", all_["step_s"] / some["step_s"]),
        lost(some["accuracy"]),
        must_fail(signs_alone.NAME, lost(known_bad)),
        equal(f"{label}: replicas bit-equal", some["replicas_equal"], True),
    ]


WORKERS: Final = range(2, 33)
TRAINED: Final = (2, 8, 18, 32)
BAD: Final = replace(THC, bits=1, rotation=False, feedback=False)
ROUNDED: Final = (2, 3, 4, 8, 17, 32)
_QUICK: Final[Mapping[str, Any]] = {"epochs": 1, "hidden": 16}
SLOWER: Final = 3.0
QUICK_STEPS: Final = 20
# More than have 16 levels by THC's table; 68 is the last with three values to an element.
MANY: Final = (18, 32, 68, 69, 128, 255)
VALUES: Final = 400_000
_SERVER: Final = "10.0.0.9"


def _tables(_: Verification) -> list[Check]:
    begun = time.process_time()
    for workers in WORKERS:
        for_workers(workers)
    seconds = time.process_time() - begun
    errors = least_errors(DEFAULT_BITS, DEFAULT_P, SUM_MAX // WORKERS[0])
    least = {workers: min(errors[g] for g in range(1, SUM_MAX // workers + 1)) for workers in WORKERS}
    found = {way: {workers: of(workers) for workers in WORKERS} for way, of in WAYS.items()}
    errors_found = {workers: table.mse for workers, table in found[CONTROLLER].items()}
    return [*table_checks(errors_found, least, seconds), *way_checks(found)]


def _uniform(_: Verification) -> list[Check]:
    ratios = {}
    for workers in WORKERS:
        solved, even = chosen_table("thc", workers), chosen_table("thc-uniform", workers)
        ratios[workers] = (solved.mse + solved.clip_mse) / (even.mse + even.clip_mse)
    return uniform_checks(ratios)


def _rounding(_: Verification) -> list[Check]:
    generator = torch.Generator().manual_seed(1)
    ways: tuple[tuple[type[ThcCodec], bool], ...] = ((ThcCodec, False), (ThcCodec, True), (UnbiasedThcCodec, True))
    errors: tuple[dict[int, float], ...] = tuple({} for _ in ways)
    for workers in ROUNDED:
        gradients = [torch.randn(VALUES, generator=generator) for _ in range(workers)]
        mean = torch.stack(gradients).mean(dim=0)
        for found, (kind, correlated) in zip(errors, ways, strict=True):
            members = codecs(for_workers(workers), workers, BLOCK_VALUES, correlated=correlated, kind=kind)
            found[workers] = nmse(loopback(members, gradients), mean)
    return rounding_checks(*errors)


def _unbiased(v: Verification) -> list[Check]:
    """Eight workers with equal tensors, one of ones and one of normal values."""
    rounds = QUICK_ROUNDS if v.quick else ROUNDS
    normal = torch.randn(BLOCK_VALUES, generator=torch.Generator().manual_seed(1))
    shares = {
        name: {kind: _shares(tensor, kind, rounds) for kind in (UnbiasedThcCodec, ThcCodec)}
        for name, tensor in ((ONES, torch.ones(BLOCK_VALUES)), ("normal values", normal))
    }
    return unbiased_checks({name: (of[UnbiasedThcCodec], of[ThcCodec]) for name, of in shares.items()})


def _shares(tensor: Tensor, kind: type[ThcCodec], rounds: int) -> tuple[float, float]:
    """How much of the tensor comes back, as its part of the mean in the tensor's direction: the mean over the rounds,
    and the standard error of that."""
    members = codecs(for_workers(UNBIASED_WORKERS), UNBIASED_WORKERS, BLOCK_VALUES, kind=kind)
    gradients = [tensor] * UNBIASED_WORKERS
    of_rounds = [float(loopback(members, gradients, k) @ tensor / (tensor @ tensor)) for k in range(rounds)]
    return statistics.mean(of_rounds), statistics.stdev(of_rounds) / math.sqrt(rounds)


def _wide_error(workers: int) -> float:
    """NMSE of one of so many workers' normal values, by `thc-wide`."""
    x = torch.randn(VALUES, generator=torch.Generator().manual_seed(1))
    sent = wide_codec(workers=workers, job=1, worker=0).begin(x, 0, 0)
    sent.encode(sent.preliminary())
    return float(sent.residual().square().sum() / x.square().sum())


def _many(_: Verification) -> list[Check]:
    table = for_workers(min(MANY))
    return many_checks({workers: _wide_error(workers) for workers in MANY}, table.mse + table.clip_mse)


def _workers(v: Verification) -> list[Check]:
    """Trained in one process: THC against the exact mean, and a variant that must lose."""
    seeds = v.options.seeds
    ours = ThcOptions({"thc": THC}, TRAINED, seeds, **(_QUICK if v.quick else {}))
    samples = digits_data.load()

    def accuracy(case: Variant | None, workers: int) -> float:
        return statistics.mean(train_variant(case, workers, seed, ours, samples).accuracy for seed in seeds)

    found = {workers: (accuracy(None, workers), accuracy(THC, workers)) for workers in TRAINED}
    return accuracy_checks(found, accuracy(BAD, min(TRAINED)))


def _quorum(v: Verification) -> list[Check]:
    """A worker that computes three times slower, with THC from all and from three of four."""
    options = RunOptions(
        systems=("thc", "thc-bounded"),
        train=TrainOptions(max_steps=QUICK_STEPS if v.quick else None),
        conditions=Conditions(slow=OfHost(3, SLOWER)),
        laned=LanedOptions(quorum=3),
    )
    systems = v.summary(options)["systems"]
    return quorum_checks(systems["thc"], systems["thc-bounded"], signs_alone.accuracy(options.train))


def _by_hand(workers: int) -> ThcTable:
    """That of a job file of five fields."""
    brief = {"format": FORMAT, "name": "hand", "job": 1, "aggregator": _SERVER, "hosts": _hosts(workers)}
    return _of_job_file(brief)


def _by_up(workers: int) -> ThcTable:
    """That of a job by `sumwire up`, and of one by `sumwire.init(aggregator="rank0")`."""
    return _of_job_file(job_file_for(_hosts(workers), _SERVER, JobRequest()))


def _hosts(workers: int) -> list[str]:
    return [f"10.0.1.{number}" for number in range(1, workers + 1)]


def _of_job_file(data: Mapping[str, Any]) -> ThcTable:
    thc = parse_job(data, 0).thc
    assert thc is not None
    return ThcTable.of(thc)


def chosen_table(system: str, workers: int) -> ThcTable:
    """Return the table that the controller chooses for a run of the lab with this system."""
    fabric = plan(workers, LinkOptions(), "papers")
    jobs = control_plane.training_job(fabric, RECIPES[system])
    nobody = {switch.name: control_plane.NO_SWITCH for switch in fabric.switches}
    config = sumwire_controller.parse_config(yaml.safe_dump(control_plane.configuration(fabric, nobody, jobs)))
    [job] = config.jobs
    assert job.thc is not None
    return ThcTable(job.thc.table, job.thc.bits, job.thc.granularity, job.thc.p)


CONTROLLER: Final = "controller and lab"
WAYS: Final[Mapping[str, Callable[[int], ThcTable]]] = {
    CONTROLLER: partial(chosen_table, "thc"),
    "a job file by hand": _by_hand,
    "sumwire up and init()": _by_up,
}

EXPERIMENTS: Final[Experiments] = {
    "tables": _tables,
    "uniform": _uniform,
    "rounding": _rounding,
    "unbiased": _unbiased,
    "workers": _workers,
    "quorum": _quorum,
    "many": _many,
}
