# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-ways` on outer steps over slow links."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from sumwire_lab.experiments import outer_time
from sumwire_lab.options.ways_options import WaysOptions
from sumwire_lab.study.check import Check
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Experiment
from sumwire_lab.verify.processes import measured_by, run_tests
from sumwire_lab.verify.rows import trust
from sumwire_lab.verify.rows import ways_outer as rows

STEPS, QUICK_STEPS = 400, 40
_TESTS = ["tests/unit/host/training/test_outer.py", "tests/integration/host/training/test_outer.py"]


def experiments(results: Path, say: Say, options: WaysOptions) -> Mapping[str, Experiment]:
    """By row."""
    return {"equal": _equal, "time": partial(_time, results, say, options), "loss": partial(_loss, options)}


def _equal() -> list[Check]:
    label = "outer steps: replicas bit-equal after each, 4 and 1 bits, parts, overlap, states, workers that come and go"
    return [trust.tests(label, "all pass", run_tests(_TESTS))]


def _time(results: Path, say: Say, options: WaysOptions) -> list[Check]:
    return rows.times(outer_time.run_outer_steps(results, say, quick=options.quick))


def _loss(options: WaysOptions) -> list[Check]:
    steps = QUICK_STEPS if options.quick else STEPS
    return [rows.losses(measured_by("outer_loss", steps, *options.seeds))]
