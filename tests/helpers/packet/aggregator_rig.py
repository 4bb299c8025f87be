# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The software aggregator behind frames: what its machine's kernel would take off them on the way in, and put on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from golden import model
from golden.model import Host, Job, udp_frame
from helpers.packet.play import Frames, NotHereError
from helpers.packet.star import AGGREGATOR, JOBS, PARENT, WORKERS
from sumwire.aggregator.batches import ROW_BYTES, Batch, Refusal
from sumwire.aggregator.core import Aggregator
from sumwire.aggregator.jobs import Above, Part, Seat
from sumwire.aggregator.state import Shared, State
from sumwire.config import JobConfig, parse_job
from sumwire_protocol import constants as p4

# An aggregator has one above it, or none.
SERVED = [job for job in JOBS if not job.parents]
SHARED_JOBS = {job.number for job in JOBS if job.parents}
TREE_JOBS = {job.number for job in SERVED if job.parent or job.is_root}
PLAIN = [job for job in SERVED if job.number not in TREE_JOBS]
# Jobs of the star that an aggregator of one level has not.
OTHER_JOBS = TREE_JOBS | SHARED_JOBS


def _ip(ip: bytes) -> str:
    return ".".join(map(str, ip))


def job_config(job: Job) -> JobConfig:
    """One of the star's jobs, as its job file would have it."""
    mapping = {
        "format": 3,
        "name": f"job{job.number}",
        "job": job.number,
        "ops": [model.OP_NAMES[op] for op in sorted(job.ops)],
        "workers": len(job.workers),
        "quorum": job.quorum,
        "workers_min": job.quorum_least or len(job.workers),
        "slots": job.slots,
        "addresses": [
            {
                "worker": k,
                "ip": _ip(host.ip),
                "udp_port": host.udp_port,
                "aggregator": _ip(AGGREGATOR.ip),
                "seat": k,
            }
            for k, host in enumerate(job.workers)
        ],
        "thc": {"bits": 4, "p": 0.03125, "table": list(job.table)},
    }
    return replace(parse_job(mapping, 0), key=job.key or None)


def part(job: Job) -> Part:
    """What the aggregator does for one of the star's jobs."""
    seats = {
        number: Seat(_ip(worker.ip), worker.udp_port, worker.weight, worker.is_switch)
        for number, worker in enumerate(job.workers)
    }
    above = job.parent and Above(_ip(job.parent.switch.ip), job.parent.worker, job.parent.switch.udp_port)
    return Part(job_config(job), _ip(AGGREGATOR.ip), seats, above)


def state_of(jobs: Sequence[Job], shared: Shared | None = None, process: int = 0, *, seed: int) -> State:
    """Of an aggregator with these jobs. Of a tree it does not know the whole: its digest is 0."""
    state = State([part(job) for job in jobs], shared, process, seed)
    for number in TREE_JOBS & {job.number for job in jobs}:
        state.jobs["digest"][state.job_of[number]] = 0
    return state


class AggregatorRig:
    """`exchange` takes a datagram out of its frame, and puts replies into frames."""

    clock = None

    def __init__(self, *, native: bool) -> None:
        self.told_at: dict[int, tuple[float, float]] = {}
        self.name = f"software aggregator, {'native' if native else 'numpy'}"
        self._aggregator = Aggregator(state_of(SERVED, seed=1), batch=1, native=native)
        assert self._aggregator.is_native == native
        self._hosts: list[Host] = [host for job in SERVED for host in (*job.workers, *_above(job))]
        sizes, sources = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
        rows, ports = np.zeros((1, ROW_BYTES), np.uint8), np.zeros(1, ">u2")
        self._batch = Batch(rows, sizes, sources, ports, np.zeros(1, np.uint8), 1)

    def renew(self) -> None:
        self._aggregator.state.slots[:] = 0
        self._aggregator.state.shared.runs[:] = 0
        self._aggregator.state.jobs["generation"] += 1

    def generation(self, job: int) -> int:
        state = self._aggregator.state
        return int(state.jobs["generation"][state.job_of[job]])

    def exchange(self, port: int, frame: bytes) -> Frames:
        datagram = received(port, frame)
        row, batch = np.frombuffer(datagram[:ROW_BYTES], np.uint8), self._batch
        # What an earlier datagram left behind it must not matter.
        batch.rows[0] = 0xA5
        batch.rows[0, : len(row)] = row
        batch.sizes[0], batch.sources[0] = len(datagram), np.frombuffer(frame[26:30], np.uint32)[0]
        batch.tos[0], batch.ports[0] = frame[15], int.from_bytes(frame[34:36])
        replies = self._aggregator.process(batch, time.monotonic())
        out = []
        for reply in range(replies.count):
            host = self._hosts[replies.places[reply]]
            data = replies.data(reply)
            out.append((host.port, udp_frame(AGGREGATOR, host, data, dscp_ecn=int(replies.tos[reply]))))
        for refusal in self._due(port, replies.refusals):
            ip, udp_port = refusal.to
            host = next(replace(host, udp_port=udp_port) for host in WORKERS if _ip(host.ip) == ip)
            out.append((host.port, udp_frame(AGGREGATOR, host, refusal.data, dscp_ecn=refusal.tos)))
        return out

    def _due(self, port: int, refusals: list[Refusal]) -> list[Refusal]:
        """An aggregator tells each address once in a while, and a switch each port: of a port with several, one."""
        told, _ = self.told_at.get(port, (0.0, 0.0))
        return refusals if time.monotonic() - told >= model.GAP_US / 1e6 else []

    def counters(self) -> tuple[Counter[str], Counter[str]]:
        state = self._aggregator.state
        return _named("VERDICT_", state.verdicts.tolist()), _named("REJECT_", state.rejects.tolist())


def _above(job: Job) -> tuple[Host, ...]:
    return (job.parent.switch,) if job.parent else ()


def _named(prefix: str, cells: list[int]) -> Counter[str]:
    names = {value: name.removeprefix(prefix) for name, value in vars(p4).items() if name.startswith(prefix)}
    return Counter({names[index]: count for index, count in enumerate(cells) if count})


def received(port: int, frame: bytes) -> bytes:
    """The datagram that a socket at the aggregator's address and port is given.

    Raises NotHereError for what the kernel keeps from it, and for what only a switch does.
    """
    if frame[12:14] != b"\x08\x00" or len(frame) < 34 or frame[30:34] != AGGREGATOR.ip:
        raise NotHereError("what is not for the aggregator's address is another machine's business")
    reason = model.malformed(frame)
    lengths_agree = len(frame) >= 42 and len(frame) == 14 + int.from_bytes(frame[16:18])
    lengths_agree = lengths_agree and len(frame) == 34 + int.from_bytes(frame[38:40])
    if reason == "NOT_SUMWIRE" or not lengths_agree or model.ones_complement_sum(frame[14:34]) != 0xFFFF:
        raise NotHereError("the kernel drops the frame")
    if any(host.ip == frame[26:30] and (host.port, host.mac) != (port, frame[6:12]) for host in (*WORKERS, PARENT)):
        raise NotHereError("a socket does not know the port and the MAC of a packet")
    if reason is None:
        _check_port(port, frame)
    return frame[42:]


def _check_port(port: int, frame: bytes) -> None:
    packet = model.decode(frame[42:])
    if packet.op == model.JUMBO:
        raise NotHereError("an aggregator has no packets of 8192 values")
    if packet.job in SHARED_JOBS:
        raise NotHereError("an aggregator has one above it: several share no slots")
    job = next((job for job in SERVED if job.number == packet.job), None)
    if job and packet.worker < len(job.workers) and job.workers[packet.worker].port != port:
        raise NotHereError("a socket does not know the port of a packet")
