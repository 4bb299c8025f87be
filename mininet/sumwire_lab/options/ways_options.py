# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of verify-ways, checked once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from sumwire_lab.errors import OptionError

WAYS: Final = ("start", "backend", "outer", "packages")


@dataclass(frozen=True)
class WaysOptions:
    """`rows`: ways in, all of whose rows are meant, and single rows as WAY-ROW. `quick`: one seed, few steps, for a try
    of minutes, which shows nothing."""

    rows: tuple[str, ...] = WAYS
    quick: bool = False

    def __post_init__(self) -> None:
        unknown = [one for one in self.rows if one.partition("-")[0] not in WAYS]
        if unknown or not self.rows:
            raise OptionError(f"rows={','.join(self.rows)}: known are {', '.join(WAYS)}, and WAY-ROW")

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of a training whose accuracy counts."""
        return (1,) if self.quick else (1, 2, 3)

    def wanted(self, way: str, rows: Collection[str]) -> list[str]:
        """Which of a way's rows are meant, in their order. Raises OptionError for one that it does not have."""
        chosen = {one.partition("-")[2] for one in self.rows if one.partition("-")[0] == way}
        unknown = chosen - {"", *rows}
        if unknown:
            raise OptionError(f"rows={way}-{min(unknown)}: rows of {way} are {', '.join(rows) or 'none'}")
        return [row for row in rows if "" in chosen or row in chosen]
