# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where a packet can be lost without anybody impairing a link, and how many were: each place's own counter.

A link's queue (tc), the kernel's backlog between the two ends of a veth pair, a host's socket buffer, the switch's
packet sockets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from sumwire_lab.errors import LabError

_SNMP: Final = Path("/proc/self/net/snmp")
_SOFTNET: Final = Path("/proc/net/softnet_stat")
_SOFTNET_DROPPED: Final = 1
# How the soft switch reports a port when it ends.
_PORT_LINE: Final = re.compile(r"port (\d+) on (\S+): ((?:\w+=\d+ ?)+)$", re.MULTILINE)
# And how the software aggregator does.
_REPLIES: Final = re.compile(r"^replies: \d+ sent, (\d+) not", re.MULTILINE)
_SWITCH_LOST: Final = ("rx_dropped", "rx_cut", "tx_dropped", "tx_refused")


@dataclass(frozen=True)
class Losses:
    """Packets lost by place, during one session. `switch` is None where the switch does not tell (bmv2).

    Of a software aggregator it is what its host's sockets had no room for, and what it could not send.
    """

    link_queues: int
    backlog: int
    host_sockets: int
    switch: int | None

    def as_dict(self) -> dict[str, int | None]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Counted:
    """What a network told before it was taken down. `logs` are its switches', who tell when they end."""

    queues: int
    logs: Sequence[Path]
    server_sockets: int | None = None
    """Of the software aggregator's host, where it takes the switch's place."""


def gather(counted: Counted, *, backlog_before: int, sockets: int) -> Losses:
    """All places together, after a session has ended. `sockets` were counted by its workers. Without a switch's log
    nobody tells."""
    logs = [log.read_text() for log in counted.logs]
    told = [switch_lost(log) if counted.server_sockets is None else replies_lost(log) for log in logs]
    switch = None if not told or None in told else sum(lost for lost in told if lost is not None)
    if switch is not None and counted.server_sockets is not None:
        switch += counted.server_sockets
    return Losses(counted.queues, backlog() - backlog_before, sockets, switch)


def udp_lost(text: str) -> int:
    """Datagrams that a namespace's sockets had no room for, out of /proc/net/snmp. Raises LabError without it."""
    names, values = (line.split() for line in text.splitlines() if line.startswith("Udp:"))
    counts = dict(zip(names, values, strict=True))
    if "RcvbufErrors" not in counts:
        raise LabError(f"{_SNMP} does not count RcvbufErrors")
    return int(counts["RcvbufErrors"])


def host_sockets(pid: int | None = None) -> int:
    """Now, in a process's network namespace; without one, in this process's."""
    return udp_lost(_SNMP.read_text() if pid is None else Path(f"/proc/{pid}/net/snmp").read_text())


def backlog_lost(text: str) -> int:
    """Packets that found a processor's backlog full, out of /proc/net/softnet_stat; of the whole machine."""
    return sum(int(line.split()[_SOFTNET_DROPPED], 16) for line in text.splitlines())


def backlog() -> int:
    """Now."""
    return backlog_lost(_SOFTNET.read_text())


def queue_drops(text: str) -> int:
    """Drops of an interface, out of `tc -s -j qdisc show dev`. The root's count has those of its classes in it."""
    return sum(int(entry["drops"]) for entry in json.loads(text) if entry.get("root"))


def interface_drops(interface: str, run: Callable[[list[str]], str]) -> int:
    """The same, asked of the kernel by `run`, which runs a command where the interface is."""
    return queue_drops(run(["tc", "-s", "-j", "qdisc", "show", "dev", interface]))


def ports(log: str) -> dict[int, dict[str, int]]:
    """The counters of each port that a soft switch wrote into its log when it ended; empty where it did not."""
    found = {}
    for number, _, counts in _PORT_LINE.findall(log):
        pairs = (pair.split("=") for pair in counts.split())
        found[int(number)] = {name: int(count) for name, count in pairs}
    return found


def switch_lost(log: str) -> int | None:
    """Frames that a soft switch's ports lost, out of its log; None where it does not tell."""
    counts = ports(log)
    return sum(port[name] for port in counts.values() for name in _SWITCH_LOST if name in port) if counts else None


def replies_lost(log: str) -> int | None:
    """Replies that a software aggregator could not send, out of its log; None where it does not tell."""
    told = _REPLIES.search(log)
    return None if told is None else int(told[1])
