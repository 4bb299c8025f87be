# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime server that misbehaves on purpose, in ways that a working switch never would."""

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
    """`arbitration`: "primary", "backup", "silent", "refuse" or "duplicate". `write_details`: codes of a refused
    write's errors.

    `rows` are the entities it has; a write of one with the key of another takes its place. `capabilities`: "answer",
    "refuse" or "silent"; of these, `silent_once` is for the next question only.
    """

    arbitration: str = "primary"
    write_code: grpc.StatusCode | None = None
    write_details: list[tuple[int, str]] | None = None
    silent_reads: bool = False
    rows: list[Any] = field(default_factory=list)
    capabilities: str = "answer"
    silent_once: bool = False
    questions: int = 0
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
            if self._fake.arbitration == "duplicate":
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Election id already exists")
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
        for update in request.updates:
            assert update.type == p4runtime_pb2.Update.MODIFY
            self._fake.rows = [row for row in self._fake.rows if _key(row) != _key(update.entity)] + [update.entity]
        return p4runtime_pb2.WriteResponse()

    def Capabilities(self, request: Any, context: Any) -> Any:
        self._fake.questions += 1
        once, self._fake.silent_once = self._fake.silent_once, False
        if once or self._fake.capabilities == "silent":
            self._fake.released.wait()
        if self._fake.capabilities == "refuse":
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "never heard of it")
        return p4runtime_pb2.CapabilitiesResponse(p4runtime_api_version="1.4.1")

    def Read(self, request: Any, context: Any) -> Iterator[Any]:
        if self._fake.silent_reads:
            self._fake.released.wait()
        wanted = {entity.table_entry.table_id for entity in request.entities}
        found = [row for row in self._fake.rows if row.table_entry.table_id in wanted]
        yield p4runtime_pb2.ReadResponse(entities=found)


def _key(row: Any) -> tuple[int, list[bytes]]:
    return row.table_entry.table_id, [match.SerializeToString() for match in row.table_entry.match]


@contextmanager
def serving(fake: FakeServer) -> Iterator[FakeServer]:
    """Runs it on a free port, or on the one it had before."""
    fake.released.clear()
    with ThreadPoolExecutor(16) as pool:
        server = grpc.server(pool)
        p4runtime_pb2_grpc.add_P4RuntimeServicer_to_server(_Servicer(fake), server)
        fake.port = server.add_insecure_port(fake.address)
        server.start()
        try:
            yield fake
        finally:
            fake.released.set()
            server.stop(0).wait()
