# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Connections that never come to a call are ended, with and without TLS, and keep nobody out."""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from fuzz.p4runtime.__main__ import Campaign
from fuzz.p4runtime.load_test import BEGINNINGS, CROWD_SIZES, run_load_test, silent_connections
from helpers.certificates import authority
from helpers.p4runtime.client import DEVICE_ID, PROGRAMS, TIMEOUT_SECONDS
from helpers.p4runtime.fake_device import FakeDevice
from p4.v1 import p4runtime_pb2 as p4rt
from p4.v1 import p4runtime_pb2_grpc
from softswitch.p4runtime import server as module
from softswitch.p4runtime.server import Tls, allow_connections, serve

COUNT = 40 * len(BEGINNINGS)


def hasten(monkeypatch: pytest.MonkeyPatch, option: str, divisor: int) -> None:
    """A time of the server is divided: a test does not wait as long. Where the option is gone nothing changes."""
    options = tuple((name, value // divisor if name == option else value) for name, value in module._OPTIONS)
    monkeypatch.setattr(module, "_OPTIONS", options)


@pytest.fixture
def quick_handshakes(monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch, "grpc.server_handshake_timeout_ms", 10)


@pytest.fixture
def quick_idleness(monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch, "grpc.max_connection_idle_ms", 100)


@contextmanager
def served(tls: Tls | None = None) -> Iterator[str]:
    """The address of a server."""
    server = serve(FakeDevice(), "127.0.0.1:0", DEVICE_ID, tls=tls)
    try:
        yield f"127.0.0.1:{server.port}"
    finally:
        server.stop()


def answered(channel: grpc.Channel) -> None:
    p4runtime_pb2_grpc.P4RuntimeStub(channel).Capabilities(p4rt.CapabilitiesRequest(), timeout=TIMEOUT_SECONDS)


def wait_for_end(connection: socket.socket) -> None:
    """Raises TimeoutError where the server leaves the connection open."""
    connection.settimeout(TIMEOUT_SECONDS)
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass


@pytest.mark.usefixtures("quick_handshakes")
def test_connections_without_a_call() -> None:
    with served() as address, silent_connections(address, DEVICE_ID, COUNT) as connections:
        with grpc.insecure_channel(address) as channel:
            answered(channel)
        for connection in connections:
            wait_for_end(connection)


@pytest.mark.openssl
@pytest.mark.usefixtures("quick_handshakes")
def test_connections_without_a_handshake(tmp_path: Path) -> None:
    ca = authority(tmp_path)
    own, client = ca.sign("switch"), ca.sign("client")
    tls = Tls(own.certificate, own.key, ca.certificate, client_auth=True)
    with served(tls) as address, silent_connections(address, DEVICE_ID, COUNT) as connections:
        files = (ca.certificate, client.key, client.certificate)
        credentials = grpc.ssl_channel_credentials(*(file.read_bytes() for file in files))
        with grpc.secure_channel(address, credentials) as channel:
            answered(channel)
        for connection in connections:
            wait_for_end(connection)


@pytest.mark.usefixtures("quick_idleness")
def test_a_connection_without_calls_is_ended_and_its_client_comes_again() -> None:
    was_ready, idle = threading.Event(), threading.Event()

    def watch(state: grpc.ChannelConnectivity) -> None:
        if state is grpc.ChannelConnectivity.IDLE and was_ready.is_set():
            idle.set()

    with served() as address, grpc.insecure_channel(address) as channel:
        answered(channel)
        was_ready.set()
        channel.subscribe(watch)
        assert idle.wait(TIMEOUT_SECONDS)
        answered(channel)


def test_files_for_all_connections() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] - 1, before[1]))
    try:
        allow_connections()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.long
def test_a_load_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """The short form: fewer callers. `make fuzz-p4runtime` has as many as there may be."""
    for kind in CROWD_SIZES:
        monkeypatch.setitem(CROWD_SIZES, kind, 20)
    campaign = Campaign(PROGRAMS / "tables.p4info.txtpb", PROGRAMS / "tables.json", 1, "soft")
    result = run_load_test(campaign.config, "python")
    assert set(result["answers_s"]) == {"nothing", *(f"20 {kind}" for kind in CROWD_SIZES)}
    assert result["grown_mib"] < 100
