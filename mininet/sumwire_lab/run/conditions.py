# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The conditions on the links of a session: random loss, other traffic, malformed packets; and the links' use."""

from __future__ import annotations

import json
import logging
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from commonlib.events import ProgramEvent
from sumwire_protocol.metrics import REJECT_NAMES

from sumwire_lab.load import malformed, traffic
from sumwire_lab.load.malformed import Endpoints, ForgedSender, MalformedSpec
from sumwire_lab.load.traffic import TrafficSpec
from sumwire_lab.network import control_plane
from sumwire_lab.network.fabric import Fabric, HostPlan
from sumwire_lab.network.shaping import RandomLoss
from sumwire_lab.network.topology import MininetNetwork
from sumwire_lab.options.conditions import BACKGROUND_FLOWS, Conditions
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.run.results import StepRecord
from sumwire_lab.run.session import Session
from sumwire_lab.system.barrier import Barrier
from sumwire_lab.system.counters import LinkBytes, counters_of
from sumwire_lab.system.processes import stop_process, wait_all, wait_said

_LOG: Final = logging.getLogger("sumwire_lab")
_TRAFFIC: Final = "traffic"


class Applied:
    """The conditions that are in force on a session."""

    def __init__(self) -> None:
        self.losses: list[RandomLoss] = []
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.traffic: list[Path] = []
        """Answers of the traffic processes that have ended."""

    def lost(self) -> int:
        """Return the packets dropped by random loss so far, on all links."""
        return sum(one.lost for one in self.losses)

    def stop_traffic(self) -> None:
        """End the traffic processes. Each then writes how much it has received."""
        for process in self.processes.values():
            stop_process(process)
        self.processes.clear()

    def received_mbit(self) -> list[float]:
        """Return the Mbit/s of other traffic (TCP payload) that reached each host. Call it after `stop_traffic`."""
        records = [json.loads(path.read_text()) for path in self.traffic if path.exists()]
        return [8e-6 * one["received_bytes"] / one["seconds"] for one in records if one["seconds"] > 0]

    def as_dict(self) -> dict[str, Any]:
        """Return the conditions for summary.json, without those that the run does not have."""
        told: dict[str, Any] = {}
        if self.losses:
            told["lost_at_random"] = self.lost()
        self.stop_traffic()
        if self.traffic:
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
            _LOG.info("%s", conditions.words(), extra=ProgramEvent.IMPAIRED(conditions=conditions.as_dict()))
        yield applied


def random_losses(network: MininetNetwork, conditions: Conditions) -> Iterator[RandomLoss]:
    """Yield a RandomLoss for each end of each limited link that has loss. Each acts on incoming packets, so that every
    direction of a link loses packets once."""
    numbers = {host.name: number for number, host in enumerate(network.fabric.hosts, start=1)}
    for end in network.limited_ends():
        share = conditions.share_lost(None if end.host is None else numbers.get(end.host.name))
        if share:
            yield RandomLoss(end.interface, share, end.node.pid)


def _start_traffic(session: Session, conditions: Conditions, barrier: Path, applied: Applied) -> None:
    for number, spec in enumerate(traffic_specs(session.fabric, conditions, barrier), start=1):
        name = f"{_TRAFFIC}{number}"
        host = session.fabric.limited_hosts[number - 1]
        applied.processes[name] = session.work(name, host, traffic.work, spec)
        applied.traffic.append(session.folder / name / "answer0.json")
    for name, process in applied.processes.items():
        wait_said(process, traffic.READY, session.log(name))


def _flow(fabric: Fabric, conditions: Conditions, host: HostPlan) -> int:
    """Bytes per second of one of a host's flows."""
    rate = (fabric.link if fabric.server_behind else fabric.link_of(host)).mbit * 1e6 / 8
    everybody = conditions.background * rate / BACKGROUND_FLOWS
    return int(everybody / len(fabric.hosts) if fabric.server_behind else everybody)


def traffic_specs(fabric: Fabric, conditions: Conditions, barrier: Path) -> list[TrafficSpec]:
    """Return one spec per host, in the hosts' order. Flows form a ring over all hosts, so that they load every link in
    both directions. With a server behind the switch all flows go to it, and load only its link."""
    hosts = fabric.hosts
    victim = fabric.server.ip if fabric.server is not None and fabric.server_behind else None

    def spec(k: int, host: HostPlan) -> TrafficSpec:
        flow = _flow(fabric, conditions, host)
        sends = flow > 0 and host.ip != victim
        return TrafficSpec(
            address=host.ip,
            barrier=str(barrier),
            peer=(victim or hosts[(k + 1) % len(hosts)].ip) if sends else None,
            flow_bytes_per_s=flow,
            victim=hosts[0].ip if conditions.incast_kb and k else None,
            burst_bytes=1000 * conditions.incast_kb,
        )

    return [spec(k, host) for k, host in enumerate(fabric.limited_hosts)]


# All hosts together: slow enough to leave the links to the training, fast enough to end before it does.
PACKETS_PER_SECOND: Final = 4000.0


class MalformedSenders:
    """One sending process per host. Does nothing for a run without malformed packets or without a P4 switch."""

    def __init__(self, session: Session, options: RunOptions) -> None:
        self._session = session
        self._count = 0 if session.job_file is None else options.malformed
        self._seed = options.train.seed
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start the senders. Call `start` when the training is under way."""
        if self._count == 0:
            return
        hosts = self._session.fabric.hosts
        for rank, host in enumerate(hosts):
            name, spec = f"malformed{rank}", self._spec(host, rank, len(hosts))
            self._processes[name] = self._session.work(name, host, malformed.send_all, spec)

    def finish(self, deadline_s: float) -> dict[str, Any]:
        """Wait for the senders. Returns the entries for the system's summary: packets sent and counted, by reject
        reason."""
        if not self._processes:
            return {}
        ended = all(process.poll() is not None for process in self._processes.values())
        session = self._session
        wait_all(self._processes, session.serving(), session.logs(self._processes), deadline_s, lambda: None)
        sent: dict[str, int] = {}
        for process in self._processes:
            for reason, count in session.answer(process).items():
                name = REJECT_NAMES[int(reason)]
                sent[name] = sent.get(name, 0) + count
        counted = control_plane.counters(self._session.folder)["rejects"]
        return {"malformed": {"sent": sent, "counted": counted, "all_sent_during_training": ended}}

    def _spec(self, host: HostPlan, rank: int, hosts: int) -> MalformedSpec:
        switch = self._session.fabric.leaf_of(host)
        ends = Endpoints(host.mac, switch.aggregator_mac, host.ip, switch.aggregator_ip)
        return MalformedSpec(
            interface=host.host_interface,
            sender=ForgedSender(ends, rank, hosts),
            count=self._count // hosts + (rank < self._count % hosts),
            per_second=PACKETS_PER_SECOND / hosts,
            seed=self._seed * hosts + rank,
        )


@dataclass(frozen=True)
class LinkUse:
    """The use of one link. `up` is the direction from a host, or from the lower switch, to the switch above."""

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
    """The interfaces of a limited link. Counters are read at the upper end, or at both ends between switches."""

    lower: str
    upper: str
    mbit: float
    lower_interface: str
    upper_interface: str
    from_host: bool
    """Whether the lower end is in a host's own namespace, where this process does not see its counters."""

    def bytes_up(self, counted: Mapping[str, LinkBytes]) -> int:
        """Return the bytes towards the upper end."""
        return counted[self.upper_interface].rx if self.from_host else counted[self.lower_interface].tx

    def bytes_down(self, counted: Mapping[str, LinkBytes]) -> int:
        """Return the bytes towards the lower end."""
        return counted[self.upper_interface].tx


def ends_of(fabric: Fabric) -> list[LinkEnds]:
    """Return the limited links of a network: the hosts' in their order, then those between switches."""
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
        """Start counting from zero. Called before the training, and once more when its first step is done."""
        if self._before:
            self._earlier = self._before, self._began_s
        self._before = self._count()
        self._began_s = time.perf_counter()

    def seconds_of(self, steps: Sequence[StepRecord]) -> float:
        """Return the seconds of one worker's steps since the last `begin`, or since the first one if the last saw less
        than half of the steps: the first step of a short training is noticed when the training is nearly over."""
        if self._earlier is not None:
            before, began_s = self._earlier
            if 2 * seconds_since(steps, self._began_s) < seconds_since(steps, began_s):
                self._before, self._began_s = before, began_s
        return seconds_since(steps, self._began_s)

    def bytes_of(self, workers: Sequence[Sequence[StepRecord]]) -> list[LinkBytes]:
        """Return the bytes that each worker's host has sent and received in its steps since the last `begin`. Call it
        after `seconds_of`."""
        return [bytes_since(steps, self._began_s) for steps in workers]

    def finish(
        self, seconds: float, applied: Applied, hosts: Sequence[LinkBytes] | None = None
    ) -> list[dict[str, Any]]:
        """Return the links, for summary.json. `seconds`: the duration of their use since `begin`. `hosts`: the part of
        the use that the first hosts have counted themselves; None if all of it counts. Raises LabError."""
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
    """Return the use of a link. Counters are by interface: `queue_drops` of the sending one, `random_losses` of the
    receiving one. `seconds`: the duration of the steps in which `used` was counted."""
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
    """Return counters by interface that contain only the traffic of steps: the first hosts' own counts (`rx` is what a
    host has received), and the same share of all other counters."""
    counted = [end for end in ends if end.from_host][: len(hosts)]
    total = sum(used[end.upper_interface].rx + used[end.upper_interface].tx for end in counted)
    share = min(1.0, sum(host.rx + host.tx for host in hosts) / total) if total else 1.0
    found = {name: LinkBytes(round(share * one.rx), round(share * one.tx)) for name, one in used.items()}
    own = {end.upper_interface: LinkBytes(rx=host.tx, tx=host.rx) for end, host in zip(counted, hosts, strict=False)}
    return found | own


def bytes_since(steps: Sequence[StepRecord], began_s: float) -> LinkBytes:
    """Return the bytes that a host has received and sent in steps after `began_s` of the machine's clock.

    A step that began before it counts by the share of its time after it.
    """
    shares = [(step, seconds_since([step], began_s) / step.step_s) for step in steps if step.step_s]
    received = sum(share * step.rx_bytes for step, share in shares)
    sent = sum(share * step.tx_bytes for step, share in shares)
    return LinkBytes(rx=round(received), tx=round(sent))


def seconds_since(steps: Sequence[StepRecord], began_s: float) -> float:
    """Return the seconds of steps after `began_s` of the machine's clock, including the rest of a step that began
    before."""
    return sum(min(s.step_s, max(0.0, s.at_s + s.step_s - began_s)) for s in steps if s.at_s is not None)
