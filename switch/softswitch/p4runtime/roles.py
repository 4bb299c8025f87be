# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""An election for each role, and what each role may do.

Specification: "Client Arbitration and Controller Replication", "Role Config". The default role has no name.
"""

from __future__ import annotations

import logging
import threading
from contextlib import AbstractContextManager
from typing import Any

from commonlib.untrusted import escaped, shown

from softswitch.events import SwitchEvent
from softswitch.p4runtime import access
from softswitch.p4runtime.access import Access
from softswitch.p4runtime.arbitration import Arbiter, election_id_of
from softswitch.p4runtime.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotThereError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnimplementedError,
)
from softswitch.p4runtime.stream import Stream

_LOG = logging.getLogger("softswitch")

#: Controllers that may be connected at the same time, backups included, in all roles together.
MAX_CONTROLLERS = 64
#: Roles that there have been since the switch started: of each the highest election id is kept.
MAX_ROLES = 64


class Roles:
    """The elections of one device. ``write_lock`` is held by every Write while it runs."""

    def __init__(self, device_id: int, write_lock: AbstractContextManager[object]) -> None:
        self._device_id = device_id
        self._write_lock = write_lock
        self._changing = threading.Lock()
        self._state = threading.Lock()
        self._arbiters: dict[str, Arbiter] = {"": Arbiter(device_id, write_lock)}
        self._roles: dict[Stream, str] = {}

    def update(self, stream: Stream, message: Any) -> None:
        """Handle a ``MasterArbitrationUpdate``. An error it raises must terminate the stream."""
        with self._changing:
            name = self._checked(stream, message)
            asked = access.parse(message.role)
            self._check_conflicts(name, asked)
            arbiter = self._arbiters.get(name) or Arbiter(self._device_id, self._write_lock, name)
            with self._state:  # first: whoever is told that it is the primary may write at once
                self._arbiters[name] = arbiter
                self._roles[stream] = name
            arbiter.update(stream, message, asked)
            self._say_joined(name, election_id_of(message), primary=arbiter.primary is stream)

    def disconnect(self, stream: Stream) -> None:
        """Forget a controller; if it was a primary, tell the others of its role that there is none."""
        with self._changing:
            with self._state:
                known = stream in self._roles
                name = self._roles.pop(stream, "")
            self._arbiters[name].disconnect(stream)
        if known:
            _LOG.info("a controller has left", extra=SwitchEvent.CONTROLLER_LEFT())

    def _say_joined(self, role: str, election_id: int | None, *, primary: bool) -> None:
        _LOG.info(
            "a controller of role %s has asked with election id %s; it is %s",
            shown(role), election_id, "the primary" if primary else "not the primary",
            extra=SwitchEvent.CONTROLLER_JOINED(role=escaped(role), election_id=election_id, primary=primary),
        )  # fmt: skip

    def knows(self, stream: Stream) -> bool:
        """Has this controller taken part in an election?"""
        with self._state:
            return stream in self._roles

    def require_primary(self, role: str, election_id: int | None) -> Access:
        """What the role's primary may do. Raises NotThereError for a role that nobody has taken, and
        PermissionDeniedError unless this is the election id of its connected primary."""
        arbiter = self._arbiter(role)
        arbiter.require_primary(election_id)
        return arbiter.access

    def access_of(self, role: str) -> Access:
        """Raises NotThereError."""
        return self._arbiter(role).access

    def access_of_primary(self, stream: Stream) -> Access:
        """Raises PermissionDeniedError where the stream is not a primary's."""
        with self._state:
            arbiter = self._arbiters[self._roles.get(stream, "")]
        if arbiter.primary is not stream:
            raise PermissionDeniedError("only the primary controller may send packets")
        return arbiter.access

    @property
    def primaries(self) -> list[tuple[Access, Stream]]:
        with self._state:
            arbiters = list(self._arbiters.values())
        found = ((arbiter.access, arbiter.primary) for arbiter in arbiters)
        return [(allowed, primary) for allowed, primary in found if primary is not None]

    def _arbiter(self, role: str) -> Arbiter:
        with self._state:
            arbiter = self._arbiters.get(role)
        if arbiter is None:
            raise NotThereError(f"role {role!r} is not known; the default role is the empty one")
        return arbiter

    def _checked(self, stream: Stream, message: Any) -> str:
        """The role's name."""
        known = self._roles.get(stream)
        if message.device_id != self._device_id:
            error = NotThereError if known is None else FailedPreconditionError
            raise error(f"device id {message.device_id} is not this device's, {self._device_id}")
        name = str(message.role.name)
        if known is not None and (name != known or message.role.id):
            raise FailedPreconditionError(f"role {name!r} differs from this stream's, {known!r}: open another stream")
        if message.role.id:
            raise UnimplementedError(f"role id {message.role.id}: roles have names")
        if known is None and len(self._roles) >= MAX_CONTROLLERS:
            rule = f"{MAX_CONTROLLERS} controllers are connected, the most there may be"
            raise ResourceExhaustedError(f"{rule}: end one of them")
        if name not in self._arbiters and len(self._arbiters) >= MAX_ROLES:
            raise ResourceExhaustedError(f"there have been {MAX_ROLES} roles, the most there may be: take one of them")
        return name

    def _check_conflicts(self, name: str, asked: Access) -> None:
        """What a role has for itself no other limited role may have."""
        for other, arbiter in self._arbiters.items():
            ids = arbiter.access.ids
            if other == name or ids is None or asked.ids is None:
                continue
            both = asked.exclusive & ids | asked.ids & arbiter.access.exclusive
            if both:
                rule = f"P4 id {min(both):#010x} belongs to role {other!r}, and one of the two has it as exclusive"
                raise InvalidArgumentError(f"role.config of {name!r}: {rule}")
