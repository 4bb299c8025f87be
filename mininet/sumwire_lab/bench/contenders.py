# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which systems are Sumwire's and which it is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sumwire_lab.recipes import BASELINE, RECIPES

PUBLISHED: Final = (BASELINE, "fp16", "powersgd")
"""What users have today, on the same links without help of the network."""


def through_switch(system: str) -> bool:
    """Whether Sumwire's switch, or its software aggregator, sums the system's packets."""
    return system in RECIPES and bool(RECIPES[system].ops)


def ours(systems: Iterable[str]) -> list[str]:
    """Those through the switch."""
    return [name for name in systems if through_switch(name)]


def best(seconds: Mapping[str, float | None], names: Iterable[str]) -> str | None:
    """The fastest of these; None where none of them has a time."""
    timed = {name: value for name in names if (value := seconds.get(name)) is not None}
    return min(timed, key=timed.__getitem__) if timed else None
