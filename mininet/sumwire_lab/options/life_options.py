# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of verify-life, checked once."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import Final

from sumwire_lab.errors import OptionError
from sumwire_lab.options.run_options import AGGREGATOR

ROWS: Final = ("runs", "torchrun", "stopped", "switch", "link", "overflow", "checkpoint", "setups")
SWITCHES: Final = ("soft", AGGREGATOR, "bmv2")
SEEDS: Final = 20
BMV2_SEEDS: Final = 5
"""bmv2 takes several times as long, so fewer seeds unless told otherwise."""
_PARALLEL_MAX: Final = 64


@dataclass(frozen=True)
class LifeOptions:
    """`seeds`: by switch; None: 20, and fewer on bmv2. `parallel`: cases that run side by side; most of them wait."""

    rows: tuple[str, ...] = ROWS
    switches: tuple[str, ...] = SWITCHES
    seeds: int | None = None
    parallel: int = 2 * (os.cpu_count() or 1)

    def __post_init__(self) -> None:
        for name, given, known in (("rows", self.rows, ROWS), ("switches", self.switches, SWITCHES)):
            unknown = [one for one in given if one not in known]
            if unknown or not given:
                raise OptionError(f"{name}={','.join(given)}: known are {', '.join(known)}")
            if len(set(given)) != len(given):
                raise OptionError(f"{name}={','.join(given)}: each at most once")
        if self.seeds is not None and self.seeds < 1:
            raise OptionError(f"seeds={self.seeds}: must be at least 1")
        if not 1 <= self.parallel <= _PARALLEL_MAX:
            raise OptionError(f"parallel={self.parallel}: must be 1 to {_PARALLEL_MAX}")

    def seeds_of(self, switch: str) -> int:
        """Number of seeds with a switch."""
        if self.seeds is not None:
            return self.seeds
        return BMV2_SEEDS if switch == "bmv2" else SEEDS


def present() -> tuple[str, ...]:
    """The switches that this machine has."""
    return tuple(name for name in SWITCHES if name != "bmv2" or shutil.which("simple_switch_grpc"))


def parse_names(text: str, every: tuple[str, ...]) -> tuple[str, ...]:
    """`a,b` as names; `all` for every one."""
    return every if text == "all" else tuple(text.split(","))
