# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How a run's laned system (dlcp) goes: lanes, quorum, bound of loss."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from sumwire_lab.errors import OptionError

LANES_MAX: Final = 8
DIVISORS: Final = ("contributors", "workers")
DEGRADE_MODES: Final = ("trim", "drop", "trim-results")
SLOTS: Final = 1024
"""Of all lanes together; 256 for each of 4."""


@dataclass(frozen=True)
class Degrade:
    """Packets of the job that the switch cuts or drops on purpose; `share` of them, drawn by a hash with `seed`."""

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
    """Of laned systems only; other systems of the same run know nothing of it."""

    lanes: int = 4
    quorum: int | None = None
    """Workers whose contributions close a slot; None: all."""
    loss_bound: float = 0.01
    """Share of a tensor's contributions that may be missing."""
    divisor: str = DIVISORS[0]
    """What a sum is divided by: those in it, or all workers."""
    queues: bool = True
    """Whether P4 switches keep virtual queues that mark and drop by class."""
    degrade: Degrade | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.lanes <= LANES_MAX or SLOTS % self.lanes:
            raise OptionError(f"lanes={self.lanes}: 1 to {LANES_MAX} that divide {SLOTS} slots")
        if not 0 <= self.loss_bound < 1:
            raise OptionError(f"loss-bound={self.loss_bound}: a share is at least 0 and below 1")
        if self.divisor not in DIVISORS:
            raise OptionError(f"divisor={self.divisor}: known are {', '.join(DIVISORS)}")

    def check(self, workers: int, topology: str) -> None:
        """Against the run's. Raises OptionError."""
        if self.quorum is None:
            return
        if not 1 <= self.quorum <= workers:
            raise OptionError(f"quorum={self.quorum}: 1 to {workers}, the workers")
        if self.quorum < workers and topology != "star":
            raise OptionError(f"quorum={self.quorum}: below workers={workers} only with topology=star")

    def lockstep(self, workers: int) -> bool:
        """Whether every step needs every worker; else they must not wait for each other."""
        return self.quorum is None or self.quorum == workers

    def job(self) -> dict[str, Any]:
        """What it adds to a job of the controller's configuration."""
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
        """What `as_dict` has made."""
        degrade = raw["degrade"]
        return cls(**{**raw, "degrade": None if degrade is None else Degrade(**degrade)})
