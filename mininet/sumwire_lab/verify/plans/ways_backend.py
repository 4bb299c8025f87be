# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-ways` on the backend of torch.distributed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from sumwire_lab.experiments import sharded_steps
from sumwire_lab.options.ways_options import WaysOptions
from sumwire_lab.study.check import Check
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Experiment
from sumwire_lab.verify.processes import measured_by, run_tests
from sumwire_lab.verify.rows import trust
from sumwire_lab.verify.rows import ways_sharded as rows

_FOLDER: Final = "tests/integration/host/backend"
TURNS: Final = 2
QUICK_STEPS: Final = 2
LOSS_STEPS, QUICK_LOSS_STEPS = 400, 40


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
        "sizes": partial(
            _tests, "DDP, FSDP2, tensor-parallel layers, new_group and asynchronous calls against gloo, 2 to 8 ranks",
            "equal within the precision, exact ones bit for bit", "test_sizes.py",
        ),
        "forms": partial(
            _tests, "the backend by \"cpu:sumwire\" and \"cpu:sumwire,cuda:nccl\", with a service's job and init's",
            "sums go through the network", "test_forms.py",
        ),
        "torch": partial(_tests, "PyTorch's own tests that the page lists", "all pass", "test_torch_tests.py"),
        "hooks": partial(
            _tests, "FSDP2, HSDP and FSDP1 by hooks, ZeRO beside the hook of DDP, 4 ranks",
            "means within the precision, error feedback, checkpoints bit for bit", "../sharded/test_sharded.py",
        ),
        "sharded": partial(_sharded, results, say, options),
        "sharded-loss": partial(_loss, options),
    }  # fmt: skip


def _tests(label: str, target: str, file: str) -> list[Check]:
    return [trust.tests(label, target, run_tests([f"{_FOLDER}/{file}"]))]


def _sharded(results: Path, say: Say, options: WaysOptions) -> list[Check]:
    """HSDP has the target, and FSDP2 over all ranks with parameters gathered with 8 bits. A narrow model is reported,
    and FSDP2 with full ones."""
    turns, steps = (1, QUICK_STEPS) if options.quick else (TURNS, sharded_steps.STEPS)
    run = partial(sharded_steps.run_sharded, results, say)
    hybrid = run(sharded_steps.Training(replicas=True, steps=steps), turns=turns)
    narrow = run(sharded_steps.Training(True, sharded_steps.NARROW, steps), turns=1)
    whole = run(sharded_steps.Training(False, steps=steps, systems=sharded_steps.WITH_ROUNDED), turns=1)
    return [*rows.hybrid(hybrid), rows.narrow(narrow), *rows.whole(whole)]


def _loss(options: WaysOptions) -> list[Check]:
    steps = QUICK_LOSS_STEPS if options.quick else LOSS_STEPS
    return [rows.losses(measured_by("sharded_loss", steps, *options.seeds))]
