# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the benchmark can be told, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sumwire_lab.errors import OptionError
from sumwire_lab.options.run_options import SWITCHES

SUITES: Final = ("allreduce", "accuracy", "scaling", "codec-cost", "codec-error", "sizes")
"""In the page's order."""


@dataclass(frozen=True)
class BenchOptions:
    """One run of the benchmark. `quick`: minutes instead of hours, with fewer sizes, rates, systems and steps."""

    quick: bool = False
    suites: tuple[str, ...] = SUITES
    switch: str = "soft"
    engine: str = "auto"
    seed: int = 1

    def __post_init__(self) -> None:
        if not self.suites:
            raise OptionError("suites: name at least one")
        for name in self.suites:
            if name not in SUITES:
                raise OptionError(f"suites={name}: known are {', '.join(SUITES)}")
        if len(set(self.suites)) != len(self.suites):
            raise OptionError(f"suites={','.join(self.suites)}: each at most once")
        if self.switch not in SWITCHES:
            raise OptionError(f"switch={self.switch}: known are {', '.join(SWITCHES)}")
        if self.seed < 0:
            raise OptionError(f"seed={self.seed}: must not be negative")


def parse_suites(text: str) -> tuple[str, ...]:
    """`sizes,codec-cost` as names, in the page's order; `all` for every one. Raises OptionError."""
    names = SUITES if text == "all" else tuple(text.split(","))
    unknown = tuple(name for name in names if name not in SUITES)
    return (*(name for name in SUITES if name in names), *unknown)
