# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A real job: the entries that the controller writes for the packet tests' star, and packets of every kind.

``python tests/differential/star_state.py FILE`` writes both for fuzz.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from differential.events import Event, event
from fuzz.state import describe
from golden import model
from golden.model import Host, Job, udp_frame
from helpers.packet import rigs
from helpers.packet.play import Clock, contribution, random_partial, random_payload
from helpers.packet.star import AGGREGATOR, HOSTS, JOBS
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Raw
from softswitch.switch import SoftSwitch

Frames = list[tuple[int, bytes]]


def star_switch() -> tuple[SoftSwitch, Frames]:
    """A switch with all entries of the star, and frames for it with their ports."""
    with rigs.soft_in_process("python", Clock()) as rig:
        rig.renew()
        return rig.switch, [*star_frames(), *_ordinary()]


def star_frames() -> Frames:
    rng = np.random.default_rng(5)
    return [made for job in JOBS for op in sorted(job.ops) for made in _of_job(job, op, rng)]


def _of_job(job: Job, op: int, rng: np.random.Generator) -> Frames:
    """Packets of every worker in two rounds and two slots, a flush, a result from above."""
    frames: Frames = []
    for slot, round_ in ((0, 0), (0, 1), (1, 0)):
        for number, worker in enumerate(job.workers):
            partial = worker.is_switch
            payload = random_partial(rng, op, worker.weight) if partial else random_payload(rng, op)
            fields = {"count": worker.weight} if partial else {}
            packet = contribution(job, number, slot, round_, payload, op, **fields)
            frames.append((worker.port, udp_frame(worker, AGGREGATOR, packet.encode())))
    flush = contribution(job, 0, 0, 1, random_payload(rng, op), op, flags=model.FLUSH)
    frames.append((job.workers[0].port, udp_frame(job.workers[0], AGGREGATOR, flush.encode())))
    probe = contribution(job, 0, 0, 1, b"", op)._replace(kind=model.PROBE)
    frames.append((job.workers[0].port, udp_frame(job.workers[0], AGGREGATOR, probe.encode())))
    if op == model.THC:
        short = contribution(job, 0, 2, 0, random_payload(rng, op, model.WORDS_TRIMMED), op, flags=model.TRIMMED)
        frames.append((job.workers[0].port, udp_frame(job.workers[0], AGGREGATOR, short.encode(), dscp_ecn=0x6B)))
    if job.parent is not None:
        payload = random_payload(rng, op, model.WORDS_DOWN[op])
        packet = contribution(job, 0, 0, 1, payload, op)
        parent = job.above(packet)
        assert parent is not None
        above: Host = parent.switch
        packet = packet._replace(kind=model.RESULT, worker=parent.worker, count=9, contributors=0xFF)
        frames.append((above.port, udp_frame(above, AGGREGATOR, packet.encode())))
    return frames


def _ordinary() -> Frames:
    first, second = HOSTS[:2]
    ether = Ether(src=first.mac.hex(":"), dst=second.mac.hex(":"))
    ip = IP(src="10.0.0.1", dst="10.0.0.2")
    packets = [
        ether / ip / TCP(dport=29500), ether / ip / UDP(dport=model.UDP_PORT) / Raw(b"hello"), ether / ip / ICMP(),
        ether / IP(src="10.0.0.1", dst="10.0.0.100", options=[IPOption_NOP()] * 4) / UDP(),
        ether / Dot1Q(vlan=5) / ip / TCP(), ether / IPv6() / UDP(), ether / ip / TCP() / Raw(bytes(1460)),
        ether / ARP(op=1, psrc="10.0.0.1", pdst="10.0.0.100"), ether / ARP(op=1, psrc="10.0.0.1", pdst="10.0.0.2"),
    ]  # fmt: skip
    return [(first.port, bytes(packet)) for packet in packets]


def writes(switch: SoftSwitch) -> list[Event]:
    """Events that repeat everything that was written to ``switch``."""
    sequence: list[Event] = []
    for name, table in switch.loaded.program.tables.items():
        if table.entries is None:
            sequence += [event("insert", name, entry) for entry in switch.entries(name)]
        if not table.default_const:
            sequence.append(event("set_default_action", name, switch.default_action(name)))
    return sequence + [event("set_group", group, replicas) for group, replicas in switch.groups().items()]


def main(file: str) -> None:
    switch, frames = star_switch()
    Path(file).write_text(json.dumps(describe(switch, frames)))


if __name__ == "__main__":
    main(sys.argv[1])
