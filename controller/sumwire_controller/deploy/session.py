# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Chooses the election id to ask a switch for. Pure: arbitration updates in, ids out.

A switch keeps the highest election id that it has ever seen, and lets only that one or a higher one be the primary
(P4Runtime specification, "Client Arbitration and Controller Replication"). So this module does not invent an id: the
first request has none and asks for the highest, the second takes the next one above. No clock is used, and an id that
an earlier controller left behind locks nobody out.
"""

from __future__ import annotations

import contextlib
import logging
import time
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final

import grpc
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc
from sumwire_protocol.events import Event

from sumwire_controller.deploy.channel import open_channel, start_options, where, why_closed
from sumwire_controller.errors import NotPrimaryError, SwitchError, SwitchRefusedError, SwitchUnreachableError
from sumwire_controller.model import Switch

HIGHEST_ID: Final = (1 << 128) - 1


@dataclass
class Election:
    """The election at one switch. bmv2 does not support a request without an id, so there the first has the id 0.

    `claimed` is the id asked for, and `won` whether the switch granted it. `primary` is the id of another controller
    that is the connected primary. `refused`: no id is left that the switch would grant.

    :param take_over: become the primary even if another controller is.
    """

    take_over: bool = False
    claimed: int | None = None
    primary: int | None = None
    won: bool = False
    refused: bool = False

    def answer(self, code: int, highest: int) -> int | None:
        """Process a switch's arbitration update. Returns the id to ask for next; None if there is nothing to ask.

        :param code: the update's status: OK for the primary; for others ALREADY_EXISTS if there is a primary, NOT_FOUND
            if there is none.
        :param highest: the update's election id, the highest that the switch knows; 0 if it knows none.
        """
        self.primary = highest if code == code_pb2.ALREADY_EXISTS else None
        if code == code_pb2.OK and self.claimed is not None:
            self.won = highest == self.claimed  # else it is news from before the switch saw our claim
            return None
        return None if self.primary is not None and not self.take_over else self._claim(highest)

    def _claim(self, highest: int) -> int | None:
        """Ask for the id above `highest`. The highest of all may be had again once its controller has left."""
        last = highest == HIGHEST_ID
        self.refused = last and (self.primary is not None or self.claimed == HIGHEST_ID)
        wanted = HIGHEST_ID if last else highest + 1
        if self.refused or (self.claimed is not None and wanted <= self.claimed):
            return None
        self.claimed = wanted
        return wanted


log = logging.getLogger(__name__)

LEAVING_S: Final = 1.0
"""How long a session waits for another controller that is the primary to leave."""
_CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),  # a switch is never behind a web proxy
    ("grpc.max_receive_message_length", 64 << 20),  # a pipeline's P4Info and all its tables
)
_UNREACHABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
_AGAIN = "run it again: sumwire-controller apply CONFIG"
_TAKE_OVER = "end it, or take over: sumwire-controller apply CONFIG --take-over"
_CURES: Final = {
    grpc.StatusCode.NOT_FOUND: "correct `device_id` in the configuration, or load the program: "
    "sumwire-controller apply CONFIG",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "its tables or streams are full: take jobs out of the configuration",
    grpc.StatusCode.UNIMPLEMENTED: "if this is no P4Runtime server, correct `grpc` in the configuration",
}


def is_silent(error: Any) -> bool:
    """Return whether the switch did not answer at all."""
    return error.code() in _UNREACHABLE


def rpc_error(switch: Switch, what: str, error: Any, reason: str = "") -> SwitchError:
    """Return the typed error of a failed call.

    :param what: what the call should have done, for the message.
    :param reason: replaces gRPC's own text if not empty.
    """
    code = error.code()
    name = code.name if code is not None else "NO STATUS"
    text = f"{where(switch)}: {what}: {name}: {reason or error.details()}"
    if code in _UNREACHABLE:
        return SwitchUnreachableError(f"{text}; {_start(switch)}")
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return NotPrimaryError(f"{text}: another controller has become the primary; {_TAKE_OVER}")
    return SwitchRefusedError(f"{text}; {_CURES.get(code, _AGAIN)}")


def _start(switch: Switch) -> str:
    """How to mend that nobody answers."""
    address = f"--grpc-server-addr {switch.grpc}{start_options(switch)}"
    started = f"softswitch --no-p4 --device-id {switch.device_id} {address}"
    return f"correct `grpc` in the configuration, or start the switch: {started} -i PORT@INTERFACE"


class SwitchSession:
    """A channel to one switch and, unless it only reads, the stream that makes this controller its primary.

    :param timeout_s: seconds the handshake may take.
    :param read_only: take no part in elections.
    :param take_over: become the primary even if another controller is. Otherwise the session waits up to LEAVING_S
        for that one to leave.
    :raises SwitchUnreachableError, NotPrimaryError, SwitchRefusedError: the session could not be opened.
    """

    def __init__(self, switch: Switch, timeout_s: float, *, read_only: bool = False, take_over: bool = False) -> None:
        self._switch = switch
        self._timeout_s = timeout_s
        self._election = Election(take_over)
        self.election_id = (0, 0)
        self.channel = open_channel(switch, _CHANNEL_OPTIONS)
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        # None ends the requests, and is the last update.
        self._requests: SimpleQueue[Any] = SimpleQueue()
        self._updates: SimpleQueue[Any] = SimpleQueue()
        self._thread: Thread | None = None
        if not read_only:
            self.stream = self.stub.StreamChannel(iter(self._requests.get, None))
            self._thread = Thread(target=self._receive, name=f"stream of {switch.name}")
            self._thread.start()
            self._become_primary()

    def _receive(self) -> None:
        """The stream's thread: only elections matter here."""
        # What has gone wrong is asked of the stream itself.
        with contextlib.suppress(grpc.RpcError):
            for message in self.stream:
                if message.HasField("arbitration"):
                    self._updates.put(message.arbitration)
        self._updates.put(None)

    def _next_update(self, within_s: float) -> Any:
        """The next arbitration update; None at the stream's end, or without one in time."""
        try:
            return self._updates.get(timeout=within_s)
        except Empty:
            return None

    def _become_primary(self) -> None:
        """Or raise, so that no session can only read by mistake."""
        election = self._election
        end = time.monotonic() + self._timeout_s
        self._ask(None)
        while not election.won:
            update = self._next_update(max(0.0, end - time.monotonic()))
            if update is not None:
                claim = election.answer(update.status.code, update.election_id.high << 64 | update.election_id.low)
                if claim is not None:
                    self._claim(claim)
                elif election.primary is not None:
                    end = min(end, time.monotonic() + LEAVING_S)
            if update is None or election.refused:
                failure = self._not_elected()
                self.tear_down()
                raise failure

    def _ask(self, election_id: int | None) -> None:
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = self._switch.device_id
        if election_id is not None:
            request.arbitration.election_id.high, request.arbitration.election_id.low = divmod(election_id, 1 << 64)
        self._requests.put(request)

    def _claim(self, election_id: int) -> None:
        name = self._switch.name
        if self._election.primary is None:
            log.info(
                "switch %s: election id %d, the next above what the switch has seen", name, election_id,
                extra=Event.ELECTED(switch=name, election_id=election_id),
            )  # fmt: skip
        else:
            log.warning(
                "switch %s: taking over with election id %d from the primary, which has %d",
                name, election_id, self._election.primary,
                extra=Event.TAKEN_OVER(switch=name, election_id=election_id, before=self._election.primary),
            )  # fmt: skip
        self.election_id = divmod(election_id, 1 << 64)
        self._ask(election_id)

    def _not_elected(self) -> SwitchError:
        """Why this controller is not the primary."""
        what, primary = "opening the session", self._election.primary
        at = f"{where(self._switch)}: {what}"
        if self._election.refused:
            rule = f"the election id {HIGHEST_ID} is in use, and there is none above it"
            return NotPrimaryError(f"{at}: {rule}; end the controller that has it, or restart the switch")
        if self.stream.done() and self.stream.code() is grpc.StatusCode.INVALID_ARGUMENT:
            details = self.stream.details()
            return NotPrimaryError(f"{at}: another controller does so at the same moment ({details}); {_AGAIN}")
        done = self.stream.done()
        silent = is_silent(self.stream) if done else primary is None
        closed = why_closed(self._switch, what, self._timeout_s) if silent else None
        if closed is not None:
            return closed
        if done:
            return rpc_error(self._switch, what, self.stream)
        if primary is not None:
            rule = f"another controller is connected and the primary, with election id {primary}"
            return NotPrimaryError(f"{at}: {rule}; {_TAKE_OVER}")
        return SwitchUnreachableError(f"{at}: no answer within {self._timeout_s:g} s; {_start(self._switch)}")

    def tear_down(self) -> None:
        """Close stream and channel. Waits for the stream's thread, but at most 1 s for the switch."""
        if self._thread is None:
            self.channel.close()
            return
        self._requests.put(None)  # half-close: a working switch ends the stream now
        self._thread.join(min(1.0, self._timeout_s))
        self.channel.close()  # ends the stream in any case
        self._thread.join()
