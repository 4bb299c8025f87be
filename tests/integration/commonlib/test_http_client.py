# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Questions to HTTP servers that are hostile."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from commonlib.http_client import get

HEAD = b"HTTP/1.0 200 OK\r\n"


@contextmanager
def answering(*parts: bytes, again: bytes = b"") -> Iterator[int]:
    """The port of a server that sends these parts to a caller, then ``again`` and again until it has gone."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        over = threading.Event()

        def serve() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.recv(4096)
                for part in parts:
                    connection.sendall(part)
                while again and not over.wait(0.01):
                    connection.sendall(again)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize(
    ("parts", "again"),
    [((), b"x"), ((HEAD,), b"a: b\r\n"), ((HEAD, b"\r\n"), b"x"), ((), b"HTTP/1.1 100 Continue\r\n\r\n"),
     ((HEAD, b"Content-Length: 100000\r\n\r\n"), b"x")],
    ids=["status", "headers", "content", "continue", "length"],
)  # fmt: skip
def test_a_server_that_never_ends_its_answer(parts: tuple[bytes, ...], again: bytes) -> None:
    # Python itself bounds the number of headers.
    expected = http.client.HTTPException if again == b"a: b\r\n" else TimeoutError
    with answering(*parts, again=again) as port, pytest.raises((expected, TimeoutError)):
        get("127.0.0.1", port, "/", within_s=0.5, bytes_most=1 << 20)


def test_no_more_than_wanted_is_read() -> None:
    with answering(HEAD, b"\r\n", b"x" * 5000) as port:
        assert get("127.0.0.1", port, "/", within_s=20, bytes_most=10) == (200, b"x" * 11)


@pytest.mark.parametrize("size", [b"5", b"-1", b"-5", b"7fffffff"])
def test_an_answer_in_chunks_is_none(size: bytes) -> None:
    """Python's own reader reads to the end of the connection where a chunk's size is -1."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with (
        answering(head + size + b"\r\n", again=b"x" * 4096) as port,
        pytest.raises(http.client.HTTPException, match="chunks"),
    ):
        get("127.0.0.1", port, "/", within_s=20, bytes_most=10)


def test_nobody_is_sent_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with answering(b"HTTP/1.0 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n") as port:
        assert get("127.0.0.1", port, "/", within_s=20, bytes_most=10) == (302, b"")
