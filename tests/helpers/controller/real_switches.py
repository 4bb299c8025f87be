# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Real P4Runtime servers: the soft switch in this process or in one of its own, and bmv2; programs as processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from softswitch.p4runtime.server import ServerTls, serve
from softswitch.switch import SoftSwitch
from sumwire_controller.deploy.switch import P4Switch
from sumwire_controller.errors import SwitchUnreachableError
from sumwire_controller.model import Switch, Tls
from sumwire_lab.network.switches import free_tcp_port, thrift_option

READY_S = 300.0


@contextmanager
def soft_switch(
    device: SoftSwitch, device_id: int = 1, *, address: str = "127.0.0.1:0", tls: ServerTls | None = None
) -> Iterator[str]:
    """Serves a soft switch: on a free port, or at a Unix socket."""
    server = serve(device, address, device_id, tls=tls)
    try:
        yield address if address.startswith("unix:") else f"127.0.0.1:{server.port}"
    finally:
        server.stop()


@contextmanager
def program(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A module of this Python's path as a process, killed with the test. Its output and its errors are pipes."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-m", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def soft_switch_process(device_id: int = 1) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A soft switch in a process of its own, and its address."""
    options = ("--no-p4", "--device-id", str(device_id), "--engine", "python", "--insecure")
    with program("softswitch.cli", *options, "--grpc-server-addr", "127.0.0.1:0") as process:
        assert process.stderr is not None
        ready = next(line for line in iter(process.stderr.readline, "") if "ready" in line)
        yield process, f"127.0.0.1:{ready.split('P4Runtime port ')[1].split(',')[0]}"


@contextmanager
def bmv2(
    log: Path, device_id: int = 1, *, address: str = "", options: Sequence[object] = (), tls: Tls | None = None
) -> Iterator[str]:
    """Runs bmv2 without interfaces: on a free port, or at a Unix socket.

    `options` are more of its own, `tls` is the controller's.
    """
    address = address or f"127.0.0.1:{free_tcp_port()}"
    command = ["simple_switch_grpc", *thrift_option(), "--no-p4", "--device-id", str(device_id), "--"]
    command += ["--grpc-server-addr", address, *map(str, options)]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            _until_it_answers(Switch("probe", address, device_id, tls), process, log)
            yield address
        finally:
            process.terminate()


def _until_it_answers(switch: Switch, process: subprocess.Popen[bytes], log: Path) -> None:
    """Open sessions until one succeeds. Each attempt has a deadline of its own, so nothing sleeps."""
    end = time.monotonic() + READY_S
    while True:
        try:
            P4Switch(switch, 1.0).close()
            return
        except SwitchUnreachableError as error:
            if process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"bmv2 is not up: {error}\n{log.read_text()}") from error
