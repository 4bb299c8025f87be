# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A switch on loopback: real UDP sockets on the workers' side, frames in process on the switch's side.

Needs no root: every worker and the aggregator have an address of their own in 127.0.0.0/8.
"""

from __future__ import annotations

import json
import os
import random
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from golden import model
from sumwire.config import OP_CODES, JobConfig, parse_job

TABLE = (0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30)
JOB = 7
# Of jobs that lose their switch: waiting for it takes as many questions as ever, but less time.
SILENCE_S = 0.6
_networks = count()


class FrameSwitch(Protocol):
    def receive(self, port: int, frame: bytes) -> list[tuple[int, bytes]]: ...


@dataclass(frozen=True)
class Impairment:
    """Shares of datagrams, in each direction, each drawn from ``random.Random(seed)``.

    ``late`` datagrams are delivered as well as kept, and come again up to some hundred datagrams later.
    """

    seed: int = 0
    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    late: float = 0.0


@dataclass
class Impairer:
    """One direction: turns each datagram into those that are delivered now."""

    settings: Impairment
    rng: random.Random
    held: list[tuple[int, Any]] = field(default_factory=list)

    def pass_on(self, item: Any) -> list[Any]:
        s, rng = self.settings, self.rng
        out = [held for due, held in self.held if due <= 0]
        self.held = [(due - 1, held) for due, held in self.held if due > 0]
        if rng.random() < s.late:
            self.held.append((rng.randrange(5, 300), item))
        if rng.random() < s.drop:
            return out
        if rng.random() < s.reorder:
            self.held.append((rng.randrange(1, 6), item))
            return out
        return [*out, *([item] * (2 if rng.random() < s.duplicate else 1))]


def addresses(workers: int) -> tuple[str, list[str]]:
    """An aggregator's address and the workers' addresses, out of 127.0.0.0/8, by process and call.

    The switch's port is the protocol's, so tests that run at the same time need addresses of their own. 64 processes
    with neighbouring ids have 1008 networks each.
    """
    number = os.getpid() % 64 * 1008 + next(_networks) % 1008
    prefix = f"127.{1 + number // 254}.{1 + number % 254}"
    return f"{prefix}.250", [f"{prefix}.{1 + worker}" for worker in range(workers)]


def job_mapping(workers: int, slots: int, job: int = JOB) -> dict[str, Any]:
    """The content of a job file on loopback."""
    aggregator, ips = addresses(workers)
    return {
        "format": 3,
        "name": "test",
        "job": job,
        "ops": ["thc", "max32"],
        "workers": workers,
        "quorum": workers,
        "slots": slots,
        "addresses": [
            {"worker": w, "ip": ip, "udp_port": model.UDP_PORT, "aggregator": aggregator, "seat": w}
            for w, ip in enumerate(ips)
        ],
        "thc": {"bits": 4, "p": 0.03125, "table": list(TABLE)},
    }


def in_frames(address: str) -> str:
    """The address that frames have for one on loopback: no switch would serve 127.0.0.0/8."""
    return address.replace("127.", "10.", 1)


def on_loopback(address: str) -> str:
    return address.replace("10.", "127.", 1)


def host(address: str, port: int, udp_port: int) -> model.Host:
    ip = socket.inet_aton(in_frames(address))
    return model.Host(port, mac_of(ip), ip, udp_port)


def mac_of(ip: bytes) -> bytes:
    """The MAC of the host with this address in frames."""
    return b"\2\0" + ip


class _OnLoopback(model.Job):
    """Tags cover the address of the switch as sockets have it, see :func:`in_frames`."""

    def sealed(self, packet: model.Packet, switch: bytes) -> model.Packet:
        return super().sealed(packet, b"\x7f" + switch[1:])


def golden_switch(mapping: dict[str, Any], digest: int = 0, key: bytes | None = None) -> model.GoldenSwitch:
    """The golden model with the one job of a job file. ``digest``: what it tells of it; 0 for nothing."""
    hosts = tuple(host(a["ip"], 1 + a["worker"], a["udp_port"]) for a in mapping["addresses"])
    ops, table = frozenset(OP_CODES[op] for op in mapping["ops"]), tuple(mapping["thc"]["table"])
    job = _OnLoopback(mapping["job"], hosts, 3, mapping["slots"], mapping["quorum"], table, ops)
    job = replace(job, digest=digest, key=key or b"")
    switch = model.GoldenSwitch(host(aggregator_of(mapping), 99, model.UDP_PORT), hosts, (job,))
    switch.refusals.senders = frozenset((one.port, one.mac, one.ip) for one in hosts)
    return switch


def aggregator_of(mapping: dict[str, Any]) -> str:
    """The one switch that all workers send to."""
    [aggregator] = {entry["aggregator"] for entry in mapping["addresses"]}
    return str(aggregator)


def to_loopback(mapping: dict[str, Any]) -> dict[str, Any]:
    """A job file of the controller's, with its addresses moved to loopback."""
    moved = [
        {**entry, "ip": on_loopback(entry["ip"]), "aggregator": on_loopback(entry["aggregator"])}
        for entry in mapping["addresses"]
    ]
    return {**mapping, "addresses": moved}


def configs(mapping: dict[str, Any]) -> list[JobConfig]:
    return [parse_job(mapping, worker) for worker in range(mapping["workers"])]


class LoopbackServer:
    """Serves UDP sockets from a thread, until the ``with`` block ends. ``addresses``: by name."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._sockets = {name: _bound(ip) for name, ip in addresses.items()}
        self._wake_reader, self._wake_writer = os.pipe()
        self._thread = threading.Thread(target=self._serve, name="switches", daemon=True)
        self.error: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.write(self._wake_writer, b"x")
        self._thread.join()
        for udp in self._sockets.values():
            udp.close()
        os.close(self._wake_reader)
        os.close(self._wake_writer)
        if self.error is not None:
            raise self.error

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._wake_reader, select.POLLIN)
        by_fd = {udp.fileno(): (name, udp) for name, udp in self._sockets.items()}
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        try:
            while True:
                ready = [fd for fd, _ in poll.poll()]
                if self._wake_reader in ready:
                    return
                for fd in ready:
                    name, udp = by_fd[fd]
                    datagram, [(_, _, tos)], _, sender = udp.recvmsg(16384, socket.CMSG_SPACE(1))
                    self._arrived(name, datagram, sender, tos[0])
        except Exception as error:  # noqa: BLE001 - reported by __exit__ in the test's own thread
            self.error = error

    def _arrived(self, name: str, datagram: bytes, sender: tuple[str, int], tos: int) -> None:
        """A datagram at a socket."""
        raise NotImplementedError


def _bound(ip: str) -> socket.socket:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
    udp.bind((ip, model.UDP_PORT))
    return udp


class Bridge(LoopbackServer):
    """Serves the aggregator's address of a job file.

    ``deaf`` may be set at any time: a predicate on (datagram number, datagram); what it accepts is not heard.
    """

    def __init__(
        self,
        mapping: dict[str, Any],
        switch: FrameSwitch,
        impairment: Impairment | None = None,
        deaf: Callable[[int, bytes], bool] | None = None,
        mute: Callable[[int, bytes], bool] | None = None,
    ) -> None:
        super().__init__({"switch": aggregator_of(mapping)})
        self.switch = switch
        self.deaf = deaf
        self.mute = mute
        self.heard = 0
        self.answered = 0
        self.sent = 0
        impairment = impairment or Impairment()
        rng = random.Random(impairment.seed)
        self._up = Impairer(impairment, random.Random(rng.random()))
        self._down = Impairer(impairment, random.Random(rng.random()))
        self._aggregator = host(aggregator_of(mapping), 99, model.UDP_PORT)
        self._hosts = {a["ip"]: host(a["ip"], 1 + a["worker"], a["udp_port"]) for a in mapping["addresses"]}
        self.seen: deque[tuple[str, bytes]] = deque(maxlen=200)

    def send_to_worker(self, ip: str, datagram: bytes) -> None:
        """A datagram of the test's own, from the aggregator's address."""
        self._sockets["switch"].sendto(datagram, (ip, model.UDP_PORT))

    def idle(self) -> bool:
        """Whether every datagram heard is answered: one worker may have its copy before the others' have left."""
        return self.answered == self.heard

    def _arrived(self, name: str, datagram: bytes, sender: tuple[str, int], tos: int) -> None:
        self._hear(datagram, sender)
        self.answered += 1

    def _hear(self, datagram: bytes, sender: tuple[str, int]) -> None:
        self.heard += 1
        self.seen.append((sender[0], datagram))
        if self.deaf is not None and self.deaf(self.heard, datagram):
            return
        for ip, data in self._up.pass_on((sender[0], datagram)):
            known = self._hosts.get(ip)
            if known is None:
                continue
            if isinstance(self.switch, model.GoldenSwitch):
                self.switch.now = time.monotonic_ns() // 1000
            for port, frame in self.switch.receive(known.port, model.udp_frame(known, self._aggregator, data)):
                self._tell(port, frame)

    def _tell(self, port: int, frame: bytes) -> None:
        self.sent += 1
        if self.mute is not None and self.mute(self.sent, frame):
            return
        for out_port, out in self._down.pass_on((port, frame)):
            ip, udp_port = on_loopback(socket.inet_ntoa(out[30:34])), int.from_bytes(out[36:38])
            assert self._hosts[ip].port == out_port, f"frame to {ip} left by port {out_port}"
            send_tagged(self._sockets["switch"], out, (ip, udp_port))


def send_tagged(udp: socket.socket, frame: bytes, to: tuple[str, int]) -> None:
    """Send a frame's datagram, with the frame's TOS byte."""
    udp.sendmsg([frame[42:]], [(socket.IPPROTO_IP, socket.IP_TOS, frame[15:16])], 0, to)


def run_workers(work: Callable[[int], Any], workers: int, timeout_s: float = 300.0) -> list[Any]:
    """``work(worker)`` in a thread each; results in order, or the first worker's exception."""
    outcomes: list[Any] = [None] * workers
    errors: list[tuple[int, BaseException]] = []

    def run(worker: int) -> None:
        try:
            outcomes[worker] = work(worker)
        except Exception as error:  # noqa: BLE001 - raised again below, in the test's own thread
            errors.append((worker, error))

    threads = [threading.Thread(target=run, args=(worker,), daemon=True) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout_s)
        assert not thread.is_alive(), f"a worker hangs; errors so far: {errors}"
    if errors:
        raise errors[0][1]
    return outcomes


def write_job(mapping: dict[str, Any], path: Path) -> Path:
    path.write_text(json.dumps(mapping))
    return path
