# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A parameter server over TCP and its workers, on loopback."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sumwire_lab.experiments import tcp_server
from sumwire_lab.experiments.tcp_server import (
    CONTRIBUTION_BYTES,
    FRONT,
    RESULT_BYTES,
    ParameterServer,
    TcpServer,
    run_tcp_server,
    steps,
    tuned,
)
from sumwire_lab.options.run_options import RunOptions

CONTROL = "reno"


def spec(listener: socket.socket, **more: Any) -> dict[str, Any]:
    sizes = {"contribution_bytes": 512, "result_bytes": 1024, "chunks": 300, "steps": 3}
    server, port = listener.getsockname()
    return {"server": server, "port": port, "control": CONTROL, "tos": 0, **sizes, **more}


def listening() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    return listener


def test_every_worker_gets_all_results() -> None:
    async def job(listener: socket.socket) -> list[list[float]]:
        told = spec(listener, workers=3)
        serving = asyncio.ensure_future(ParameterServer(told).serve(listener))
        done = await asyncio.gather(*(steps(told) for _ in range(3)))
        await serving
        return done

    with listening() as listener:
        seconds = asyncio.run(asyncio.wait_for(job(listener), 60))
    assert [len(one) for one in seconds] == [3] * 3


def test_a_result_waits_for_all_workers_and_no_longer() -> None:
    async def results() -> tuple[int, int]:
        with listening() as listener:
            server = ParameterServer(spec(listener, workers=2, chunks=2, steps=1))
            serving = asyncio.ensure_future(server.serve(listener))
            ends = [await asyncio.open_connection(*listener.getsockname()) for _ in range(2)]
            (first, give), (_, other) = ends
            give.write(bytes(2 * 512))
            other.write(bytes(512 + 511))
            early = len(await first.readexactly(1024))
            assert server.done() == 1, "of the second chunk, a byte is missing"
            other.write(bytes(1))
            rest = len(await first.readexactly(1024))
            for _, writer in ends:
                writer.close()
            await serving
            return early, rest

    assert asyncio.run(asyncio.wait_for(results(), 60)) == (1024, 1024)


def test_both_ends_have_the_congestion_control_and_the_tag() -> None:
    with socket.socket() as one:
        wanted = next(name for name in tcp_server.known_controls())
        assert tuned(one, wanted, FRONT.tos) is one
        found = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        assert found.rstrip(b"\0").decode() == wanted
        # TCP keeps the two bits of ECN to itself.
        assert one.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) & 0xFC == 0xE0
        with pytest.raises(OSError):
            tuned(one, "of-nobody", 0)


def test_messages_are_as_long_as_those_of_thc() -> None:
    # docs/wire-format.md: 1024 values of 4 bits go up, of 8 bits come down.
    assert (CONTRIBUTION_BYTES, RESULT_BYTES) == (512, 1024)
    assert TcpServer(1025, 1, CONTROL).chunks == 2


def test_tagged_packets_and_no_others_have_a_tag_and_priorities(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No network is made here."""
    opened: list[RunOptions] = []
    told: list[dict[str, Any]] = []

    def call(_: object, given: dict[str, Any], _deadline_s: float) -> list[list[float]]:
        told.append(given)
        return [[1.0], [2.0]]

    fabric = SimpleNamespace(server=SimpleNamespace(ip="10.0.0.9"), hosts=[1, 2])
    session = SimpleNamespace(fabric=fabric, folder=tmp_path, start=lambda *_: None, log=lambda _: tmp_path, call=call)

    def open_session(options: RunOptions, *_: object) -> AbstractContextManager[Any]:
        opened.append(options)
        return nullcontext(session)

    monkeypatch.setattr(tcp_server, "network_experiment", nullcontext)
    monkeypatch.setattr(tcp_server, "open_session", open_session)
    monkeypatch.setattr(tcp_server, "apply_conditions", lambda *_: nullcontext())
    monkeypatch.setattr(tcp_server, "killed_after", lambda: nullcontext({}))
    monkeypatch.setattr(tcp_server, "wait_said", lambda *_: None)
    for tag in (None, FRONT):
        job = TcpServer(1024, 1, CONTROL, tag)
        assert run_tcp_server(job, RunOptions(switch="soft"), tmp_path, print) == [2.0], "the slowest worker's"
    assert [options.link.priorities for options in opened] == [False, True]
    assert [given["tos"] for given in told] == [0, FRONT.tos]
