# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the system dlcp, whose job has priority lanes: lanes, quorum, loss bound. Others have some too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from sumwire_lab.errors import OptionError

LANES_MAX: Final = 8
DIVISORS: Final = ("contributors", "workers")
DEGRADE_MODES: Final = ("trim", "drop", "trim-results")
SLOTS: Final = 1024
"""Slots of all lanes together; 256 for each of 4 lanes."""
FLAGS: Final[Mapping[str, str]] = {
    "lanes": "lanes",
    "quorum": "quorum",
    "loss_bound": "loss-bound",
    "divisor": "divisor",
    "queues": "no-queues",
    "drops": "no-drops",
    "trims": "trim",
    "priorities": "no-priorities",
    "degrade": "degrade",
}
"""The command line's name of each option."""
BOUNDED: Final = frozenset({"quorum", "loss_bound", "divisor"})
"""Options of a job without lanes whose sums may lack contributions."""
TAGGED: Final = frozenset({"priorities"})
"""Options of tagged packets without a job."""


@dataclass(frozen=True)
class Degrade:
    """The switch trims or drops a share of the job's packets on purpose, chosen by a hash with `seed`."""

    mode: str
    share: float
    seed: int = 1

    def __post_init__(self) -> None:
        if self.mode not in DEGRADE_MODES:
            raise OptionError(f"degrade={self.mode}:{self.share:g}: modes are {', '.join(DEGRADE_MODES)}")
        if not 0 <= self.share <= 1:
            raise OptionError(f"degrade={self.mode}:{self.share:g}: a share is 0 to 1")

    @classmethod
    def parse(cls, text: str, seed: int = 1) -> Degrade:
        """`trim:0.2`. Raises OptionError."""
        mode, colon, share = text.partition(":")
        try:
            return cls(mode, float(share if colon else "?"), seed)
        except OptionError:
            raise
        except ValueError as error:
            raise OptionError(f"degrade={text}: wants MODE:SHARE, as trim:0.2") from error


@dataclass(frozen=True)
class LanedOptions:
    """Applies to systems whose job has priority lanes. Of other systems of the run some have BOUNDED or TAGGED."""

    lanes: int = 4
    quorum: int | None = None
    """Contributions that close a slot; None: those of all workers."""
    loss_bound: float = 0.01
    """Missing share that a tensor may have."""
    divisor: str = DIVISORS[0]
    """What a sum is divided by: the number of its contributors, or that of all workers."""
    queues: bool = True
    """Whether P4 switches keep virtual queues that mark and drop by class."""
    drops: bool = True
    """Whether these drop by class; otherwise they mark, and drop only when they are full."""
    trims: bool = False
    """Whether they cut THC contributions to their top planes where they would drop them by their class."""
    priorities: bool = True
    """Whether links serve packets by their priority."""
    degrade: Degrade | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.lanes <= LANES_MAX or SLOTS % self.lanes:
            raise OptionError(f"lanes={self.lanes}: 1 to {LANES_MAX} that divide {SLOTS} slots")
        if self.trims and not (self.queues and self.drops):
            raise OptionError("trim: cuts what virtual queues would drop by class; leave out no-queues and no-drops")
        if not 0 <= self.loss_bound < 1:
            raise OptionError(f"loss-bound={self.loss_bound}: a share is at least 0 and below 1")
        if self.divisor not in DIVISORS:
            raise OptionError(f"divisor={self.divisor}: known are {', '.join(DIVISORS)}")

    def check(self, workers: int, topology: str) -> None:
        """Check the quorum against the run. Raises OptionError."""
        if self.quorum is None:
            return
        if not 1 <= self.quorum <= workers:
            raise OptionError(f"quorum={self.quorum}: 1 to {workers}, the workers")
        if self.quorum < workers and topology != "star":
            raise OptionError(f"quorum={self.quorum}: below workers={workers} only with topology=star")

    def given(self) -> tuple[str, ...]:
        """Names of the options that have another value than the default."""
        return tuple(name for name in FLAGS if getattr(self, name) != getattr(_DEFAULTS, name))

    def applied(self, names: Collection[str]) -> dict[str, Any] | None:
        """For JSON: those of these names; None for no name."""
        return {name: value for name, value in self.as_dict().items() if name in names} or None

    def lockstep(self, workers: int) -> bool:
        """Whether every step needs every worker. With a smaller quorum, workers must not wait for each other."""
        return self.quorum is None or self.quorum == workers

    def job(self) -> dict[str, Any]:
        """Keys for a job of the controller's configuration."""
        more: dict[str, Any] = {"lanes": self.lanes}
        if self.quorum is not None:
            more["quorum"] = self.quorum
        if self.degrade is not None:
            more["degrade"] = asdict(self.degrade)
        return more

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> LanedOptions:
        """The inverse of `as_dict`."""
        degrade = raw["degrade"]
        return cls(**{**raw, "degrade": None if degrade is None else Degrade(**degrade)})


_DEFAULTS: Final = LanedOptions()
