# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-ways` on the backend of torch.distributed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from sumwire_lab.options.ways_options import WaysOptions
from sumwire_lab.run.experiment import Say
from sumwire_lab.verify.check import Check, holds
from sumwire_lab.verify.plan import Experiment
from sumwire_lab.verify.processes import run_tests
from sumwire_lab.verify.rows import trust

_FOLDER: Final = "tests/integration/host/backend"


def experiments(results: Path, say: Say, options: WaysOptions) -> Mapping[str, Experiment]:
    """By row."""
    return {
        "calls": partial(
            _tests, "collectives, groups and asynchronous calls against gloo, 4 ranks", "equal within the precision",
            "test_against_gloo.py",
        ),
        "parallel": partial(
            _tests, "DDP, FSDP2, HSDP, ZeRO, tensor-parallel layers, pipelines against gloo, 4 ranks",
            "equal within the precision", "test_parallel.py",
        ),
        "torch": partial(_tests, "PyTorch's own tests that the page lists", "all pass", "test_torch_tests.py"),
        "sharded": _sharded,
    }  # fmt: skip


def _tests(label: str, target: str, file: str) -> list[Check]:
    return [trust.tests(label, target, run_tests([f"{_FOLDER}/{file}"]))]


def _sharded() -> list[Check]:
    label = "HSDP character transformer at 100 Mbit/s between nodes: seconds a step, gloo / sumwire"
    return [holds(label, "not measured", ">= 3", verdict=False)]
