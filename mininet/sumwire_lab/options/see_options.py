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
    """`quick`: a tenth of the packets, and the doctor with one switch alone, for a try of minutes. `switches`: those
    that the doctor is tried with."""

    rows: tuple[str, ...] = ROWS
    quick: bool = False
    switches: tuple[str, ...] = SWITCHES

    def __post_init__(self) -> None:
        for name, given, known in (("rows", self.rows, ROWS), ("switches", self.switches, SWITCHES)):
            if not given or not set(given) <= set(known):
                raise OptionError(f"{name}={','.join(given)}: known are {', '.join(known)}")
            if len(set(given)) != len(given):
                raise OptionError(f"{name}={','.join(given)}: each at most once")

    @property
    def doctored(self) -> tuple[str, ...]:
        """The switches that the doctor is tried with."""
        return self.switches[:1] if self.quick else self.switches

    def amount(self, whole: int) -> int:
        """How many of something that a whole verification does `whole` times."""
        return max(1, whole // 10) if self.quick else whole
