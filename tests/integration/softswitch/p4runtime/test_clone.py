# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A clone session of a controller takes effect in the data plane: programs/clone.p4 in both engines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.p4runtime.client import CPU_PORT, DEVICE_ID, Controller, Program
from helpers.p4runtime.messages import FRAME, packet_out, update
from p4.v1 import p4runtime_pb2 as p4rt
from softswitch.p4runtime.server import serve
from softswitch.switch import EngineChoice, SoftSwitch


@pytest.fixture(params=["python", pytest.param("native", marks=pytest.mark.cc)])
def controller(request: pytest.FixtureRequest) -> Iterator[Controller]:
    engine: EngineChoice = request.param
    server = serve(SoftSwitch(engine=engine, cpu_port=CPU_PORT), "127.0.0.1:0", DEVICE_ID, CPU_PORT)
    controller = Controller(server.port)
    controller.become(1)
    controller.set_pipeline(Program("clone").config())
    yield controller
    controller.close()
    server.stop()


def test_clones_come_to_the_controller_as_long_as_their_session_is_there(controller: Controller) -> None:
    entity = p4rt.Entity()
    session = entity.packet_replication_engine_entry.clone_session_entry
    session.session_id = 5
    session.replicas.add(egress_port=CPU_PORT)
    cloned = packet_out((1, b"\x07"), (2, b"\x01"))  # leaves by port 7, task 1
    controller.send(cloned)
    assert controller.is_quiet()
    controller.write(update(p4rt.Update.INSERT, entity))
    controller.send(cloned)
    packet = controller.receive().packet
    # A clone keeps no metadata, and so no ingress port.
    assert [(each.metadata_id, each.value) for each in packet.metadata] == [(1, b"\x00"), (2, b"\x01")]
    assert packet.payload == FRAME
    controller.write(update(p4rt.Update.DELETE, entity))
    controller.send(cloned)
    assert controller.is_quiet()
