# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-papers` on ACP-SGD."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from sumwire_lab.experiments import acp_steps
from sumwire_lab.options.papers_options import PapersOptions
from sumwire_lab.run.experiment import Say
from sumwire_lab.verify.check import Check
from sumwire_lab.verify.plan import Experiment
from sumwire_lab.verify.rows import acp as rows


def experiments(results: Path, say: Say, options: PapersOptions) -> Mapping[str, Experiment]:
    """By row."""
    return {"steps": partial(_steps, options)}


def _steps(options: PapersOptions) -> list[Check]:
    return rows.modelled(acp_steps.measured(4 if options.quick else acp_steps.STEPS))
