# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Chooses a run's switch, and starts the process of a P4 switch: the soft switch or bmv2."""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import shutil
import socket
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from nativelib import NoCompilerError, find_compiler, programs

from sumwire_lab.errors import MissingToolError
from sumwire_lab.options.run_options import UNLIMITED, RunOptions
from sumwire_lab.system.leftovers import Ledger
from sumwire_lab.system.metrics_sockets import LAST_S, MetricsSockets
from sumwire_lab.system.processes import stop_process, wait_listening

BMV2: Final = "simple_switch_grpc"
CPU_PORT: Final = 510
_SEED_STEP: Final = 1009


def choose(wanted: str) -> str:
    """Return the kind of switch to use; `auto` becomes bmv2 if it is on PATH, else soft.

    Raises MissingToolError if bmv2 is wanted and not on PATH.
    """
    there = shutil.which(BMV2) is not None
    if wanted == "bmv2" and not there:
        raise MissingToolError(f"switch=bmv2, but {BMV2} is not on PATH; switch=soft needs nothing")
    if wanted == "auto":
        return "bmv2" if there else "soft"
    return wanted


def choose_for(options: RunOptions) -> str:
    """Return the kind of switch for a run. With an engine or an impairment, `auto` becomes the soft switch."""
    soft = options.engine != "auto" or options.impair is not None
    return choose("soft" if soft and options.switch == "auto" else options.switch)


def choose_engine(wanted: str) -> str:
    """Return the engine to use; `auto` becomes native if there is a compiler, else python.

    Raises MissingToolError if the native engine is wanted and there is no compiler.
    """
    if wanted == "python":
        return wanted
    try:
        find_compiler(wide_bitint=True)
    except NoCompilerError as error:
        if wanted == "native":
            raise MissingToolError(f"engine=native, but there is {error}") from error
        return "python"
    return "native"


def free_tcp_port() -> int:
    """Return a TCP port of the loopback address on which no process listens now.

    It is below the ports that the kernel gives to connections, so that no connection takes it before a server does.
    """
    # Of the system's randomness: test workers with one seed would draw the same ports.
    draw = random.SystemRandom()
    while True:
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", draw.randrange(10_000, 32_768))) as probe:
            return int(probe.getsockname()[1])


def thrift_option() -> list[str]:
    """Return bmv2's option for a free port of Thrift. Every bmv2 needs a separate port, and one built without Thrift
    refuses the option.

    The lab does not use Thrift.
    """
    text = subprocess.run([BMV2, "--help"], capture_output=True, text=True, check=False)
    return ["--thrift-port", str(free_tcp_port())] if "--thrift-port" in text.stdout + text.stderr else []


def soft_command(
    interfaces: list[tuple[int, str]],
    grpc: str,
    impair: str | None,
    *,
    engine: str = "auto",
    device_id: int = 1,
    seed: int = 1,
    trains: bool = True,
    link_mbit: float | None = None,
) -> list[str]:
    """Return the soft switch's command line, in the form of bmv2's.

    `seed`: that of the program's random numbers. `trains`: False sends and receives packets one by one. `link_mbit`:
    rate of the links, which limits trains; None: that of the interfaces.
    """
    command = programs.module("softswitch.cli", "--no-p4", *_ports(interfaces), "--device-id", str(device_id))
    command += ["--seed", str(seed), "--engine", engine]
    if impair is not None:
        command += ["--impair", impair]
    if not trains:
        command.append("--no-trains")
    if link_mbit is not None and link_mbit != UNLIMITED:
        command += ["--link-mbit", f"{link_mbit:g}"]
    return [*command, *unprivileged(), "--", "--grpc-server-addr", grpc, "--cpu-port", str(CPU_PORT)]


def unprivileged() -> list[str]:
    """Return the option with which a program of this project gives up root's rights: for user sumwire if there is one,
    else nobody.

    bmv2 has no such option, and stays root.
    """
    users = {entry.pw_name for entry in pwd.getpwall()}
    return next((["--user", name] for name in ("sumwire", "nobody") if name in users), [])


def bmv2_command(
    interfaces: list[tuple[int, str]], grpc: str, notices: Path, thrift: Sequence[str], *, device_id: int = 1
) -> list[str]:
    """Bmv2's command line. `notices`: the socket of its notifications. `thrift`: the result of `thrift_option`."""
    command = [BMV2, "--no-p4", *_ports(interfaces), "--device-id", str(device_id), "--log-level", "warn"]
    command += ["--log-console", "--notifications-addr", f"ipc://{notices}"]
    return [*command, *thrift, "--", "--grpc-server-addr", grpc, "--cpu-port", str(CPU_PORT)]


def seeded(impair: str, device_id: int) -> str:
    """Return the impairment with a different seed for each switch, so that they do not lose the same packets.

    Device 1 keeps the given seed.
    """
    parts = [part for part in impair.split(",") if part]
    seed = sum(int(part.partition("=")[2]) for part in parts if part.startswith("seed="))
    others = [part for part in parts if not part.startswith("seed=")]
    return ",".join([*others, f"seed={seed + (device_id - 1) * _SEED_STEP}"])


def _ports(interfaces: list[tuple[int, str]]) -> list[str]:
    return [word for port, name in interfaces for word in ("-i", f"{port}@{name}")]


class P4Process:
    """The process of a P4 switch on interfaces of the root namespace. A controller loads its program later, over a Unix
    socket that only root may open."""

    def __init__(
        self,
        kind: str,
        log: Path,
        ledger: Ledger,
        *,
        engine: str = "auto",
        impair: str | None = None,
        device_id: int = 1,
        seed: int = 1,
        trains: bool = True,
        link_mbit: float | None = None,
        metrics: MetricsSockets | None = None,
    ) -> None:
        self.kind = kind
        self.engine = choose_engine(engine) if kind == "soft" else None
        self.grpc = f"unix:{ledger.socket(f'{device_id}-p4rt')}"
        self.device_id = device_id
        self._log = log
        self._ledger = ledger
        self._impair = None if impair is None else seeded(impair, device_id)
        self._seed = seed + device_id
        self._trains = trains
        self._link_mbit = link_mbit
        # bmv2 serves none.
        self._metrics = metrics if kind == "soft" else None
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, interfaces: list[tuple[int, str]]) -> None:
        """Start on (port, interface) pairs and wait until it accepts connections, also after an earlier one has died.

        Raises the errors of `wait_listening`.
        """
        if self.kind == "bmv2":
            notices = self._ledger.socket(str(self.device_id))
            command = bmv2_command(interfaces, self.grpc, notices, thrift_option(), device_id=self.device_id)
        else:
            command = soft_command(
                interfaces,
                self.grpc,
                self._impair,
                engine=self.engine or "auto",
                device_id=self.device_id,
                seed=self._seed,
                trains=self._trains,
                link_mbit=self._link_mbit,
            )
        with self._log.open("ab") as log, ExitStack() as stack:
            fds: list[int] = []
            if self._metrics is not None:
                fds = [stack.enter_context(self._metrics.handed_over("switch"))]
                command[command.index("--") : command.index("--")] = ["--metrics", f"fd:{fds[0]}"]
            # A session of its own, so that Ctrl-C in the terminal reaches only the run, which then stops the switch.
            # The umask is for bmv2, which leaves its socket's mode to it.
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,
                pass_fds=fds,
                env={**os.environ, "SUMWIRE_METRICS_LAST_S": f"{LAST_S:g}"} if fds else None,
            )
        self._ledger.add_process(self.process.pid)
        wait_listening(self.process, self.grpc, self._log)

    def stop(self) -> None:
        if self.process is not None:
            stop_process(self.process)


_QUEUE_PACKETS: Final = 64
BMV2_SLOTS: Final = 2 * _QUEUE_PACKETS
"""The most slots of a job on bmv2, those of its lanes together: half of them are in flight."""


def fitted(jobs: Sequence[dict[str, Any]], kind: str | None) -> list[dict[str, Any]]:
    """Return the jobs (in the controller's configuration) with as many slots as this kind of switch supports."""
    if kind != "bmv2":
        return list(jobs)
    return [{**entry, "slots": _at_most(entry["slots"])} for entry in jobs]


def _at_most(slots: dict[str, int]) -> dict[str, int]:
    return {**slots, "count": min(slots["count"], BMV2_SLOTS)}
