# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Conditions of a run: packet loss, delay, other traffic, a slow worker. Checked once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sumwire_lab.errors import OptionError
from sumwire_lab.options.fields import Checked, Rule, between, option, share

BACKGROUND_MAX: Final = 0.95
BACKGROUND_FLOWS: Final = 8
"""Flows of background traffic from a host to the next one, all with the same pace."""
BACKGROUND_BUFFER: Final = 64 << 10
"""Bytes that such a flow may have under way. Few, so that one that was held up cannot catch up with a burst."""
"""On links between hosts; a server's link may be offered more."""
_SERVER_BACKGROUND_MAX: Final = 4.0
_INCAST_MAX_KB: Final = 100_000
_SLOW_MAX: Final = 100.0
_DELAY_MAX_MS: Final = 1000.0


@dataclass(frozen=True)
class OfHost:
    """A number for one host, counted from 1 for h1: the share of packets lost in a gray failure, or the factor of a
    slow worker."""

    host: int
    value: float

    @classmethod
    def parse(cls, option: str, text: str) -> OfHost:
        """Parse `2:0.01` or `h2:0.01`. Raises OptionError."""
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
class Conditions(Checked):
    """The conditions of a run, which hold for all its systems. By default there are none."""

    loss: float = option(
        0.0,
        "share of packets lost at random on every limited link, in each direction",
        rule=share("a share of packets is at least 0 and below 1"),
    )
    gray: OfHost | None = option(
        None,
        "share of packets lost on one host's link in each direction, in addition to `loss`",
        metavar="HOST:SHARE",
        read=partial(OfHost.parse, "gray"),
        rule=Rule(lambda gray: 0 < gray.value < 1, "a share of packets is above 0 and below 1"),
    )
    background: float = option(
        0.0,
        "share of every host's link rate that paced TCP flows from each host to the next offer; with --server: share "
        "of its link's rate that flows from all hosts to it offer together",
        rule=between(0, _SERVER_BACKGROUND_MAX, f"a share of a link, 0 to {_SERVER_BACKGROUND_MAX:g}"),
    )
    incast_kb: int = option(
        0,
        "kilobytes that every host sends to the first one at the same time, twice a second, over TCP",
        flag="incast",
        metavar="KB",
        rule=between(0, _INCAST_MAX_KB, f"0 to {_INCAST_MAX_KB} kilobytes"),
    )
    slow: OfHost | None = option(
        None,
        "factor by which one worker computes slower, as 3:3",
        metavar="HOST:FACTOR",
        read=partial(OfHost.parse, "slow"),
        rule=Rule(lambda slow: 1 <= slow.value <= _SLOW_MAX, f"a factor is 1 to {_SLOW_MAX:g}"),
    )
    delay_ms: float = option(
        0.0,
        "milliseconds that packets take across every limited link, in each direction",
        flag="delay",
        metavar="MS",
        rule=between(0, _DELAY_MAX_MS, f"0 to {_DELAY_MAX_MS:g} milliseconds"),
    )

    def check_hosts(self, workers: int) -> None:
        """Raise OptionError for a host that the run does not have, and for traffic with fewer than 2 hosts."""
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
        """Return the share of packets that one direction of a host's link loses, by the host's number; None: a link
        between switches."""
        gray = self.gray.value if self.gray is not None and self.gray.host == host else 0.0
        return 1 - (1 - self.loss) * (1 - gray)

    def slowness(self, rank: int) -> float:
        """Return the slowness factor of a worker; ranks count from 0."""
        return self.slow.value if self.slow is not None and self.slow.host == rank + 1 else 1.0

    def words(self) -> str:
        """Return the conditions in words; empty without any."""
        parts = {
            "loss": self.loss and f"{self.loss:.3%} on every link",
            "delay": self.delay_ms and f"{self.delay_ms:g} ms on every link, each way",
            "gray failure": self.gray and f"{self.gray.value:.3%} on the link of h{self.gray.host}",
            "background": self.background and f"{self.background:.0%} of every link, or of the server's",
            "incast": self.incast_kb and f"{self.incast_kb} kB from every host to h1 at once, twice a second",
            "slow": self.slow and f"h{self.slow.host} computes {self.slow.value:g} times as long",
        }
        return ", ".join(f"{name}: {text}" for name, text in parts.items() if text)

    def as_dict(self) -> dict[str, Any]:
        """Return the contents as values that JSON can hold."""
        return {
            "loss": self.loss,
            "gray": None if self.gray is None else str(self.gray),
            "background": self.background,
            "incast_kb": self.incast_kb,
            "slow": None if self.slow is None else str(self.slow),
            "delay_ms": self.delay_ms,
        }
