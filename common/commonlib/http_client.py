# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A single HTTP request to a server that is not trusted: its answer takes bounded time and memory.

Proxies of the environment and redirections are ignored, so only the given address is contacted.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Mapping
from typing import Final

_NO_HEADERS: Final[Mapping[str, str]] = {}


def get(
    host: str,
    port: int,
    path: str,
    *,
    within_s: float,
    bytes_most: int,
    headers: Mapping[str, str] = _NO_HEADERS,
    source: tuple[str, int] | None = None,
) -> tuple[int, bytes]:
    """Return status and content of an answer. ``source``: this machine's address and port. ``within_s``: the time for
    everything.

    A content longer than ``bytes_most`` is cut after one byte more. Raises OSError (also TimeoutError), UnicodeError
    and http.client.HTTPException.
    """
    connection = http.client.HTTPConnection(host, port, timeout=within_s, source_address=source)
    late = threading.Event()
    timer = None
    try:
        connection.connect()
        timer = threading.Timer(within_s, _end, (connection.sock, late))
        timer.daemon = True
        timer.start()
        connection.request("GET", path, headers=dict(headers))
        answer = connection.getresponse()
        if answer.chunked:
            # Its reader takes the sizes that it is told, without a bound.
            raise http.client.HTTPException("an answer in chunks, which no server of Sumwire's sends")
        content = answer.read(bytes_most + 1)
    except (OSError, http.client.HTTPException) as error:
        if late.is_set():
            raise _late(within_s) from error
        raise
    finally:
        if timer is not None:
            timer.cancel()
        connection.close()
    if late.is_set():
        raise _late(within_s)
    return answer.status, content


def _late(within_s: float) -> TimeoutError:
    return TimeoutError(f"no whole answer within {within_s:g} s")


def _end(connection: socket.socket, late: threading.Event) -> None:
    """A server that sends a byte now and then never runs into the time of one read."""
    late.set()
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
