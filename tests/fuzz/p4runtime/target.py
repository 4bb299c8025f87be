# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Switches to fuzz, as processes of their own: the soft switch, and bmv2's simple_switch_grpc."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import grpc
from nativelib import programs
from sumwire_lab.network.switches import free_tcp_port, thrift_option

DEVICE_ID = 7
CPU_PORT = 510
_START_S = 60.0
_STOP_S = 30.0


class TargetError(RuntimeError):
    """The switch did not start."""


class Target:
    """A running switch. Use it as a context manager."""

    def __init__(self, command: Callable[[str, Path], list[str]], address: str, folder: Path) -> None:
        self.address = address
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command(address, folder), cwd=folder, stdout=log, stderr=subprocess.STDOUT)

    def __enter__(self) -> Target:
        channel = grpc.insecure_channel(self.address)
        try:
            grpc.channel_ready_future(channel).result(timeout=_START_S)
        except grpc.FutureTimeoutError:
            self.__exit__()
            raise TargetError(f"the switch does not answer: {self.log.read_text()[-2000:]}") from None
        finally:
            channel.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def status(self) -> int | None:
        """What the process ended with; None while it runs."""
        return self._process.poll()

    def resident_kib(self) -> int:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise TargetError("the switch has ended: see its log")


def soft(folder: Path, engine: str = "auto") -> Target:
    def command(address: str, _folder: Path) -> list[str]:
        door = ["--grpc-server-addr", address, "--device-id", str(DEVICE_ID), "--cpu-port", str(CPU_PORT)]
        return programs.module("softswitch", "--no-p4", "--engine", engine, *door)

    return Target(command, f"unix:{folder}/p4runtime", folder)


def bmv2(folder: Path, device_id: int = DEVICE_ID, cpu_port: int = CPU_PORT) -> Target:
    """Raises TargetError."""
    if shutil.which("simple_switch_grpc") is None:
        raise TargetError("simple_switch_grpc is not on PATH: install bmv2")

    def command(address: str, folder: Path) -> list[str]:
        own = ["--no-p4", "--device-id", str(device_id), *thrift_option()]
        own += ["--notifications-addr", f"ipc://{folder}/notifications.ipc"]
        return ["simple_switch_grpc", *own, "--", "--grpc-server-addr", address, "--cpu-port", str(cpu_port)]

    return Target(command, f"127.0.0.1:{free_tcp_port()}", folder)


def folder() -> tempfile.TemporaryDirectory[str]:
    """With a short name: the path of a Unix socket has little room."""
    return tempfile.TemporaryDirectory(prefix="p4rt-")
