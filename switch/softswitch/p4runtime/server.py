# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""P4Runtime over gRPC: a thread with the event loop that serves :class:`softswitch.p4runtime.rpcs.Rpcs`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

import grpc.aio
from commonlib.privileges import PrivilegeError

from softswitch.device import Device
from softswitch.p4runtime.doors import BindError, Tls, bind
from softswitch.p4runtime.rpcs import Rpcs
from softswitch.p4runtime.service import Service
from softswitch.program import ir

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


class Server:
    """A running server. ``port`` is the TCP port it listens on; of no meaning for a Unix socket."""

    def __init__(
        self, service: Service, device: Device, address: str, tls: Tls | None, on_bound: Callable[[], object]
    ) -> None:
        self._device = device
        self._service = service
        self._bound: Future[int] = Future()
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._on_bound = on_bound
        self._thread = threading.Thread(target=self._run, args=(service, address, tls), name="p4runtime", daemon=True)
        self._thread.start()
        self.port = self._bound.result()

    def stop(self) -> None:
        """End every stream (UNAVAILABLE) and RPC, and return when all of the server's threads have ended."""
        self._device.on_cpu_frame(None)
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        self._service.end()

    def _run(self, service: Service, address: str, tls: Tls | None) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve(service, address, tls))
        finally:
            self._loop.close()
            if not self._bound.done():
                self._bound.set_exception(BindError(f"cannot listen on {address}; see the log, then start it again"))

    async def _serve(self, service: Service, address: str, tls: Tls | None) -> None:
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
    tls: Tls | None = None,
    on_bound: Callable[[], object] = lambda: None,
) -> Server:
    """Serve ``device`` as ``device_id`` at ``address``: "host:port" (port 0 takes a free one) or "unix:path".

    Without ``cpu_port`` packet-outs are refused. ``verify`` checks a program without loading it, raising
    DeviceError; without it the pipeline action VERIFY is refused. Without ``tls`` whoever reaches a TCP address is let
    in; a Unix socket has the mode 0600. ``on_bound`` is called when the address is taken, before anybody is answered.
    Raises BindError.
    """
    return Server(Service(device, device_id, cpu_port, verify), device, address, tls, on_bound)
