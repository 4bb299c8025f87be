# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Unit tests need no network, not even loopback, and no other process: both raise here.

One process may start: the C compiler, by nativelib, whose library is then kept (``$NATIVELIB_CACHE``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

import pytest

FORBIDDEN = frozenset({
    "socket.__new__", "socket.bind", "socket.connect", "subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn",
    "os.system",
})  # fmt: skip

_running: list[str] = []


class NotAUnitTestError(Exception):
    """A unit test opened a socket or started a process: its place is tests/integration."""


def _by_nativelib(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("nativelib."):
            return True
        frame = frame.f_back
    return False


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if event in FORBIDDEN and _running and not _by_nativelib(sys._getframe()):
        raise NotAUnitTestError(f"{event} in {_running[-1]}: such a test belongs in tests/integration")


sys.addaudithook(_watch)


@pytest.fixture(autouse=True)
def no_network_and_no_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    _running.append(request.node.nodeid)
    if "grpc" in sys.modules:  # its sockets are opened in C
        monkeypatch.setattr("grpc.server", _no_grpc)
        monkeypatch.setattr("grpc.insecure_channel", _no_grpc)
    yield
    _running.pop()


def _no_grpc(*_: object, **__: object) -> None:
    raise NotAUnitTestError(f"gRPC in {_running[-1]}: such a test belongs in tests/integration")
