# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Computes times of all-reduces from the workers' records, and bytes on the wire.

Bytes are those of one gradient in the busier direction of a worker's link, from which the bound of the wire follows.
They include packet headers. They do not include acknowledgements, norms, magnitudes and retransmissions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import Any

from sumwire.systems.cost import Gradient

from sumwire_lab.options.recipes import parse


def timing(
    link_mbit: float, values: int, system: str, octets: float, measured: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Summarise one all-reduce of one size by one system at one link rate. `measured`: each worker's record of this
    size (see `exchange_worker.timed`).

    `seconds`: the slowest worker's, median of the repeats. `bound_s`: the seconds that a link of this rate needs for
    the bytes of its busier direction, headers included; `link_share`: `bound_s` over `seconds`. `host_cpu_s`: CPU
    seconds of a host per million values, mean of the workers.
    """
    bound = 8 * octets / (link_mbit * 1e6)
    seconds = slowest_s(measured)
    return {
        "link_mbit": link_mbit,
        "values": values,
        "system": system,
        "seconds": seconds,
        "bound_s": bound,
        "link_share": bound / seconds,
        "host_cpu_s": fmean(worker["cpu_s"] for worker in measured) / millions(values, measured),
    }


def repeats_of(measured: Sequence[Mapping[str, Any]]) -> list[tuple[float, ...]]:
    """Return the seconds of all workers, by repeat."""
    return list(zip(*(worker["seconds"] for worker in measured), strict=True))


def slowest_s(measured: Sequence[Mapping[str, Any]]) -> float:
    """Return the seconds of the slowest worker, median of the repeats."""
    return median(max(repeat) for repeat in repeats_of(measured))


def millions(values: int, measured: Sequence[Mapping[str, Any]]) -> float:
    """Return the millions of values in all repeats together."""
    return len(repeats_of(measured)) * values / 1e6


def retransmissions(measured: Sequence[Mapping[str, Any]]) -> int:
    """Return the packets sent again by all workers of a session, in all sizes together."""
    return sum(int(worker["stats"].get("retransmissions", 0)) for worker in measured)


def sides(values: int) -> tuple[int, int]:
    """Return rows and columns of the matrix with this many values that is nearest to a square."""
    rows = next(rows for rows in range(math.isqrt(values), 0, -1) if values % rows == 0)
    return rows, values // rows


def wire_bytes(system: str, gradient: Gradient, workers: int) -> float:
    """Return the bytes of a system, given by its name in the lab, which may include a rank. For Marsit: of a round of
    signs."""
    chosen = parse(system)
    gradient = replace(gradient, rank=chosen.recipe.options.get("rank", gradient.rank))
    return chosen.recipe.spec.routes[chosen.transport].cost.link_bytes(gradient, workers)


def all_reduce_bytes(system: str, values: int, workers: int) -> int:
    """Return the whole bytes of one plain all-reduce of `values` float32; `sign` has the packets of `marsit`."""
    name = "marsit" if system == "sign" else system
    return round(wire_bytes(name, Gradient(1, values, rank=1, share=1.0), workers))
