# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-ways`: those of each way into Sumwire stand in a module of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from sumwire_lab.options.ways_options import WaysOptions
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Experiment, Plan
from sumwire_lab.verify.plans import ways_backend, ways_outer, ways_packages, ways_start

# By way, as in WAYS: from folder of results, printer and options to the experiments of its rows, by name.
MODULES: Final[Mapping[str, Callable[[Path, Say, WaysOptions], Mapping[str, Experiment]]]] = {
    "start": ways_start.experiments,
    "backend": ways_backend.experiments,
    "outer": ways_outer.experiments,
    "packages": ways_packages.experiments,
}


def plan(results: Path, say: Say, options: WaysOptions) -> Plan:
    """What somebody who comes anew needs, way by way. Raises OptionError for a row that no way has."""
    chosen: dict[str, Experiment] = {}
    for way, experiments in MODULES.items():
        made = experiments(results, say, options)
        chosen |= {f"{way}-{row}": made[row] for row in options.wanted(way, made)}
    return Plan("ways", chosen)
