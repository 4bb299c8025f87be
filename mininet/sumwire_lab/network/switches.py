# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The switches of a run: soft switch, bmv2, and a kernel bridge for the baseline. As Mininet's nodes: nodes.py."""

from __future__ import annotations

import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from nativelib import NoCompilerError, find_compiler

from sumwire_lab.errors import DeadlineError, MissingToolError, ProcessDiedError
from sumwire_lab.network.fabric import Fabric, SwitchPlan
from sumwire_lab.network.topology import SwitchFactory
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.system.leftovers import Ledger
from sumwire_lab.system.processes import last_lines, watch_fd

BMV2: Final = "simple_switch_grpc"
CPU_PORT: Final = 510
READY_SECONDS: Final = 30.0
_SEED_STEP: Final = 1009
_PROBE_SECONDS: Final = 0.05
_STOP_SECONDS: Final = 5.0


def choose(wanted: str) -> str:
    """`soft` or `bmv2` for `auto`: bmv2 where it is on PATH. Raises MissingToolError for a bmv2 that is not there."""
    there = shutil.which(BMV2) is not None
    if wanted == "bmv2" and not there:
        raise MissingToolError(f"switch=bmv2, but {BMV2} is not on PATH; switch=soft needs nothing")
    if wanted == "auto":
        return "bmv2" if there else "soft"
    return wanted


def choose_for(options: RunOptions) -> str:
    """The same for a run; `auto` is the soft switch where an engine is named or ports are impaired."""
    soft = options.engine != "auto" or options.impair is not None
    return choose("soft" if soft and options.switch == "auto" else options.switch)


def choose_engine(wanted: str) -> str:
    """`native` or `python` for `auto`: native where there is a compiler. Raises MissingToolError for a native engine
    that cannot be had."""
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
    """A TCP port of the loopback address that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def soft_command(
    interfaces: list[tuple[int, str]],
    grpc: str,
    impair: str | None,
    *,
    engine: str = "auto",
    device_id: int = 1,
    seed: int = 1,
) -> list[str]:
    """The soft switch's command line; the same shape as bmv2's. `seed` fixes what the program draws at random."""
    command = [sys.executable, "-m", "softswitch.cli", "--no-p4", *_ports(interfaces), "--device-id", str(device_id)]
    command += ["--seed", str(seed), "--engine", engine]
    if impair is not None:
        command += ["--impair", impair]
    return [*command, "--", "--grpc-server-addr", grpc, "--cpu-port", str(CPU_PORT)]


def bmv2_command(
    interfaces: list[tuple[int, str]], grpc: str, notices: Path, thrift_port: int | None, *, device_id: int = 1
) -> list[str]:
    """bmv2's command line. Two switches must share neither the socket of its notices nor the Thrift port.

    Thrift is not used, but where bmv2 was built with it (None: it was not), it takes a port.
    """
    command = [BMV2, "--no-p4", *_ports(interfaces), "--device-id", str(device_id), "--log-level", "warn"]
    command += ["--log-console", "--notifications-addr", f"ipc://{notices}"]
    if thrift_port is not None:
        command += ["--thrift-port", str(thrift_port)]
    return [*command, "--", "--grpc-server-addr", grpc, "--cpu-port", str(CPU_PORT)]


def seeded(impair: str, device_id: int) -> str:
    """The impairment with a seed of each switch's own, so that not all lose the same packets; the first's stays."""
    parts = [part for part in impair.split(",") if part]
    seed = sum(int(part.partition("=")[2]) for part in parts if part.startswith("seed="))
    others = [part for part in parts if not part.startswith("seed=")]
    return ",".join([*others, f"seed={seed + (device_id - 1) * _SEED_STEP}"])


def _has_thrift() -> bool:
    text = subprocess.run([BMV2, "--help"], capture_output=True, text=True, check=False)
    return "--thrift-port" in text.stdout + text.stderr


def _ports(interfaces: list[tuple[int, str]]) -> list[str]:
    return [word for port, name in interfaces for word in ("-i", f"{port}@{name}")]


class P4Process:
    """A P4 switch process on interfaces of the root namespace, without a program until a controller brings one."""

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
    ) -> None:
        self.kind = kind
        self.engine = choose_engine(engine) if kind == "soft" else None
        self.grpc = f"127.0.0.1:{free_tcp_port()}"
        self.device_id = device_id
        self._log = log
        self._ledger = ledger
        self._impair = None if impair is None else seeded(impair, device_id)
        self._seed = seed + device_id
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, interfaces: list[tuple[int, str]]) -> None:
        """Start it on (port, interface) pairs and wait until it answers. Raises what `wait_listening` raises."""
        if self.kind == "bmv2":
            thrift_port = free_tcp_port() if _has_thrift() else None
            notices = self._ledger.socket(str(self.device_id))
            command = bmv2_command(interfaces, self.grpc, notices, thrift_port, device_id=self.device_id)
        else:
            command = soft_command(
                interfaces,
                self.grpc,
                self._impair,
                engine=self.engine or "auto",
                device_id=self.device_id,
                seed=self._seed,
            )
        with self._log.open("wb") as log:
            # A session of its own: Ctrl-C in the terminal is for the run, which then stops the switch in its turn.
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._ledger.add_process(self.process.pid)
        wait_listening(self.process, self.grpc, self._log)

    def stop(self) -> None:
        if self.process is not None:
            stop_process(self.process)


def wait_listening(process: subprocess.Popen[bytes], address: str, log: Path, seconds: float = READY_SECONDS) -> None:
    """Return once `address` accepts connections.

    Raises ProcessDiedError with the log's end where the process ends first, DeadlineError after `seconds`.
    """
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + seconds
    with watch_fd(process.pid) as fd:
        while time.monotonic() < deadline:
            try:
                with socket.create_connection((host, int(port)), timeout=_PROBE_SECONDS):
                    return
            except OSError:
                pass  # not yet: wait for the process's end or the next probe, whichever comes first
            if select.select([fd], [], [], _PROBE_SECONDS)[0]:
                raise ProcessDiedError(f"the switch ended with {process.wait()}; {log} ends:\n{last_lines(log)}")
    raise DeadlineError(f"the switch does not listen on {address} after {seconds} s; {log} ends:\n{last_lines(log)}")


def wait_said(process: subprocess.Popen[bytes], beginning: str, log: Path, seconds: float = READY_SECONDS) -> None:
    """Return once a line of `log` has this beginning.

    Raises ProcessDiedError with the log's end where the process ends first, DeadlineError after `seconds`.
    """
    deadline = time.monotonic() + seconds
    with watch_fd(process.pid) as fd:
        while not any(line.startswith(beginning) for line in log.read_text().splitlines()):
            if select.select([fd], [], [], _PROBE_SECONDS)[0]:
                raise ProcessDiedError(f"{log.stem} ended with {process.wait()}; {log} ends:\n{last_lines(log)}")
            if time.monotonic() > deadline:
                raise DeadlineError(f"{log.stem} is not ready after {seconds} s; {log} ends:\n{last_lines(log)}")


def stop_process(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, and make it where it does not."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def bridge() -> SwitchFactory:
    """Makes the baseline's switches."""

    from sumwire_lab.network.mininet_nodes import BridgeNode

    def make(net: Any, fabric: Fabric, switch: SwitchPlan) -> Any:
        spare = frozenset(name for t in fabric.trunks if t.spare for name in (t.lower_interface, t.upper_interface))
        name = f"{fabric.token}-br{switch.device_id}"
        return net.addSwitch(switch.name, cls=BridgeNode, bridge=name, leave_out=spare)

    return make


def p4(processes: Mapping[str, P4Process]) -> SwitchFactory:
    """Puts P4 switches into the network: for each switch's name its process."""

    from sumwire_lab.network.mininet_nodes import P4Node

    def make(net: Any, fabric: Fabric, switch: SwitchPlan) -> Any:
        return net.addSwitch(switch.name, cls=P4Node, p4=processes[switch.name])

    return make
