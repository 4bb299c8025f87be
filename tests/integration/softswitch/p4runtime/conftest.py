# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A served switch per test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from helpers.p4runtime.client import CPU_PORT, DEVICE_ID, Controller, Program
from softswitch.p4runtime.server import P4RuntimeServer, serve
from softswitch.switch import SoftSwitch

Connect = Callable[[], Controller]


@pytest.fixture
def switch() -> SoftSwitch:
    return SoftSwitch(engine="python", cpu_port=CPU_PORT)


@pytest.fixture
def server(switch: SoftSwitch) -> Iterator[P4RuntimeServer]:
    server = serve(switch, "127.0.0.1:0", DEVICE_ID, CPU_PORT)
    yield server
    server.stop()


@pytest.fixture
def connect(server: P4RuntimeServer) -> Iterator[Connect]:
    """Makes controllers of the switch, closed after the test."""
    controllers: list[Controller] = []

    def connect() -> Controller:
        controllers.append(Controller(server.port))
        return controllers[-1]

    yield connect
    for controller in controllers:
        controller.close()


@pytest.fixture(scope="session")
def program() -> Program:
    return Program("tables")


@pytest.fixture
def primary(connect: Connect, program: Program) -> Controller:
    """The primary controller of a switch that runs programs/tables.p4."""
    controller = connect()
    controller.become(1)
    controller.set_pipeline(program.config())
    return controller
