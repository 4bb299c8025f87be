# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the experiments of a verify command share.

An experiment is a function of a `Verification` that returns checks. Each topic's module has its experiments by label,
in the order in which they run; `sumwire_lab.verify.commands` carries out those that a command line asks for.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sumwire_lab.bench.benchmark import Bench, Rows
from sumwire_lab.network.switches import BMV2
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.run.training_run import run
from sumwire_lab.study.check import Check, absent
from sumwire_lab.study.experiment import Say


@dataclass(frozen=True)
class Verification:
    """One run of a verify command. `options`: those of its topic, None for a topic without any."""

    results: Path
    say: Say
    options: Any = None

    @property
    def quick(self) -> bool:
        """Whether this is a try of minutes, which shows nothing."""
        return bool(self.options and self.options.quick)

    def summary(self, options: RunOptions) -> dict[str, Any]:
        """What a run's summary.json has. Raises LabError."""
        return run(options, self.results, self.say)[0]

    def rows(self, bench: Bench) -> Rows:
        """What a benchmark measures, where it belongs. Raises LabError."""
        done = bench.measure(self.results, self.say) if bench.needs_network else bench.measure_here(self.say)
        return done.rows()

    def entry(self, options: RunOptions) -> dict[str, Any]:
        """The summary's entry of the run's first system."""
        entry: dict[str, Any] = self.summary(options)["systems"][options.systems[0]]
        return entry


Experiment = Callable[[Verification], list[Check]]
"""Measures something and returns its checks. Raises LabError."""
Experiments = Mapping[str, Experiment]


def needs_bmv2(label: str, target: str) -> Callable[[Experiment], Experiment]:
    """Have an experiment give this row alone, undecided, on a machine without bmv2."""

    def wrapped(experiment: Experiment) -> Experiment:
        @functools.wraps(experiment)
        def measure(v: Verification) -> list[Check]:
            return experiment(v) if has_bmv2() else [absent(label, target, f"{BMV2} is not on PATH")]

        return measure

    return wrapped


def has_bmv2() -> bool:
    """Whether bmv2 is on PATH."""
    return shutil.which(BMV2) is not None
