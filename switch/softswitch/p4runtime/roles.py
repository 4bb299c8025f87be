# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Roles, their access, and the election of a primary controller in each.

Specification: "Client Arbitration and Controller Replication", "Role Config". The default role has no name.
"""

from __future__ import annotations

import logging
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any

from commonlib.untrusted import escaped, shown
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from softswitch.events import SwitchEvent
from softswitch.p4runtime.calls import Stream
from softswitch.p4runtime.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotThereError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnimplementedError,
)

TYPE_NAME = "stratum.P4RoleConfig"
_FIELD_PROTO = descriptor_pb2.FieldDescriptorProto


@dataclass(frozen=True)
class Access:
    """The access of a role. ``ids`` None: the whole pipeline. ``packet_in``: (id of a metadata field, its value) that
    select packet-ins; None selects all."""

    ids: frozenset[int] | None = None
    exclusive: frozenset[int] = frozenset()
    receives_packet_ins: bool = True
    packet_in: tuple[int, int] | None = None
    can_set_pipeline: bool = True

    def has(self, number: int | None) -> bool:
        """Return whether the object with this P4 id is in the role. None: an object without a P4 id, which is in no
        limited role."""
        return self.ids is None or number in self.ids

    def require(self, number: int | None, what: str) -> None:
        """Check that the role may access ``number``. Raises PermissionDeniedError."""
        if not self.has(number):
            raise PermissionDeniedError(f"{what} is not in the role: its config names other P4 ids")

    def receives(self, packet: Any) -> bool:
        """Return whether this ``PacketIn`` goes to the role's primary."""
        if not self.receives_packet_ins or self.packet_in is None:
            return self.receives_packet_ins
        number, value = self.packet_in
        return any(
            each.metadata_id == number and int.from_bytes(each.value, "big") == value for each in packet.metadata
        )


FULL = Access()

_ID_FIELDS = {
    "extern_entry": "extern_id",
    "table_entry": "table_id",
    "action_profile_member": "action_profile_id",
    "action_profile_group": "action_profile_id",
    "meter_entry": "meter_id",
    "counter_entry": "counter_id",
    "value_set_entry": "value_set_id",
    "register_entry": "register_id",
    "digest_entry": "digest_id",
}


def entity_id(entity: Any) -> int | None:
    """Return the P4 id of the object of an ``Entity``; for a direct resource its table's. None for replication
    entries."""
    kind = entity.WhichOneof("entity")
    if kind in ("direct_counter_entry", "direct_meter_entry"):
        return int(getattr(entity, kind).table_entry.table_id)
    return int(getattr(getattr(entity, kind), _ID_FIELDS[kind])) if kind in _ID_FIELDS else None


def parse_access(role: Any) -> Access:
    """Return the access that a ``Role`` message asks for. Raises InvalidArgumentError for a config of another
    scheme."""
    if not role.HasField("config"):
        return FULL
    if role.config.type_url.rpartition("/")[2] != TYPE_NAME:
        given = repr(role.config.type_url[:100])
        raise InvalidArgumentError(f"role.config is of type {given}: send {TYPE_NAME}, or none for the whole pipeline")
    if not role.name:
        raise InvalidArgumentError("role.config is set without role.name: the default role has the whole pipeline")
    try:
        config = _config_class().FromString(role.config.value)
    except DecodeError as error:
        raise InvalidArgumentError(f"role.config is no {TYPE_NAME}: {error}") from error
    packet_in = None
    if config.HasField("packet_in_filter"):
        packet_in = (config.packet_in_filter.metadata_id, int.from_bytes(config.packet_in_filter.value, "big"))
    exclusive = frozenset(config.exclusive_p4_ids)
    return Access(
        ids=exclusive | frozenset(config.shared_p4_ids),
        exclusive=exclusive,
        receives_packet_ins=config.receives_packet_ins,
        packet_in=packet_in,
        can_set_pipeline=config.can_push_pipeline,
    )


@cache
def _config_class() -> Any:
    """The class of Stratum's message, in a pool of its own: a process may have Stratum's own module, too."""
    file = descriptor_pb2.FileDescriptorProto(name="p4_role_config.proto", package="stratum", syntax="proto3")
    config = file.message_type.add(name="P4RoleConfig")
    packets = config.nested_type.add(name="PacketFilter")
    _add_field(packets, "metadata_id", 1, _FIELD_PROTO.TYPE_UINT32)
    _add_field(packets, "value", 2, _FIELD_PROTO.TYPE_BYTES)
    for number, name in enumerate(("exclusive_p4_ids", "shared_p4_ids"), 1):
        _add_field(config, name, number, _FIELD_PROTO.TYPE_UINT32, label=_FIELD_PROTO.LABEL_REPEATED)
    _add_field(
        config, "packet_in_filter", 3, _FIELD_PROTO.TYPE_MESSAGE
    ).type_name = ".stratum.P4RoleConfig.PacketFilter"
    _add_field(config, "receives_packet_ins", 4, _FIELD_PROTO.TYPE_BOOL)
    _add_field(config, "can_push_pipeline", 5, _FIELD_PROTO.TYPE_BOOL)
    pool: Any = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName(TYPE_NAME)
    if hasattr(message_factory, "GetMessageClass"):  # protobuf 4.22 and later
        return message_factory.GetMessageClass(found)
    return message_factory.MessageFactory(pool).GetPrototype(found)


def _add_field(message: Any, name: str, number: int, kind: int, label: int = _FIELD_PROTO.LABEL_OPTIONAL) -> Any:
    return message.field.add(name=name, number=number, type=kind, label=label)


def election_id_of(message: Any) -> int | None:
    """Return the 128-bit election id of any request that has one; None if it is unset (which is not 0)."""
    if not message.HasField("election_id"):
        return None
    return int(message.election_id.high) << 64 | int(message.election_id.low)


class Arbiter:
    """The connected controllers of one role and their election ids. ``access``: the access that the latest primary
    asked for.

    ``write_lock`` is held by every Write while it runs: a new primary is told only after the writes of the previous one
    are done. Lock order: changing, then write_lock, then state. ``state`` is never held across a call out of this
    class, so that the device may report packets from any thread.
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
        """Raise PermissionDeniedError unless this is the election id of the connected primary."""
        with self._state:
            if self._primary is None:
                raise PermissionDeniedError(f"there is no primary controller{self._of_role()}")
            if election_id is None or self._election_ids[self._primary] != election_id:
                raise PermissionDeniedError(f"election id {_shown(election_id)} is not the primary's{self._of_role()}")

    def _of_role(self) -> str:
        return f" of role {self._role!r}" if self._role else ""

    def update(self, stream: Stream, message: Any, access: Access = FULL) -> None:
        """Handle a ``MasterArbitrationUpdate``. ``access``: what its role.config asks for.

        An error that it raises must terminate the stream.
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
        """Handle a ``MasterArbitrationUpdate``. An error that it raises must terminate the stream."""
        with self._changing:
            name = self._checked(stream, message)
            asked = parse_access(message.role)
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
        """Return whether this controller has taken part in an election."""
        with self._state:
            return stream in self._roles

    def require_primary(self, role: str, election_id: int | None) -> Access:
        """Return the access of the role's primary. Raises NotThereError for a role that nobody has taken, and
        PermissionDeniedError unless this is the election id of its connected primary."""
        arbiter = self._arbiter(role)
        arbiter.require_primary(election_id)
        return arbiter.access

    def access_of(self, role: str) -> Access:
        """Return the access of a role. Raises NotThereError."""
        return self._arbiter(role).access

    def access_of_primary(self, stream: Stream) -> Access:
        """Return the access of a primary's stream. Raises PermissionDeniedError if the stream is not a primary's."""
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
