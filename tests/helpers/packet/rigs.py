# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Switches under test: the soft switch in process, and any switch program over veth pairs.

All get their entries from the real controller over real gRPC.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import grpc
from golden import model
from golden.model import Degrade, Host, Queue, udp_frame
from helpers.packet.play import Clock, Frames
from helpers.packet.star import HOSTS, JOBS, controller_yaml
from helpers.softswitch.veths import Host as VethHost
from helpers.softswitch.veths import veth_pairs
from p4.v1 import p4runtime_pb2
from softswitch.p4runtime.server import serve
from softswitch.switch import EngineChoice, SoftSwitch
from sumwire_controller.deploy.operations import bring_about
from sumwire_controller.deploy.p4info import Program
from sumwire_controller.deploy.reconcile import EntryChange, Write
from sumwire_controller.deploy.switch import P4Switch
from sumwire_controller.derive.entries import Entry, TableEntry, admissions, last_generation
from sumwire_controller.model import Config
from sumwire_controller.parse.files import parse_config
from sumwire_lab.network.switches import free_tcp_port, thrift_option
from sumwire_protocol import constants as _p4

Answer = TypeVar("Answer")
# Of the first generations, the same in all switches.
_FIRST_TIME = 1_700_000_000
# Ethernet, IPv4 without options, UDP, Sumwire.
PLAIN = model.BARE
# Bytes of the longest packet of any op, with its IPv4 header.
JUMBO_MTU = 8300
READY_S = 300.0
ANSWER_S = 30.0
# Of a virtual queue: all it ever held is gone in a microsecond.
FASTEST = 2**32 - 1
NAMES = {prefix: {value: name.removeprefix(prefix) for name, value in vars(_p4).items() if name.startswith(prefix)}
         for prefix in ("VERDICT_", "REJECT_")}  # fmt: skip


class BatchingSwitch(P4Switch):
    """Many writes or reads in one request: hundreds of tests need them."""

    def write_all(self, program: Program, changes: Iterable[EntryChange]) -> None:
        request = p4runtime_pb2.WriteRequest(device_id=self._switch.device_id)
        request.election_id.high, request.election_id.low = self._session.election_id
        for change in changes:
            request.updates.add(type=p4runtime_pb2.Update.Type.Value(change.write.name)).entity.CopyFrom(
                program.to_entity(change.entry)
            )
        if request.updates:
            self._call("writing the rig's changes", self._session.stub.Write, request)

    def packets(self, counter_ids: Iterable[int]) -> dict[int, dict[int, int]]:
        """Packets of the cells of indirect counters that have counted any, by counter and index."""
        request = p4runtime_pb2.ReadRequest(device_id=self._switch.device_id)
        found: dict[int, dict[int, int]] = {}
        for counter_id in counter_ids:
            request.entities.add().counter_entry.counter_id = counter_id
            found[counter_id] = {}
        for entity in self._read("reading counters", request):
            cell = entity.counter_entry
            if packets := cell.data.packet_count:
                found[cell.counter_id][cell.index.index] = packets
        return found


@functools.cache
def _star() -> Config:
    config, keys = parse_config(controller_yaml("127.0.0.1:1")), {job.number: job.key for job in JOBS}
    return replace(config, jobs=tuple(replace(job, key=keys[job.id] or None) for job in config.jobs))


class Controlled:
    """The control plane's side of a rig: entries, generations, counters."""

    clock: Clock | None = None

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.told_at: dict[int, tuple[float, float]] = {}
        self._config = replace(_star(), switch=replace(_star().switch, grpc=address))
        self._program = Program.load(None)
        self._switch = BatchingSwitch(self._config.switch)
        self._admissions: dict[int, TableEntry] = {}
        self._installed: dict[tuple[object, ...], Entry] = {}
        self._generation = 0
        self._ports: tuple[int, ...] = ()
        self._decided: Counter[tuple[int, int, int, int]] = Counter()
        self._used: set[int] = set()
        self._counted: tuple[Counter[str], Counter[str]] | None = None

    def renew(self) -> None:
        """Begins as the controller does; then writes the rows that admit the jobs that frames have named since, with a
        new generation: hundreds of tests renew, each has used a few jobs."""
        if not self._admissions:
            jobs = [job.name for job in self._config.jobs]
            bring_about(self._config, self._switch, self._program, jobs, _FIRST_TIME)
            held = self._switch.entries(self._program)
            self._admissions, self._generation = admissions(held), last_generation(held)
        self._install([])
        self._generation += 1
        anew = [_admitted_anew(row, self._generation) for job, row in self._admissions.items() if job in self._used]
        self._switch.write_all(self._program, [EntryChange(Write.MODIFY, row) for row in anew])
        self._admissions |= {row.key[0]: row for row in anew}
        self._used.clear()

    def generation(self, job: int) -> int:
        return self._admissions[job].arg("generation")

    def install(self, queues: dict[int, Queue], degrades: dict[int, Degrade], first: int) -> None:
        """Rows beside those of the configuration, until the next renewal; see `Rig.install`."""
        if queues:
            self._install([_queue_row(port, replace(queue, rate=FASTEST)) for port, queue in queues.items()])
            for port in queues:
                self._empty(port, first)
        rows = [_queue_row(port, queue) for port, queue in queues.items()]
        rows += [TableEntry("degrade", (job,), (one.seed, one.share, one.mode)) for job, one in degrades.items()]
        self._install(rows)
        self._ports = tuple(queues)
        self._decided = self._decisions()

    def move(self, job: int, base: int) -> None:
        row = self._admissions[job]
        moved = replace(row, args=(row.args[0], base, *row.args[2:]))
        self._switch.write_all(self._program, [EntryChange(Write.MODIFY, moved)])
        self._used.add(job)

    def _install(self, rows: Iterable[Entry]) -> None:
        """These rows in place of those of before."""
        wanted = {row.identity: row for row in rows}
        held, self._installed = self._installed, wanted
        changes = [EntryChange(Write.DELETE, row) for identity, row in held.items() if identity not in wanted]
        changes += [EntryChange(Write.MODIFY if key in held else Write.INSERT, row) for key, row in wanted.items()]
        self._switch.write_all(self._program, changes)

    def _empty(self, port: int, first: int) -> None:
        """What an earlier test left in the port's queues is gone at this rate; the frames themselves are their first
        content."""
        host = HOSTS[port - 1]
        source = HOSTS[port % len(HOSTS)]
        for tos in (0, 1 << 5):
            self.exchange(source.port, udp_frame(source, replace(host, udp_port=9), bytes(first - 42), dscp_ecn=tos))

    def exchange(self, port: int, frame: bytes) -> Frames:
        self._used |= self._named_by(frame)
        self._counted = None
        return self._pass(port, frame)

    def _named_by(self, frame: bytes) -> set[int]:
        """Jobs whose slots the frame may change: the one where its job number would be, all if it is no plain IPv4."""
        if len(frame) < PLAIN or frame[14] != 0x45:
            return {job.id for job in self._config.jobs}
        return {model.decode(frame[42:]).job}

    def _pass(self, port: int, frame: bytes) -> Frames:
        raise NotImplementedError

    def _decisions(self) -> Counter[tuple[int, int, int, int]]:
        wanted = [port << 5 | low for port in self._ports for low in range(32)]
        cells = self._switch.counter(self._program.queues_id, wanted)
        return Counter(
            {(cell >> 5, cell >> 4 & 1, cell >> 2 & 3, cell & 3): packets for cell, (packets, _) in cells.items()}
        )

    def decisions(self) -> Counter[tuple[int, int, int, int]]:
        now = self._decisions()
        now.subtract(self._decided)
        return +now

    def counters(self) -> tuple[Counter[str], Counter[str]]:
        """Read anew where frames have passed since."""
        if self._counted is None:
            ids = self._program.verdicts_id, self._program.rejects_id
            verdicts, rejects = self._switch.packets(ids).values()
            self._counted = _named(verdicts, "VERDICT_"), _named(rejects, "REJECT_")
        return self._counted[0].copy(), self._counted[1].copy()

    def close(self) -> None:
        self._switch.close()


def _arp_request(source: Host, target: Host) -> bytes:
    head = target.mac + source.mac + bytes.fromhex("0806 0001 0800 06 04 0001")
    return head + source.mac + source.ip + bytes(6) + target.ip


def _queue_row(port: int, queue: Queue) -> TableEntry:
    # Rows have the classes from 3 down to 0.
    args = (queue.rate, queue.mark, *reversed(queue.drop), queue.drop_all, int(queue.trims))
    return TableEntry("virtual_queue", (port,), args)


def _admitted_anew(row: TableEntry, generation: int) -> TableEntry:
    return replace(row, args=(generation, *row.args[1:]))


def _named(packets: dict[int, int], prefix: str) -> Counter[str]:
    return Counter({NAMES[prefix].get(index, str(index)): count for index, count in packets.items()})


class ProcessRig(Controlled):
    """Frames go through the pipeline in this process."""

    def __init__(self, name: str, address: str, switch: SoftSwitch) -> None:
        super().__init__(name, address)
        self.switch = switch

    def _pass(self, port: int, frame: bytes) -> Frames:
        return [(out, bytes(sent)) for out, sent in self.switch.process(port, frame)]


class EnginesRig:
    """The engines of the soft switch side by side, by one clock: every frame passes all of them, and what comes out
    must be the same to the bit, signs that the switch draws included."""

    def __init__(self, rigs: Sequence[ProcessRig], clock: Clock) -> None:
        self.name = " and ".join(rig.name for rig in rigs)
        self.clock = clock
        self.told_at: dict[int, tuple[float, float]] = {}
        self._rigs = rigs

    def renew(self) -> None:
        for rig in self._rigs:
            rig.renew()

    def install(self, queues: dict[int, Queue], degrades: dict[int, Degrade], first: int) -> None:
        self.clock.now += 1  # for queues to be emptied in
        for rig in self._rigs:
            rig.install(queues, degrades, first)

    def move(self, job: int, base: int) -> None:
        for rig in self._rigs:
            rig.move(job, base)

    def exchange(self, port: int, frame: bytes) -> Frames:
        return self._agreed([rig.exchange(port, frame) for rig in self._rigs])

    def counters(self) -> tuple[Counter[str], Counter[str]]:
        return self._agreed([rig.counters() for rig in self._rigs])

    def generation(self, job: int) -> int:
        return self._agreed([rig.generation(job) for rig in self._rigs])

    def decisions(self) -> Counter[tuple[int, int, int, int]]:
        return self._agreed([rig.decisions() for rig in self._rigs])

    def _agreed(self, answers: list[Answer]) -> Answer:
        for rig, answer in zip(self._rigs, answers, strict=True):
            assert answer == answers[0], f"{rig.name}: {answer}\n{self._rigs[0].name}: {answers[0]}"
        return answers[0]


class VethRig(Controlled):
    """Frames are sent on one end of a veth pair.

    A sentinel to every host follows each frame: per port nothing overtakes, so what came before the
    sentinel is all there is, and no time-out decides. It is an ARP request, which no virtual queue loses.
    """

    def __init__(self, name: str, address: str, sockets: dict[int, socket.socket]) -> None:
        super().__init__(name, address)
        self._sockets = sockets
        self._numbers = itertools.count()

    def _pass(self, port: int, frame: bytes) -> Frames:
        mark = b"sentinel %d" % next(self._numbers)
        source = HOSTS[port - 1]
        self._sockets[port].send(frame)
        for host in HOSTS:
            self._sockets[port].send(_arp_request(source, host) + mark)
        return [(host.port, got) for host in HOSTS for got in self._until(host.port, mark)]

    def _until(self, port: int, mark: bytes) -> Iterator[bytes]:
        deadline = time.monotonic() + ANSWER_S
        while True:
            ready, _, _ = select.select([self._sockets[port]], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise AssertionError(f"{self.name}: port {port} did not forward the frame after the test frame")
            frame = self._sockets[port].recv(16384)
            if mark in frame:
                return
            yield frame


# -- bringing switches up ------------------------------------------------------------------------------


@contextlib.contextmanager
def engines(*choices: EngineChoice, coverage: Path | None = None) -> Iterator[EnginesRig]:
    """``coverage``: a folder for what of the program packets reached in the native engine."""
    clock = Clock()
    with contextlib.ExitStack() as stack:
        yield EnginesRig([stack.enter_context(soft_in_process(engine, clock, coverage)) for engine in choices], clock)


@contextlib.contextmanager
def soft_in_process(engine: EngineChoice, clock: Clock, coverage: Path | None = None) -> Iterator[ProcessRig]:
    device = SoftSwitch(seed=1, engine=engine, clock=clock, coverage=coverage is not None)
    server = serve(device, "127.0.0.1:0", 1)
    rig = ProcessRig(f"soft switch in process, {engine} engine", f"127.0.0.1:{server.port}", device)
    try:
        yield rig
    finally:
        rig.close()
        server.stop()
        if coverage is not None and engine == "native":
            (coverage / f"{os.getpid()}.json").write_text(json.dumps(device.loaded.reached()))  # type: ignore[attr-defined]


def soft_command(interfaces: list[str], address: str) -> list[str]:
    ports = itertools.chain.from_iterable(("-i", f"{k}@{name}") for k, name in enumerate(interfaces, 1))
    return [sys.executable, "-m", "softswitch.cli", "--no-p4", "--device-id", "1", *ports, "--",
            "--grpc-server-addr", address, "--insecure"]  # fmt: skip


def bmv2_command(interfaces: list[str], address: str) -> list[str]:
    command = soft_command(interfaces, address)
    return ["simple_switch_grpc", *thrift_option(), *command[3:-1]]


@contextlib.contextmanager
def over_veth(name: str, make_command: Callable[[list[str], str], list[str]], log: Path) -> Iterator[VethRig]:
    address = f"127.0.0.1:{free_tcp_port()}"
    with contextlib.ExitStack() as stack:
        interfaces = list(stack.enter_context(veth_pairs(len(HOSTS), JUMBO_MTU)).values())
        output = stack.enter_context(log.open("wb"))
        process = subprocess.Popen(make_command(interfaces, address), stdout=output, stderr=output)
        stack.callback(_end, process)
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(READY_S)
        sockets = {k: stack.enter_context(VethHost(name)).socket for k, name in enumerate(interfaces, 1)}
        rig = VethRig(name, address, sockets)
        stack.callback(rig.close)
        yield rig


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
