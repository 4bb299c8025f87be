# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Starting and stopping a server, and a controller that goes away at a bad moment."""

from __future__ import annotations

import threading

import pytest
from google.rpc import code_pb2
from helpers.p4runtime.client import DEVICE_ID, Controller, Program, code_of
from helpers.p4runtime.fake_device import FakeDevice
from softswitch.p4runtime.server import BindError, serve


def server_threads() -> set[threading.Thread]:
    """Threads of all servers of this process: tests that ran before this one may keep servers of their own."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("p4runtime")}


def test_stop_ends_streams_and_threads() -> None:
    before = server_threads()
    device = FakeDevice()
    server = serve(device, "127.0.0.1:0", DEVICE_ID)
    controllers = [Controller(server.port) for _ in range(3)]
    for number, controller in enumerate(controllers):
        controller.become(number)
    # Servers of other tests may end meanwhile.
    assert server_threads() - before
    assert device.is_listened_to
    server.stop()
    for controller in controllers:
        end = controller.wait_for_end()
        assert (end.code, str(end)) == (code_pb2.UNAVAILABLE, "UNAVAILABLE: the switch is stopping")
        controller.close()
    assert server_threads() <= before
    assert not device.is_listened_to
    server.stop()  # once more changes nothing


def test_a_port_is_served_once_and_free_after_stop() -> None:
    first = serve(FakeDevice(), "127.0.0.1:0", DEVICE_ID)
    address = f"127.0.0.1:{first.port}"
    with pytest.raises(BindError, match=address):
        serve(FakeDevice(), address, DEVICE_ID)
    first.stop()
    second = serve(FakeDevice(), address, DEVICE_ID)
    assert second.port == first.port
    second.stop()


def test_two_devices_in_one_process(program: Program) -> None:
    servers = [serve(FakeDevice(), "127.0.0.1:0", DEVICE_ID) for _ in range(2)]
    controllers = [Controller(server.port) for server in servers]
    for controller in controllers:
        controller.become(1)
    controllers[0].set_pipeline(program.config())
    assert [code_of(controller.read) for controller in controllers] == ["OK", "FAILED_PRECONDITION"]
    for controller, server in zip(controllers, servers, strict=True):
        controller.close()
        server.stop()


class EmitsForever(FakeDevice):
    """Sends to the CPU port from a thread of its own, as a switch under load does."""

    def __init__(self) -> None:
        super().__init__()
        self.halt = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self.halt.is_set():
            self.emit(b"\x02\x83" + bytes(100))


def test_controllers_come_and_go_under_packet_ins(program: Program) -> None:
    before = server_threads()
    device = EmitsForever()
    server = serve(device, "127.0.0.1:0", DEVICE_ID)
    first = Controller(server.port)
    first.become(0)
    first.set_pipeline(program.config())
    device.thread.start()
    try:
        for election_id in range(1, 6):
            controller = Controller(server.port)
            assert controller.become(election_id).status.code == code_pb2.OK
            assert controller.receive().HasField("packet")
            controller.cancel()
            controller.close()
        first.close()
        server.stop()
    finally:
        device.halt.set()
        device.thread.join()
    assert server_threads() <= before
