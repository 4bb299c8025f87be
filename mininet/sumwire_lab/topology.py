# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A star: N hosts, one switch, equal links. The plan is plain data; `Network` makes it real with Mininet."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Final

from sumwire_lab.errors import LabError, MissingToolError, OptionError
from sumwire_lab.leftovers import Ledger
from sumwire_lab.options import WORKERS_MAX, LinkOptions

_LOG: Final = logging.getLogger("sumwire_lab")
AGGREGATOR_IP: Final = "10.0.0.100"
AGGREGATOR_MAC: Final = "02:53:57:00:00:64"
PREFIX_LEN: Final = 24
# Frames leave as they are on a wire: no segments joined or split by the card, no checksum left for it to fill in.
OFFLOADS: Final = ("tx", "rx", "sg", "tso", "gso", "gro")
# A token bucket needs room for two full frames; at high rates a millisecond's worth keeps the timer from being
# the limit.
_BURST_MIN_BYTES: Final = 2 * 1514
_BURST_SECONDS: Final = 0.001
_TOOLS: Final = ("ip", "tc", "ethtool", "mnexec", "nsenter")


@dataclass(frozen=True)
class HostPlan:
    """One host, its addresses and the two ends of its link."""

    name: str
    ip: str
    mac: str
    port: int
    host_interface: str
    switch_interface: str


@dataclass(frozen=True)
class Star:
    """All that a run makes in the network; every interface name begins with the run's token."""

    token: str
    link: LinkOptions
    hosts: tuple[HostPlan, ...]


def plan(workers: int, link: LinkOptions, token: str) -> Star:
    """Hosts h1..hN with 10.0.0.k and 00:00:00:00:00:k on ports 1..N. Raises OptionError above 32 hosts."""
    if not 1 <= workers <= WORKERS_MAX:
        raise OptionError(f"workers={workers}: one switch serves 1 to {WORKERS_MAX} workers")
    hosts = tuple(
        HostPlan(
            name=f"h{k}",
            ip=f"10.0.0.{k}",
            mac=f"00:00:00:00:00:{k:02x}",
            port=k,
            host_interface=f"{token}-h{k}",
            switch_interface=f"{token}-p{k}",
        )
        for k in range(1, workers + 1)
    )
    return Star(token, link, hosts)


def shaping_commands(interface: str, link: LinkOptions) -> list[list[str]]:
    """What limits one direction of a link: HTB at the rate, before it a first-in-first-out queue."""
    burst = str(max(_BURST_MIN_BYTES, int(link.mbit * 1e6 / 8 * _BURST_SECONDS)))
    rate = f"{round(link.mbit * 1e6)}bit"
    commands = (
        f"tc qdisc replace dev {interface} root handle 1: htb default 1",
        f"tc class add dev {interface} parent 1: classid 1:1 htb rate {rate} burst {burst} cburst {burst}",
        f"tc qdisc add dev {interface} parent 1:1 handle 10: pfifo limit {link.queue_packets}",
    )
    return [command.split() for command in commands]


def quiet_commands(interface: str) -> list[list[str]]:
    """No offloads, and no IPv6 talk of the kernel's own on the link."""
    return [
        ["ethtool", "-K", interface, *(word for name in OFFLOADS for word in (name, "off"))],
        no_ipv6_command(interface),
    ]


def no_ipv6_command(interface: str) -> list[str]:
    """IPv6 off on one interface, where the kernel has IPv6 at all."""
    switch = f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"
    return ["sh", "-c", f"test ! -e {switch} || echo 1 > {switch}"]


def require_tools() -> None:
    """Raises MissingToolError where this machine cannot run Mininet."""
    if os.geteuid() != 0:
        raise MissingToolError("network namespaces need root: run this as root")
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        raise MissingToolError(f"not on PATH: {', '.join(missing)} (Debian: apt-get install mininet iproute2 ethtool)")
    try:
        import mininet.net  # noqa: F401
    except ImportError as error:
        raise MissingToolError(f"Mininet cannot be imported ({error}); Debian: apt-get install mininet") from error


SwitchFactory = Callable[[Any, Star], Any]
"""(Mininet object, plan) -> the switch node, added to the net but not started."""


class Network:
    """A star that exists as long as the `with` block. The switch runs in the root namespace."""

    def __init__(self, star: Star, ledger: Ledger, make_switch: SwitchFactory) -> None:
        self.star = star
        self._ledger = ledger
        self._make_switch = make_switch
        self._net: Any = None
        self._hosts: dict[str, Any] = {}
        self.switch: Any = None

    def __enter__(self) -> Network:
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
        self, host: HostPlan, command: Sequence[str], *, stdout: IO[bytes] | int, env: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start a program in a host's namespace; its errors go where its output goes."""
        node = self._hosts[host.name]
        process: subprocess.Popen[bytes] = node.popen(
            list(command),
            mncmd=_enter(node),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.STDOUT,
            env=env,
            # Ctrl-C in the terminal is for the run, which then ends its processes in its turn.
            start_new_session=True,
        )
        self._ledger.add_process(process.pid)
        return process

    def close(self) -> None:
        """Take the network down; harmless when called again."""
        net, self._net = self._net, None
        if net is None:
            return
        try:
            net.stop()
        except AssertionError as error:
            # Mininet asserts that no command of a node is under way, and an interrupt may have left one. What is
            # not taken down now is in the ledger, which comes next.
            _LOG.warning("Mininet did not stop in order: %s", error)

    def _build(self) -> None:
        from mininet.log import setLogLevel
        from mininet.net import Mininet

        setLogLevel("error")

        class Net(Mininet):  # type: ignore[misc]
            """Mininet without its change of the whole machine's limits (sysctl), which we do not need."""

            inited = True

        self._net = net = Net(controller=None, autoSetMacs=False, build=False)
        for host in self.star.hosts:
            node = net.addHost(host.name, ip=f"{host.ip}/{PREFIX_LEN}", mac=host.mac)
            self._hosts[host.name] = node
            self._ledger.add_process(node.pid)
        self.switch = switch = self._make_switch(net, self.star)
        self._ledger.add_process(switch.pid)
        for host in self.star.hosts:
            net.addLink(
                self._hosts[host.name],
                switch,
                port2=host.port,
                intfName1=host.host_interface,
                intfName2=host.switch_interface,
            )
        net.build()
        for host in self.star.hosts:
            self._shape(host)
        net.start()

    def _shape(self, host: HostPlan) -> None:
        for node, interface in (
            (self._hosts[host.name], host.host_interface),
            (self.switch, host.switch_interface),
        ):
            for command in quiet_commands(interface) + shaping_commands(interface, self.star.link):
                run_in(node, command)


def _enter(node: Any) -> list[str]:
    """What runs a program in a node's network namespace.

    Not Mininet's own `mnexec -a`: that enters the node's mount namespace as well, and so leaves a chroot.
    """
    return ["nsenter", f"--net=/proc/{node.pid}/ns/net", "--"]


def run_in(node: Any, command: Sequence[str]) -> str:
    """Run a command in a Mininet node's namespace. Raises LabError with its output where it fails."""
    out, err, code = node.pexec(list(command), mncmd=_enter(node))
    if code != 0:
        raise LabError(f"{node.name}: {' '.join(command)} ended with {code}: {err.strip() or out.strip()}")
    return str(out)
