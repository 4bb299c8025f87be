# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which reductions go through the network, and how. All ranks choose alike: by what they all know."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import torch
import torch.distributed as dist

from sumwire.backend.options import Options
from sumwire.config import JobConfig
from sumwire.training.all_reduce import DTYPES
from sumwire.training.integers import ORDERED

_OPS: Final = ("SUM", "AVG", "MAX", "MIN")


class Way(Enum):
    """BENEATH: by the process group beneath."""

    FLOATS = auto()
    INTEGERS = auto()
    EXTREME = auto()
    BENEATH = auto()


def op_of(op: object) -> str:
    """The name of an operation of torch.distributed.ReduceOp, "" for one that only the group beneath knows."""
    return next((name for name in _OPS if op == getattr(dist.ReduceOp, name)), "")


def wants_network(op: str, dtype: torch.dtype, values: int, options: Options) -> Way:
    """How a reduction would go if the group has a job. ``values``: of a rank's tensor.

    Floats go at the chosen precision, if they are many enough. 32-bit integers, and largest and smallest values of 32
    bits, are exact through the network and take a third less of it than a ring of 4. For all else the network has no
    op, or one that takes more bytes than the ring.
    """
    if values < options.exact_below:
        return Way.BENEATH
    if op in ("SUM", "AVG") and dtype in DTYPES and options.chosen() != "exact":
        return Way.FLOATS
    if op == "SUM" and dtype == torch.int32:
        return Way.INTEGERS
    if op in ("MAX", "MIN") and dtype in ORDERED:
        return Way.EXTREME
    return Way.BENEATH


def possible(way: Way, config: JobConfig) -> bool:
    """Whether the job can go that way exactly: its sums are those of all workers."""
    if way is Way.FLOATS:
        return True
    whole = config.quorum == config.workers
    return whole and (way is Way.EXTREME or "sum32" in config.ops)
