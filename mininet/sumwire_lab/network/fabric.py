# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Plans of networks: hosts, switches and the links between them, as plain data. topology.py builds the networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sumwire_lab.errors import OptionError
from sumwire_lab.options.layout import SHAPES, HostEntry, NetworkLayout, SwitchEntry, leaves_of
from sumwire_lab.options.run_options import WORKERS_MAX, LinkOptions

PREFIX_LEN: Final = 24
_HOST_IP: Final = "10.0.0.{}"
_HOST_MAC: Final = "00:00:00:00:00:{:02x}"
# Host number of a server behind a switch.
_SERVER: Final = 99
# Host number in the first switch's aggregator address; the other switches follow, from the top down.
_AGGREGATOR_FIRST: Final = 100
_AGGREGATOR_MAC: Final = "02:53:57:00:00:{:02x}"


@dataclass(frozen=True)
class HostPlan:
    """One host, its addresses, its switch and the two ends of its link."""

    name: str
    ip: str
    mac: str
    switch: str
    port: int
    host_interface: str
    switch_interface: str
    mbit: float | None = None
    """Rate of its link; None: that of the network's links."""


@dataclass(frozen=True)
class SwitchPlan:
    """One switch and the address that workers, or the switches below, send their packets to."""

    name: str
    device_id: int
    aggregator_ip: str
    aggregator_mac: str


@dataclass(frozen=True)
class TrunkPlan:
    """A link between two switches. A second uplink is `spare`: kernel bridges leave it out, to avoid a loop."""

    lower: str
    lower_port: int
    upper: str
    upper_port: int
    lower_interface: str
    upper_interface: str
    spare: bool
    mbit: float | None = None
    """Its rate; None: that of the network's links between switches."""


@dataclass(frozen=True)
class Fabric:
    """All parts of a run's network. Every interface name begins with the run's token."""

    token: str
    link: LinkOptions
    switches: tuple[SwitchPlan, ...]
    trunks: tuple[TrunkPlan, ...]
    hosts: tuple[HostPlan, ...]
    server: HostPlan | None = None
    """The software aggregator's host, if there is one. In a switch's place it has the aggregator's address and a link
    without a limit."""
    server_behind: bool = False
    """Whether the server is behind the switch, with an address of its own and a link as every host's."""

    @property
    def limited_hosts(self) -> tuple[HostPlan, ...]:
        """All hosts whose links have a limit."""
        return (*self.hosts, self.server) if self.server is not None and self.server_behind else self.hosts

    def link_of(self, host: HostPlan) -> LinkOptions:
        """Return the link of a host."""
        return self.link if host.mbit is None else replace(self.link, mbit=host.mbit)

    def trunk_link(self, trunk: TrunkPlan) -> LinkOptions:
        """Return the link of a trunk, between switches."""
        link = self.link.trunk()
        return link if trunk.mbit is None else replace(link, mbit=trunk.mbit)

    def slowest_mbit(self) -> float:
        """Return the rate of the slowest link."""
        hosts = [self.link_of(host).mbit for host in self.hosts]
        return min([self.link.slowest_mbit(), *hosts, *(self.trunk_link(trunk).mbit for trunk in self.trunks)])

    def label(self, switch: str) -> str:
        """Return the name of a switch's process and log: `switch` in a star, `switch-NAME` in a tree."""
        return "switch" if len(self.switches) == 1 else f"switch-{switch}"

    def leaf_of(self, host: HostPlan) -> SwitchPlan:
        """Return the switch of a host."""
        return next(switch for switch in self.switches if switch.name == host.switch)

    def stands_for(self, switch: str) -> int:
        """Return the number of hosts of a switch and of all switches below it."""
        below = {trunk.lower for trunk in self.trunks if trunk.upper == switch}
        return sum(host.switch == switch for host in self.hosts) + sum(map(self.stands_for, below))

    def ports_of(self, switch: str) -> tuple[int, ...]:
        """Return the port numbers of a switch, sorted."""
        ports = [host.port for host in self.limited_hosts if host.switch == switch]
        ports += [trunk.lower_port for trunk in self.trunks if trunk.lower == switch]
        ports += [trunk.upper_port for trunk in self.trunks if trunk.upper == switch]
        return tuple(sorted(ports))


def plan(
    workers: int,
    link: LinkOptions,
    token: str,
    topology: str = "star",
    *,
    server: bool = False,
    server_behind: bool = False,
    layout: NetworkLayout | None = None,
) -> Fabric:
    """Plan a network with hosts h1..hN, which have 10.0.0.k and 00:00:00:00:00:k, in order and evenly over the lowest
    switches.

    A switch's ports are 1, 2, ...: first those to hosts or lower switches, then the uplinks, then, at the first switch,
    that of the `server`. With `server_behind` the server has a separate address. A `layout` replaces the topology, and
    assigns a switch to each host. Raises OptionError for an unknown topology, for more than 32 hosts, and for fewer
    hosts than lowest switches.
    """
    layout = layout_of(topology, workers) if layout is None else layout
    shape = layout.shape
    last_port = dict.fromkeys(shape, 0)

    def port(switch: str) -> int:
        last_port[switch] += 1
        return last_port[switch]

    switches = tuple(
        SwitchPlan(
            name, k, _HOST_IP.format(_AGGREGATOR_FIRST + k - 1), _AGGREGATOR_MAC.format(_AGGREGATOR_FIRST + k - 1)
        )
        for k, name in enumerate(shape, start=1)
    )
    hosts = tuple(_host(k, entry, port(entry.switch), token) for k, entry in enumerate(layout.hosts, start=1))
    trunks = _trunks(layout, port, token)
    first, host = switches[0], None
    if server:
        host = _server(first, port(first.name), token)
        if server_behind:
            host = replace(host, ip=_HOST_IP.format(_SERVER), mac=_HOST_MAC.format(_SERVER))
    return Fabric(token, link, switches, trunks, hosts, host, server_behind)


def layout_of(topology: str, workers: int) -> NetworkLayout:
    """Return a known topology with `workers` hosts. Raises OptionError."""
    if topology not in SHAPES:
        raise OptionError(f"topology={topology}: known are {', '.join(SHAPES)}")
    leaves = leaves_of(topology)
    if not len(leaves) <= workers <= WORKERS_MAX:
        raise OptionError(f"workers={workers}: topology {topology} takes {len(leaves)} to {WORKERS_MAX} workers")
    switches = tuple(SwitchEntry(name, above) for name, above in SHAPES[topology].items())
    return NetworkLayout(topology, switches, tuple(map(HostEntry, _spread(workers, leaves))))


def _spread(workers: int, leaves: Sequence[str]) -> list[str]:
    """The leaf of each worker, in order. If the workers do not divide evenly, the first leaves have one more."""
    each, more = divmod(workers, len(leaves))
    return [leaf for k, leaf in enumerate(leaves) for _ in range(each + (k < more))]


def _host(number: int, entry: HostEntry, port: int, token: str) -> HostPlan:
    return HostPlan(
        name=f"h{number}",
        ip=_HOST_IP.format(number),
        mac=_HOST_MAC.format(number),
        switch=entry.switch,
        port=port,
        host_interface=f"{token}-h{number}",
        switch_interface=f"{token}-p{number}",
        mbit=entry.mbit,
    )


def _server(switch: SwitchPlan, port: int, token: str) -> HostPlan:
    return HostPlan(
        name="server",
        ip=switch.aggregator_ip,
        mac=switch.aggregator_mac,
        switch=switch.name,
        port=port,
        host_interface=f"{token}-agg",
        switch_interface=f"{token}-pagg",
    )


def _trunks(layout: NetworkLayout, port: Callable[[str], int], token: str) -> tuple[TrunkPlan, ...]:
    """Links between switches. Ports to lower switches are numbered before uplinks."""
    pairs = [(lower, upper, way) for lower in layout.switches for way, upper in enumerate(lower.above)]
    upper_ports = [port(upper) for _, upper, _ in pairs]
    return tuple(
        TrunkPlan(
            lower.name, port(lower.name), upper, upper_port, f"{token}-u{k}", f"{token}-d{k}", spare=way > 0,
            mbit=lower.mbit,
        )
        for k, ((lower, upper, way), upper_port) in enumerate(zip(pairs, upper_ports, strict=True), start=1)
    )  # fmt: skip
