# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The verify commands as studies: a case is an experiment, and what it returns are checks with their targets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from sumwire_lab.errors import LabError
from sumwire_lab.study.check import Check, failed, table
from sumwire_lab.study.experiment import Say
from sumwire_lab.study.records import Record
from sumwire_lab.study.study import Column, Study, StudyResults, run

Experiment = Callable[[], list[Check]]
"""Measures something and returns its checks."""
_CHECKS: Final = Column("checks", "checks of the experiment", kind=list)


def carry_out(
    topic: str, experiments: Mapping[str, Experiment], results: Path, say: Say, *, again: bool | None = None
) -> list[Check]:
    """Run the experiments of `make verify-TOPIC`, by label, and return all checks.

    verify-TOPIC.json in ``results`` is written anew after each experiment. One that fails becomes a check that does not
    hold, and the next one runs. A verification that was stopped goes on; ``again``: see :func:`study.run`.
    Raises KeyboardInterrupt.
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
    """The checks of all experiments, in their order."""
    return [check for record in done.records for check in _checks(record)]


def _checks(record: Record) -> list[Check]:
    if record.error is not None:
        return [failed(record.case["row"], "the experiment comes to its end", LabError(record.error))]
    return [Check(**one) for row in record.rows for one in row["checks"]]
