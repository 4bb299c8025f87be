# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Bytes of one gradient in the busier direction of a worker's link, from which the bound of the wire follows.

They include packet headers. They do not include acknowledgements, norms, magnitudes and retransmissions.
"""

from __future__ import annotations

import math
from typing import Final

from sumwire.systems.cost import Gradient

from sumwire_lab.options.recipes import parse

# A full TCP segment: 1448 bytes of data with timestamps in a frame of 1514.
TCP_PAYLOAD: Final = 1448
TCP_FRAME: Final = 1514


def sides(values: int) -> tuple[int, int]:
    """Rows and columns of the matrix with this many values that is nearest to a square."""
    rows = next(rows for rows in range(math.isqrt(values), 0, -1) if values % rows == 0)
    return rows, values // rows


def wire_bytes(system: str, gradient: Gradient, workers: int) -> float:
    """Bytes of a system, by its name in the lab. For Marsit: of a round of signs."""
    chosen = parse(system)
    octets = chosen.recipe.spec.routes[chosen.transport].cost.link_bytes(gradient, workers)
    # A group sends in full TCP segments.
    return octets if chosen.switched else octets * TCP_FRAME / TCP_PAYLOAD


def all_reduce_bytes(system: str, values: int, workers: int) -> int:
    """Whole bytes of one plain all-reduce of `values` float32; `sign` has the packets of `marsit`."""
    name = "marsit" if system == "sign" else system
    return round(wire_bytes(name, Gradient(1, values, rank=1, share=1.0), workers))
