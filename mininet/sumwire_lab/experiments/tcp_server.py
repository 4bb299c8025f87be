# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A baseline for the papers' transports: exchanges the same messages with a parameter server over TCP.

Workers and server exchange as many bytes as THC's payloads have, and TCP shares the server's link with other flows. A
worker sends its chunks one after the other without a pause. The server returns a chunk's result to every worker as soon
as it has the chunk from all. The content of the bytes is arbitrary. Links treat all packets alike, or TCP's packets
have the tag of DLCP's front layer, and links have DLCP's priorities.
"""

from __future__ import annotations

import asyncio
import math
import socket
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from sumwire.dlcp.tags import PRIORITIES, Tag
from sumwire.wire.packets import WORD_BYTES
from sumwire_protocol.ops import BY_NAME

from sumwire_lab.bench.benchmark import network_experiment
from sumwire_lab.errors import LabError
from sumwire_lab.network import switches
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.run.conditions import apply_conditions
from sumwire_lab.run.session import Session, open_session
from sumwire_lab.study.experiment import Say
from sumwire_lab.study.workers import Rank, WorkerCall, command_of, name_of
from sumwire_lab.system.processes import killed_after, wait_said

READY: Final = "ready:"
_PIECE: Final = 64 << 10


FRONT: Final = Tag(PRIORITIES - 1, 0)
"""DLCP's most urgent tag: that of a front layer, protected."""


def tuned(connection: socket.socket, control: str, tos: int) -> socket.socket:
    """Return the connection with this congestion control and IPv4 TOS byte, and without waiting for full segments.
    Raises OSError if the kernel does not have the control."""
    connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode("ascii"))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class ParameterServer:
    """All workers' connections, and how much has come over each."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._received = [0] * spec["workers"]
        self._more = asyncio.Condition()

    async def serve(self, listener: socket.socket) -> None:
        """Serve every worker until it closes its connection."""
        loop, count = asyncio.get_running_loop(), self._spec["workers"]
        accepted = [tuned((await loop.sock_accept(listener))[0], *_tuning(self._spec)) for _ in range(count)]
        ends = [await asyncio.open_connection(sock=one) for one in accepted]
        async with asyncio.TaskGroup() as group:
            for rank, (reader, writer) in enumerate(ends):
                group.create_task(self._take(rank, reader))
                group.create_task(self._give(writer))

    async def _take(self, rank: int, reader: asyncio.StreamReader) -> None:
        while piece := await reader.read(_PIECE):
            async with self._more:
                self._received[rank] += len(piece)
                self._more.notify_all()

    def done(self) -> int:
        """Return the number of chunks that all workers have sent."""
        return min(self._received) // int(self._spec["contribution_bytes"])

    async def _give(self, writer: asyncio.StreamWriter) -> None:
        given, result = 0, bytes(self._spec["result_bytes"])
        while given < self._spec["steps"] * self._spec["chunks"]:
            async with self._more:
                while (done := self.done()) == given:
                    await self._more.wait()
            writer.write(result * (done - given))
            given = done
            await writer.drain()
        writer.close()


def _tuning(spec: dict[str, Any]) -> tuple[str, int]:
    return spec["control"], spec["tos"]


async def steps(spec: dict[str, Any]) -> list[float]:
    """Return a worker's seconds of each step, from its first byte to its last result."""
    connection = tuned(socket.socket(), *_tuning(spec))
    connection.connect((spec["server"], spec["port"]))
    reader, writer = await asyncio.open_connection(sock=connection)
    gradient = bytes(spec["chunks"] * spec["contribution_bytes"])
    seconds = []
    for _ in range(spec["steps"]):
        began = time.monotonic()
        writer.write(gradient)
        await reader.readexactly(spec["chunks"] * spec["result_bytes"])
        seconds.append(time.monotonic() - began)
    writer.close()
    return seconds


def work(spec: dict[str, Any]) -> list[float]:
    """Run a worker's process."""
    return asyncio.run(steps(spec))


def serve(spec: dict[str, Any], rank: Rank) -> None:
    """Run the server's process."""
    with socket.create_server((spec["server"], spec["port"])) as listener:
        listener.setblocking(False)
        rank.say(READY)
        asyncio.run(ParameterServer(spec).serve(listener))


_PORT: Final = 29_700
_OP: Final = BY_NAME["thc"]
CONTRIBUTION_BYTES: Final = _OP.up.words * WORD_BYTES
RESULT_BYTES: Final = _OP.down.words * WORD_BYTES
_AVAILABLE: Final = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


@dataclass(frozen=True)
class TcpServer:
    """A job at a TCP server. `values`: the size of a gradient. `control`: the congestion control of both ends. `tag`:
    that of all packets, None for no tag."""

    values: int
    steps: int
    control: str
    tag: Tag | None = None

    @property
    def name(self) -> str:
        """What tells it from the others."""
        return f"TCP ({self.control}{'' if self.tag is None else ', tagged'})"

    @property
    def chunks(self) -> int:
        """Number of messages of a worker in a step."""
        return math.ceil(self.values / _OP.values)


def known_controls() -> list[str]:
    """Return the congestion controls that this machine's kernel has."""
    return _AVAILABLE.read_text().split()


def run_tcp_server(job: TcpServer, options: RunOptions, results: Path, say: Say) -> list[float]:
    """Return the seconds of each step, the slowest worker's. `options`: the network with a server behind its switch,
    and its conditions. Raises LabError."""
    # Links have priorities for tagged packets only.
    options = replace(options, link=replace(options.link, priorities=job.tag is not None))
    with (
        network_experiment(results) as folder,
        open_session(options, switches.choose(options.switch), folder) as session,
        apply_conditions(session, options.conditions),
    ):
        seconds = _steps(job, session, options.deadline_s)
    say(f"server over {job.name}: {sum(seconds) / len(seconds):.3f} s a step")
    return seconds


def _steps(job: TcpServer, session: Session, deadline_s: float) -> list[float]:
    server = session.fabric.server
    if server is None:
        raise LabError("this experiment needs a server behind the switch")
    spec: dict[str, Any] = {
        "server": server.ip,
        "port": _PORT,
        "workers": len(session.fabric.hosts),
        "control": job.control,
        "tos": job.tag.tos if job.tag else 0,
        "steps": job.steps,
        "chunks": job.chunks,
        "contribution_bytes": CONTRIBUTION_BYTES,
        "result_bytes": RESULT_BYTES,
    }
    name = "tcp-server"
    with killed_after() as serving:
        command = command_of(WorkerCall(name_of(serve), spec, str(session.folder / name)))
        serving[name] = session.start(name, server, command)
        wait_said(serving[name], READY, session.log(name))
        # The server ends with the last worker, so only the switches must go on.
        each = session.call(work, spec, deadline_s)
    return [max(step) for step in zip(*each, strict=True)]
