# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Who gets a place at a small HTTP server, and who loses it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from itertools import count
from typing import Any

import pytest
from commonlib.http_server import GuardedServer, _Rates, _Shunned, is_own_name

PLACES = 4


class _Handler(BaseHTTPRequestHandler):
    """``/now`` is answered at once; other callers are kept until ``ends``."""

    server: GuardedServer
    ends = threading.Event()
    timeout = 60

    def do_GET(self) -> None:
        self.server.heard(self.request, stays=self.path == "/stays")
        if self.path != "/now":
            self.wfile.write(b"kept")
            self.wfile.flush()
            self.ends.wait(60)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def serving(call_s: float = 60.0) -> Iterator[int]:
    _Handler.ends.clear()
    server = GuardedServer(("127.0.0.1", 0), _Handler, places=PLACES, call_s=call_s)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        _Handler.ends.set()
        server.shutdown()
        thread.join()
        server.server_close()


def caller(stack: ExitStack, port: int, text: bytes, source: str = "127.0.0.1") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(source, 0))
    stack.enter_context(made)
    made.sendall(text)
    return made


def kept(stack: ExitStack, port: int, source: str, path: str = "/kept") -> socket.socket:
    made = caller(stack, port, f"GET {path} HTTP/1.0\r\n\r\n".encode(), source)
    assert made.recv(4) == b"kept"
    return made


def answer(stack: ExitStack, port: int, source: str = "127.0.0.1") -> bytes:
    try:
        return caller(stack, port, b"GET /now HTTP/1.0\r\n\r\n", source).recv(12)
    except ConnectionError:
        return b""


def test_those_who_say_nothing_make_room() -> None:
    with serving() as port, ExitStack() as stack:
        silent = [caller(stack, port, b"GET /now HTTP/1.0\r\n") for _ in range(3 * PLACES)]
        assert answer(stack, port) == b"HTTP/1.0 200"
        # The oldest ones are gone, and none of those that have a place.
        assert silent[0].recv(1) == b""


def test_one_address_cannot_keep_another_out() -> None:
    with serving() as port, ExitStack() as stack:
        crowd = [kept(stack, port, "127.0.0.2") for _ in range(PLACES)]
        assert answer(stack, port, "127.0.0.2") == b"", "it has all places already"
        assert answer(stack, port, "127.0.0.3") == b"HTTP/1.0 200"
        assert crowd[0].recv(1) == b"", "the oldest of the crowd has lost its place"


def test_an_address_that_connects_all_the_time_keeps_no_other_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its connections would cost a thread; most cost none."""
    given, admitted, began = GuardedServer.process_request_thread, list[str](), time.monotonic()

    def counted(server: GuardedServer, request: Any, client_address: Any) -> None:
        admitted.append(client_address[0])
        given(server, request, client_address)

    shun, shunned = _Shunned.add, set[str]()

    def noted(self: _Shunned, address: str, now: float) -> None:
        shunned.add(address)
        shun(self, address, now)

    monkeypatch.setattr(GuardedServer, "process_request_thread", counted)
    monkeypatch.setattr(_Shunned, "add", noted)
    with serving() as port, ExitStack() as stack:
        ends = threading.Event()

        def connect() -> None:
            while not ends.is_set():
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1, ("127.0.0.9", 0)):
                    pass

        crowd = [threading.Thread(target=connect) for _ in range(8)]
        for thread in crowd:
            thread.start()
        try:
            time.sleep(1)
            for _ in range(5):
                assert answer(stack, port, "127.0.0.8") == b"HTTP/1.0 200"
        finally:
            ends.set()
            for thread in crowd:
                thread.join()
        # A burst of 128, and 64 a second.
        assert admitted.count("127.0.0.9") <= 129 + 64 * (time.monotonic() - began)
        assert shunned == {"127.0.0.9"}


def test_the_kernel_drops_what_a_shunned_address_sends_until_its_time_is_over() -> None:
    def connects(source: str) -> bool:
        try:
            socket.create_connection(listener.getsockname(), 0.2, (source, 0)).close()
        except TimeoutError:
            return False
        return True

    with socket.create_server(("127.0.0.1", 0)) as listener:
        shunned = _Shunned(listener)
        shunned.add("127.0.0.8", 0.0)
        shunned.add("127.0.0.9", 0.5)
        shunned.add("127.0.0.8", 0.9)
        assert [connects(f"127.0.0.{last}") for last in (1, 8, 9)] == [True, False, False]
        shunned.forget(1.0)
        assert [connects(f"127.0.0.{last}") for last in (1, 8, 9)] == [True, True, False]
        shunned.forget(1.5)
        assert [connects(f"127.0.0.{last}") for last in (1, 8, 9)] == [True, True, True]
        for number in range(300):
            shunned.add(f"127.0.{number // 100}.{number % 100 + 1}", 2.0)
        assert [connects(source) for source in ("127.0.2.55", "127.0.2.56", "127.0.2.57")] == [False, False, True]
        _Shunned(listener)
        assert connects("127.0.2.55"), "who takes the socket over begins without"


def test_calls_of_an_address_are_counted_by_time() -> None:
    rates = _Rates()
    assert [rates.allows("a", 0.0) for _ in range(130)] == [True] * 128 + [False] * 2
    assert rates.allows("b", 0.0)
    assert [rates.allows("a", 0.5) for _ in range(33)] == [True] * 32 + [False]
    for number in range(5000):
        rates.allows(str(number), 1.0)
    assert len(rates._buckets) == 4096


def test_those_who_send_slowly_lose_their_place_in_time() -> None:
    with serving(call_s=0.3) as port, ExitStack() as stack:
        slow = caller(stack, port, b"GET /now HTTP/1.0\r\n")
        for number in count():
            try:
                slow.sendall(f"A{number}: b\r\n".encode())
                slow.settimeout(0.02)
                assert slow.recv(1) == b""
                break
            except TimeoutError:
                continue
            except ConnectionError:
                break


def test_who_may_stay_stays() -> None:
    with serving(call_s=0.2) as port, ExitStack() as stack:
        stays, goes = kept(stack, port, "127.0.0.1", "/stays"), kept(stack, port, "127.0.0.1")
        assert goes.recv(1) == b"", "its time is over"
        _Handler.ends.set()
        assert stays.recv(12) == b"HTTP/1.0 200"


@pytest.mark.parametrize(
    ("header", "address", "own"),
    [("localhost:80", "127.0.0.1", True), ("127.0.0.1", "127.0.0.1", True), ("127.0.0.9:1", "127.0.0.1", True),
     (socket.gethostname().upper(), "127.0.0.1", True), (None, "127.0.0.1", True), ("evil.example", "10.0.0.1", True),
     ("evil.example", "127.0.0.1", False), ("evil.example:80", "127.0.0.1", False), ("10.0.0.1", "127.0.0.1", False),
     ("", "127.0.0.1", False), ("[", "127.0.0.1", False), ("127.0.0.1@evil.example", "127.0.0.1", False),
     ("127.0.0.1.evil.example", "127.0.0.1", False), ("localhost\0", "127.0.0.1", False)],
)  # fmt: skip
def test_names_of_a_server(header: str | None, address: str, own: bool) -> None:
    assert is_own_name(header, address) is own
