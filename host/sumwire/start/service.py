# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The service of `sumwire up`: a job's description over HTTP, for the scripts that take part in it.

| request | answer |
|---|---|
| ``GET /job`` | the description: a job file's content, without secrets; 503 while the aggregator is not ready |
| ``GET /probe?port=N`` | 200, and one datagram to UDP port N of the caller, if a worker has that address and port |

It serves a few callers at a time, each for some seconds, and reads nothing but a request's head. Its answers are for
everybody on the network.
"""

from __future__ import annotations

import contextlib
import errno
import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from sumwire_protocol import constants as p4
from sumwire_protocol.web.guarded import GuardedServer, is_own_name

from sumwire.start.description import public
from sumwire.start.errors import ServiceError

PORT: Final = p4.SUMWIRE_PORT - 1
"""TCP port of the service, where none is given."""
PROBE: Final = b"sumwire probe"
_CALLERS_MOST: Final = 32
_CALL_S: Final = 5.0
# Lines for people about one address, and addresses that have lines.
_LINES_MOST: Final = 64
_NAMED_MOST: Final = 1024
_STOP_S: Final = 0.1


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _CALL_S
    server_version = "sumwire"
    sys_version = ""

    def do_GET(self) -> None:
        self.server.heard(self.request)
        try:
            asked = urlsplit(self.path)
        except ValueError:
            self._answer(HTTPStatus.BAD_REQUEST, b"{}")
            return
        if not is_own_name(self.headers.get("Host"), str(self.server.server_address[0])):
            self._answer(HTTPStatus.FORBIDDEN, b"{}")
        elif asked.path == "/job" and not self.server.ready.is_set():
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"{}")
        elif asked.path == "/job":
            self.server.tell_of(self.client_address[0])
            self._answer(HTTPStatus.OK, self.server.content)
        elif asked.path == "/probe":
            known = self._probe(parse_qs(asked.query).get("port", [""])[0])
            self._answer(HTTPStatus.OK if known else HTTPStatus.FORBIDDEN, b"{}")
        else:
            self._answer(HTTPStatus.NOT_FOUND, b"{}")

    def _probe(self, port: str) -> bool:
        """Send one datagram to a worker, and to nobody else."""
        address = (self.client_address[0], int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else 0)
        if address not in self.server.workers:
            return False
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, contextlib.suppress(OSError):
            udp.bind((self.server.server_address[0], 0))
            udp.sendto(PROBE, address)
        return True

    def _answer(self, status: HTTPStatus, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: whoever can connect could fill the terminal."""


class _Server(GuardedServer):
    def __init__(
        self,
        address: tuple[str, int],
        description: Mapping[str, Any],
        tell: Callable[[str], object],
        ready: threading.Event,
    ) -> None:
        self.content = json.dumps(public(description)).encode()
        self.workers = {(entry["ip"], entry["udp_port"]) for entry in description["addresses"]}
        self.ready = ready
        self._tell = tell
        self._told: Counter[str] = Counter()
        super().__init__(address, _Handler, places=_CALLERS_MOST, call_s=_CALL_S)

    def tell_of(self, caller: str) -> None:
        """Say that it has asked. Whoever can connect could fill the terminal: lines are bounded."""
        if self._told[caller] < _LINES_MOST and len(self._told) <= _NAMED_MOST:
            self._told[caller] += 1
            last = ", and is not named again" if self._told[caller] == _LINES_MOST else ""
            self._tell(f"{caller} has asked for the job{last}")


@contextlib.contextmanager
def serving(
    description: Mapping[str, Any],
    address: str,
    port: int = PORT,
    tell: Callable[[str], object] = lambda _: None,
    ready: threading.Event | None = None,
) -> Iterator[int]:
    """Serve the description at this address alone until the block ends. The value is the port.

    ``port`` 0 is any. ``tell`` gets a line for each script that asks. ``ready``: while it is not set, scripts are told
    to ask again. Raises ServiceError.
    """
    if ready is None:
        ready = threading.Event()
        ready.set()
    try:
        server = _Server((address, port), description, tell, ready)
    except OSError as error:
        cure = "end the program that has the port, or choose another one: sumwire up --listen ADDRESS:PORT"
        if error.errno == errno.EADDRNOTAVAIL:
            cure = "this machine does not have it, `ip address` says what it has: sumwire up --listen ADDRESS"
        raise ServiceError(f"cannot listen at {address}:{port}: {error.strerror or error}: {cure}") from error
    thread = threading.Thread(target=server.serve_forever, args=(_STOP_S,), name="service", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
