# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A parameter server over TCP and its workers: `python -m sumwire_lab.experiments.tcp_server_ends SPEC.json WHO`.

`WHO` is a worker's rank or `server`. A worker sends its chunks one after the other without a pause. The server returns
a chunk's result to every worker as soon as it has the chunk from all. What the bytes mean is of no importance here.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

from sumwire_lab.system.processes import end_with_parent

READY: Final = "ready:"
SERVER: Final = "server"
_PIECE: Final = 64 << 10


def tuned(connection: socket.socket, control: str) -> socket.socket:
    """The connection with a congestion control, and without waiting for full segments. Raises OSError if the kernel
    does not have this control."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode("ascii"))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class Server:
    """All workers' connections, and how much has come over each."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._received = [0] * spec["workers"]
        self._more = asyncio.Condition()

    async def serve(self, listener: socket.socket) -> None:
        """Serve every worker until it closes its connection."""
        loop, count = asyncio.get_running_loop(), self._spec["workers"]
        accepted = [tuned((await loop.sock_accept(listener))[0], self._spec["control"]) for _ in range(count)]
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
        """Chunks that all workers have sent."""
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


async def steps(spec: dict[str, Any]) -> list[float]:
    """A worker's seconds of each step, from its first byte to its last result."""
    connection = tuned(socket.socket(), spec["control"])
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


def main(arguments: list[str]) -> None:
    end_with_parent()
    spec, who = json.loads(Path(arguments[0]).read_text()), arguments[1]
    if who != SERVER:
        Path(spec["results"][int(who)]).write_text(json.dumps(asyncio.run(steps(spec))))
        return
    with socket.create_server((spec["server"], spec["port"])) as listener:
        listener.setblocking(False)
        sys.stdout.write(f"{READY}\n")
        sys.stdout.flush()
        asyncio.run(Server(spec).serve(listener))


if __name__ == "__main__":
    main(sys.argv[1:])
