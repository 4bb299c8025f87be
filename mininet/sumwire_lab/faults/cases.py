# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Cases of fault injection. `verify life` and the doctor's rows of `verify see` measure them as studies.

A case is one experiment with one switch and one seed. It has a separate network, process and mount namespace
(`place="alone"`). When the first process of that namespace ends or is killed, the kernel kills all others and removes
every interface. So nothing of a case can outlive it, or affect another case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sumwire_lab.options.plain import from_json
from sumwire_lab.study.experiment import Say
from sumwire_lab.study.records import Record
from sumwire_lab.study.study import NOT_DONE, Study, run

_LINES: Final = 3
"""Lines of a log that an error shows."""


@dataclass(frozen=True)
class FaultCase:
    """One experiment. `variant`: which variant of the row. `limit_s`: it is killed after so many seconds."""

    row: str
    switch: str
    seed: int
    limit_s: float
    variant: str = ""

    @property
    def name(self) -> str:
        """Name for people, and seed of what the case draws at random."""
        return "-".join(word for word in (self.row, self.switch, self.variant, str(self.seed)) if word)


@dataclass(frozen=True)
class FaultOutcome:
    """The outcome of a case: its record, or the error that ended it. `killed`: it ran past its limit. `again`: it is
    the outcome of a second try, after the first was killed."""

    case: FaultCase
    seconds: float
    record: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    killed: bool = False
    again: bool = False

    @classmethod
    def of(cls, record: Record) -> FaultOutcome:
        """Create the outcome from the study's record. The error contains the last lines of the case's log, on one
        line."""
        case = from_json(FaultCase, record.case)
        if record.error is None:
            return cls(case, record.seconds, record.rows[0])
        first, *log = record.error.splitlines()
        error = " / ".join([first, *log[-_LINES:]])
        return cls(case, record.seconds, error=error, killed=error.startswith(NOT_DONE))


def carry_out(
    cases: Sequence[FaultCase], worker: Callable[..., Any], folder: Path, parallel: int, say: Say
) -> list[FaultOutcome]:
    """Return the outcomes, in the order of the cases. At most `parallel` cases run at a time. Raises KeyboardInterrupt.

    `worker(case, rank)` returns a case's record. `folder` has the logs of each case (`study.place_of`).
    """
    study = Study(
        "faults",
        "what comes of each case",
        cases,
        worker,
        place="alone",
        parallel=parallel,
        deadline_s=lambda case: float(case.limit_s),
    )
    return [FaultOutcome.of(record) for record in run(study, folder, say, again=True, folder=folder).records]
