# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The gRPC server and its endpoints: TCP ports and Unix sockets, with or without TLS."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from commonlib.privileges import PrivilegeError

from softswitch.device import Device
from softswitch.p4runtime.rpcs import Rpcs
from softswitch.p4runtime.service import P4RuntimeService
from softswitch.program import ir

_UNIX = "unix:"
_PATH_BYTES_MAX = 107  # of a Unix socket's address, without the byte that ends it
_MEANT_OTHERWISE = frozenset("%?#")  # gRPC reads a path as part of a URI
_PORT_MAX = 65535


class BindError(OSError):
    """The server cannot listen at the address."""


@dataclass(frozen=True)
class ServerTls:
    """TLS files in PEM. With ``client_auth`` every client needs a certificate signed by ``ca``."""

    certificate: Path
    key: Path
    ca: Path | None = None
    client_auth: bool = False

    def credentials(self) -> Any:
        """Return credentials for gRPC. Raises BindError for an unreadable file."""
        certificate, key = _read_file(self.certificate, "cert"), _read_file(self.key, "key")
        ca = None if self.ca is None else _read_file(self.ca, "cacert")
        return grpc.ssl_server_credentials([(key, certificate)], ca, self.client_auth)


def _read_file(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BindError(f"{path}: {error.strerror}; name a file that is there: --grpc-server-{option} FILE") from error


def allow_connections() -> None:
    """Raise this process's limit of open files to the maximum: a crowd of connections that uses all files keeps others
    out."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def bind(server: Any, address: str, tls: ServerTls | None) -> int:
    """Let a gRPC server listen at "host:port" or "unix:path". Returns the TCP port. Raises BindError."""
    credentials = None if tls is None else tls.credentials()
    _check(address)
    path = Path(address.removeprefix(_UNIX)) if address.startswith(_UNIX) else None
    if path is not None:
        require_free(path, "--grpc-server-addr ADDRESS")
    mask = os.umask(0o177) if path is not None else None  # the socket gets the mode 0600 when it is made
    try:
        if credentials is None:
            return int(server.add_insecure_port(address))
        return int(server.add_secure_port(address, credentials))
    except RuntimeError as error:
        raise BindError(f"cannot listen on {address}: {error}; choose another: --grpc-server-addr ADDRESS") from error
    finally:
        if mask is not None:
            os.umask(mask)


def _check(address: str) -> None:
    """Refuse what gRPC would listen elsewhere for: an empty path is an abstract socket, which has no mode and lets
    everybody in, as one that begins with %00; a port loses what is above 16 bits; an address without one means port
    443. Raises BindError."""
    path, port = os.fsencode(address.removeprefix(_UNIX)), address.rpartition(":")[2]
    rule = ""
    if address.startswith(_UNIX):
        if not 1 <= len(path) <= _PATH_BYTES_MAX or _MEANT_OTHERWISE & set(address):
            rule = f"a Unix socket's path has 1 to {_PATH_BYTES_MAX} bytes, without %, ? and #"
    elif ":" not in address.rpartition("]")[2]:
        rule = "an address is HOST:PORT or unix:PATH"
    elif port.isdecimal() and (len(port) > len(str(_PORT_MAX)) or int(port) > _PORT_MAX):
        rule = f"ports are 0..{_PORT_MAX}"
    if rule:
        raise BindError(f"cannot listen on {address}: {rule}; choose another: --grpc-server-addr ADDRESS")


def require_free(path: Path, option: str) -> None:
    """Raise BindError if a server listens at the path of a Unix socket: another would take it away.

    A socket that nobody listens at may go. ``option``: that with which another path is chosen.
    """
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            if not path.is_socket():
                return
            probe.connect(str(path))
        except ConnectionRefusedError:
            return
        except OSError as error:
            raise BindError(f"cannot listen on {path}: {error.strerror}; choose another: {option}") from error
    raise BindError(f"cannot listen on {path}: a server listens there; end it, or choose another: {option}")


#: How long stop() lets running RPCs finish. Streams are ended at once, so only a long Write or Read uses it.
_STOP_GRACE_SECONDS = 1.0

#: Of a request, a program of a P4 compiler's included. One that is longer is refused before it is in memory.
MESSAGE_BYTES_MAX = 32 << 20

_OPTIONS = (
    ("grpc.so_reuseport", 0),  # a second server on the same port must fail, not share it
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),  # specification: "gRPC Server Maximum Receive Message Size"
    ("grpc.keepalive_time_ms", 10_000),  # a controller whose host died must not stay primary
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.server_handshake_timeout_ms", 5_000),  # a connection that says nothing
    ("grpc.max_connection_idle_ms", 60_000),  # a connection without calls; its client opens another when it has one
    ("grpc.max_concurrent_streams", 100),  # of one connection
)


class P4RuntimeServer:
    """A running server. ``port``: the TCP port that it listens on; meaningless for a Unix socket."""

    def __init__(
        self,
        service: P4RuntimeService,
        device: Device,
        address: str,
        tls: ServerTls | None,
        on_bound: Callable[[], object],
    ) -> None:
        self._device = device
        self.service = service
        self._bound: Future[int] = Future()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._on_bound = on_bound
        self._thread = threading.Thread(target=self._run, args=(service, address, tls), name="p4runtime", daemon=True)
        self._thread.start()
        self.port = self._bound.result()

    def stop(self) -> None:
        """End every stream and RPC with UNAVAILABLE, and return when all of the server's threads have ended."""
        self._device.on_cpu_frame(None)
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        self.service.end()

    def _run(self, service: P4RuntimeService, address: str, tls: ServerTls | None) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve(service, address, tls))
        finally:
            self._loop.close()
            if not self._bound.done():
                self._bound.set_exception(BindError(f"cannot listen on {address}; see the log, then start it again"))

    async def _serve(self, service: P4RuntimeService, address: str, tls: ServerTls | None) -> None:
        rpcs = Rpcs(service)
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((rpcs.handlers(),))
        try:
            port = bind(server, address, tls)
            self._on_bound()
        except (BindError, PrivilegeError) as error:
            self._bound.set_exception(error)
            return
        await server.start()
        self._device.on_cpu_frame(service.packet_in)
        self._bound.set_result(port)
        await self._stopping.wait()
        rpcs.end_streams()
        await server.stop(_STOP_GRACE_SECONDS)
        await rpcs.close()


def serve(
    device: Device,
    address: str,
    device_id: int,
    cpu_port: int | None = None,
    verify: Callable[[ir.Program], object] | None = None,
    *,
    tls: ServerTls | None = None,
    on_bound: Callable[[], object] = lambda: None,
) -> P4RuntimeServer:
    """Serve ``device`` as ``device_id`` at ``address``: "host:port" (port 0 takes a free one) or "unix:path".

    Without ``cpu_port`` packet-outs are refused. ``verify`` checks a program without loading it, raising DeviceError;
    without it the pipeline action VERIFY is refused. Without ``tls`` anybody who reaches a TCP address is accepted; a
    Unix socket has the mode 0600. ``on_bound`` is called when the address is bound, before any request is answered.
    Raises BindError.
    """
    return P4RuntimeServer(P4RuntimeService(device, device_id, cpu_port, verify), device, address, tls, on_bound)
