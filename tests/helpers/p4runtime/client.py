# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A controller for the tests: raw gRPC stub, a stream that is read on a thread, and short ways to write messages."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import text_format
from google.rpc import code_pb2, status_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4rt
from p4.v1 import p4runtime_pb2_grpc

DEVICE_ID = 3
# Longer than anything takes on a busy machine: only what hangs takes so long.
TIMEOUT_SECONDS = 60.0
PROGRAMS = Path(__file__).parent / "programs"
CPU_PORT = 255  # of programs/tables.p4

#: How a match is written in the tests: ("exact", value), ("lpm", value, length), ("ternary", value, mask),
#: ("range", low, high), ("optional", value), with values as bytes.
MatchSpec = tuple[Any, ...]


class Program:
    """A compiled program of ``folder``, and messages about it by alias instead of id."""

    def __init__(self, name: str, folder: Path = PROGRAMS) -> None:
        self.p4info = p4info_pb2.P4Info()
        text_format.Parse((folder / f"{name}.p4info.txtpb").read_text(), self.p4info)
        self.json = (folder / f"{name}.json").read_bytes()

    def id(self, kind: str, alias: str) -> int:
        return next(int(o.preamble.id) for o in getattr(self.p4info, kind) if o.preamble.alias == alias)

    def config(self, cookie: int | None = None) -> Any:
        config = p4rt.ForwardingPipelineConfig(p4info=self.p4info, p4_device_config=self.json)
        if cookie is not None:
            config.cookie.cookie = cookie
        return config

    def action(self, alias: str, **params: bytes) -> Any:
        message = p4rt.TableAction()
        message.action.action_id = self.id("actions", alias)
        declared = next(a for a in self.p4info.actions if a.preamble.alias == alias).params
        ids = {param.name: param.id for param in declared}
        for name, value in params.items():
            message.action.params.add(param_id=ids[name], value=value)
        return message

    def entry(self, table: str, *, action: Any = None, **match: MatchSpec) -> Any:
        """A TableEntry; other fields are set on the result."""
        entry = p4rt.TableEntry(table_id=self.id("tables", table), action=action)
        declared = next(t for t in self.p4info.tables if t.preamble.alias == table).match_fields
        ids = {field.name: field.id for field in declared}
        for name, spec in match.items():
            entry.match.append(field_match(ids[name], spec))
        return entry


def field_match(field_id: int, spec: MatchSpec) -> Any:
    names = {
        "exact": ("value",),
        "optional": ("value",),
        "lpm": ("value", "prefix_len"),
        "ternary": ("value", "mask"),
        "range": ("low", "high"),
    }
    match = p4rt.FieldMatch(field_id=field_id)
    part = getattr(match, spec[0])
    part.SetInParent()
    for name, value in zip(names[spec[0]], spec[1:], strict=True):
        setattr(part, name, value)
    return match


def insert(entry: Any) -> Any:
    return p4rt.Update(type=p4rt.Update.INSERT, entity=p4rt.Entity(table_entry=entry))


def modify(entry: Any) -> Any:
    return p4rt.Update(type=p4rt.Update.MODIFY, entity=p4rt.Entity(table_entry=entry))


def delete(entry: Any) -> Any:
    return p4rt.Update(type=p4rt.Update.DELETE, entity=p4rt.Entity(table_entry=entry))


def election(message: Any, election_id: int | None) -> Any:
    if election_id is not None:
        message.election_id.high = election_id >> 64
        message.election_id.low = election_id & (1 << 64) - 1
    return message


class Ended(Exception):  # noqa: N818 - the end of a stream, not always an error
    """The stream ended; ``code`` is its gRPC status code."""

    def __init__(self, code: int, details: str) -> None:
        super().__init__(f"{code_pb2.Code.Name(code)}: {details}")
        self.code = code


def items_of(error: grpc.RpcError) -> list[Any]:
    """The p4.v1.Error of each item of a failed batch; checks the frame they come in."""
    assert error.code() is grpc.StatusCode.UNKNOWN, f"{error.code()}: {error.details()}"
    [blob] = [value for key, value in error.trailing_metadata() if key == "grpc-status-details-bin"]
    status = status_pb2.Status.FromString(blob)
    assert status.code == code_pb2.UNKNOWN
    assert status.message == error.details()
    errors = []
    for detail in status.details:
        item = p4rt.Error()
        assert detail.Unpack(item)
        errors.append(item)
    return errors


class Controller:
    """One gRPC connection with, after :meth:`open_stream`, one StreamChannel. ``at``: a TCP port, or "unix:PATH"."""

    def __init__(self, at: int | str, election_id: int | None = None) -> None:
        self.election_id = election_id
        self.channel = grpc.insecure_channel(at if isinstance(at, str) else f"127.0.0.1:{at}")
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        self._outgoing: queue.Queue[Any] = queue.Queue()
        self._incoming: queue.Queue[Any] = queue.Queue()
        self._call: Any = None

    # --- stream

    def open_stream(self) -> Controller:
        self._call = self.stub.StreamChannel(iter(self._outgoing.get, None))
        threading.Thread(target=self._receive, args=(self._call,), daemon=True).start()
        return self

    def _receive(self, call: Any) -> None:
        try:
            for message in call:
                self._incoming.put(message)
            self._incoming.put(Ended(code_pb2.OK, ""))
        except grpc.RpcError as error:
            self._incoming.put(Ended(error.code().value[0], error.details()))

    def send(self, message: Any) -> None:
        self._outgoing.put(message)

    def receive(self) -> Any:
        """The next message. Raises Ended."""
        message = self._incoming.get(timeout=TIMEOUT_SECONDS)
        if isinstance(message, Ended):
            raise message
        return message

    def is_quiet(self) -> bool:
        """Whether the server has sent nothing unread. It answers an empty message after all it sent before."""
        self.send(p4rt.StreamMessageRequest())
        return bool(self.receive().HasField("error"))

    def half_close(self) -> None:
        self._outgoing.put(None)

    def cancel(self) -> None:
        self._call.cancel()

    def arbitrate(self, election_id: int | None, device_id: int = DEVICE_ID) -> None:
        """Send a MasterArbitrationUpdate and do not wait for the answer."""
        self.election_id = election_id
        message = p4rt.StreamMessageRequest()
        message.arbitration.device_id = device_id
        self.send_arbitration(message, election_id)

    def send_arbitration(self, message: Any, election_id: int | None) -> None:
        election(message.arbitration, election_id)
        self.send(message)

    def become(self, election_id: int | None) -> Any:
        """Arbitrate on a new stream and return the answer's arbitration message."""
        self.open_stream().arbitrate(election_id)
        return self.receive().arbitration

    def wait_for_end(self) -> Ended:
        """How the stream ends; what comes before the end is skipped."""
        while True:
            try:
                self.receive()
            except Ended as end:
                return end

    def close(self) -> None:
        self.half_close()
        self.channel.close()

    # --- RPCs

    def pipeline_request(self, config: Any, action: str = "VERIFY_AND_COMMIT") -> Any:
        request = p4rt.SetForwardingPipelineConfigRequest(device_id=DEVICE_ID, config=config)
        request.action = p4rt.SetForwardingPipelineConfigRequest.Action.Value(action)
        return election(request, self.election_id)

    def set_pipeline(self, config: Any, action: str = "VERIFY_AND_COMMIT") -> None:
        self.stub.SetForwardingPipelineConfig(self.pipeline_request(config, action), timeout=TIMEOUT_SECONDS)

    def write_request(self, *updates: Any) -> Any:
        return election(p4rt.WriteRequest(device_id=DEVICE_ID, updates=updates), self.election_id)

    def write(self, *updates: Any) -> None:
        self.stub.Write(self.write_request(*updates), timeout=TIMEOUT_SECONDS)

    def refused(self, *updates: Any) -> list[Any]:
        """Write a batch that must fail; one p4.v1.Error per update."""
        try:
            self.write(*updates)
        except grpc.RpcError as error:
            return items_of(error)
        raise AssertionError("the write was accepted")

    def read(self, *entities: Any) -> list[Any]:
        return [entity for response in self.read_responses(*entities) for entity in response.entities]

    def read_responses(self, *entities: Any) -> Iterator[Any]:
        request = p4rt.ReadRequest(device_id=DEVICE_ID, entities=entities)
        responses: Iterator[Any] = self.stub.Read(request, timeout=TIMEOUT_SECONDS)
        return responses

    def read_refused(self, *entities: Any) -> list[Any]:
        """Read a batch that must fail; one p4.v1.Error per request."""
        try:
            self.read(*entities)
        except grpc.RpcError as error:
            return items_of(error)
        raise AssertionError("the read was accepted")

    def read_entries(self, entry: Any) -> list[Any]:
        return [entity.table_entry for entity in self.read(p4rt.Entity(table_entry=entry))]


def code_of(call: Any) -> str:
    """The name of the gRPC status code that ``call()`` ends with."""
    try:
        call()
    except grpc.RpcError as error:
        return str(error.code().name)
    return "OK"
