# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How many bytes a system puts on the busier direction of a worker's link for one gradient: the bound of the wire.

Packet headers are in it; acknowledgements, norms, magnitudes and what is sent again are not.
"""

from __future__ import annotations

import math

from sumwire.systems.cost import Gradient

from sumwire_lab.bench.commands.allreduce import TCP_FRAME, TCP_PAYLOAD
from sumwire_lab.options.recipes import parse


def sides(values: int) -> tuple[int, int]:
    """The matrix with so many values that is nearest to a square."""
    rows = next(rows for rows in range(math.isqrt(values), 0, -1) if values % rows == 0)
    return rows, values // rows


def wire_bytes(system: str, gradient: Gradient, workers: int) -> float:
    """Of a system by its name in the lab. A Marsit round is one of signs."""
    chosen = parse(system)
    octets = chosen.recipe.spec.routes[chosen.transport].cost.link_bytes(gradient, workers)
    # A group sends in full TCP segments.
    return octets if chosen.switched else octets * TCP_FRAME / TCP_PAYLOAD
