# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-papers` on ACP-SGD."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Final

from sumwire_lab.experiments import acp_digits, acp_steps, acp_systems
from sumwire_lab.experiments.replicas import EPOCHS
from sumwire_lab.options.acp_options import ACP, FUSION, NO_WFBP, POWERSGD, WFBP, AcpOptions
from sumwire_lab.options.papers_options import PapersOptions
from sumwire_lab.options.tasks import TEXT
from sumwire_lab.run.training_run import run
from sumwire_lab.study.check import Check
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Experiment
from sumwire_lab.verify.rows import acp as rows

QUICK_STEPS: Final = 4
QUICK_EPOCHS: Final = 2
# What the row compares; bench-acp has all. Overlap needs some computing; against Power-SGD what counts
# is communication, so its steps have the task's own smaller batch.
ABLATED: Final = AcpOptions()
AGAINST: Final = AcpOptions(batch=TEXT.batch)
COMPARED: Final = {
    rows.USUAL: ABLATED.case(ACP, FUSION),
    rows.LATE: ABLATED.case(ACP, NO_WFBP),
    rows.UNFUSED: ABLATED.case(ACP, WFBP),
    rows.SMALL: AGAINST.case(ACP, FUSION),
    rows.POWERSGD: AGAINST.case(POWERSGD, FUSION),
}


def experiments(results: Path, say: Say, options: PapersOptions) -> Mapping[str, Experiment]:
    """By row."""
    steps = QUICK_STEPS if options.quick else acp_steps.STEPS
    return {
        "steps": lambda: rows.modelled(acp_steps.measured(steps)),
        "systems": lambda: rows.systems(acp_systems.measured(2 if options.quick else acp_systems.STEPS)),
        "search": lambda: rows.swept(acp_steps.swept(steps)),
        "digits": lambda: _digits(options),
        "group": partial(_over_the_group, results, say, options),
    }


def _digits(options: PapersOptions) -> list[Check]:
    return rows.trained(acp_digits.by_variant(options.seeds, QUICK_EPOCHS if options.quick else EPOCHS))


def _over_the_group(results: Path, say: Say, options: PapersOptions) -> list[Check]:
    """All in turn, once for every seed, so that what disturbs the machine disturbs all."""
    found: dict[str, list[float]] = {name: [] for name in COMPARED}
    for _ in options.seeds:
        for name, case in COMPARED.items():
            summary, _folder = run(case.options, results, say)
            found[name].append(summary["systems"][case.system]["step_s_p50"])
    return rows.over_the_group({name: fmean(seconds) for name, seconds in found.items()})
