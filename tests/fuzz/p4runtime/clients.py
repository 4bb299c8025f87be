# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Clients that return how a call ended and never raise for an answer, and elections of a primary among them."""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2

from fuzz.p4runtime.model import name_of

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


_LOW = (1 << 64) - 1
Report = Callable[[str, str], None]


def with_id(message: Any, election_id: int | None) -> Any:
    if election_id is not None:
        message.election_id.high, message.election_id.low = election_id >> 64, election_id & _LOW
    return message


@dataclass
class Elections:
    """``report``: of what, and how it differs. Ids are above ``base``, those of elections before are below."""

    clients: Sequence[Client]
    device_id: int
    base: int
    generator: random.Random
    report: Report
    ids: dict[int, int | None] = field(default_factory=dict)
    primary: int | None = None
    highest: int = 0

    @property
    def primary_id(self) -> int | None:
        return None if self.primary is None else self.ids[self.primary]

    def fuzz(self, steps: int) -> None:
        """Every client takes part, the later one with the higher id; then many take steps. Some is the primary then."""
        for number in range(len(self.clients)):
            self.take_part(number, self._next())
        for _ in range(steps):
            self._step()
        self.settle()

    def _step(self) -> None:
        number = self.generator.randrange(len(self.clients))
        kind = self.generator.randrange(7)
        others = [each for client, each in self.ids.items() if client != number and each is not None]
        if kind == 0:
            self.take_part(number, self._next())
        elif kind == 1:
            self.take_part(number, None)
        elif kind == 2:
            self.take_part(number, self.base + self.generator.randrange(100) * 1000 + number)
        elif kind == 3 and others:
            self._breaks(number, self._arbitration(self.generator.choice(others)), code_pb2.INVALID_ARGUMENT)
        elif kind == 4:
            message = self._arbitration(self._next())
            message.arbitration.device_id += 1
            self._breaks(number, message, code_pb2.FAILED_PRECONDITION, code_pb2.NOT_FOUND)
        elif kind == 5:
            message = self._arbitration(self._next())
            message.arbitration.role.name = "other"
            message.arbitration.role.config.type_url = "type.googleapis.com/p4.v1.Error"
            self._breaks(number, message, code_pb2.FAILED_PRECONDITION, code_pb2.INVALID_ARGUMENT)
        else:
            self._leave(number)

    def settle(self) -> None:
        """There is a primary afterwards."""
        if self.primary is None:
            self.take_part(self.generator.randrange(len(self.clients)), self._next())

    def leave_all(self) -> None:
        for number in list(self.ids):
            self._leave(number)

    def _next(self) -> int:
        return max(self.base, self.highest) + self.generator.randint(1, 10)

    def _arbitration(self, election_id: int | None) -> Any:
        message = p4runtime_pb2.StreamMessageRequest()
        message.arbitration.device_id = self.device_id
        with_id(message.arbitration, election_id)
        return message

    def take_part(self, number: int, election_id: int | None) -> None:
        if election_id is not None and election_id in [each for who, each in self.ids.items() if who != number]:
            return
        if number not in self.ids:
            self.clients[number].open()
        self.clients[number].send(self._arbitration(election_id))
        self.ids[number] = election_id
        was_primary = self.primary == number
        if election_id is not None and election_id >= self.highest:
            self.primary, self.highest = number, election_id
            told = dict.fromkeys(self.ids, code_pb2.ALREADY_EXISTS) | {number: code_pb2.OK}
        else:
            self.primary = None if was_primary else self.primary
            code = code_pb2.NOT_FOUND if self.primary is None else code_pb2.ALREADY_EXISTS
            told = dict.fromkeys(self.ids if was_primary else [number], code)
        self._expect(told)

    def _breaks(self, number: int, message: Any, *codes: int) -> None:
        """A message that must end the stream."""
        if number not in self.ids:
            self.clients[number].open()
        self.clients[number].send(message)
        self._await_end(number, set(codes), "arbitration that breaks a rule")
        self._gone(number)

    def _leave(self, number: int) -> None:
        if number in self.ids:
            self.clients[number].end()
            self._await_end(number, {code_pb2.OK}, "end of a stream")
            self._gone(number)

    def _gone(self, number: int) -> None:
        self.ids.pop(number, None)
        if self.primary == number:
            self.primary = None
            self._expect(dict.fromkeys(self.ids, code_pb2.NOT_FOUND))

    def _await_end(self, number: int, codes: set[int], what: str) -> None:
        got = self.clients[number].receive()
        while not isinstance(got, End):  # a switch that breaks a rule may say more before the end
            self.report(what, f"the stream goes on: {got}")
            self.clients[number].end()
            got = self.clients[number].receive()
        if got.code not in codes:
            wanted = " or ".join(map(name_of, sorted(codes)))
            self.report(what, f"{name_of(got.code)} ({got.text}) instead of {wanted}")

    def _expect(self, told: dict[int, int]) -> None:
        for number, code in told.items():
            got = self.clients[number].receive()
            if isinstance(got, End):
                self.report("arbitration", f"client {number} lost its stream: {name_of(got.code)} ({got.text})")
                self._gone(number)
                continue
            update = got.arbitration
            election_id = update.election_id.high << 64 | update.election_id.low
            if (update.status.code, election_id) != (code, self.highest):
                is_told = f"{name_of(update.status.code)} with id {election_id}"
                self.report("arbitration", f"{is_told} instead of {name_of(code)} with id {self.highest}")
