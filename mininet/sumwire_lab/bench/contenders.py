# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which systems are Sumwire's, and which are the baselines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sumwire_lab.options.recipes import BASELINE, parse

PUBLISHED: Final = (BASELINE, "fp16", "powersgd")
"""Baselines: what users have today without help from the network."""


def ours(systems: Iterable[str]) -> list[str]:
    """The systems whose packets are summed by Sumwire's switch or software aggregator."""
    return [name for name in systems if parse(name).switched]


def best(seconds: Mapping[str, float | None], names: Iterable[str]) -> str | None:
    """The fastest of `names`; None if none of them has a time."""
    timed = {name: value for name in names if (value := seconds.get(name)) is not None}
    return min(timed, key=timed.__getitem__) if timed else None
