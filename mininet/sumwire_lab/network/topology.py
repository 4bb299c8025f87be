# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Builds a planned network with Mininet: hosts, switches, and links with a rate."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_interface
from types import TracebackType
from typing import IO, Any, Final

from commonlib.events import ProgramEvent

from sumwire_lab.errors import LabError, MissingToolError
from sumwire_lab.network.fabric import PREFIX_LEN, Fabric, HostPlan, SwitchPlan
from sumwire_lab.network.shaping import drops_by_priority, mtu_command, off_command, shaping_commands
from sumwire_lab.options.run_options import LinkOptions
from sumwire_lab.system import counters
from sumwire_lab.system.leftovers import Ledger

_LOG: Final = logging.getLogger("sumwire_lab")
_TOOLS: Final = ("ip", "tc", "ethtool", "mnexec", "nsenter")


def no_ipv6_command(interface: str) -> list[str]:
    """Return the command that turns off IPv6 on one interface, if the kernel has IPv6."""
    switch = f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"
    return ["sh", "-c", f"test ! -e {switch} || echo 1 > {switch}"]


def control_command(host: HostPlan, control: str) -> list[str]:
    """Return the command by which TCP on a host has this congestion control, whatever the machine's own is. A namespace
    may choose some kinds alone as its default; a route may name any."""
    subnet = ip_interface(f"{host.ip}/{PREFIX_LEN}").network
    own = ["dev", host.host_interface, "proto", "kernel", "scope", "link", "src", host.ip]
    return ["ip", "route", "change", str(subnet), *own, "congctl", control]


def require_tools() -> None:
    """Raises MissingToolError if this machine cannot run Mininet."""
    if os.geteuid() != 0:
        raise MissingToolError("network namespaces need root: run this as root")
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        raise MissingToolError(f"not on PATH: {', '.join(missing)} (Debian: apt-get install mininet iproute2 ethtool)")
    try:
        import mininet.net  # noqa: F401
    except ImportError as error:
        raise MissingToolError(f"Mininet cannot be imported ({error}); Debian: apt-get install mininet") from error


SwitchFactory = Callable[[Any, Fabric, SwitchPlan], Any]
"""(Mininet object, plan of all, plan of this one) -> the switch node, added to the net but not started."""


RelayFactory = Callable[[Any, Fabric], Any]
"""(Mininet object, plan of all) -> the node in the middle of all limited links, added to the net but not started."""


# One end of a link: Mininet node, interface, port (None: the next free one).
_End = tuple[Any, str, int | None]


@dataclass(frozen=True)
class LimitedEnd:
    """One end of a link with a rate, at a Mininet node. `host`: the host of the link, or the server behind the switch;
    None between switches."""

    node: Any
    interface: str
    link: LinkOptions
    host: HostPlan | None


class MininetNetwork:
    """A network that exists for the time of the `with` block. Its switches run in the root namespace.

    `offloads`: whether its interfaces keep their segmentation and checksum offloads. `make_relay`: creates the process
    in the middle of all limited links; None for none.
    """

    def __init__(
        self,
        fabric: Fabric,
        ledger: Ledger,
        make_switch: SwitchFactory,
        *,
        offloads: bool,
        make_relay: RelayFactory | None = None,
    ) -> None:
        self.fabric = fabric
        self.offloads = offloads
        self._ledger = ledger
        self._make_switch = make_switch
        self._make_relay = make_relay
        self.relay: Any = None
        self._net: Any = None
        self._hosts: dict[str, Any] = {}
        self._ends: list[tuple[_End, _End]] = []
        self.switches: dict[str, Any] = {}

    def __enter__(self) -> MininetNetwork:
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def popen(
        self,
        host: HostPlan,
        command: Sequence[str],
        *,
        stdout: IO[bytes] | int,
        env: dict[str, str],
        pass_fds: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a program in a host's namespace. `stdout` gets both its output and its errors. `pass_fds`: descriptors
        that it inherits."""
        node = self._hosts[host.name]
        process: subprocess.Popen[bytes] = node.popen(
            list(command),
            mncmd=_enter(node),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            env=env,
            pass_fds=tuple(pass_fds),
            # So that Ctrl-C in the terminal reaches only the run, which then ends its processes.
            start_new_session=True,
        )
        self._ledger.add_process(process.pid)
        return process

    def run(self, host: HostPlan, command: Sequence[str]) -> str:
        """Run a command in a host's namespace. Raises LabError with its output if it fails."""
        return run_in(self._hosts[host.name], command)

    @property
    def mininet(self) -> Any:
        """Mininet's own object. Raises LabError while the network is not up."""
        if self._net is None:
            raise LabError("the network is not up")
        return self._net

    def pid(self, host: HostPlan) -> int:
        """Return the id of a process in a host's network namespace."""
        return int(self._hosts[host.name].pid)

    def close(self) -> None:
        """Take the network down; harmless when called again."""
        net, self._net = self._net, None
        if net is None:
            return
        try:
            net.stop()
        except AssertionError as error:
            # Mininet asserts that no node runs a command, which may not hold after an interrupt. The ledger removes
            # what is left.
            _LOG.warning("Mininet did not stop in order: %s", error, extra=ProgramEvent.OTHER())

    def queue_drops(self) -> int:
        """Return the packets dropped by full queues so far, at both ends of all limited links. Raises LabError."""
        return sum(self.end_drops().values())

    def end_drops(self) -> dict[str, int]:
        """Return the packets dropped by full queues so far, by the interface that sends. Raises LabError."""
        return {
            end.interface: counters.interface_drops(end.interface, partial(run_in, end.node))
            for end in self.limited_ends()
        }

    def priority_drops(self) -> dict[int, int]:
        """Return the packets dropped by full queues so far, by priority; empty without `LinkOptions.priorities`. Raises
        LabError."""
        drops: dict[int, int] = {}
        for end in self.limited_ends():
            told = run_in(end.node, ["tc", "-s", "-j", "qdisc", "show", "dev", end.interface])
            for priority, count in drops_by_priority(told).items():
                drops[priority] = drops.get(priority, 0) + count
        return dict(sorted(drops.items(), reverse=True))

    def limited_ends(self) -> Iterator[LimitedEnd]:
        """Yield both ends of every link that has a rate: hosts' links in the hosts' order, then those between
        switches."""
        hosts = self.fabric.limited_hosts
        for host, link in zip(hosts, self._host_links(hosts), strict=True):
            for node, interface, _ in link:
                yield LimitedEnd(node, interface, self.fabric.link_of(host), host)
        for trunk, link in zip(self.fabric.trunks, self._trunks(), strict=True):
            for node, interface, _ in link:
                yield LimitedEnd(node, interface, self.fabric.trunk_link(trunk), None)

    def _build(self) -> None:
        from mininet.log import setLogLevel
        from mininet.net import Mininet

        setLogLevel("error")

        class Net(Mininet):  # type: ignore[misc]
            """Mininet without its changes to limits of the whole machine (sysctl), which the lab does not need."""

            inited = True

        self._net = net = Net(controller=None, autoSetMacs=False, build=False)
        for host in self._all_hosts():
            node = net.addHost(host.name, ip=f"{host.ip}/{PREFIX_LEN}", mac=host.mac)
            self._hosts[host.name] = node
            self._ledger.add_process(node.pid)
        for switch in self.fabric.switches:
            self.switches[switch.name] = node = self._make_switch(net, self.fabric, switch)
            self._ledger.add_process(node.pid)
        ends = [*self._host_links(self._all_hosts()), *self._trunks()]
        if self._make_relay is not None:
            self.relay = self._make_relay(net, self.fabric)
            self._ledger.add_process(self.relay.pid)
            ends = [half for number, link in enumerate(ends) for half in self._halves(number, link)]
        for (node1, name1, port1), (node2, name2, port2) in ends:
            net.addLink(node1, node2, port1=port1, port2=port2, intfName1=name1, intfName2=name2)
        net.build()
        for link in ends:
            for node, interface, _ in link:
                self._run(node, [no_ipv6_command(interface), mtu_command(interface, self.fabric.link)])
        for host in self._all_hosts():
            self._run(self._hosts[host.name], [control_command(host, self.fabric.link.control)])
        self._ends = ends
        if not self.offloads:
            self.end_offloads()
        for end in self.limited_ends():
            self._run(end.node, shaping_commands(end.interface, end.link, trains=self.offloads))
        net.start()

    def end_offloads(self) -> None:
        """Turn off the offloads of all interfaces. Every frame on a link is then one packet, with its checksums."""
        for link in self._ends:
            for node, interface, _ in link:
                self._run(node, [off_command(interface)])
        self.offloads = False

    def _halves(self, number: int, link: tuple[_End, _End]) -> list[tuple[_End, _End]]:
        """A link with the relay in its middle; as it is, where the link has no limit."""
        limited = {end.interface for end in self.limited_ends()}
        one, other = link
        if one[1] not in limited:
            return [link]
        token = self.fabric.token
        return [(one, (self.relay, f"{token}-x{number}", None)), ((self.relay, f"{token}-y{number}", None), other)]

    def _servers(self) -> tuple[HostPlan, ...]:
        """Hosts besides the workers."""
        return () if self.fabric.server is None else (self.fabric.server,)

    def _all_hosts(self) -> tuple[HostPlan, ...]:
        return (*self.fabric.hosts, *self._servers())

    def _host_links(self, hosts: Iterable[HostPlan]) -> Iterator[tuple[_End, _End]]:
        for host in hosts:
            yield (
                (self._hosts[host.name], host.host_interface, None),
                (self.switches[host.switch], host.switch_interface, host.port),
            )

    def _trunks(self) -> Iterator[tuple[_End, _End]]:
        for trunk in self.fabric.trunks:
            yield (
                (self.switches[trunk.lower], trunk.lower_interface, trunk.lower_port),
                (self.switches[trunk.upper], trunk.upper_interface, trunk.upper_port),
            )

    def _run(self, node: Any, commands: Iterable[Sequence[str]]) -> None:
        for command in commands:
            run_in(node, command)


def _enter(node: Any) -> list[str]:
    """Command prefix that runs a program in a node's network namespace.

    Mininet's own `mnexec -a` also enters the node's mount namespace, and so would leave a chroot.
    """
    return ["nsenter", f"--net=/proc/{node.pid}/ns/net", "--"]


def run_in(node: Any, command: Sequence[str]) -> str:
    """Run a command in a Mininet node's namespace. Raises LabError with its output if it fails."""
    out, err, code = node.pexec(list(command), mncmd=_enter(node))
    if code != 0:
        raise LabError(f"{node.name}: {' '.join(command)} ended with {code}: {err.strip() or out.strip()}")
    return str(out)
