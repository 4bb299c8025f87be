# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The verify commands: the experiments of a topic that a command line asks for, carried out one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from sumwire_lab.study import verdicts
from sumwire_lab.study.check import Check
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify import (
    acp,
    conformance,
    dlcp,
    entry_points,
    fault_injection,
    observability,
    papers_acp,
    papers_dlcp,
    papers_marsit,
    papers_thc,
    security,
    sign,
    speed,
    thc,
)
from sumwire_lab.verify.plan import Experiment, Experiments, Verification

WHOLE: Final[Mapping[str, Experiments]] = {
    "thc": thc.EXPERIMENTS,
    "sign": sign.EXPERIMENTS,
    "speed": speed.EXPERIMENTS,
    "acp": acp.EXPERIMENTS,
    "dlcp": dlcp.EXPERIMENTS,
}
"""Topics all of whose experiments are carried out."""
BY_ROW: Final[Mapping[str, Mapping[str, Experiment | Experiments]]] = {
    "life": fault_injection.EXPERIMENTS,
    "trust": security.EXPERIMENTS,
    "see": observability.EXPERIMENTS,
}
"""Topics with a choice of rows. A row is an experiment, or has several by label."""
GROUPED: Final[Mapping[str, Mapping[str, Experiments]]] = {
    "papers": {
        "thc": papers_thc.EXPERIMENTS,
        "marsit": papers_marsit.EXPERIMENTS,
        "dlcp": papers_dlcp.EXPERIMENTS,
        "acp": papers_acp.EXPERIMENTS,
    },
    "ways": entry_points.WAYS_IN,
    "faithful": conformance.GROUPS,
}
"""Topics with a choice of groups and rows; a label is GROUP-ROW."""


def chosen(topic: str, options: Any = None) -> Experiments:
    """The experiments that a topic's options ask for, by label. Raises OptionError for a row that is not there."""
    if topic in WHOLE:
        return WHOLE[topic]
    if topic in BY_ROW:
        made = {row: BY_ROW[topic][row] for row in options.rows}
        return {
            label: experiment
            for row, of in made.items()
            for label, experiment in (of.items() if isinstance(of, Mapping) else [(row, of)])
        }
    return {
        f"{group}-{row}": experiments[row]
        for group, experiments in GROUPED[topic].items()
        for row in options.wanted(group, experiments)
    }


def verify(topic: str, results: Path, say: Say, options: Any = None) -> list[Check]:
    """Carry out a topic. Raises KeyboardInterrupt, and OptionError for a row that is not there."""
    v = Verification(results, say, options)
    experiments = {label: partial(experiment, v) for label, experiment in chosen(topic, options).items()}
    return verdicts.carry_out(topic, experiments, results, say)
