# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-papers`: those of each paper are in a module of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from sumwire_lab.options.papers_options import PapersOptions
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify import papers_acp, papers_dlcp, papers_marsit, papers_thc
from sumwire_lab.verify.plan import Experiment, Plan

# By paper, as in PAPERS: from folder of results, printer and options to the experiments of its rows, by name.
MODULES: Final[Mapping[str, Callable[[Path, Say, PapersOptions], Mapping[str, Experiment]]]] = {
    "thc": papers_thc.experiments,
    "marsit": papers_marsit.experiments,
    "dlcp": papers_dlcp.experiments,
    "acp": papers_acp.experiments,
}


def plan(results: Path, say: Say, options: PapersOptions) -> Plan:
    """What readers of the papers expect. Raises OptionError for a row that no paper has."""
    chosen: dict[str, Experiment] = {}
    for paper, experiments in MODULES.items():
        made = experiments(results, say, options)
        chosen |= {f"{paper}-{row}": made[row] for row in options.wanted(paper, made)}
    return Plan("papers", chosen)
