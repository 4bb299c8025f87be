# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Switches to fuzz, as processes of their own: the soft switch, and bmv2's simple_switch_grpc."""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import text_format
from nativelib import programs
from p4.v1 import p4runtime_pb2
from sumwire_lab.network.switches import free_tcp_port, thrift_option

from fuzz.p4runtime.clients import Client, Elections, Outcome, with_id
from fuzz.p4runtime.model import name_of

DEVICE_ID = 7
CPU_PORT = 510
_START_S = 60.0
_STOP_S = 30.0


class TargetError(RuntimeError):
    """The switch did not start, or refused what it has to take."""


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


def config_of(p4info: Path) -> Any:
    """The pipeline config of a P4Info and the JSON beside it."""
    config = p4runtime_pb2.ForwardingPipelineConfig()
    text_format.Parse(p4info.read_text(), config.p4info)
    config.p4_device_config = p4info.with_name(p4info.name.replace(".p4info.txtpb", ".json")).read_bytes()
    return config


def require_ok(outcome: Outcome) -> None:
    if outcome.code:
        _refused(name_of(outcome.code), outcome.text[:500])


def _refused(what: str, how: str) -> None:
    raise TargetError(f"{what}: {how}; see the switch's log")


@contextmanager
def programmed(target: Target, config: Any) -> Iterator[tuple[Client, int | None]]:
    """The primary of a switch that has this pipeline, and its election id. Raises TargetError."""
    with closing(Client(target.address)) as client:
        elections = Elections([client], DEVICE_ID, 1, random.Random(1), _refused)
        elections.settle()
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=DEVICE_ID, config=config, action=3)
        require_ok(client.set_pipeline(with_id(request, elections.primary_id)))
        yield client, elections.primary_id
        elections.leave_all()


def folder() -> tempfile.TemporaryDirectory[str]:
    """With a short name: the path of a Unix socket has little room."""
    return tempfile.TemporaryDirectory(prefix="p4rt-")
