# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of verify-papers, checked once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from sumwire_lab.errors import OptionError

PAPERS: Final = ("thc", "marsit", "dlcp", "acp")


@dataclass(frozen=True)
class PapersOptions:
    """`rows`: papers, all of whose rows are meant, and single rows as PAPER-ROW. `quick`: one seed instead of three,
    for a try of minutes, which shows nothing."""

    rows: tuple[str, ...] = PAPERS
    quick: bool = False

    def __post_init__(self) -> None:
        unknown = [one for one in self.rows if one.partition("-")[0] not in PAPERS]
        if unknown or not self.rows:
            raise OptionError(f"rows={','.join(self.rows)}: known are {', '.join(PAPERS)}, and PAPER-ROW")

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of a training whose accuracy counts."""
        return (1,) if self.quick else (1, 2, 3)

    def wanted(self, paper: str, rows: Collection[str]) -> list[str]:
        """Which of a paper's rows are meant, in their order. Raises OptionError for one that it does not have."""
        chosen = {one.partition("-")[2] for one in self.rows if one.partition("-")[0] == paper}
        unknown = chosen - {"", *rows}
        if unknown:
            raise OptionError(f"rows={paper}-{min(unknown)}: rows of {paper} are {', '.join(rows) or 'none'}")
        return [row for row in rows if "" in chosen or row in chosen]
