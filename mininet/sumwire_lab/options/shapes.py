# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The topologies: names of their switches, and which switch is above which."""

from __future__ import annotations

from typing import Final

SHAPES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "star": {"s1": ()},
    "leaf-spine": {"spine1": (), "leaf1": ("spine1",), "leaf2": ("spine1",)},
    "leaf-spine2": {"spine1": (), "spine2": (), "leaf1": ("spine1", "spine2"), "leaf2": ("spine1", "spine2")},
    "three-level": {
        "root": (),
        "middle1": ("root",),
        "middle2": ("root",),
        "leaf1": ("middle1",),
        "leaf2": ("middle1",),
        "leaf3": ("middle2",),
        "leaf4": ("middle2",),
    },
}
"""By topology: its switches from the top down, each with the switches that it sends partial results to."""
TOPOLOGIES: Final = tuple(SHAPES)


def leaves_of(topology: str) -> list[str]:
    """The lowest switches. Only these have hosts."""
    uppers = {upper for ways in SHAPES[topology].values() for upper in ways}
    return [name for name in SHAPES[topology] if name not in uppers]


def rows_of(workers: int) -> int:
    """Rows of Marsit's torus: the largest divisor that is not above the columns. A prime number of workers is a ring.

    Example: 8 workers make 2 rows of 4.
    """
    return max(rows for rows in range(1, workers + 1) if workers % rows == 0 and rows * rows <= workers)
