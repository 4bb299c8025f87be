# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Conditions of a run: packet loss, other traffic, a slow worker. Checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sumwire_lab.errors import OptionError

BACKGROUND_MAX: Final = 0.95
"""On links between hosts; a server's link may be offered more."""
_SERVER_BACKGROUND_MAX: Final = 4.0
_INCAST_MAX_KB: Final = 100_000
_SLOW_MAX: Final = 100.0


@dataclass(frozen=True)
class OfHost:
    """A number for one host, 1 for h1: the share of packets lost in a gray failure, or the factor of a slow worker."""

    host: int
    value: float

    @classmethod
    def parse(cls, option: str, text: str) -> OfHost:
        """`2:0.01` or `h2:0.01`. Raises OptionError."""
        host, colon, value = text.partition(":")
        try:
            if not colon:
                raise ValueError("no colon")
            return cls(int(host.removeprefix("h")), float(value))
        except ValueError as error:
            raise OptionError(f"{option}={text}: wants HOST:NUMBER, as 2:0.01") from error

    def __str__(self) -> str:
        return f"{self.host}:{self.value:g}"


@dataclass(frozen=True)
class Conditions:
    """Conditions hold for every system of a run. The default is none of them."""

    loss: float = 0.0
    """Share of packets lost at random on every limited link, in each direction."""
    gray: OfHost | None = None
    """Share of packets lost on one host's link in each direction, in addition to `loss`."""
    background: float = 0.0
    """Share of every host's link rate that paced TCP flows from each host to the next offer. With a server behind the
    switch: share of its link's rate that flows from all hosts to it offer together."""
    incast_kb: int = 0
    """Kilobytes that every host sends to the first one at the same time, twice a second, over TCP."""
    slow: OfHost | None = None
    """Factor by which one worker computes slower."""

    def __post_init__(self) -> None:
        if not 0 <= self.loss < 1:
            raise OptionError(f"loss={self.loss}: a share of packets is at least 0 and below 1")
        if self.gray is not None and not 0 < self.gray.value < 1:
            raise OptionError(f"gray={self.gray}: a share of packets is above 0 and below 1")
        if not 0 <= self.background <= _SERVER_BACKGROUND_MAX:
            raise OptionError(f"background={self.background}: a share of a link, 0 to {_SERVER_BACKGROUND_MAX:g}")
        if not 0 <= self.incast_kb <= _INCAST_MAX_KB:
            raise OptionError(f"incast={self.incast_kb}: 0 to {_INCAST_MAX_KB} kilobytes")
        if self.slow is not None and not 1 <= self.slow.value <= _SLOW_MAX:
            raise OptionError(f"slow={self.slow}: a factor is 1 to {_SLOW_MAX:g}")

    def check_hosts(self, workers: int) -> None:
        """Raises OptionError for a host that the run does not have, and for traffic with fewer than 2 hosts."""
        for name, one in (("gray", self.gray), ("slow", self.slow)):
            if one is not None and not 1 <= one.host <= workers:
                raise OptionError(f"{name}={one}: hosts are 1 to {workers}")
        for name, value in (("background", self.background), ("incast", self.incast_kb)):
            if value and workers < 2:
                raise OptionError(f"{name}={value}: traffic between hosts needs 2 of them, workers={workers}")

    @property
    def traffic(self) -> bool:
        """Whether hosts send anything besides the training's packets."""
        return self.background > 0 or self.incast_kb > 0

    @property
    def any(self) -> bool:
        """Whether there is any condition."""
        return self != Conditions()

    def share_lost(self, host: int | None) -> float:
        """Share of packets that one direction of a host's link loses, by the host's number; None: a link between
        switches."""
        gray = self.gray.value if self.gray is not None and self.gray.host == host else 0.0
        return 1 - (1 - self.loss) * (1 - gray)

    def slowness(self, rank: int) -> float:
        """The slowness factor of a worker; ranks count from 0."""
        return self.slow.value if self.slow is not None and self.slow.host == rank + 1 else 1.0

    def words(self) -> str:
        """The conditions in words; empty without any."""
        parts = {
            "loss": self.loss and f"{self.loss:.3%} on every link",
            "gray failure": self.gray and f"{self.gray.value:.3%} on the link of h{self.gray.host}",
            "background": self.background and f"{self.background:.0%} of every link, or of the server's",
            "incast": self.incast_kb and f"{self.incast_kb} kB from every host to h1 at once, twice a second",
            "slow": self.slow and f"h{self.slow.host} computes {self.slow.value:g} times as long",
        }
        return ", ".join(f"{name}: {text}" for name, text in parts.items() if text)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "loss": self.loss,
            "gray": None if self.gray is None else str(self.gray),
            "background": self.background,
            "incast_kb": self.incast_kb,
            "slow": None if self.slow is None else str(self.slow),
        }
