# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The kernel's counters: bytes of an interface, and packets lost in queues and sockets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from commonlib.logs import messages_in

from sumwire_lab.errors import LabError

_SNMP: Final = Path("/proc/self/net/snmp")
_SOFTNET: Final = Path("/proc/net/softnet_stat")
_SOFTNET_DROPPED: Final = 1
# A port's counters, in the log of a soft switch that has ended.
_PORT_LINE: Final = re.compile(r"port (\d+) on (\S+): ((?:\w+=\d+ ?)+)$", re.MULTILINE)
# Replies, in the log of a software aggregator that has ended.
_REPLIES: Final = re.compile(r"^replies: \d+ sent, (\d+) not", re.MULTILINE)
_SWITCH_LOST: Final = ("rx_dropped", "rx_cut", "tx_dropped", "tx_refused")


@dataclass(frozen=True)
class Losses:
    """Packets lost during one session, by place.

    `switch` is None for a switch that does not report its losses (bmv2). For a software aggregator it counts datagrams
    that did not fit its sockets and replies that it could not send.
    """

    link_queues: int
    backlog: int
    host_sockets: int
    switch: int | None

    def as_dict(self) -> dict[str, int | None]:
        """Return the contents as values that JSON can hold."""
        return asdict(self)


@dataclass(frozen=True)
class Counted:
    """Counters read before a network is taken down. `logs`: those of its switches, which report their counters when
    they end."""

    queues: int
    logs: Sequence[Path]
    server_sockets: int | None = None
    """Datagrams lost by the sockets of the software aggregator's host; None with a switch."""


def gather(counted: Counted, *, backlog_before: int, sockets: int) -> Losses:
    """Return the losses at all places, after a session has ended. `sockets`: as counted by its workers."""
    logs = [log.read_text() for log in counted.logs]
    told = [switch_lost(log) if counted.server_sockets is None else replies_lost(log) for log in logs]
    switch = None if not told or None in told else sum(lost for lost in told if lost is not None)
    if switch is not None and counted.server_sockets is not None:
        switch += counted.server_sockets
    return Losses(counted.queues, backlog() - backlog_before, sockets, switch)


def udp_lost(text: str) -> int:
    """Return the datagrams that did not fit a namespace's sockets, from /proc/net/snmp. Raises LabError without that
    count."""
    names, values = (line.split() for line in text.splitlines() if line.startswith("Udp:"))
    counts = dict(zip(names, values, strict=True))
    if "RcvbufErrors" not in counts:
        raise LabError(f"{_SNMP} does not count RcvbufErrors")
    return int(counts["RcvbufErrors"])


def host_sockets(pid: int | None = None) -> int:
    """Return the datagrams lost so far by sockets in the network namespace of a process, by default this process."""
    return udp_lost(_SNMP.read_text() if pid is None else Path(f"/proc/{pid}/net/snmp").read_text())


def backlog_lost(text: str) -> int:
    """Return the packets dropped by full backlogs of all processors, from the text of /proc/net/softnet_stat."""
    return sum(int(line.split()[_SOFTNET_DROPPED], 16) for line in text.splitlines())


def backlog() -> int:
    """Return the packets dropped by full backlogs so far, on the whole machine."""
    return backlog_lost(_SOFTNET.read_text())


def queue_drops(text: str) -> int:
    """Return an interface's drops, from the output of `tc -s -j qdisc show dev`. The root's count includes its
    classes."""
    return sum(int(entry["drops"]) for entry in json.loads(text) if entry.get("root"))


def interface_drops(interface: str, run: Callable[[list[str]], str]) -> int:
    """Return an interface's drops so far. `run` runs a command in the interface's namespace and returns its output."""
    return queue_drops(run(["tc", "-s", "-j", "qdisc", "show", "dev", interface]))


def ports(log: str) -> dict[int, dict[str, int]]:
    """Return the counters of each port, from the log of a soft switch; empty if it has not written them."""
    found = {}
    for number, _, counts in _PORT_LINE.findall(messages_in(log)):
        pairs = (pair.split("=") for pair in counts.split())
        found[int(number)] = {name: int(count) for name, count in pairs}
    return found


def switch_lost(log: str) -> int | None:
    """Return the frames lost by a soft switch's ports, from its log; None if it has not written them."""
    counts = ports(log)
    return sum(port[name] for port in counts.values() for name in _SWITCH_LOST if name in port) if counts else None


def replies_lost(log: str) -> int | None:
    """Return the replies that a software aggregator could not send, from its log; None if it has not written them."""
    told = _REPLIES.search(messages_in(log))
    return None if told is None else int(told[1])


# Counters of this network namespace. /sys may show those of another one.
_COUNTERS: Final = Path("/proc/self/net/dev")
_RX_BYTES, _RX_PACKETS, _TX_BYTES, _TX_PACKETS = 0, 1, 8, 9


@dataclass(frozen=True)
class LinkBytes:
    """Traffic of an interface: bytes, Ethernet headers included, and packets."""

    rx: int
    tx: int
    rx_packets: int = 0
    tx_packets: int = 0

    def __sub__(self, other: LinkBytes) -> LinkBytes:
        return LinkBytes(
            self.rx - other.rx,
            self.tx - other.tx,
            self.rx_packets - other.rx_packets,
            self.tx_packets - other.tx_packets,
        )


def parse_counters(text: str, interface: str) -> LinkBytes:
    """Return the counters of one interface, from the text of /proc/net/dev. Raises ValueError if it is not listed."""
    for line in text.splitlines():
        name, colon, values = line.partition(":")
        if colon and name.strip() == interface:
            columns = [int(value) for value in values.split()]
            return LinkBytes(columns[_RX_BYTES], columns[_TX_BYTES], columns[_RX_PACKETS], columns[_TX_PACKETS])
    raise ValueError(f"interface {interface} is not in {_COUNTERS}")


def link_bytes(interface: str) -> LinkBytes:
    """Return the traffic so far of an interface in this namespace."""
    return parse_counters(_COUNTERS.read_text(), interface)


def counters_of(interfaces: Iterable[str]) -> dict[str, LinkBytes]:
    """Return the traffic so far of interfaces in this namespace, all read at once."""
    text = _COUNTERS.read_text()
    return {name: parse_counters(text, name) for name in interfaces}
