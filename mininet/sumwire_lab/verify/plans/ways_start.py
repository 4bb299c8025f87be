# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-ways` on the way from a wheel to the first training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sumwire_lab.options.ways_options import WaysOptions
from sumwire_lab.run.experiment import Say
from sumwire_lab.verify.check import Check
from sumwire_lab.verify.plan import Experiment
from sumwire_lab.verify.processes import run_tests
from sumwire_lab.verify.rows import trust

_WHEEL_TESTS = "tests/system/test_wheel.py"


def experiments(results: Path, say: Say, options: WaysOptions) -> Mapping[str, Experiment]:
    """By row."""
    return {"wheel": _wheel}


def _wheel() -> list[Check]:
    return [trust.tests("the wheel in an empty environment: its tests", "all pass", run_tests([_WHEEL_TESTS]))]
