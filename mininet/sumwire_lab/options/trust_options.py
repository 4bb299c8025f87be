# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of verify-trust, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sumwire_lab.errors import OptionError

ROWS: Final = (
    "attacks", "forged", "network", "hostile-job", "programs", "p4runtime", "tls", "schedules", "models", "keyed",
    "blind",
)  # fmt: skip


@dataclass(frozen=True)
class TrustOptions:
    """`quick`: hundreds instead of hundred thousands, for a try of minutes, which shows nothing."""

    rows: tuple[str, ...] = ROWS
    quick: bool = False

    def __post_init__(self) -> None:
        unknown = [one for one in self.rows if one not in ROWS]
        if unknown or not self.rows:
            raise OptionError(f"rows={','.join(self.rows)}: known are {', '.join(ROWS)}")
        if len(set(self.rows)) != len(self.rows):
            raise OptionError(f"rows={','.join(self.rows)}: each at most once")

    def amount(self, whole: int) -> int:
        """How many of something that a whole verification does `whole` times."""
        return max(1, whole // 100) if self.quick else whole
