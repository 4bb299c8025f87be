# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The service of `sumwire up`, which hands a job's description to scripts over HTTP; and its client.

| request | answer |
|---|---|
| ``GET /job`` | the description: a job file's content, without secrets; 503 while the aggregator is not ready |
| ``GET /probe?port=N`` | 200, and one datagram to UDP port N of the caller, if a worker has that address and port |

The server takes a few callers at a time, each for some seconds, and reads nothing but a request's head. Anybody on the
network can read its answers. `up` starts it; `rank_placement` and `connectivity` ask it.
"""

from __future__ import annotations

import contextlib
import errno
import http.client
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from ipaddress import IPv4Address
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

from commonlib.http_client import get
from commonlib.http_server import GuardedServer, is_own_name
from commonlib.untrusted import UntrustedInputError, escaped, json_of, shown
from sumwire_protocol import constants as p4

from sumwire.errors import SumwireError
from sumwire.numeric import is_number
from sumwire.start.addresses import address_of, check_family, is_local, own_addresses
from sumwire.start.errors import AbsentServiceError, NotReadyError, ServiceError
from sumwire.start.job_request import complete_job_file, public

PORT: Final = p4.SUMWIRE_PORT - 1
"""TCP port of the service, where none is given."""
PROBE: Final = b"sumwire probe"
_CALLERS_MOST: Final = 32
_CALL_S: Final = 5.0
# Lines for people about one address, and addresses that have lines.
_LINES_MOST: Final = 64
_NAMED_MOST: Final = 1024
_STOP_S: Final = 0.1
_ANSWER_S: Final = 5.0
# From one question to the next, while a service is not there.
_AGAIN_S: Final = 0.5
_BYTES_MOST: Final = 1 << 16
_PORT_MOST: Final = 0xFFFF


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
        """Log nothing: anybody who can connect could fill the terminal."""


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
        """Say that a caller has asked. The number of lines is bounded, since anybody can connect."""
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
    """Serve the description at this address only, until the block ends. Yields the port.

    ``port`` 0 takes any free port. ``tell`` gets a line for each script that asks. ``ready``: while it is not set,
    scripts are told to ask again. Raises ServiceError.
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


@dataclass(frozen=True)
class ServiceAddress:
    """The address of a service."""

    host: str
    port: int = PORT

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read HOST or HOST:PORT, also behind ``http://``. Raises ServiceError."""
        check_family(text, "service")
        host, colon, port = text.removeprefix("http://").removesuffix("/").partition(":")
        number = int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else 0
        number = number if colon else PORT
        if not host or not host.isprintable() or set(host) & set("/@?# ") or not 0 < number <= _PORT_MOST:
            raise ServiceError(f"service = {shown(text)}: must be HOST or HOST:PORT, as `sumwire up` prints it")
        return cls(host, number)

    def __str__(self) -> str:
        return f"http://{self.host}:{self.port}"

    def job_within(self, wait_s: float, tell: Callable[[str], object]) -> dict[str, Any]:
        """Like :meth:`job`, but wait up to ``wait_s`` for a service that is not running yet. ``tell`` gets one line if
        it waits. Raises the errors of :meth:`job`."""
        return first_of([self], wait_s, tell)[1]

    def job(self) -> dict[str, Any]:
        """Ask the service for the description.

        Raises ServiceError, or AbsentServiceError if waiting may help, and ConfigError for a description that breaks a
        rule.
        """
        status, content = self._get("/job")
        if status == http.client.SERVICE_UNAVAILABLE:
            raise NotReadyError(
                f"the aggregator of {self} is not ready; ask again soon, and see the lines of `sumwire up` there"
            )
        if status != http.client.OK:
            raise ServiceError(f"{self} answers with status {status}: give the address that `sumwire up` has printed")
        try:
            data = json_of(content.decode())
        except (UntrustedInputError, UnicodeDecodeError) as error:
            raise ServiceError(
                f"{self} answers, but not with a job ({error}): give the address that `sumwire up` has printed"
            ) from error
        if not isinstance(data, Mapping):
            raise ServiceError(f"{self} answers, but not with a job: give the address that `sumwire up` has printed")
        # The answer must not choose a file of this machine to open.
        if "key" in data:
            raise ServiceError(
                f"{self} answers with a job that has a key, and no service of `sumwire up` does: bring the job file to "
                'every server in a safe way, and give it to the script: sumwire.init(job="FILE")'
            )
        return complete_job_file(data, where=str(self))

    def probe(self, ip: str, udp_port: int) -> bool:
        """Ask the service to send a datagram to this address and UDP port of this machine. Returns whether it did.
        Raises ServiceError."""
        return self._get(f"/probe?port={udp_port}", source=(ip, 0))[0] == http.client.OK

    def _known_as(self) -> str:
        """A hint for messages if the name resolves to loopback, as Debian's own host name does; else ""."""
        try:
            address = address_of(self.host)
        except ServiceError:
            return ""
        if address == self.host or not IPv4Address(address).is_loopback:
            return ""
        return f" ({self.host} is {address} here, and `sumwire up` is at the address that others know)"

    def _get(self, path: str, source: tuple[str, int] | None = None) -> tuple[int, bytes]:
        try:
            status, content = get(self.host, self.port, path, within_s=_ANSWER_S, bytes_most=_BYTES_MOST, source=source)
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            # An HTTP error may quote the answer.
            reason = escaped(getattr(error, "strerror", None) or str(error) or type(error).__name__)
            text = (
                f"no service at {self}: {reason}{self._known_as()}; start it: `sumwire up --hosts A,B`, or set "
                "SUMWIRE_SERVICE to its address"
            )
            # An unknown name will not resolve in a minute either.
            if isinstance(error, socket.gaierror | UnicodeError):
                raise ServiceError(text) from error
            raise AbsentServiceError(text) from error
        if len(content) > _BYTES_MOST:
            raise ServiceError(f"{self} answers with too much: give the address that `sumwire up` has printed")
        return status, content


def beside(host: str) -> list[ServiceAddress]:
    """Return where a machine's service may be: at ``host`` and, if that is this machine, at its other addresses. Raises
    ServiceError."""
    first = ServiceAddress.parse(host)
    try:
        known = address_of(first.host)
    except ServiceError:
        return [first]
    others = own_addresses() if is_local(known) else []
    return [first, *(ServiceAddress(address, first.port) for address in others if address != known)]


def first_of(
    services: Sequence[ServiceAddress], wait_s: float, tell: Callable[[str], object]
) -> tuple[ServiceAddress, dict[str, Any]]:
    """Return the first service that answers, and its job; wait up to ``wait_s`` for one. ``tell`` gets one line if it
    waits. Raises the errors of :meth:`ServiceAddress.job` for the first service."""
    if not is_number(wait_s) or wait_s < 0:
        raise ServiceError(f"wait_s = {wait_s!r}: must be 0 or more seconds: leave it out for 60")
    end = time.monotonic() + wait_s
    told = False
    while True:
        failures: list[AbsentServiceError] = []
        for service in services:
            try:
                return service, service.job()
            except AbsentServiceError as error:
                failures.append(error)
            except SumwireError:
                if service is services[0]:
                    raise
        failure = next((one for one in failures if isinstance(one, NotReadyError)), failures[0])
        if time.monotonic() >= end:
            raise failure
        if not told:
            others = ", ".join(one.host for one in services[1:])
            tell(f"sumwire.init() waits up to {wait_s:g} s{others and f', also at {others}'}: {failure}")
        told = True
        threading.Event().wait(_AGAIN_S)
