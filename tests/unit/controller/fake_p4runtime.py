# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime server that misbehaves on purpose, in ways a working switch cannot be brought to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc


@dataclass
class FakeServer:
    """`arbitration`: "primary", "backup", "silent" or "refuse". `write_details`: codes of a refused write's errors."""

    arbitration: str = "primary"
    write_code: grpc.StatusCode | None = None
    write_details: list[tuple[int, str]] | None = None
    silent_reads: bool = False
    port: int = 0
    election_ids: list[int] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


class _Servicer(p4runtime_pb2_grpc.P4RuntimeServicer):  # type: ignore[misc]
    def __init__(self, fake: FakeServer) -> None:
        self._fake = fake

    def StreamChannel(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        for request in requests:
            election = request.arbitration.election_id
            self._fake.election_ids.append(election.high << 64 | election.low)
            if self._fake.arbitration == "refuse":
                context.abort(grpc.StatusCode.NOT_FOUND, "no device 1 here")
            if self._fake.arbitration == "silent":
                self._fake.released.wait()
            reply = p4runtime_pb2.StreamMessageResponse()
            reply.arbitration.CopyFrom(request.arbitration)
            if self._fake.arbitration == "backup":
                reply.arbitration.status.code = code_pb2.ALREADY_EXISTS
                reply.arbitration.election_id.low = 2**64 - 1
            yield reply

    def Write(self, request: Any, context: Any) -> Any:
        if self._fake.write_details is not None:
            status = status_pb2.Status(code=code_pb2.UNKNOWN)
            for code, message in self._fake.write_details:
                status.details.add().Pack(p4runtime_pb2.Error(canonical_code=code, message=message))
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        if self._fake.write_code is not None:
            context.abort(self._fake.write_code, "outer text")
        return p4runtime_pb2.WriteResponse()

    def Read(self, request: Any, context: Any) -> Iterator[Any]:
        if self._fake.silent_reads:
            self._fake.released.wait()
        yield p4runtime_pb2.ReadResponse()


@contextmanager
def serving(fake: FakeServer) -> Iterator[FakeServer]:
    """Runs it on a free port."""
    with ThreadPoolExecutor(8) as pool:
        server = grpc.server(pool)
        p4runtime_pb2_grpc.add_P4RuntimeServicer_to_server(_Servicer(fake), server)
        fake.port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield fake
        finally:
            fake.released.set()
            server.stop(0).wait()
