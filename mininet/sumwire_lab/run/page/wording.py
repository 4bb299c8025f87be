# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers as a reader sees them on a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

NONE: Final = "–"
_UNITS: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def seconds(value: float | None) -> str:
    """Seconds, or milliseconds below a tenth of a second."""
    if value is None:
        return NONE
    if value < 0.1:
        return f"{1000 * value:.1f} ms"
    # Three digits.
    return f"{value:.3f} s" if value < 1 else f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def times(value: float | None) -> str:
    """A ratio."""
    if value is None:
        return NONE
    return f"{value:.0f}×" if value >= 20 else f"{value:.1f}×" if value >= 10 else f"{value:.2f}×"


def share(value: float | None) -> str:
    """A share as a percentage."""
    return NONE if value is None else f"{100 * value:.1f} %" if value < 0.1 else f"{100 * value:.0f} %"


def accuracy(value: float | None) -> str:
    """A test accuracy."""
    return NONE if value is None else f"{100 * value:.2f} %"


def size(value: float | None) -> str:
    """Bytes."""
    if value is None:
        return NONE
    unit, name = next(((unit, name) for unit, name in _UNITS if value >= unit), (1.0, "B"))
    return f"{value / unit:.3g} {name}" if value < 1000 * unit else f"{value / unit:.0f} {name}"


def condition(name: str, value: Any) -> str:
    """A condition of the run, by its key and value in summary.json."""
    where, _, amount = str(value).partition(":")
    forms: dict[str, Callable[[], str]] = {
        "loss": lambda: f"{100 * value:g} % loss on every link",
        "gray": lambda: f"{100 * float(amount):g} % loss on the link of h{where}",
        "background": lambda: f"TCP flows ask for {100 * value:g} % of a link",
        "incast_kb": lambda: f"incast of {value} kB twice a second",
        "slow": lambda: f"h{where} computes {float(amount):g} times as long",
    }
    return forms[name]() if name in forms else f"{name}: {value}"


def points(value: float | None) -> str:
    """A difference in percentage points."""
    return NONE if value is None else f"{value:+.2f}"
