# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Unit tests need no network, not even loopback, and no other process: both raise here.

Two modules may start a process, once on a machine: nativelib the C compiler, whose library is then kept
(``$NATIVELIB_CACHE``), and matplotlib the program that lists fonts.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from types import FrameType

import pytest

FORBIDDEN = frozenset({
    "socket.__new__", "socket.bind", "socket.connect", "subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn",
    "os.system",
})  # fmt: skip

ALLOWED = ("nativelib.", "matplotlib.font_manager")

_running: list[str] = []


class NotAUnitTestError(Exception):
    """A unit test opened a socket or started a process: its place is tests/integration."""


def _is_allowed(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(ALLOWED):
            return True
        frame = frame.f_back
    return False


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if event in FORBIDDEN and _running and not _is_allowed(sys._getframe()):
        raise NotAUnitTestError(f"{event} in {_running[-1]}: such a test belongs in tests/integration")


sys.addaudithook(_watch)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Watch over the whole test, fixtures of every scope included."""
    if not item.path.is_relative_to(Path(__file__).parent):  # pytest calls this for all tests of a run
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        if "grpc" in sys.modules:  # its sockets are opened in C
            patch.setattr("grpc.server", _no_grpc)
            patch.setattr("grpc.insecure_channel", _no_grpc)
        _running.append(item.nodeid)
        try:
            return (yield)
        finally:
            _running.pop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """With the last test of all end the fixtures of the whole run, whichever tests they were for."""
    watched = _running.copy()
    if nextitem is None:
        _running.clear()
    try:
        return (yield)
    finally:
        _running[:] = watched


def _no_grpc(*_: object, **__: object) -> None:
    raise NotAUnitTestError(f"gRPC in {_running[-1]}: such a test belongs in tests/integration")
