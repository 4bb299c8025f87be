# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A client that says how a call ended, in numbers, and never raises for an answer."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2

#: No call of the fuzzer is longer than a program's compilation.
DEADLINE_S = 60.0
_METHOD = "/p4.v1.P4Runtime/"
_OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)


@dataclass(frozen=True)
class Outcome:
    """``code``: of the call. ``items``: the codes of a batch's parts, where the answer has them. ``answers``: messages
    that came."""

    code: int
    text: str = ""
    items: tuple[int, ...] | None = None
    answers: tuple[Any, ...] = ()


@dataclass(frozen=True)
class End:
    """A stream ended with this code."""

    code: int
    text: str


class Client:
    """One connection, and a stream on it after :meth:`open`."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(address, options=_OWN_CONNECTION)
        self._outgoing: queue.Queue[Any] = queue.Queue()
        self._incoming: queue.Queue[Any] = queue.Queue()

    def close(self) -> None:
        self.channel.close()

    # -- calls -----------------------------------------------------------

    def write(self, request: bytes) -> Outcome:
        return self._call("Write", request, p4runtime_pb2.WriteResponse)

    def set_pipeline(self, request: Any) -> Outcome:
        kind = p4runtime_pb2.SetForwardingPipelineConfigResponse
        return self._call("SetForwardingPipelineConfig", request.SerializeToString(), kind)

    def capabilities(self, deadline_s: float = DEADLINE_S) -> Outcome:
        return self._call("Capabilities", b"", p4runtime_pb2.CapabilitiesResponse, deadline_s)

    def read(self, request: bytes, deadline_s: float = DEADLINE_S) -> Outcome:
        call = self.channel.unary_stream(f"{_METHOD}Read")(request, timeout=deadline_s)
        found: list[Any] = []
        try:
            for raw in call:
                found += p4runtime_pb2.ReadResponse.FromString(raw).entities
        except grpc.RpcError as error:
            return _outcome(error, tuple(found))
        return Outcome(code_pb2.OK, answers=tuple(found))

    def _call(self, method: str, request: bytes, kind: Any, deadline_s: float = DEADLINE_S) -> Outcome:
        call: Callable[..., bytes] = self.channel.unary_unary(f"{_METHOD}{method}")
        try:
            answer = kind.FromString(call(request, timeout=deadline_s))
        except grpc.RpcError as error:
            return _outcome(error)
        return Outcome(code_pb2.OK, answers=(answer,))

    # -- the stream ------------------------------------------------------

    def open(self) -> None:
        self._outgoing, self._incoming = queue.Queue(), queue.Queue()
        call = self.channel.stream_stream(f"{_METHOD}StreamChannel")(iter(self._outgoing.get, None))
        threading.Thread(target=_receive, args=(call, self._incoming), daemon=True).start()

    def send(self, message: Any) -> None:
        self._outgoing.put(message.SerializeToString())

    def end(self) -> None:
        """Say that nothing more comes."""
        self._outgoing.put(None)

    def receive(self) -> Any:
        """The next message, or the End. Raises queue.Empty."""
        return self._incoming.get(timeout=DEADLINE_S)


def _receive(call: Any, incoming: queue.Queue[Any]) -> None:
    try:
        for raw in call:
            incoming.put(p4runtime_pb2.StreamMessageResponse.FromString(raw))
        incoming.put(End(code_pb2.OK, ""))
    except grpc.RpcError as error:
        incoming.put(End(error.code().value[0], error.details()))


def _outcome(error: Any, answers: tuple[Any, ...] = ()) -> Outcome:
    items = None
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            items = tuple(_code_of(detail) for detail in status_pb2.Status.FromString(value).details)
    return Outcome(error.code().value[0], error.details() or "", items, answers)


def _code_of(detail: Any) -> int:
    item = p4runtime_pb2.Error()
    detail.Unpack(item)
    return int(item.canonical_code)
