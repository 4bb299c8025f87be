# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A served device per test: the fake, and the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from helpers.p4runtime.client import CPU_PORT, DEVICE_ID, Controller, Program
from helpers.p4runtime.fake_device import FakeDevice
from softswitch.device import Device
from softswitch.p4runtime.server import P4RuntimeServer, serve
from softswitch.switch import SoftSwitch

Connect = Callable[..., Controller]


def echo_to_cpu(port: int, frame: bytes) -> list[bytes]:
    """What programs/tables.p4 does with a packet-out to the CPU port: the packet-in header takes its place."""
    if port != CPU_PORT or int.from_bytes(frame[:2], "big") >> 7 != CPU_PORT:
        return []
    tag = frame[1] & 0x7F
    return [(CPU_PORT << 7 | tag).to_bytes(2, "big") + frame[2:]]


@pytest.fixture(params=["fake", "engine"])
def device(request: pytest.FixtureRequest) -> Device:
    return FakeDevice(echo_to_cpu) if request.param == "fake" else SoftSwitch(cpu_port=CPU_PORT)


@pytest.fixture
def fake() -> FakeDevice:
    return FakeDevice(echo_to_cpu)


def _served(device: Device) -> Iterator[P4RuntimeServer]:
    server = serve(device, "127.0.0.1:0", DEVICE_ID, CPU_PORT)
    yield server
    server.stop()


@pytest.fixture
def server(device: Device) -> Iterator[P4RuntimeServer]:
    yield from _served(device)


@pytest.fixture
def fake_server(fake: FakeDevice) -> Iterator[P4RuntimeServer]:
    yield from _served(fake)


def _connector(server: P4RuntimeServer) -> Iterator[Connect]:
    controllers: list[Controller] = []

    def connect() -> Controller:
        controllers.append(Controller(server.port))
        return controllers[-1]

    yield connect
    for controller in controllers:
        controller.close()


@pytest.fixture
def connect(server: P4RuntimeServer) -> Iterator[Connect]:
    """Makes controllers of the device under test, closed after the test."""
    yield from _connector(server)


@pytest.fixture
def connect_fake(fake_server: P4RuntimeServer) -> Iterator[Connect]:
    yield from _connector(fake_server)


@pytest.fixture(scope="session")
def program() -> Program:
    return Program("tables")


@pytest.fixture
def primary(connect: Connect, program: Program) -> Controller:
    """The primary controller of a device that runs programs/tables.p4."""
    controller = connect()
    controller.become(1)
    controller.set_pipeline(program.config())
    return controller
