# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a user chooses of the backend: ``init_process_group("sumwire", pg_options=sumwire.backend.Options(...))``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sumwire.config import JobConfig
from sumwire.errors import UsageError
from sumwire.job.job import Job
from sumwire.training.precision import DEFAULT, PRECISIONS, Precision

JOB_VARIABLE: Final = "SUMWIRE_JOB"
PRECISION_VARIABLE: Final = "SUMWIRE_PRECISION"
# A block of THC's rotation. Shorter tensors would be filled up to it, and are often no gradients: norms, losses.
EXACT_BELOW: Final = 4096


@dataclass(frozen=True)
class Options:
    """``job``: a job file, or what has been read from one; None for what SUMWIRE_JOB names. ``precision``: of float
    tensors; None for SUMWIRE_PRECISION, or "4bit". ``exact_below``: float tensors of fewer values are exact.

    Raises UsageError for a value that breaks a rule.
    """

    job: JobConfig | Job | Path | str | None = None
    precision: Precision | None = None
    exact_below: int = EXACT_BELOW

    def __post_init__(self) -> None:
        if self.exact_below < 1:
            raise UsageError(f"exact_below = {self.exact_below}: must be 1 or more values")
        self.chosen()

    def chosen(self) -> Precision:
        """The precision of float tensors."""
        asked = self.precision or os.environ.get(PRECISION_VARIABLE) or DEFAULT
        for precision in PRECISIONS:
            if asked == precision:
                return precision
        where = "precision" if self.precision else PRECISION_VARIABLE
        raise UsageError(f"{where} = {asked!r}: must be one of {', '.join(map(repr, PRECISIONS))}")
