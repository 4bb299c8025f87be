# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime session: p4runtime-shell's client with its handshake replaced.

The library's own handshake ends the process when it fails and leaves a thread behind, has no deadline, and prints when
another controller is primary. The subclass keeps the library's channel, stub and stream, and raises typed errors.
"""

from __future__ import annotations

import logging
from typing import Any

import grpc
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc
from p4runtime_sh.p4runtime import P4RuntimeClient

from sumwire_controller.errors import NotPrimaryError, SwitchError, SwitchRefusedError, SwitchUnreachableError
from sumwire_controller.model.config import Switch

log = logging.getLogger(__name__)

_CHANNEL_OPTIONS = (
    ("grpc.enable_http_proxy", 0),  # a switch is never behind a web proxy
    ("grpc.max_receive_message_length", 64 << 20),  # a pipeline's P4Info and all its tables
)
_UNREACHABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


def rpc_error(switch: Switch, what: str, error: Any, reason: str = "") -> SwitchError:
    """The typed error of a failed call.

    :param what: what the call should have done, for the message.
    :param reason: replaces gRPC's own text if not empty.
    """
    code = error.code()
    name = code.name if code is not None else "NO STATUS"
    text = f"switch {switch.name} at {switch.grpc}: {what}: {name}: {reason or error.details()}"
    if code in _UNREACHABLE:
        return SwitchUnreachableError(text)
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return NotPrimaryError(text)
    return SwitchRefusedError(text)


class Session(P4RuntimeClient):  # type: ignore[misc]  # the library has no types
    """A channel to one switch and, with an election id, the stream that makes this controller its primary.

    :param election_id: 1..2^64-1; None for a session that only reads and takes no part in elections.
    :param timeout_s: seconds the handshake may take.
    :raises SwitchUnreachableError, NotPrimaryError, SwitchRefusedError: the session could not be opened.
    """

    channel: Any
    stub: Any

    def __init__(self, switch: Switch, election_id: int | None, timeout_s: float) -> None:
        self._switch = switch
        self._timeout_s = timeout_s
        self._wants_stream = election_id is not None
        try:
            super().__init__(switch.device_id, switch.grpc, (0, election_id or 0))
        except SystemExit as error:  # the library exits when it cannot make the channel
            raise SwitchUnreachableError(f"switch {switch.name}: no channel to {switch.grpc!r}") from error

    def set_up_stream(self) -> None:
        """Called by the library when it has a channel. Replaces the channel by one with our options."""
        self.channel.close()
        self.channel = grpc.insecure_channel(self._switch.grpc, options=_CHANNEL_OPTIONS)
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        if self._wants_stream:
            super().set_up_stream()

    def handshake(self) -> None:
        """Become the primary controller or raise, so that no session can only read by mistake."""
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = self.device_id
        request.arbitration.election_id.high, request.arbitration.election_id.low = self.election_id
        self.stream_out_q.put(request)
        reply = self.get_stream_packet("arbitration", timeout=self._timeout_s)
        if reply is not None and reply.arbitration.status.code == code_pb2.OK:
            return
        failure = self._no_session() if reply is None else self._not_primary(reply.arbitration)
        self.tear_down()
        raise failure

    def _no_session(self) -> SwitchError:
        if self.stream.done():
            return rpc_error(self._switch, "opening the session", self.stream)
        where = f"switch {self._switch.name} at {self._switch.grpc}"
        return SwitchUnreachableError(f"{where}: opening the session: no answer within {self._timeout_s:g} s")

    def _not_primary(self, arbitration: Any) -> NotPrimaryError:
        primary = arbitration.election_id.high << 64 | arbitration.election_id.low
        where = f"switch {self._switch.name} at {self._switch.grpc}"
        return NotPrimaryError(f"{where}: another controller is primary: its election id {primary} is above ours")

    def tear_down(self) -> None:
        """Close stream and channel. Waits for the stream's thread, but at most 1 s for the switch."""
        if not self._wants_stream:
            self.channel.close()
            return
        self.stream_out_q.put(None)  # half-close: a working switch ends the stream now
        self.stream_recv_thread.join(min(1.0, self._timeout_s))
        self.channel.close()  # ends the stream in any case
        self.stream_recv_thread.join()
