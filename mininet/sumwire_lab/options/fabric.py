# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The network of a simulation: a tree of switches with hosts below the lowest, as plain numbers.

Example: ``Fabric(workers=1024, levels=(32, 32))`` has 32 leaf switches with 32 hosts each, below one root. With
``spines=4`` four roots share the slots of every job, and a leaf has a link to each. 1000 workers fill 31 leaves and a
quarter of another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from sumwire.config import PATHS

from sumwire_lab.errors import OptionError
from sumwire_lab.options.fields import Checked, Rule, between, option, share
from sumwire_lab.options.run_options import MTU

WORKERS_MOST: Final = 1_000_000
LEVELS_MOST: Final = 4
BYTES_MOST: Final = 4_000_000_000
"""Of a queue: the packet engine counts them in 32 bits."""
_RATE: Final = Rule(lambda rate: 1e3 <= rate <= 1e13, "must be 1000 to 1e13 bit/s")
_WHERE: Final = "give --levels more, from the hosts up: 32,32 is 32 hosts a leaf and 32 leaves"


@dataclass(frozen=True)
class Fabric(Checked):
    """Workers, switches and links. Workers have the numbers 0, 1, ..., and fill one lowest switch after another.

    A link has the same rate in both directions, and at each end a queue. Raises OptionError for a value that breaks its
    rule, and for more workers than the levels have room for.
    """

    workers: int = option(4, "hosts that train", rule=between(1, WORKERS_MOST))
    levels: tuple[int, ...] = option(
        (), "what is below a switch, from the hosts up: hosts of a leaf, leaves of the switch above, ...; a star",
        rule=Rule(
            lambda levels: len(levels) <= LEVELS_MOST and all(count >= 1 for count in levels),
            f"must be at most {LEVELS_MOST} whole numbers of 1 or more, from the hosts up",
        ), shown="default: all workers at one switch",
    )  # fmt: skip
    rate_bit_s: float = option(1e9, "rate of a host's link in bit/s", rule=_RATE)
    trunk_bit_s: float | None = option(
        None, "rate of a link between switches in bit/s", rule=_RATE, shown="default: as --rate-bit-s"
    )
    delay_s: float = option(1e-6, "delay of a link, one way, in seconds", rule=between(0, 100))
    mtu: int = option(MTU, "bytes of a packet, from its IP header on", rule=between(MTU, 9000))
    queue_bytes: int = option(1 << 20, "bytes that a link's queue holds", rule=between(1, BYTES_MOST))
    loss: float = option(0.0, "share of packets that every link loses", rule=share())
    spines: int = option(1, "switches at the top, which share the slots of a job", rule=Rule(
        lambda spines: spines in PATHS, f"must be one of {', '.join(map(str, PATHS))}"
    ))  # fmt: skip
    server_bit_s: float | None = option(
        None, "rate of the link of a server at the top switch in bit/s", rule=_RATE, shown="default: as --rate-bit-s"
    )
    extra_bytes: int = option(
        0, "bytes of a frame behind those that the lab counts: 24 on Ethernet (preamble, check sequence, gap)",
        rule=between(0, 100),
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.levels:
            object.__setattr__(self, "levels", (self.workers,))
        room = math.prod(self.levels)
        if self.workers > room:
            counts = ",".join(map(str, self.levels))
            raise OptionError(f"workers={self.workers}: must be at most {room}, as levels={counts}; {_WHERE}")
        if self.spines > 1 and len(self.levels) == 1:
            raise OptionError(f"spines={self.spines}: must be 1 with a single level of switches; {_WHERE}")

    @property
    def trunk(self) -> float:
        """Bits a second of a link between switches."""
        return self.rate_bit_s if self.trunk_bit_s is None else self.trunk_bit_s

    @property
    def server(self) -> float:
        """Bits a second of a server's link."""
        return self.rate_bit_s if self.server_bit_s is None else self.server_bit_s

    def unit(self, level: int) -> int:
        """Return how many hosts are below a node of a level: hosts have level 0, leaf switches 1."""
        return math.prod(self.levels[:level])

    def nodes(self, level: int) -> int:
        """Return how many nodes of a level have workers below them; at the top, one for all spines together."""
        return -(-self.workers // self.unit(level))

    def rate(self, level: int) -> float:
        """Return the bits a second of a link from a node of a level to one above it."""
        return self.rate_bit_s if level == 0 else self.trunk

    def ways(self, level: int) -> int:
        """Return the number of such links of one node: that of the spines right below the top, else 1."""
        return self.spines if level > 0 and level == len(self.levels) - 1 else 1

    def children(self, level: int) -> int:
        """Return the most nodes right below a switch of a level, from 1 on."""
        return min(self.levels[level - 1], self.nodes(level - 1))
