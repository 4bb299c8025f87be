# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The server from its start to its end: programs, calls, threads."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from google.rpc import code_pb2
from helpers.p4runtime.client import DEVICE_ID, PROGRAMS, Controller, Program, code_of
from softswitch.p4runtime.calls import Call, Turns
from softswitch.p4runtime.server import BindError, serve
from softswitch.switch import SoftSwitch


@pytest.mark.p4c
@pytest.mark.parametrize("name", sorted(path.stem for path in PROGRAMS.glob("*.json")))
def test_compiled_program_is_current(tmp_path: Path, name: str) -> None:
    for source in PROGRAMS.glob("*.p4"):
        shutil.copy(source, tmp_path)
    command = ["p4c-bm2-ss", "--std", "p4-16", "-o", f"{name}.json", "--p4runtime-files", f"{name}.p4info.txtpb"]
    subprocess.run([*command, f"{name}.p4"], cwd=tmp_path, check=True, timeout=60)
    for made in (f"{name}.json", f"{name}.p4info.txtpb"):
        assert (tmp_path / made).read_bytes() == (PROGRAMS / made).read_bytes(), made


NEWCOMERS = 5
MOST = 1000


async def pieces(turns: Turns, count: int, work: Callable[[], None]) -> None:
    call = Call()
    with turns.taking_part(call):
        for _ in range(count):
            await turns.run(call, work)


def test_a_long_call_goes_on_however_many_short_ones_come() -> None:
    done: list[str] = []

    async def newcomers(turns: Turns, long: asyncio.Task[None]) -> None:
        while not long.done() and len(done) < MOST:
            await asyncio.create_task(pieces(turns, 1, lambda: done.append("short")))

    async def run() -> None:
        with ThreadPoolExecutor(1) as threads:
            turns = Turns(threads, 64)
            long = asyncio.create_task(pieces(turns, 6, lambda: done.append("long")))
            await asyncio.gather(long, *(newcomers(turns, long) for _ in range(NEWCOMERS)))

    asyncio.run(run())
    places = [place for place, kind in enumerate(done) if kind == "long"]
    assert len(places) == 6
    for had, (before, after) in enumerate(pairwise(places), 1):
        assert after - before <= NEWCOMERS + had + 1


def test_a_short_call_goes_before_long_ones() -> None:
    done: list[str] = []

    async def run() -> None:
        with ThreadPoolExecutor(1) as threads:
            turns = Turns(threads, 64)
            long = [asyncio.create_task(pieces(turns, 100, lambda: done.append("long"))) for _ in range(10)]
            while len(done) < 500:
                await asyncio.sleep(0)
            begun = len(done)
            await asyncio.create_task(pieces(turns, 3, lambda: done.append("short")))
            assert len(done) - begun <= 8  # of all ten long ones three pieces each would be thirty
            await asyncio.gather(*long)

    asyncio.run(run())


def server_threads() -> set[threading.Thread]:
    """Threads of all servers of this process: tests that ran before this one may keep servers of their own."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("p4runtime")}


def test_stop_ends_streams_and_threads() -> None:
    before = server_threads()
    switch = SoftSwitch(engine="python")
    server = serve(switch, "127.0.0.1:0", DEVICE_ID)
    controllers = [Controller(server.port) for _ in range(3)]
    for number, controller in enumerate(controllers):
        controller.become(number)
    # Servers of other tests may end meanwhile.
    assert server_threads() - before
    assert switch._cpu_frame is not None
    server.stop()
    for controller in controllers:
        end = controller.wait_for_end()
        assert (end.code, str(end)) == (code_pb2.UNAVAILABLE, "UNAVAILABLE: the switch is stopping")
        controller.close()
    assert server_threads() <= before
    assert switch._cpu_frame is None
    server.stop()  # once more changes nothing


def test_a_port_is_served_once_and_free_after_stop() -> None:
    first = serve(SoftSwitch(engine="python"), "127.0.0.1:0", DEVICE_ID)
    address = f"127.0.0.1:{first.port}"
    with pytest.raises(BindError, match=address):
        serve(SoftSwitch(engine="python"), address, DEVICE_ID)
    first.stop()
    second = serve(SoftSwitch(engine="python"), address, DEVICE_ID)
    assert second.port == first.port
    second.stop()


@pytest.mark.parametrize(
    ("address", "rule"),
    [
        ("unix:", "a Unix socket's path has 1 to 107 bytes"),  # would be abstract, and everybody's
        ("unix:%00p4runtime", "a Unix socket's path has 1 to 107 bytes, without %"),
        (f"unix:{'a' * 108}", "a Unix socket's path has 1 to 107 bytes"),
        ("127.0.0.1:65536", "ports are 0..65535"),
        (f"[::1]:{'9' * 5000}", "ports are 0..65535"),
        ("localhost", "an address is HOST:PORT or unix:PATH"),  # gRPC would take port 443
        ("[::1]", "an address is HOST:PORT or unix:PATH"),
    ],
)
def test_an_address_that_would_be_another_is_refused(address: str, rule: str) -> None:
    with pytest.raises(BindError, match=f"(?s)cannot listen on .*: {rule}.*; choose another: --grpc-server-addr"):
        serve(SoftSwitch(engine="python"), address, DEVICE_ID)


def test_the_longest_path_of_a_socket(tmp_path: Path) -> None:
    path = tmp_path / ("a" * (106 - len(str(tmp_path))))
    server = serve(SoftSwitch(engine="python"), f"unix:{path}", DEVICE_ID)
    assert path.stat().st_mode & 0o777 == 0o600
    server.stop()


def test_two_devices_in_one_process(program: Program) -> None:
    servers = [serve(SoftSwitch(engine="python"), "127.0.0.1:0", DEVICE_ID) for _ in range(2)]
    controllers = [Controller(server.port) for server in servers]
    for controller in controllers:
        controller.become(1)
    controllers[0].set_pipeline(program.config())
    assert [code_of(controller.read) for controller in controllers] == ["OK", "FAILED_PRECONDITION"]
    for controller, server in zip(controllers, servers, strict=True):
        controller.close()
        server.stop()


class EmitsForever(SoftSwitch):
    """Sends to the CPU port from a thread of its own, as a switch under load does."""

    def __init__(self) -> None:
        super().__init__(engine="python")
        self.halt = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self.halt.is_set():
            self.to_cpu(b"\x02\x83" + bytes(100))


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
