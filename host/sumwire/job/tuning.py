# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures from which size on the switch is faster than the process group: `sumwire tune`, or :meth:`Job.tune`."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor

from sumwire.errors import UsageError
from sumwire.job.path_choice import Through
from sumwire.job.tuning_table import ENTRIES_MOST, Sample, TuningTable
from sumwire.numeric import is_whole

SIZES: Final = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
_WARM_UPS: Final = 2
# Seconds to spend on one size, and how many reductions in each way that may be.
_SPENT_S: Final = 0.5
_REPEATS: Final = (5, 25)
_WAYS: Final[tuple[Through, ...]] = ("switch", "group")
# Larger tensors are not measured once a reduction takes longer in both ways.
_LONG_S: Final = 0.5

# Reduces a tensor in one way, and returns the seconds that this took.
Timed = Callable[[Tensor, Through], float]
# Seconds of this rank to those of the slowest one, equal on all ranks.
Agree = Callable[[float], float]


def timed_by(reduce: Callable[[Tensor], object], choose: Callable[[Through], None]) -> Timed:
    """``reduce``, after ``choose`` has told it the way."""

    def timed(x: Tensor, through: Through) -> float:
        choose(through)
        began = time.monotonic()
        reduce(x)
        return time.monotonic() - began

    return timed


def check_sizes(sizes: Sequence[int]) -> None:
    """Raises UsageError for numbers of values that a table cannot have."""
    rising = all(is_whole(size, 1) for size in sizes) and all(a < b for a, b in itertools.pairwise(sizes))
    if not (rising and 0 < len(sizes) <= ENTRIES_MOST):
        raise UsageError(
            f"sizes = {list(sizes)}: must be 1 to {ENTRIES_MOST} whole numbers of values, above 0 and rising; leave "
            f"them out to measure {SIZES[0]:,} to {SIZES[-1]:,}"
        )


def let_pass(timed: Timed, operations: int) -> None:
    """So many operations by the group, which are not measured: a job's first ones compare their calls apart, so they
    cost more than all later ones."""
    for _ in range(operations):
        timed(torch.zeros(1, dtype=torch.float32, device="cpu"), "group")


def measured(ways: dict[str, Timed], agree: Agree, sizes: Sequence[int] = SIZES) -> TuningTable:
    """A table, equal on all ranks: a collective call. ``ways``: by codec name."""
    return TuningTable({codec: _samples(timed, agree, sizes) for codec, timed in ways.items()})


def _samples(timed: Timed, agree: Agree, sizes: Sequence[int]) -> list[Sample]:
    samples: list[Sample] = []
    for size in sizes:
        generator = torch.Generator().manual_seed(size)
        x = torch.randn(size, generator=generator, dtype=torch.float32, device="cpu")
        samples.append(_sample(timed, agree, x))
        if min(samples[-1].switch_s, samples[-1].group_s) > _LONG_S:
            break
    return samples


def _sample(timed: Timed, agree: Agree, x: Tensor) -> Sample:
    """Both ways in turn, so that other work on the machine slows both down alike."""
    for _ in range(_WARM_UPS):
        first_s = sum(timed(x, through) for through in _WAYS)
    least, most = _REPEATS
    repeats = min(max(int(_SPENT_S / agree(first_s)), least), most)
    seconds = [[timed(x, through) for through in _WAYS] for _ in range(repeats)]
    switch_s, group_s = (agree(statistics.median(each)) for each in zip(*seconds, strict=True))
    return Sample(len(x), switch_s, group_s)
