# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Who may write: one primary among the connected controllers.

Specification: "Client Arbitration and Controller Replication". Roles are not offered: every controller
has the default role, which reaches the whole pipeline.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotThereError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnimplementedError,
)
from softswitch.p4runtime.stream import Stream

#: Controllers that may be connected at the same time, backups included.
MAX_CONTROLLERS = 64


def election_id_of(message: Any) -> int | None:
    """The 128-bit election id of any request that has one; None where it is unset (which is not 0)."""
    if not message.HasField("election_id"):
        return None
    return int(message.election_id.high) << 64 | int(message.election_id.low)


class Arbiter:
    """The connected controllers of one device and their election ids.

    ``write_lock`` is held by every Write while it runs: a new primary is told only after the writes of the
    previous one are done. Lock order: changing, then write_lock, then state. ``state`` is never held across a call
    out of this class, so that the device may report packets from any thread.
    """

    def __init__(self, device_id: int, write_lock: AbstractContextManager[object]) -> None:
        self._device_id = device_id
        self._write_lock = write_lock
        self._changing = threading.Lock()
        self._state = threading.Lock()
        self._election_ids: dict[Stream, int | None] = {}
        self._primary: Stream | None = None
        self._highest: int | None = None

    @property
    def primary(self) -> Stream | None:
        with self._state:
            return self._primary

    def knows(self, stream: Stream) -> bool:
        """Has this controller taken part in an election?"""
        with self._state:
            return stream in self._election_ids

    def require_primary(self, election_id: int | None) -> None:
        """Raises PermissionDeniedError unless this is the election id of the connected primary."""
        with self._state:
            if self._primary is None:
                raise PermissionDeniedError("there is no primary controller")
            if election_id is None or self._election_ids[self._primary] != election_id:
                raise PermissionDeniedError(f"election id {_shown(election_id)} is not the primary's")

    def update(self, stream: Stream, message: Any) -> None:
        """Handle a ``MasterArbitrationUpdate``. An error it raises must terminate the stream."""
        election_id = election_id_of(message)
        with self._changing:
            self._admit(stream, message, election_id)
            if election_id is not None and (self._highest is None or election_id >= self._highest):
                self._promote(stream, election_id)
            else:
                self._demote(stream)

    def disconnect(self, stream: Stream) -> None:
        """Forget a controller; if it was the primary, tell the others that there is none."""
        with self._changing:
            with self._state:
                self._election_ids.pop(stream, None)
                was_primary = self._primary is stream
                if was_primary:
                    self._primary = None
            if was_primary:
                self._notify(self._election_ids)

    def _admit(self, stream: Stream, message: Any, election_id: int | None) -> None:
        """Check the update and register its election id."""
        known = stream in self._election_ids
        self._check_identity(message, known=known)
        if not known and len(self._election_ids) >= MAX_CONTROLLERS:
            rule = f"{MAX_CONTROLLERS} controllers are connected, the most there may be"
            raise ResourceExhaustedError(f"{rule}: end one of them")
        others = {other: used for other, used in self._election_ids.items() if other is not stream}
        if election_id is not None and election_id in others.values():
            raise InvalidArgumentError(
                f"election id {election_id} is already used by another controller: choose another"
            )
        with self._state:
            self._election_ids[stream] = election_id

    def _check_identity(self, message: Any, *, known: bool) -> None:
        if message.device_id != self._device_id:
            error = FailedPreconditionError if known else NotThereError
            raise error(f"device id {message.device_id} is not this device's, {self._device_id}")
        if message.role.HasField("config"):
            raise InvalidArgumentError("role.config is set; no role configuration is agreed upon")
        if message.role.name or message.role.id:
            role = repr(message.role.name) if message.role.name else f"id {message.role.id}"
            if known:
                raise FailedPreconditionError(f"role {role} differs from this stream's, the default role")
            raise UnimplementedError(f"role {role} is not offered; the default role is")

    def _promote(self, stream: Stream, election_id: int) -> None:
        with self._state:
            self._primary = None  # from here on the previous primary's writes are refused
        others = [other for other in self._election_ids if other is not stream]
        for other in others:
            other.send(self._arbitration(code_pb2.ALREADY_EXISTS, election_id))
        with self._write_lock, self._state:  # the lock: after the writes that have already started
            self._primary = stream
            self._highest = election_id
        stream.send(self._arbitration(code_pb2.OK, election_id))

    def _demote(self, stream: Stream) -> None:
        with self._state:
            was_primary = self._primary is stream
            if was_primary:
                self._primary = None
        self._notify(self._election_ids if was_primary else [stream])

    def _notify(self, backups: Any) -> None:
        code = code_pb2.NOT_FOUND if self._primary is None else code_pb2.ALREADY_EXISTS
        for stream in list(backups):
            stream.send(self._arbitration(code, self._highest))

    def _arbitration(self, code: int, highest: int | None) -> Any:
        response = p4runtime_pb2.StreamMessageResponse()
        update = response.arbitration
        update.device_id = self._device_id
        if highest is not None:
            update.election_id.high = highest >> 64
            update.election_id.low = highest & (1 << 64) - 1
        update.status.code = code
        update.status.message = _STATUS_TEXT[code]
        return response


_STATUS_TEXT = {
    code_pb2.OK: "you are the primary",
    code_pb2.ALREADY_EXISTS: "you are a backup: another controller is the primary",
    code_pb2.NOT_FOUND: "you are a backup: there is no primary",
}


def _shown(election_id: int | None) -> str:
    return "(unset)" if election_id is None else str(election_id)
