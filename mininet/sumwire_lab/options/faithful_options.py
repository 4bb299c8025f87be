# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of verify-faithful, checked once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from sumwire_lab.errors import OptionError

GROUPS: Final = ("v1model", "p4runtime", "tofino")


@dataclass(frozen=True)
class FaithfulOptions:
    """`rows`: groups, all of whose rows are meant, and single rows as GROUP-ROW. `quick`: a twentieth of everything,
    for a try of minutes, which shows nothing."""

    rows: tuple[str, ...] = GROUPS
    quick: bool = False

    def __post_init__(self) -> None:
        unknown = [one for one in self.rows if one.partition("-")[0] not in GROUPS]
        if unknown or not self.rows:
            raise OptionError(f"rows={','.join(self.rows)}: known are {', '.join(GROUPS)}, and GROUP-ROW")

    def wanted(self, group: str, rows: Collection[str]) -> list[str]:
        """Which of a group's rows are meant, in their order. Raises OptionError for one that it does not have."""
        chosen = {one.partition("-")[2] for one in self.rows if one.partition("-")[0] == group}
        unknown = chosen - {"", *rows}
        if unknown:
            raise OptionError(f"rows={group}-{min(unknown)}: rows of {group} are {', '.join(rows) or 'none'}")
        return [row for row in rows if "" in chosen or row in chosen]
