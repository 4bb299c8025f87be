# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Who may write: one primary among the connected controllers of a role.

Specification: "Client Arbitration and Controller Replication".
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.access import FULL, Access
from softswitch.p4runtime.errors import InvalidArgumentError, PermissionDeniedError
from softswitch.p4runtime.stream import Stream


def election_id_of(message: Any) -> int | None:
    """The 128-bit election id of any request that has one; None where it is unset (which is not 0)."""
    if not message.HasField("election_id"):
        return None
    return int(message.election_id.high) << 64 | int(message.election_id.low)


class Arbiter:
    """The connected controllers of one role and their election ids. ``access``: what the latest primary asked for.

    ``write_lock`` is held by every Write while it runs: a new primary is told only after the writes of the
    previous one are done. Lock order: changing, then write_lock, then state. ``state`` is never held across a call
    out of this class, so that the device may report packets from any thread.
    """

    def __init__(self, device_id: int, write_lock: AbstractContextManager[object], role: str = "") -> None:
        self._device_id = device_id
        self._role = role
        self._config: Any = None
        self.access = FULL
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

    def require_primary(self, election_id: int | None) -> None:
        """Raises PermissionDeniedError unless this is the election id of the connected primary."""
        with self._state:
            if self._primary is None:
                raise PermissionDeniedError(f"there is no primary controller{self._of_role()}")
            if election_id is None or self._election_ids[self._primary] != election_id:
                raise PermissionDeniedError(f"election id {_shown(election_id)} is not the primary's{self._of_role()}")

    def _of_role(self) -> str:
        return f" of role {self._role!r}" if self._role else ""

    def update(self, stream: Stream, message: Any, access: Access = FULL) -> None:
        """Handle a ``MasterArbitrationUpdate``; its role.config says ``access``.

        An error it raises must terminate the stream.
        """
        election_id = election_id_of(message)
        with self._changing:
            self._admit(stream, election_id)
            if election_id is not None and (self._highest is None or election_id >= self._highest):
                self._promote(stream, election_id, message.role, access)
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

    def _admit(self, stream: Stream, election_id: int | None) -> None:
        """Register the election id."""
        others = {other: used for other, used in self._election_ids.items() if other is not stream}
        if election_id is not None and election_id in others.values():
            rule = f"election id {election_id} is already used by another controller{self._of_role()}"
            raise InvalidArgumentError(f"{rule}: choose another")
        with self._state:
            self._election_ids[stream] = election_id

    def _promote(self, stream: Stream, election_id: int, role: Any, access: Access) -> None:
        with self._state:
            self._primary = None  # from here on the previous primary's writes are refused
            self._config = role.config if role.HasField("config") else None
            self.access = access
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
        if self._role:
            update.role.name = self._role
        if self._config is not None:
            update.role.config.CopyFrom(self._config)
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
