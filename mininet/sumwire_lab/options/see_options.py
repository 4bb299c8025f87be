# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of verify-see, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sumwire_lab.errors import OptionError
from sumwire_lab.options.life_options import SWITCHES

ROWS: Final = (
    "tshark",
    "decode",
    "scapy",
    "doctor",
    "report",
    "live",
    "lab",
    "tutorials",
    "docs",
    "metrics",
    "watched",
)


@dataclass(frozen=True)
class SeeOptions:
    """`quick`: a tenth of the packets, and the doctor with a software switch alone, for a try of minutes."""

    rows: tuple[str, ...] = ROWS
    quick: bool = False

    def __post_init__(self) -> None:
        unknown = [one for one in self.rows if one not in ROWS]
        if unknown or not self.rows:
            raise OptionError(f"rows={','.join(self.rows)}: known are {', '.join(ROWS)}")
        if len(set(self.rows)) != len(self.rows):
            raise OptionError(f"rows={','.join(self.rows)}: each at most once")

    @property
    def switches(self) -> tuple[str, ...]:
        """Those that the doctor is tried with."""
        return SWITCHES[:1] if self.quick else SWITCHES

    def amount(self, whole: int) -> int:
        """How many of something that a whole verification does `whole` times."""
        return max(1, whole // 10) if self.quick else whole
