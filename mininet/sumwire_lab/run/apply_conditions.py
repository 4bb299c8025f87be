# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Lays a run's conditions on a session: losses at the links' ends, traffic from the hosts. Takes them away again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sumwire_lab.load import traffic
from sumwire_lab.load.traffic import TrafficSpec
from sumwire_lab.network import switches
from sumwire_lab.network.fabric import Fabric
from sumwire_lab.network.random_loss import RandomLoss
from sumwire_lab.network.topology import Network
from sumwire_lab.options.conditions import Conditions
from sumwire_lab.system.barrier import Meeting

if TYPE_CHECKING:
    from sumwire_lab.run.session import Session

_MEETING: Final = "traffic"


class Burden:
    """What is on a session now."""

    def __init__(self) -> None:
        self.losses: list[RandomLoss] = []
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.results: list[Path] = []

    def lost(self) -> int:
        """Packets that the links have lost at random."""
        return sum(one.lost for one in self.losses)

    def stop_traffic(self) -> None:
        """End the senders, which then write what they have received."""
        for process in self.processes.values():
            switches.stop_process(process)
        self.processes.clear()

    def received_mbit(self) -> list[float]:
        """Mbit/s of other traffic that reached each host, TCP's payload; after `stop_traffic`."""
        records = [json.loads(path.read_text()) for path in self.results if path.exists()]
        return [8e-6 * one["received_bytes"] / one["seconds"] for one in records if one["seconds"] > 0]

    def as_dict(self) -> dict[str, Any]:
        """For summary.json: only what there was."""
        told: dict[str, Any] = {}
        if self.losses:
            told["lost_at_random"] = self.lost()
        self.stop_traffic()
        if self.results:
            told["traffic_received_mbit"] = self.received_mbit()
        return told


@contextmanager
def lay(session: Session, conditions: Conditions) -> Iterator[Burden]:
    """The conditions hold for the time of the block. Raises LabError where the kernel cannot."""
    burden = Burden()
    with ExitStack() as stack:
        for loss in random_losses(session.network, conditions):
            stack.callback(loss.close)
            burden.losses.append(loss)
        stack.callback(burden.stop_traffic)
        if conditions.traffic:
            meeting = Meeting(session.ledger.socket(_MEETING), len(session.fabric.hosts))
            stack.enter_context(meeting)
            _start(session, conditions, meeting.path, burden)
        yield burden


def random_losses(network: Network, conditions: Conditions) -> Iterator[RandomLoss]:
    """One for each end of a limited link that loses anything: what comes in there, so each direction once."""
    numbers = {host.name: number for number, host in enumerate(network.fabric.hosts, start=1)}
    for end in network.limited_ends():
        share = conditions.share_lost(None if end.host is None else numbers[end.host.name])
        if share:
            yield RandomLoss(end.interface, share, end.node.pid)


def _start(session: Session, conditions: Conditions, meeting: Path, burden: Burden) -> None:
    for number, spec in enumerate(traffic_specs(session.fabric, conditions, meeting, session.folder), start=1):
        name = f"{_MEETING}{number}"
        path = session.folder / f"{name}.spec.json"
        spec.save(path)
        burden.results.append(Path(spec.result))
        command = [sys.executable, "-m", "sumwire_lab.load.traffic", str(path)]
        burden.processes[name] = session.start(name, session.fabric.hosts[number - 1], command)
    for name, process in burden.processes.items():
        switches.wait_said(process, traffic.READY, session.log(name))


def traffic_specs(fabric: Fabric, conditions: Conditions, meeting: Path, folder: Path) -> list[TrafficSpec]:
    """Every host's part, in their order: flows in a ring over all hosts, so that every link is filled both ways."""
    hosts = fabric.hosts
    flow = int(conditions.background * fabric.link.mbit * 1e6 / 8 / traffic.FLOWS)
    return [
        TrafficSpec(
            address=host.ip,
            meeting=str(meeting),
            result=str(folder / f"{_MEETING}{k + 1}.json"),
            peer=hosts[(k + 1) % len(hosts)].ip if flow else None,
            flow_bytes_per_s=flow,
            victim=hosts[0].ip if conditions.incast_kb and k else None,
            burst_bytes=1000 * conditions.incast_kb,
        )
        for k, host in enumerate(hosts)
    ]
