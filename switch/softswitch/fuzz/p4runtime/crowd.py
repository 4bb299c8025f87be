# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A process of callers that say nothing, or ask for too much, while others have to be answered.

``python -m softswitch.fuzz.p4runtime.crowd KIND ADDRESS DEVICE_ID COUNT`` says "ready" when all of them are there, and
goes when its standard input ends.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress

import grpc
from p4.v1 import p4runtime_pb2

from softswitch.fuzz.p4runtime.client import Client

#: What a client of HTTP/2 says first, and a TLS client's first bytes.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
TLS_HELLO = bytes.fromhex("16030100c8010000c4")
#: How connections begin, and then say no more.
BEGINNINGS = (b"", PREFACE[:1], PREFACE[:-1], PREFACE, TLS_HELLO)
#: Bytes of a read of all counters a hundred times.
READ_BYTES = 402
_CONNECTIONS = 30
_METHODS = ("StreamChannel", "Write", "SetForwardingPipelineConfig", "GetForwardingPipelineConfig", "Capabilities")
_OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)
_READ_S = 60.0


@contextmanager
def half_open(address: str, _device_id: int, count: int) -> Iterator[None]:
    """Streams without an election, and calls without their message."""
    released = threading.Event()
    with ExitStack() as stack:
        channels = [
            stack.enter_context(closing(grpc.insecure_channel(address, options=_OWN_CONNECTION)))
            for _ in range(_CONNECTIONS)
        ]
        stack.callback(released.set)
        for number in range(count):
            method = f"/p4.v1.P4Runtime/{_METHODS[number % len(_METHODS)]}"
            call = channels[number % _CONNECTIONS].stream_stream(method)(_silence(released))
            stack.callback(call.cancel)
        yield


def _silence(released: threading.Event) -> Iterator[bytes]:
    released.wait()
    yield from ()


@contextmanager
def silent_connections(address: str, _device_id: int, count: int) -> Iterator[list[socket.socket]]:
    """Connections that never come to a call."""
    with ExitStack() as stack:
        opened = []
        for number in range(count):
            connection = stack.enter_context(_connected(address))
            with suppress(OSError):
                connection.sendall(BEGINNINGS[number % len(BEGINNINGS)])
            opened.append(connection)
        yield opened


def _connected(address: str) -> socket.socket:
    if address.startswith("unix:"):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address.removeprefix("unix:"))
        return connection
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)))


@contextmanager
def wide_reads(address: str, device_id: int, callers: int) -> Iterator[None]:
    """Every caller reads all counters a hundred times, again and again."""
    asked = p4runtime_pb2.Entity(counter_entry=p4runtime_pb2.CounterEntry())
    request = p4runtime_pb2.ReadRequest(device_id=device_id, entities=[asked] * 100).SerializeToString()
    assert len(request) == READ_BYTES
    ending = threading.Event()

    def read() -> None:
        with closing(Client(address)) as client:
            while not ending.is_set():
                client.read(request, deadline_s=_READ_S)

    threads = [threading.Thread(target=read) for _ in range(callers)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ending.set()
        for thread in threads:
            thread.join()


CROWDS: dict[str, Callable[[str, int, int], AbstractContextManager[object]]] = {
    "half-open": half_open,
    "silent": silent_connections,
    "wide-reads": wide_reads,
}

if __name__ == "__main__":
    _, kind, address_text, device_text, count_text = sys.argv
    with CROWDS[kind](address_text, int(device_text), int(count_text)):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
