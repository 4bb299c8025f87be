# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Cases of fault injection, which `verify life` and the doctor's rows of `verify see` measure as studies.

A case is one experiment with one switch and one seed. It has a network, processes and mounts of its own
(`place="alone"`): its first process is the first of its process namespace. When that one ends, or is killed, the
kernel kills every other one and removes every interface. So nothing of a case can outlive it, or meet another case.
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
    """One experiment. `variant`: which of the row's; `limit_s`: after so many seconds it is killed."""

    row: str
    switch: str
    seed: int
    limit_s: float
    variant: str = ""

    @property
    def name(self) -> str:
        """For people, and for what is drawn by it."""
        return "-".join(word for word in (self.row, self.switch, self.variant, str(self.seed)) if word)


@dataclass(frozen=True)
class FaultOutcome:
    """What came of a case: its record, or the error that ended it. `killed`: after its limit; `again`: it is that of a
    second try, since the first one was killed."""

    case: FaultCase
    seconds: float
    record: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    killed: bool = False
    again: bool = False

    @classmethod
    def of(cls, record: Record) -> FaultOutcome:
        """From the study's record. The error has the last lines of the case's log, on one line."""
        case = from_json(FaultCase, record.case)
        if record.error is None:
            return cls(case, record.seconds, record.rows[0])
        first, *log = record.error.splitlines()
        error = " / ".join([first, *log[-_LINES:]])
        return cls(case, record.seconds, error=error, killed=error.startswith(NOT_DONE))


def carry_out(
    cases: Sequence[FaultCase], worker: Callable[..., Any], folder: Path, parallel: int, say: Say
) -> list[FaultOutcome]:
    """The outcomes, in the order of the cases; at most `parallel` run at a time. Raises KeyboardInterrupt.

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
