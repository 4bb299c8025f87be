# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which systems are Sumwire's and which it is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sumwire_lab.options.recipes import BASELINE, parse

PUBLISHED: Final = (BASELINE, "fp16", "powersgd")
"""What users have today, on the same links without help of the network."""


def ours(systems: Iterable[str]) -> list[str]:
    """Those whose packets Sumwire's switch sums, or its software aggregator."""
    return [name for name in systems if parse(name).switched]


def best(seconds: Mapping[str, float | None], names: Iterable[str]) -> str | None:
    """The fastest of these; None where none of them has a time."""
    timed = {name: value for name in names if (value := seconds.get(name)) is not None}
    return min(timed, key=timed.__getitem__) if timed else None
