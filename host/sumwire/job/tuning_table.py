# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What was measured of two ways to reduce a tensor, through the switch and by the process group: seconds by size."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from sumwire_protocol.outside import escaped, shown

ENTRIES_MOST: Final = 64
# Larger integers are no floats.
_NUMBER_MOST: Final = sys.float_info.max


# The most of the group's time that the switch may take for a size that goes by it: the group's mean is exact. With 0.8,
# small tensors often went by the group where it took a quarter longer, since what it costs them swings.
SWITCH_SHARE: Final = 0.9


class BrokenTableError(ValueError):
    """A table cannot be read: the text says why."""


@dataclass(frozen=True)
class Sample:
    """Seconds of one reduction of so many values."""

    values: int
    switch_s: float
    group_s: float

    @property
    def prefers_group(self) -> bool:
        """Whether the switch was not faster by so much that an inexact mean pays."""
        return self.group_s * SWITCH_SHARE < self.switch_s


@dataclass(frozen=True)
class TuningTable:
    """``samples``: by codec name, with rising sizes."""

    samples: Mapping[str, Sequence[Sample]] = field(default_factory=dict)

    def prefers_group(self, codec: str, values: int) -> bool:
        """What was found for the size nearest to this one, as a ratio. False for a codec that was not measured.

        Example: 1,000 and 10,000 values were measured. 3,000 go as 1,000 do, and 4,000 as 10,000 do.
        """
        samples = self.samples.get(codec)
        if not samples:
            return False
        return min(samples, key=lambda sample: abs(math.log(sample.values / max(values, 1)))).prefers_group

    def content(self) -> dict[str, list[list[float]]]:
        """For JSON."""
        return {
            codec: [[sample.values, sample.switch_s, sample.group_s] for sample in samples]
            for codec, samples in self.samples.items()
        }

    @classmethod
    def of(cls, content: Any) -> TuningTable:
        """The inverse of :meth:`content`. Raises BrokenTableError."""
        if not isinstance(content, dict):
            raise BrokenTableError("must be an object with a list for each codec")
        return cls({codec: _samples(codec, rows) for codec, rows in content.items()})


def _samples(codec: str, rows: Any) -> tuple[Sample, ...]:
    if not isinstance(rows, list) or not 0 < len(rows) <= ENTRIES_MOST:
        raise BrokenTableError(f"{escaped(codec)}: must be a list of 1 to {ENTRIES_MOST} entries")
    samples = tuple(_sample(codec, row) for row in rows)
    if any(a.values >= b.values for a, b in pairwise(samples)):
        raise BrokenTableError(f"{escaped(codec)}: sizes must rise")
    return samples


def _sample(codec: str, row: Any) -> Sample:
    numbers = isinstance(row, list) and all(type(number) in (int, float) for number in row)
    if not numbers or len(row) != 3 or not all(0 < number <= _NUMBER_MOST for number in row):
        raise BrokenTableError(f"{escaped(codec)}: {shown(row)} must be values and two times in seconds, all above 0")
    if row[0] != int(row[0]):
        raise BrokenTableError(f"{escaped(codec)}: {shown(row)}: the number of values must be whole")
    return Sample(int(row[0]), float(row[1]), float(row[2]))
