# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the system dlcp, whose job has priority lanes: lanes, quorum, loss bound. Some other systems have some of
them too."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any, Final

from sumwire_lab.errors import OptionError
from sumwire_lab.options.fields import Checked, Rule, flags_of, one_of, option, share

LANES_MAX: Final = 8
DIVISORS: Final = ("contributors", "workers")
DEGRADE_MODES: Final = ("trim", "drop", "trim-results")
SLOTS: Final = 1024
"""Slots of all lanes together; 256 for each of 4 lanes."""
MARK_SHARE: Final = 3 / 16
"""Of a link's queue: a packet behind more is marked. That is above one train (64 KB, of the 384 KB that 256 frames
are): a train that meets an empty queue is no congestion, and a window that shrinks for it leaves the link to others."""
BOUNDED: Final = frozenset({"quorum", "loss_bound", "divisor"})
"""Options of a job without lanes whose sums may lack contributions."""
TAGGED: Final = frozenset({"priorities"})
"""Options of tagged packets without a job."""


@dataclass(frozen=True)
class DegradeOptions:
    """Deliberate loss: the switch trims or drops a share of the job's packets, chosen by a hash with `seed`."""

    mode: str
    share: float
    seed: int = 1

    def __post_init__(self) -> None:
        if self.mode not in DEGRADE_MODES:
            raise OptionError(f"degrade={self.mode}:{self.share:g}: modes are {', '.join(DEGRADE_MODES)}")
        if not 0 <= self.share <= 1:
            raise OptionError(f"degrade={self.mode}:{self.share:g}: a share is 0 to 1")

    @classmethod
    def parse(cls, text: str, seed: int = 1) -> DegradeOptions:
        """Parse `trim:0.2`. Raises OptionError."""
        mode, colon, share = text.partition(":")
        try:
            return cls(mode, float(share if colon else "?"), seed)
        except OptionError:
            raise
        except ValueError as error:
            raise OptionError(f"degrade={text}: wants MODE:SHARE, as trim:0.2") from error


@dataclass(frozen=True)
class LanedOptions(Checked):
    """Options for systems whose job has priority lanes. Some other systems take those in BOUNDED or TAGGED."""

    lanes: int = option(
        4,
        "dlcp: priority classes of tensors",
        rule=Rule(
            lambda lanes: 1 <= lanes <= LANES_MAX and SLOTS % lanes == 0,
            f"1 to {LANES_MAX} that divide {SLOTS} slots",
        ),
    )
    quorum: int | None = option(
        None, "dlcp, thc-bounded: contributions that close a slot", shown="default: those of all workers"
    )
    loss_bound: float = option(0.01, "dlcp, thc-bounded: missing share a tensor may have", rule=share())
    divisor: str = option(
        DIVISORS[0],
        f"dlcp, thc-bounded: what sums are divided by, their contributors or all workers; {', '.join(DIVISORS)}",
        rule=one_of(DIVISORS),
    )
    queues: bool = option(True, "dlcp: without the P4 switches' virtual queues, which mark and drop by class")
    drops: bool = option(True, "dlcp: with virtual queues that drop only when full")
    trims: bool = option(
        False, "dlcp: with virtual queues that cut contributions instead of dropping them by class", flag="trim"
    )
    priorities: bool = option(True, "dlcp, dlcp-ring, udp-ring: links with one queue for all priorities")
    degrade: DegradeOptions | None = option(
        None,
        f"dlcp: what the switch does to a share of packets on purpose: {', '.join(DEGRADE_MODES)}",
        metavar="MODE:SHARE",
        read=DegradeOptions.parse,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trims and not (self.queues and self.drops):
            raise OptionError("trim: cuts what virtual queues would drop by class; leave out no-queues and no-drops")

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
        return tuple(name for name in flags() if getattr(self, name) != getattr(_DEFAULTS, name))

    def applied(self, names: Collection[str]) -> dict[str, Any] | None:
        """Return the options of these names for JSON; None without a name."""
        return {name: value for name, value in self.as_dict().items() if name in names} or None

    def lockstep(self, workers: int) -> bool:
        """Return whether every step needs every worker. With a smaller quorum, workers must not wait for each other."""
        return self.quorum is None or self.quorum == workers

    def job(self) -> dict[str, Any]:
        """Return the keys for a job of the controller's configuration."""
        more: dict[str, Any] = {"lanes": self.lanes}
        if self.quorum is not None:
            more["quorum"] = self.quorum
        if self.degrade is not None:
            more["degrade"] = asdict(self.degrade)
        return more

    def as_dict(self) -> dict[str, Any]:
        """Return the contents as values that JSON can hold."""
        return asdict(self)


_DEFAULTS: Final = LanedOptions()


def flags() -> dict[str, str]:
    """Return the command line's name of each option."""
    return {flag.field.name: flag.name for flag in flags_of(LanedOptions)}
