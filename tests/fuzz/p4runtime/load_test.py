# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Load test: how soon a switch answers, and how its memory grows, while crowds of callers hold it up.

``python -m fuzz.p4runtime.load_test KIND ADDRESS DEVICE_ID COUNT`` is the process of one crowd: callers that say
nothing, or ask for too much. It says "ready" when all of them are there, and goes when its standard input ends.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
from nativelib import programs
from p4.v1 import p4runtime_pb2

from fuzz.p4runtime.clients import Client, Outcome, with_id
from fuzz.p4runtime.target import DEVICE_ID, Target, TargetError, folder, programmed, require_ok, soft

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


#: How many callers of each kind.
CROWD_SIZES = {"half-open": 1000, "silent": 1000, "wide-reads": 30}
_PROBES = 5
# The folder that this package is in.
_TESTS = str(Path(__file__).parents[2])
_PROBE_S = 60.0

Json = dict[str, Any]


def run_load_test(config: Any, engine: str = "auto") -> Json:
    """``answers_s``: the slowest answer to other callers, by what the crowd did. Raises TargetError."""
    with (
        folder() as name,
        soft(Path(name), engine) as target,
        programmed(target, config) as (client, election_id),
    ):
        answers = {"nothing": _slowest(target, client, election_id)}
        before = most = target.resident_kib()
        for kind, count in CROWD_SIZES.items():
            with _crowd(kind, target.address, count):
                answers[f"{count} {kind}"] = _slowest(target, client, election_id)
                most = max(most, target.resident_kib())
    return {"answers_s": answers, "grown_mib": round((most - before) / 1024, 1)}


@contextmanager
def _crowd(kind: str, address: str, count: int) -> Iterator[None]:
    command = programs.module("fuzz.p4runtime.load_test", kind, address, str(DEVICE_ID), str(count))
    with (
        subprocess.Popen(
            command,
            env=programs.environment({"PYTHONPATH": _TESTS}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
        ExitStack() as end,
    ):
        end.callback(process.kill)
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise TargetError(f"the crowd {kind} did not come; see its error above")
        yield


def _slowest(target: Target, primary: Client, election_id: int | None) -> float:
    """Seconds that a call took at most: Capabilities and a read of all tables, each time of a caller that has just
    come, and a write."""
    read = p4runtime_pb2.ReadRequest(device_id=DEVICE_ID)
    read.entities.add().table_entry.SetInParent()
    write = with_id(p4runtime_pb2.WriteRequest(device_id=DEVICE_ID), election_id).SerializeToString()
    slowest = 0.0
    for _ in range(_PROBES):
        with closing(Client(target.address)) as client:
            calls: tuple[Callable[[], Outcome], ...] = (
                lambda: client.capabilities(_PROBE_S),
                lambda: client.read(read.SerializeToString(), _PROBE_S),
                lambda: primary.write(write),
            )
            for call in calls:
                started = time.monotonic()
                require_ok(call())
                slowest = max(slowest, time.monotonic() - started)
    return round(slowest, 3)


if __name__ == "__main__":
    _, kind, address_text, device_text, count_text = sys.argv
    with CROWDS[kind](address_text, int(device_text), int(count_text)):
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
