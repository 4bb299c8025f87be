# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""P4Runtime over gRPC: the shell around :class:`softswitch.p4runtime.service.Service`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from softswitch.device import Device
from softswitch.p4runtime import read
from softswitch.p4runtime.errors import (
    BatchError,
    InternalError,
    P4RuntimeError,
    ResourceExhaustedError,
    UnavailableError,
)
from softswitch.p4runtime.service import API_VERSION, Service
from softswitch.p4runtime.stream import Stream

#: Each open stream keeps one pool thread; the rest serve the other RPCs.
MAX_STREAMS = 16
_OTHER_THREADS = 8
#: Packet-ins waiting for a controller that does not read; more are dropped.
PACKET_IN_QUEUE = 1024
#: How long stop() lets running RPCs finish. Streams are ended at once, so only a long Write or Read uses it.
_STOP_GRACE_SECONDS = 1.0

_OPTIONS = (
    ("grpc.so_reuseport", 0),  # a second server on the same port must fail, not share it
    ("grpc.max_receive_message_length", 128 << 20),  # specification: "gRPC Server Maximum Receive Message Size"
    ("grpc.keepalive_time_ms", 10_000),  # a controller whose host died must not stay primary
    ("grpc.keepalive_timeout_ms", 5_000),
)
_STATUS_CODES = {status.value[0]: status for status in grpc.StatusCode}


class BindError(OSError):
    """The address cannot be listened on."""


class Server:
    """A running server. ``port`` is the TCP port it listens on."""

    def __init__(
        self, device: Device, grpc_server: Any, pool: ThreadPoolExecutor, servicer: _Servicer, port: int
    ) -> None:
        self._device = device
        self._grpc_server = grpc_server
        self._pool = pool
        self._servicer = servicer
        self.port = port

    def stop(self) -> None:
        """End every stream (UNAVAILABLE) and RPC, and return when all of the server's threads have ended."""
        self._device.on_cpu_frame(None)
        self._servicer.end_streams()
        self._grpc_server.stop(_STOP_GRACE_SECONDS).wait()
        self._servicer.join_readers()
        self._pool.shutdown()


def serve(
    device: Device,
    address: str,
    device_id: int,
    cpu_port: int | None = None,
    verify: Callable[[str], object] | None = None,
) -> Server:
    """Serve ``device`` as ``device_id`` at ``address`` ("host:port"; port 0 takes a free one).

    Without ``cpu_port`` packet-outs are refused. ``verify`` checks a bmv2 JSON text without loading it, raising
    DeviceError; without it the pipeline action VERIFY is refused. Raises BindError.
    """
    service = Service(device, device_id, cpu_port, verify)
    servicer = _Servicer(service)
    pool = ThreadPoolExecutor(MAX_STREAMS + _OTHER_THREADS, thread_name_prefix="p4runtime")
    grpc_server = grpc.server(pool, options=_OPTIONS)
    p4runtime_pb2_grpc.add_P4RuntimeServicer_to_server(servicer, grpc_server)
    try:
        port = grpc_server.add_insecure_port(address)
    except RuntimeError as error:
        pool.shutdown()
        raise BindError(f"cannot listen on {address}: {error}; choose another: --grpc-server-addr HOST:PORT") from error
    device.on_cpu_frame(service.packet_in)
    grpc_server.start()
    return Server(device, grpc_server, pool, servicer, port)


class _Servicer:
    """One method per RPC, named as in p4runtime.proto."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._readers: dict[Stream, threading.Thread] = {}

    def Write(self, request: Any, context: Any) -> Any:  # noqa: N802
        with _refusals(context):
            self._service.write(request)
        return p4runtime_pb2.WriteResponse()

    def Read(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        with _refusals(context):
            result = self._service.read(request)
            yield from read.responses(result.entities)
            if any(result.outcomes):
                raise BatchError("requests", result.outcomes)

    def SetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        with _refusals(context):
            self._service.set_pipeline(request)
        return p4runtime_pb2.SetForwardingPipelineConfigResponse()

    def GetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        with _refusals(context):
            return self._service.get_pipeline(request)

    def Capabilities(self, request: Any, context: Any) -> Any:  # noqa: N802
        return p4runtime_pb2.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    def StreamChannel(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:  # noqa: N802
        with _refusals(context):
            yield from self._open_stream(requests)

    def end_streams(self) -> None:
        with self._lock:
            streams = list(self._readers)
        for stream in streams:
            stream.close(UnavailableError("the switch is stopping"))

    def join_readers(self) -> None:
        with self._lock:
            readers = list(self._readers.values())
        for reader in readers:
            reader.join()

    def _open_stream(self, requests: Iterator[Any]) -> Stream:
        """The stream, with a thread that handles what its controller sends. Raises ResourceExhaustedError."""
        stream = Stream(PACKET_IN_QUEUE)
        reader = threading.Thread(
            target=self._read_stream, args=(requests, stream), name="p4runtime-stream", daemon=True
        )
        with self._lock:
            if len(self._readers) >= MAX_STREAMS:
                raise ResourceExhaustedError(f"{MAX_STREAMS} streams are open, the most there may be")
            self._readers[stream] = reader
            reader.start()
        return stream

    def _read_stream(self, requests: Iterator[Any], stream: Stream) -> None:
        """Runs until the controller closes its side, vanishes, breaks a rule of arbitration, or the server stops."""
        outcome: P4RuntimeError | None = InternalError("the stream's reader failed; see the switch's log")
        try:
            for message in requests:
                self._service.stream_message(stream, message)
            outcome = None
        except P4RuntimeError as error:
            outcome = error
        except grpc.RpcError:  # how gRPC says that the RPC was cancelled or its connection lost
            outcome = None
        finally:
            self._service.arbiter.disconnect(stream)
            stream.close(outcome)
            with self._lock:
                del self._readers[stream]


@contextmanager
def _refusals(context: Any) -> Iterator[None]:
    """End the RPC with the status of a typed error."""
    try:
        yield
    except P4RuntimeError as error:
        if isinstance(error, BatchError):
            context.set_trailing_metadata((("grpc-status-details-bin", error.details()),))
        context.abort(_STATUS_CODES[error.code], str(error))
