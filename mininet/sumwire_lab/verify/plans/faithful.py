# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-faithful`: those of each group of rows stand in a module of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from sumwire_lab.options.faithful_options import FaithfulOptions
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Experiment, Plan
from sumwire_lab.verify.plans import faithful_p4runtime, faithful_tofino, faithful_v1model

# By group, as in GROUPS: from folder of results, printer and options to the experiments of its rows, by name.
MODULES: Final[Mapping[str, Callable[[Path, Say, FaithfulOptions], Mapping[str, Experiment]]]] = {
    "v1model": faithful_v1model.experiments,
    "p4runtime": faithful_p4runtime.experiments,
    "tofino": faithful_tofino.experiments,
}


def plan(results: Path, say: Say, options: FaithfulOptions) -> Plan:
    """What P4 programs and P4Runtime clients of others need. Raises OptionError for a row that no group has."""
    chosen: dict[str, Experiment] = {}
    for group, experiments in MODULES.items():
        made = experiments(results, say, options)
        chosen |= {f"{group}-{row}": made[row] for row in options.wanted(group, made)}
    return Plan("faithful", chosen)
