# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a training has put on each link: bytes, load and losses in each direction.

Bytes and load are those of the steps. What goes on between them, as the collectives that find out the true mean for the
NMSE, is not a system's own. Hosts count their bytes step by step; of links between switches, which nobody counts so, as
large a share of the bytes is taken to be the steps' as of the hosts' together.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sumwire_lab.network.fabric import Fabric
from sumwire_lab.run.records import StepRecord
from sumwire_lab.system.interface_counters import LinkBytes, counters_of

if TYPE_CHECKING:
    from sumwire_lab.run.apply_conditions import Applied
    from sumwire_lab.run.session import Session


@dataclass(frozen=True)
class LinkUse:
    """One link. `up` is from a host, or from the lower switch, to the switch above."""

    lower: str
    upper: str
    mbit: float
    up_bytes: int
    down_bytes: int
    up_load: float | None
    """Bits sent over those that the link could have sent while the steps went on; None without such steps."""
    down_load: float | None
    up_lost: int
    """Packets lost in the queue before the link, or at random."""
    down_lost: int


@dataclass(frozen=True)
class LinkEnds:
    """The interfaces of a limited link. The counters are those of the upper end, or of both ends between switches."""

    lower: str
    upper: str
    mbit: float
    lower_interface: str
    upper_interface: str
    from_host: bool
    """Whether the lower end is in a host's own namespace, where this process does not see its counters."""

    def bytes_up(self, counted: Mapping[str, LinkBytes]) -> int:
        """Bytes towards the upper end."""
        return counted[self.upper_interface].rx if self.from_host else counted[self.lower_interface].tx

    def bytes_down(self, counted: Mapping[str, LinkBytes]) -> int:
        """Bytes towards the lower end."""
        return counted[self.upper_interface].tx


def ends_of(fabric: Fabric) -> list[LinkEnds]:
    """The limited links of a network: the hosts' in their order, then those between switches."""
    hosts = [
        LinkEnds(h.name, h.switch, fabric.link_of(h).mbit, h.host_interface, h.switch_interface, from_host=True)
        for h in fabric.limited_hosts
    ]
    trunks = [
        LinkEnds(t.lower, t.upper, fabric.trunk_link(t).mbit, t.lower_interface, t.upper_interface, from_host=False)
        for t in fabric.trunks
    ]
    return [*hosts, *trunks]


class LinkMeter:
    """Counts a session's links from `begin` to `finish`, both called while the network is up."""

    def __init__(self, session: Session) -> None:
        self._network = session.network
        self._ends = ends_of(session.fabric)
        self._before: dict[str, LinkBytes] = {}
        self._began_s = 0.0
        self._earlier: tuple[dict[str, LinkBytes], float] | None = None

    def begin(self) -> None:
        """What came before is not counted. Called before the training, and once more when its first step is done."""
        if self._before:
            self._earlier = self._before, self._began_s
        self._before = self._count()
        self._began_s = time.perf_counter()

    def seconds_of(self, steps: Sequence[StepRecord]) -> float:
        """Seconds of one worker's steps since the last `begin`; since the first one, if the last saw less than half of
        them: this process learns of a short training's first step when it is nearly over."""
        if self._earlier is not None:
            before, began_s = self._earlier
            if 2 * seconds_since(steps, self._began_s) < seconds_since(steps, began_s):
                self._before, self._began_s = before, began_s
        return seconds_since(steps, self._began_s)

    def bytes_of(self, workers: Sequence[Sequence[StepRecord]]) -> list[LinkBytes]:
        """What each worker's host has sent and received in its steps since the last `begin`; after `seconds_of`."""
        return [bytes_since(steps, self._began_s) for steps in workers]

    def finish(
        self, seconds: float, applied: Applied, hosts: Sequence[LinkBytes] | None = None
    ) -> list[dict[str, Any]]:
        """The links, for summary.json. `seconds`: of what has used them since `begin`. `hosts`: what of it the first
        hosts have counted themselves; None if all of it counts. Raises LabError."""
        after, drops = self._count(), self._network.end_drops()
        used = {name: count - self._before[name] for name, count in after.items()} if self._before else {}
        if not used:
            return []
        if hosts is not None:
            used = of_steps(self._ends, used, hosts)
        random = {loss.interface: loss.lost for loss in applied.losses}
        return [asdict(use_of(ends, used, drops, random, seconds)) for ends in self._ends]

    def _count(self) -> dict[str, LinkBytes]:
        inside = (end.upper_interface for end in self._ends)
        return counters_of([*inside, *(end.lower_interface for end in self._ends if not end.from_host)])


def use_of(
    ends: LinkEnds,
    used: Mapping[str, LinkBytes],
    queue_drops: Mapping[str, int],
    random_losses: Mapping[str, int],
    seconds: float,
) -> LinkUse:
    """The use of a link. Counters by interface: `queue_drops` where a packet should leave, `random_losses` where it
    should arrive. `seconds`: of the steps in which `used` was counted."""
    up, down = ends.bytes_up(used), ends.bytes_down(used)
    room = ends.mbit * 1e6 / 8 * seconds
    return LinkUse(
        ends.lower,
        ends.upper,
        ends.mbit,
        up,
        down,
        up / room if room else None,
        down / room if room else None,
        queue_drops.get(ends.lower_interface, 0) + random_losses.get(ends.upper_interface, 0),
        queue_drops.get(ends.upper_interface, 0) + random_losses.get(ends.lower_interface, 0),
    )


def of_steps(
    ends: Sequence[LinkEnds], used: Mapping[str, LinkBytes], hosts: Sequence[LinkBytes]
) -> dict[str, LinkBytes]:
    """Counters by interface with only what steps have put on the links: the first hosts' own counts (`rx` is what a
    host has received), and the same share of all others'."""
    counted = [end for end in ends if end.from_host][: len(hosts)]
    total = sum(used[end.upper_interface].rx + used[end.upper_interface].tx for end in counted)
    share = min(1.0, sum(host.rx + host.tx for host in hosts) / total) if total else 1.0
    found = {name: LinkBytes(round(share * one.rx), round(share * one.tx)) for name, one in used.items()}
    own = {end.upper_interface: LinkBytes(rx=host.tx, tx=host.rx) for end, host in zip(counted, hosts, strict=False)}
    return found | own


def bytes_since(steps: Sequence[StepRecord], began_s: float) -> LinkBytes:
    """What a host has received and sent in steps after `began_s` of the machine's clock.

    Of a step that began before it, as large a share of the bytes counts as of the time.
    """
    shares = [(step, seconds_since([step], began_s) / step.step_s) for step in steps if step.step_s]
    received = sum(share * step.rx_bytes for step, share in shares)
    sent = sum(share * step.tx_bytes for step, share in shares)
    return LinkBytes(rx=round(received), tx=round(sent))


def seconds_since(steps: Sequence[StepRecord], began_s: float) -> float:
    """Seconds of the steps that were still going on, or began, after `began_s` of the machine's clock."""
    return sum(min(s.step_s, max(0.0, s.at_s + s.step_s - began_s)) for s in steps if s.at_s is not None)
