# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The service of `sumwire up`: a job's description over HTTP, for the scripts that take part in it.

| request | answer |
|---|---|
| ``GET /job`` | the description: a job file's content, without secrets |
| ``GET /probe?port=N`` | 200, and one datagram to UDP port N of the caller, if a worker has that address and port |

It serves a few callers at a time, each for some seconds, and reads nothing but a request's head.
"""

from __future__ import annotations

import contextlib
import errno
import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from sumwire_protocol import constants as p4

from sumwire.start.description import public
from sumwire.start.errors import ServiceError

PORT: Final = p4.SUMWIRE_PORT - 1
"""TCP port of the service, where none is given."""
PROBE: Final = b"sumwire probe"
_CALLERS_MOST: Final = 32
_CALL_S: Final = 5.0
_STOP_S: Final = 0.1


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _CALL_S
    server_version = "sumwire"
    sys_version = ""

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if asked.path == "/job":
            self.server.tell(f"{self.client_address[0]} has asked for the job")
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


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address: tuple[str, int], description: Mapping[str, Any], tell: Callable[[str], object]) -> None:
        self.content = json.dumps(public(description)).encode()
        self.workers = {(entry["ip"], entry["udp_port"]) for entry in description["addresses"]}
        self.tell = tell
        self._places = threading.BoundedSemaphore(_CALLERS_MOST)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        # However slowly a caller sends, it has its place for so long.
        timer = threading.Timer(_CALL_S, _shut, (request,))
        timer.daemon = True
        timer.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            timer.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: a caller that goes away is no error of the service's."""


def _shut(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def serving(
    description: Mapping[str, Any], address: str, port: int = PORT, tell: Callable[[str], object] = lambda _: None
) -> Iterator[int]:
    """Serve the description at this address alone until the block ends. The value is the port.

    ``port`` 0 is any. ``tell`` gets a line for each script that asks. Raises ServiceError.
    """
    try:
        server = _Server((address, port), description, tell)
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
