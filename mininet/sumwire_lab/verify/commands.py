# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The verify commands: run the experiments of a topic that a command line selects, as a study.

A case is an experiment. It returns checks with their targets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from sumwire_lab.errors import LabError
from sumwire_lab.study.check import Check, failed, table
from sumwire_lab.study.experiment import Say
from sumwire_lab.study.records import Record
from sumwire_lab.study.study import Column, Study, StudyResults, run
from sumwire_lab.verify import (
    acp,
    conformance,
    dlcp,
    entry_points,
    evidence_marsit,
    evidence_thc,
    fault_injection,
    headline,
    observability,
    papers_acp,
    papers_dlcp,
    papers_marsit,
    papers_thc,
    scale,
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
    "scale": scale.EXPERIMENTS,
}
"""Topics with a choice of rows. A row is an experiment, or has several by label."""
GROUPED: Final[Mapping[str, Mapping[str, Experiments]]] = {
    "papers": {
        "thc": papers_thc.EXPERIMENTS,
        "marsit": papers_marsit.EXPERIMENTS,
        "dlcp": papers_dlcp.EXPERIMENTS,
        "acp": papers_acp.EXPERIMENTS,
    },
    "evidence": {
        "headline": headline.EXPERIMENTS,
        "thc": evidence_thc.EXPERIMENTS,
        "marsit": evidence_marsit.EXPERIMENTS,
    },
    "ways": entry_points.WAYS_IN,
    "faithful": conformance.GROUPS,
}
"""Topics with a choice of groups and rows; a label is GROUP-ROW."""


def chosen(topic: str, options: Any = None) -> Experiments:
    """Return the experiments that a topic's options select, by label. Raises OptionError for an unknown row."""
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


_CHECKS: Final = Column("checks", "checks of the experiment", kind=list)


def verify(topic: str, results: Path, say: Say, options: Any = None) -> list[Check]:
    """Verify a topic. Raises KeyboardInterrupt, and OptionError for an unknown row."""
    v = Verification(results, say, options)
    experiments = {label: partial(experiment, v) for label, experiment in chosen(topic, options).items()}
    return carry_out(topic, experiments, results, say)


def carry_out(
    topic: str,
    experiments: Mapping[str, Callable[[], list[Check]]],
    results: Path,
    say: Say,
    *,
    again: bool | None = None,
) -> list[Check]:
    """Run the experiments of `make verify-TOPIC`, by label, and return all checks.

    verify-TOPIC.json in ``results`` is rewritten after each experiment. A failing experiment becomes a check that does
    not hold, and the next one runs. A verification that was stopped continues; ``again``: see :func:`study.run`. Raises
    KeyboardInterrupt.
    """

    def worker(case: Mapping[str, Any]) -> dict[str, Any]:
        say(f"== {case['row']}")
        fresh = experiments[case["row"]]()
        say(table(fresh))
        return {"checks": [check.as_dict() for check in fresh]}

    def write(done: StudyResults) -> None:
        text = json.dumps([check.as_dict() for check in checks_of(done)], indent=1)
        (results / f"verify-{topic}.json").write_text(text + "\n")

    study = Study(
        f"verify-{topic}",
        f"the checks of verify-{topic}",
        [{"row": label} for label in experiments],
        worker,
        (_CHECKS,),
    )
    done = run(study, results, say, again=again, after_each=write)
    write(done)
    return checks_of(done)


def checks_of(done: StudyResults) -> list[Check]:
    """Return the checks of all experiments, in their order."""
    return [check for record in done.records for check in _checks(record)]


def _checks(record: Record) -> list[Check]:
    if record.error is not None:
        return [failed(record.case["row"], "the experiment comes to its end", LabError(record.error))]
    return [Check(**one) for row in record.rows for one in row["checks"]]
