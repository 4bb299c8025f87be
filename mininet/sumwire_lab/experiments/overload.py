# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures which packets the switch drops when two hosts send more to a third one than its link can carry.

All links have one rate. The switch's virtual queue drains slightly slower than the link, so that the link's real queue,
which ignores classes, stays empty. Senders and receiver are ordinary UDP programs whose datagrams the switch forwards,
so that all losses are in the queue under test.
"""

from __future__ import annotations

import random
import select
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sumwire.dlcp.tags import Tag

from sumwire_lab.bench.benchmark import network_experiment, write_record
from sumwire_lab.errors import LabError
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.fabric import Fabric
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import Session, open_session
from sumwire_lab.study.experiment import Say
from sumwire_lab.study.workers import Rank, WorkerCall, answer_in, command_of, name_of
from sumwire_lab.system.processes import killed_after, wait_all, wait_said

PAYLOAD_BYTES: Final = 1000
FRAME_BYTES: Final = PAYLOAD_BYTES + 42
DROP_CLASSES: Final = 4


def sender_sockets(spec: Mapping[str, Any]) -> list[socket.socket]:
    """Return one socket for each drop class, because a socket has one tag."""
    sockets = []
    for drop_class in range(DROP_CLASSES):
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, Tag(0, drop_class).tos)
        udp.connect((spec["receiver"], spec["port"]))
        sockets.append(udp)
    return sockets


def send(spec: Mapping[str, Any], seed: int) -> list[int]:
    """Send, and return the datagrams sent, by drop class. ``spec``: seconds, mbit, shares by class, receiver, port."""
    draw = random.Random(seed)
    sockets = sender_sockets(spec)
    sent = [0] * DROP_CLASSES
    gap_s = FRAME_BYTES * 8 / (spec["mbit"] * 1e6)
    began = now = time.monotonic()
    nothing = select.poll()
    count = 0
    while now - began < spec["seconds"]:
        wait_s = began + count * gap_s - now
        if wait_s > 0:
            nothing.poll(max(1, int(wait_s * 1000)))
        else:
            drop_class = draw.choices(range(DROP_CLASSES), spec["shares"])[0]
            # The payload repeats the class, by which the receiver counts.
            sockets[drop_class].send(bytes([drop_class]) * PAYLOAD_BYTES)
            sent[drop_class] += 1
            count += 1
        now = time.monotonic()
    return sent


READY: Final = "ready"
_FIRST_MS: Final = 60_000
_SILENCE_MS: Final = 1_500
_BUFFER_BYTES: Final = 4 << 20


def receive(spec: Mapping[str, Any], rank: Rank) -> list[int]:
    """Return the datagrams received until no more arrive, by drop class."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    udp.bind((spec["receiver"], spec["port"]))
    rank.say(READY)
    received = [0] * DROP_CLASSES
    poll = select.poll()
    poll.register(udp, select.POLLIN)
    while poll.poll(_SILENCE_MS if any(received) else _FIRST_MS):
        received[udp.recv(2048)[0]] += 1
    return received


def end(spec: Mapping[str, Any], rank: Rank) -> list[int]:
    """Run the receiver (rank 0) or a sender, and return its datagrams by drop class."""
    return send(spec, rank.number) if rank.number else receive(spec, rank)


MBIT: Final = 20.0
LOAD: Final = 1.3
SECONDS: Final = 6.0
# Shares of the packets by drop class. The class that is dropped first must hold all that has to go: 1 - 1 / LOAD.
SHARES: Final = (0.25, 0.2, 0.2, 0.35)
# Drain rate of the virtual queue over the link's rate. Below 1, so that it fills before the real queue.
DRAIN: Final = 0.97
_SENDERS: Final = 2
_PORT: Final = 20_000
_DEADLINE_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Overload:
    """Packets by drop class: sent, dropped and marked (counted by the switch), and received. Also the packets lost in
    real queues, which are not counted by class."""

    sent: list[int]
    dropped: list[int]
    marked: list[int]
    received: list[int]
    queue_drops: int

    @property
    def share_of_first(self) -> float:
        """Share of all drops that was in the class to drop first."""
        return self.dropped[-1] / max(1, sum(self.dropped))


def queues(fabric: Fabric) -> list[dict[str, Any]]:
    """Return the virtual queue of the receiver's link."""
    return [
        {
            "port": fabric.hosts[0].port,
            "rate_mbit": MBIT * DRAIN,
            "mark_bytes": 20_000,
            "drop_bytes": [10_000, 60_000, 80_000, 100_000],
            "drop_all_bytes": 120_000,
            "trim": False,
        }
    ]


def run_overload(switch: str, results: Path, say: Say) -> Overload:
    """Run the experiment with the switch `soft` or `bmv2`. Raises LabError."""
    options = RunOptions(workers=1 + _SENDERS, switch=switch, link=LinkOptions(MBIT))
    kind = switches.choose(switch)
    with (
        network_experiment(results) as folder,
        open_session(options, kind, folder, control_plane.training_job, queues) as session,
    ):
        sent, received = _offer(session)
        decisions = control_plane.queue_decisions(folder)
        drops = session.network.queue_drops()
    outcome = Overload(sent, _by_class(decisions, "drop"), _by_class(decisions, "mark"), received, drops)
    write_record(outcome, folder, "overload")
    say(f"sent {sent}, dropped {outcome.dropped}, received {received} (classes 0 to 3)")
    return outcome


def _by_class(decisions: dict[tuple[int, int, str], int], decision: str) -> list[int]:
    return [
        sum(n for (_, drop_class, made), n in decisions.items() if (drop_class, made) == (one, decision))
        for one in range(len(SHARES))
    ]


def _offer(session: Session) -> tuple[list[int], list[int]]:
    hosts = session.fabric.hosts
    spec = {
        "receiver": hosts[0].ip,
        "port": _PORT,
        "seconds": SECONDS,
        "mbit": MBIT * LOAD / _SENDERS,
        "shares": SHARES,
    }
    call = WorkerCall(name_of(end), spec, str(session.folder), tuple(host.host_interface for host in hosts))
    with killed_after() as working:
        for number, host in enumerate(hosts):
            name = f"sender{number}" if number else "receiver"
            working[name] = session.start(name, host, command_of(call, number))
            if not number:
                wait_said(working[name], READY, session.log(name))
        wait_all(working, session.serving(), session.logs(working), _DEADLINE_SECONDS, lambda: None)
    received, *sent = [answer_in(session.folder, number) for number in range(len(hosts))]
    if sum(received) == 0:
        raise LabError("no datagram reached the receiver")
    return [sum(counts) for counts in zip(*sent, strict=True)], received
