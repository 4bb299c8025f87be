# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Variants of THC, checked once: what bench-thc trains with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from sumwire_protocol.ops import THC as THC_OP
from sumwire_protocol.tables import AUTO, DEFAULT_BITS, DEFAULT_P, KINDS, P_LEAST, SUM_MAX, UNIFORM, can_clip

from sumwire_lab.errors import OptionError

BLOCK: Final = "block"
GLOBAL: Final = "global"
NORM: Final = "norm"
MINMAX: Final = "minmax"


@dataclass(frozen=True)
class Variant:
    """THC with some of its parts changed. The defaults are what Sumwire does."""

    bits: int = DEFAULT_BITS
    granularity: int | None = None
    """None: of the table's kind for so many workers."""
    p: float = DEFAULT_P
    table: str = AUTO
    block: int = 4096
    """Length of the rotation; 0 for the full tensor."""
    rotation: bool = True
    norms: str = BLOCK
    """Whether each block has a range of its own, or all share one (`global`)."""
    range: str = NORM
    """What the grid spans: +-threshold by the norm, or the least to the largest value (`minmax`)."""
    feedback: bool = True

    def __post_init__(self) -> None:
        words = {"table": KINDS, "norms": (BLOCK, GLOBAL), "range": (NORM, MINMAX)}
        for name, known in words.items():
            if getattr(self, name) not in known:
                raise OptionError(f"{name}={getattr(self, name)}: known are {', '.join(known)}")
        if not 1 <= self.bits <= DEFAULT_BITS:
            raise OptionError(f"bits={self.bits}: must be 1..{DEFAULT_BITS}")
        if self.granularity is not None and not 1 <= self.granularity <= SUM_MAX:
            raise OptionError(f"granularity={self.granularity}: must be 1..{SUM_MAX}")
        if not can_clip(self.p):
            raise OptionError(f"clip={self.p}: a share is above 0 and below 1, and no less than {P_LEAST:g}")
        if self.block and (self.block < THC_OP.values or self.block & (self.block - 1)):
            rule = f"must be a power of two from {THC_OP.values} values on, a packet's, or 0 for the full tensor"
            raise OptionError(f"block={self.block}: {rule}")

    def fits(self, workers: int) -> bool:
        """Whether the sums of so many workers cannot overflow."""
        return self.granularity is None or self.granularity * workers <= SUM_MAX


THC: Final = Variant()
ABLATIONS: Final[Mapping[str, Variant]] = {
    "thc": THC,
    "no error feedback": replace(THC, feedback=False),
    "no rotation": replace(THC, rotation=False),
    "one norm for all blocks": replace(THC, norms=GLOBAL),
    "full rotation, one norm": replace(THC, block=0),
    "blocks of 1024": replace(THC, block=1024),
    "uniform table": replace(THC, table=UNIFORM),
    "uniform, min-max": replace(THC, table=UNIFORM, range=MINMAX),
    "uniform, min-max, no rotation": replace(THC, table=UNIFORM, range=MINMAX, rotation=False),
    "3 bits": replace(THC, bits=3),
    "2 bits": replace(THC, bits=2),
    "p = 1/8": replace(THC, p=1 / 8),
    "p = 1/512": replace(THC, p=1 / 512),
    "granularity 15": replace(THC, granularity=15),
}
"""One part changed at a time."""


@dataclass(frozen=True)
class ThcOptions:
    """What bench-thc trains: variants by name, numbers of workers, and what is missing from the sums."""

    variants: Mapping[str, Variant]
    workers: tuple[int, ...] = (4, 16, 32)
    seeds: tuple[int, ...] = (1, 2, 3)
    left_out: int = 0
    """Workers that come too late in each step."""
    loss: float = 0.0
    """Share of the chunks that do not get to the sum."""
    epochs: int = 6
    hidden: int = 64
    samples: int = 256
    """Of all workers together, in a step."""
    baselines: bool = False
    """Whether TernGrad, Top-k and DGC are trained as well."""

    def __post_init__(self) -> None:
        if not self.variants or not self.workers or not self.seeds:
            raise OptionError("variants, workers, seeds: name at least one of each")
        for workers in self.workers:
            if not 1 <= workers <= self.samples:
                raise OptionError(f"workers={workers}: must be 1..{self.samples}")
            self._check_sums(workers)
        if not 0 <= self.left_out < min(self.workers):
            raise OptionError(f"left-out={self.left_out}: fewer than the workers, {min(self.workers)}")
        if self.baselines and (self.left_out or self.loss):
            raise OptionError("baselines: have all contributions; leave out left-out and loss")
        if not 0 <= self.loss < 1:
            raise OptionError(f"loss={self.loss}: a share is at least 0 and below 1")
        for name, value in (("epochs", self.epochs), ("hidden", self.hidden)):
            if value < 1:
                raise OptionError(f"{name}={value}: must be at least 1")

    def _check_sums(self, workers: int) -> None:
        """Raises OptionError if no variant can sum so many workers."""
        if any(variant.fits(workers) for variant in self.variants.values()):
            return
        granularity = min(variant.granularity or 0 for variant in self.variants.values())
        rule = f"{workers} workers reach sums of {granularity * workers}, above {SUM_MAX}"
        raise OptionError(f"granularity={granularity}: {rule}; take {SUM_MAX // workers} or less, or fewer workers")
