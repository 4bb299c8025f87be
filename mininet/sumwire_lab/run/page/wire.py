# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where the bytes go: bits per value on a worker's link, sent and received, payload and headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_DIRECTIONS: Final = (("up", "sent"), ("down", "received"))


@dataclass(frozen=True)
class Direction:
    """One direction of a worker's link. Lengths are 0 to 1, of the longest of all systems."""

    label: str
    payload: float
    headers: float
    text: str
    tip: str


@dataclass(frozen=True)
class Share:
    """One system."""

    system: str
    colour: int
    directions: tuple[Direction, ...]


def shares(summary: Mapping[str, Any], colours: Mapping[str, int]) -> list[Share]:
    """By system."""
    systems = summary["systems"]
    most = max((entry[f"bits_per_value_{way}"] for entry in systems.values() for way, _ in _DIRECTIONS), default=0.0)
    return [
        Share(name, colours[name], tuple(_direction(entry, way, word, most or 1.0) for way, word in _DIRECTIONS))
        for name, entry in systems.items()
    ]


def _direction(entry: Mapping[str, Any], way: str, word: str, most: float) -> Direction:
    whole, payload = entry[f"bits_per_value_{way}"], entry[f"payload_bits_per_value_{way}"]
    headers = max(0.0, whole - payload)
    tip = f"{word}: {payload:.2f} bits a value of payload, {headers:.2f} of headers"
    return Direction(word, payload / most, headers / most, f"{whole:.2f} bits", tip)
