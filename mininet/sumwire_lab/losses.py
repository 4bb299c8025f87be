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
_SWITCH_LOST: Final = ("rx_dropped", "rx_cut", "tx_dropped", "tx_refused")


@dataclass(frozen=True)
class Losses:
    """Packets lost by place, during one session. `switch` is None where the switch does not tell (bmv2)."""

    link_queues: int
    backlog: int
    host_sockets: int
    switch: int | None

    def as_dict(self) -> dict[str, int | None]:
        """For JSON."""
        return asdict(self)


def gather(logs: Sequence[Path], *, queues: int, backlog_before: int, sockets: int) -> Losses:
    """All places together, after a session has ended: its switches have then written into their logs what they lost.

    `queues` were counted at the session's end, `sockets` by its workers. Without a switch's log nobody tells.
    """
    told = [switch_lost(log.read_text()) for log in logs]
    switch = None if not told or None in told else sum(lost for lost in told if lost is not None)
    return Losses(link_queues=queues, backlog=backlog() - backlog_before, host_sockets=sockets, switch=switch)


def udp_lost(text: str) -> int:
    """Datagrams that a namespace's sockets had no room for, out of /proc/net/snmp. Raises LabError without it."""
    names, values = (line.split() for line in text.splitlines() if line.startswith("Udp:"))
    counts = dict(zip(names, values, strict=True))
    if "RcvbufErrors" not in counts:
        raise LabError(f"{_SNMP} does not count RcvbufErrors")
    return int(counts["RcvbufErrors"])


def host_sockets() -> int:
    """Now, in this process's network namespace."""
    return udp_lost(_SNMP.read_text())


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
