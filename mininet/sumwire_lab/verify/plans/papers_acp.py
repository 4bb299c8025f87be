# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-papers` on ACP-SGD."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Final

from sumwire_lab.experiments import acp_digits, acp_steps
from sumwire_lab.experiments.replicas import EPOCHS
from sumwire_lab.options.acp_options import ACP, FUSION, NO_WFBP, POWERSGD, WFBP, AcpOptions
from sumwire_lab.options.papers_options import PapersOptions
from sumwire_lab.run.experiment import Say
from sumwire_lab.run.training_run import run
from sumwire_lab.verify.check import Check
from sumwire_lab.verify.plan import Experiment
from sumwire_lab.verify.rows import acp as rows

QUICK_STEPS: Final = 4
QUICK_EPOCHS: Final = 2
# What the row compares; bench-acp has all systems and modes.
COMPARED: Final = ((ACP, FUSION), (ACP, NO_WFBP), (ACP, WFBP), (POWERSGD, FUSION))


def experiments(results: Path, say: Say, options: PapersOptions) -> Mapping[str, Experiment]:
    """By row."""
    steps = QUICK_STEPS if options.quick else acp_steps.STEPS
    return {
        "steps": lambda: rows.modelled(acp_steps.measured(steps)),
        "search": lambda: rows.swept(acp_steps.swept(steps)),
        "digits": lambda: _digits(options),
        "group": partial(_over_the_group, results, say, options),
    }


def _digits(options: PapersOptions) -> list[Check]:
    return rows.trained(acp_digits.by_variant(options.seeds, QUICK_EPOCHS if options.quick else EPOCHS))


def _over_the_group(results: Path, say: Say, options: PapersOptions) -> list[Check]:
    """Each system and mode in turn, once for every seed, so that what disturbs the machine disturbs all."""
    found: dict[tuple[str, str], list[float]] = {}
    bench = AcpOptions()
    for _ in options.seeds:
        for system, mode in COMPARED:
            summary, _folder = run(bench.case(system, mode).options, results, say)
            found.setdefault((system, mode), []).append(summary["systems"][system]["step_s_p50"])
    return rows.over_the_group({which: fmean(seconds) for which, seconds in found.items()})
