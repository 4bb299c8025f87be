# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Applies a run's conditions to a session: random loss at the ends of links, other traffic between hosts."""

from __future__ import annotations

import json
import logging
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nativelib import programs
from sumwire_protocol.logs.events import Event

from sumwire_lab.load import traffic
from sumwire_lab.load.traffic import TrafficSpec
from sumwire_lab.network.fabric import Fabric, HostPlan
from sumwire_lab.network.random_loss import RandomLoss
from sumwire_lab.network.topology import Network
from sumwire_lab.options.conditions import Conditions
from sumwire_lab.system.barrier import Barrier
from sumwire_lab.system.processes import stop_process
from sumwire_lab.system.readiness import wait_said

if TYPE_CHECKING:
    from sumwire_lab.run.session import Session

_LOG: Final = logging.getLogger("sumwire_lab")
_TRAFFIC: Final = "traffic"


class Applied:
    """The conditions that are in force on a session."""

    def __init__(self) -> None:
        self.losses: list[RandomLoss] = []
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.results: list[Path] = []

    def lost(self) -> int:
        """Packets dropped by random loss so far, on all links."""
        return sum(one.lost for one in self.losses)

    def stop_traffic(self) -> None:
        """End the traffic processes; each then writes how much it has received."""
        for process in self.processes.values():
            stop_process(process)
        self.processes.clear()

    def received_mbit(self) -> list[float]:
        """Mbit/s of other traffic (TCP payload) that reached each host. Call it after `stop_traffic`."""
        records = [json.loads(path.read_text()) for path in self.results if path.exists()]
        return [8e-6 * one["received_bytes"] / one["seconds"] for one in records if one["seconds"] > 0]

    def as_dict(self) -> dict[str, Any]:
        """For summary.json; conditions that the run does not have are left out."""
        told: dict[str, Any] = {}
        if self.losses:
            told["lost_at_random"] = self.lost()
        self.stop_traffic()
        if self.results:
            told["traffic_received_mbit"] = self.received_mbit()
        return told


@contextmanager
def apply_conditions(session: Session, conditions: Conditions) -> Iterator[Applied]:
    """Keep the conditions in force for the time of the block. Raises LabError if the kernel refuses one."""
    applied = Applied()
    with ExitStack() as stack:
        for loss in random_losses(session.network, conditions):
            stack.callback(loss.close)
            applied.losses.append(loss)
        stack.callback(applied.stop_traffic)
        if conditions.traffic:
            barrier = Barrier(session.ledger.socket(_TRAFFIC), len(session.fabric.limited_hosts))
            stack.enter_context(barrier)
            _start_traffic(session, conditions, barrier.path, applied)
        if conditions.any:
            _LOG.info("%s", conditions.words(), extra=Event.IMPAIRED(conditions=conditions.as_dict()))
        yield applied


def random_losses(network: Network, conditions: Conditions) -> Iterator[RandomLoss]:
    """A RandomLoss for each end of each limited link that has loss. Each acts on packets coming in, so that every
    direction of a link loses packets once."""
    numbers = {host.name: number for number, host in enumerate(network.fabric.hosts, start=1)}
    for end in network.limited_ends():
        share = conditions.share_lost(None if end.host is None else numbers.get(end.host.name))
        if share:
            yield RandomLoss(end.interface, share, end.node.pid)


def _start_traffic(session: Session, conditions: Conditions, barrier: Path, applied: Applied) -> None:
    for number, spec in enumerate(traffic_specs(session.fabric, conditions, barrier, session.folder), start=1):
        name = f"{_TRAFFIC}{number}"
        path = session.folder / f"{name}.spec.json"
        spec.save(path)
        applied.results.append(Path(spec.result))
        command = programs.module("sumwire_lab.load.traffic", str(path))
        applied.processes[name] = session.start(name, session.fabric.limited_hosts[number - 1], command)
    for name, process in applied.processes.items():
        wait_said(process, traffic.READY, session.log(name))


def _flow(fabric: Fabric, conditions: Conditions, host: HostPlan) -> int:
    """Bytes per second of one of a host's flows."""
    rate = (fabric.link if fabric.server_behind else fabric.link_of(host)).mbit * 1e6 / 8
    everybody = conditions.background * rate / traffic.FLOWS
    return int(everybody / len(fabric.hosts) if fabric.server_behind else everybody)


def traffic_specs(fabric: Fabric, conditions: Conditions, barrier: Path, folder: Path) -> list[TrafficSpec]:
    """One spec per host, in the hosts' order. Flows form a ring over all hosts, so that they load every link in both
    directions. With a server behind the switch they all go to it, and load its link alone."""
    hosts = fabric.hosts
    victim = fabric.server.ip if fabric.server is not None and fabric.server_behind else None

    def spec(k: int, host: HostPlan) -> TrafficSpec:
        flow = _flow(fabric, conditions, host)
        sends = flow > 0 and host.ip != victim
        return TrafficSpec(
            address=host.ip,
            barrier=str(barrier),
            result=str(folder / f"{_TRAFFIC}{k + 1}.json"),
            peer=(victim or hosts[(k + 1) % len(hosts)].ip) if sends else None,
            flow_bytes_per_s=flow,
            victim=hosts[0].ip if conditions.incast_kb and k else None,
            burst_bytes=1000 * conditions.incast_kb,
        )

    return [spec(k, host) for k, host in enumerate(fabric.limited_hosts)]
