# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-papers` on THC."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import sumwire_controller
import torch
import yaml
from sumwire.codec.tables import ThcTable, for_workers
from sumwire.codec.thc_wide import wide_codec
from sumwire.config import parse_job
from sumwire.config.jobfile import FORMAT
from sumwire.start.description import Wanted, described
from sumwire_protocol.tables import DEFAULT_BITS, DEFAULT_P, SUM_MAX

from sumwire_lab.bench.thc.training import train
from sumwire_lab.experiments.thc_optimum import least_errors
from sumwire_lab.network import control_plane
from sumwire_lab.network.fabric import plan
from sumwire_lab.options.conditions import Conditions, OfHost
from sumwire_lab.options.papers_options import PapersOptions
from sumwire_lab.options.priority_lanes import LanedOptions
from sumwire_lab.options.recipes import RECIPES
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.options.thc_variants import THC, ThcOptions
from sumwire_lab.run.training_run import run
from sumwire_lab.study.check import Check
from sumwire_lab.study.experiment import Say
from sumwire_lab.training import digits_data
from sumwire_lab.verify.plan import Experiment
from sumwire_lab.verify.rows import papers_thc as rows

WORKERS: Final = range(2, 33)
TRAINED: Final = (2, 8, 18, 32)
_QUICK: Final[Mapping[str, Any]] = {"epochs": 1, "hidden": 16}
SLOWER: Final = 3.0
QUICK_STEPS: Final = 20
# More than have 16 levels by THC's table; 68 is the last with three values to an element.
MANY: Final = (18, 32, 68, 69, 128, 255)
VALUES: Final = 400_000
_SERVER: Final = "10.0.0.9"


def experiments(results: Path, say: Say, options: PapersOptions) -> Mapping[str, Experiment]:
    """By row."""
    return {
        "tables": _tables,
        "uniform": _uniform,
        "workers": lambda: _workers(options),
        "quorum": lambda: _quorum(results, say, options),
        "many": lambda: rows.many({workers: _wide_error(workers) for workers in MANY}),
    }


def _tables() -> list[Check]:
    begun = time.process_time()
    for workers in WORKERS:
        for_workers(workers)
    seconds = time.process_time() - begun
    errors = least_errors(DEFAULT_BITS, DEFAULT_P, SUM_MAX // WORKERS[0])
    least = {workers: min(errors[g] for g in range(1, SUM_MAX // workers + 1)) for workers in WORKERS}
    found = {way: {workers: of(workers) for workers in WORKERS} for way, of in WAYS.items()}
    errors_found = {workers: table.mse for workers, table in found[CONTROLLER].items()}
    return [*rows.tables(errors_found, least, seconds), *rows.ways(found)]


def _uniform() -> list[Check]:
    ratios = {}
    for workers in WORKERS:
        solved, even = chosen_table("thc", workers), chosen_table("thc-uniform", workers)
        ratios[workers] = (solved.mse + solved.clip_mse) / (even.mse + even.clip_mse)
    return rows.against_uniform(ratios)


def _wide_error(workers: int) -> float:
    """NMSE of one of so many workers' normal values, by `thc-wide`."""
    x = torch.randn(VALUES, generator=torch.Generator().manual_seed(1))
    sent = wide_codec(workers=workers, job=1, worker=0).begin(x, 0, 0)
    sent.encode(sent.preliminary())
    return float(sent.residual().square().sum() / x.square().sum())


def _workers(options: PapersOptions) -> list[Check]:
    """Trained in one process: THC against the exact mean."""
    ours = ThcOptions({"thc": THC}, TRAINED, options.seeds, **(_QUICK if options.quick else {}))
    samples = digits_data.load()
    found = {
        workers: tuple(
            statistics.mean(train(case, workers, seed, ours, samples).accuracy for seed in options.seeds)
            for case in (None, THC)
        )
        for workers in TRAINED
    }
    return rows.accuracies(found)


def _quorum(results: Path, say: Say, options: PapersOptions) -> list[Check]:
    """A worker that computes three times slower, with THC from all and from three of four."""
    train_options = TrainOptions(max_steps=QUICK_STEPS if options.quick else None)
    summary, _ = run(
        RunOptions(
            systems=("thc", "thc-bounded"),
            train=train_options,
            conditions=Conditions(slow=OfHost(3, SLOWER)),
            laned=LanedOptions(quorum=3),
        ),
        results,
        say,
    )
    return rows.quorum(summary["systems"]["thc"], summary["systems"]["thc-bounded"])


def _by_hand(workers: int) -> ThcTable:
    """That of a job file of five fields."""
    brief = {"format": FORMAT, "name": "hand", "job": 1, "aggregator": _SERVER, "hosts": _hosts(workers)}
    return _of_job_file(brief)


def _by_up(workers: int) -> ThcTable:
    """That of a job by `sumwire up`, and of one by `sumwire.init(aggregator="rank0")`."""
    return _of_job_file(described(_hosts(workers), _SERVER, Wanted()))


def _hosts(workers: int) -> list[str]:
    return [f"10.0.1.{number}" for number in range(1, workers + 1)]


def _of_job_file(data: Mapping[str, Any]) -> ThcTable:
    thc = parse_job(data, 0).thc
    assert thc is not None
    return ThcTable(thc.table, thc.bits, thc.granularity, thc.p)


def chosen_table(system: str, workers: int) -> ThcTable:
    """The table that the controller chooses for a run of the lab with this system."""
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
