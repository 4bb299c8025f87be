# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The baseline of the papers' transports: the same messages to and from a parameter server, over TCP.

Workers and server exchange as many bytes as THC's payloads have, and share the server's link with other flows as TCP
shares it. The switch treats all packets alike.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from sumwire.wire.header import WORD_BYTES
from sumwire_protocol.ops import BY_NAME

from sumwire_lab.errors import LabError
from sumwire_lab.experiments.tcp_server_ends import READY, SERVER
from sumwire_lab.network import switches
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.run.apply_conditions import apply_conditions
from sumwire_lab.run.session import Session, open_session
from sumwire_lab.study.experiment import Say, interruptible, new_folder
from sumwire_lab.system.processes import killed_after
from sumwire_lab.system.readiness import wait_said

_ENDS: Final = "sumwire_lab.experiments.tcp_server_ends"
_PORT: Final = 29_700
_OP: Final = BY_NAME["thc"]
CONTRIBUTION_BYTES: Final = _OP.up.words * WORD_BYTES
RESULT_BYTES: Final = _OP.down.words * WORD_BYTES
_AVAILABLE: Final = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


@dataclass(frozen=True)
class TcpServer:
    """A job at a server over TCP. `values`: of a gradient. `control`: the congestion control of both ends."""

    values: int
    steps: int
    control: str

    @property
    def chunks(self) -> int:
        """Messages of a worker in a step."""
        return math.ceil(self.values / _OP.values)


def known_controls() -> list[str]:
    """The congestion controls that this machine's kernel has."""
    return _AVAILABLE.read_text().split()


def run_tcp_server(job: TcpServer, options: RunOptions, results: Path, say: Say) -> list[float]:
    """Seconds of each step, the slowest worker's. `options`: the network with a server behind its switch, and its
    conditions. Raises LabError."""
    require_tools()
    folder = new_folder(results, latest=False)
    # Packets of TCP have no tags, so links have no priorities for them.
    options = replace(options, link=replace(options.link, priorities=False))
    with (
        interruptible(),
        open_session(options, switches.choose(options.switch), folder) as session,
        apply_conditions(session, options.conditions),
    ):
        seconds = _steps(job, session, options.deadline_s)
    say(f"server over TCP ({job.control}): {sum(seconds) / len(seconds):.3f} s a step")
    return seconds


def _steps(job: TcpServer, session: Session, deadline_s: float) -> list[float]:
    server = session.fabric.server
    if server is None:
        raise LabError("this experiment needs a server behind the switch")
    files = [session.folder / f"worker{rank}.json" for rank in range(len(session.fabric.hosts))]
    spec: dict[str, Any] = {
        "server": server.ip,
        "port": _PORT,
        "workers": len(files),
        "control": job.control,
        "steps": job.steps,
        "chunks": job.chunks,
        "contribution_bytes": CONTRIBUTION_BYTES,
        "result_bytes": RESULT_BYTES,
        "results": [str(file) for file in files],
    }
    path = session.folder / "spec.json"
    path.write_text(json.dumps(spec))
    with killed_after() as serving:
        name = "tcp-server"
        serving[name] = session.start(name, server, [sys.executable, "-m", _ENDS, str(path), SERVER])
        wait_said(serving[name], READY, session.log(name))
        # The server ends with the last worker, so only the switches must go on.
        session.run_workers(_ENDS, path, deadline_s)
    each = [json.loads(file.read_text()) for file in files]
    return [max(step) for step in zip(*each, strict=True)]
