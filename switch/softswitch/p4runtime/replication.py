# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Multicast groups and clone sessions as P4Runtime entities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from p4.v1 import p4runtime_pb2

from softswitch.device import Device
from softswitch.p4runtime import entries
from softswitch.p4runtime.errors import InvalidArgumentError, NotThereError, UnimplementedError, check_presence
from softswitch.p4runtime.pipeline import GroupNote, SessionNote, check_metadata
from softswitch.program.limits import SESSIONS
from softswitch.runtime.entries import Replica

#: Widths of v1model's standard_metadata fields mcast_grp, egress_rid and egress_port.
GROUP_BITS = 16
INSTANCE_BITS = 16
PORT_BITS = 9

_UPDATE = p4runtime_pb2.Update
T = TypeVar("T")


def write_group(device: Device, notes: dict[int, GroupNote], update_type: int, entry: Any) -> None:
    """Apply one update of a ``PacketReplicationEngineEntry``."""
    group = group_of(entry)
    group_id = _decode_group_id(group.multicast_group_id)
    what = f"multicast group {group_id}"
    check_metadata(what, group.metadata)
    check_presence(what, update_type, is_there=group_id in device.groups())
    if update_type == _UPDATE.DELETE:
        device.delete_group(group_id)
        notes.pop(group_id, None)
        return
    replicas = decode_replicas(what, group.replicas)
    device.set_group(group_id, tuple(replicas))
    notes[group_id] = GroupNote(group.metadata, byte_ports(replicas))


def wanted(found: Mapping[int, T], number: int, what: str) -> dict[int, T]:
    """Return the objects that a read asks for: one, or all (number 0). Raises NotThereError for an unknown one."""
    if not number:
        return dict(sorted(found.items()))
    if number not in found:
        raise NotThereError(f"{what} {number} does not exist")
    return {number: found[number]}


def group_of(entry: Any) -> Any:
    kind = entry.WhichOneof("type")
    if kind is None:
        raise InvalidArgumentError("the packet replication engine entry is empty")
    return entry.multicast_group_entry


def _decode_group_id(group_id: int) -> int:
    if not 0 < group_id < 1 << GROUP_BITS:
        raise InvalidArgumentError(f"multicast group id {group_id} is not in 1..{(1 << GROUP_BITS) - 1}")
    return group_id


def decode_replicas(owner: str, messages: Any) -> dict[Replica, bool]:
    """Return each replica, with True if its port came as a bytestring. Raises InvalidArgumentError, with ``owner``."""
    replicas: dict[Replica, bool] = {}
    for position, message in enumerate(messages):
        what = f"{owner}, replica {position}"
        kind = message.WhichOneof("port_kind")
        if kind is None:
            raise InvalidArgumentError(f"{what}: has no port")
        port = entries.decode_value(message.port, PORT_BITS, f"{what}, port") if kind == "port" else message.egress_port
        _check_width(f"{what}, port", port, PORT_BITS)
        _check_width(f"{what}, instance", message.instance, INSTANCE_BITS)
        replica = Replica(port, message.instance)
        if replica in replicas:
            raise InvalidArgumentError(f"{what}: port {port}, instance {message.instance} is given twice")
        replicas[replica] = kind == "port"
    return replicas


def byte_ports(replicas: Mapping[Replica, bool]) -> frozenset[tuple[int, int]]:
    """Return the (port, instance) pairs whose port came as a bytestring."""
    return frozenset((each.port, each.instance) for each, as_bytes in replicas.items() if as_bytes)


def encode_replicas(messages: Any, replicas: tuple[Replica, ...], as_bytes: frozenset[tuple[int, int]]) -> None:
    for replica in replicas:
        message = messages.add(instance=replica.instance)
        if (replica.port, replica.instance) in as_bytes:
            message.port = entries.encode_value(replica.port)
        else:
            message.egress_port = replica.port


def _check_width(what: str, value: int, width: int) -> None:
    if value >= 1 << width:
        raise InvalidArgumentError(f"{what}: value {value:#x} does not fit bit<{width}>")


def group_entity(notes: Mapping[int, GroupNote], group_id: int, replicas: tuple[Replica, ...]) -> Any:
    note = notes.get(group_id, GroupNote())
    entity = p4runtime_pb2.Entity()
    group = entity.packet_replication_engine_entry.multicast_group_entry
    group.multicast_group_id = group_id
    group.metadata = note.metadata
    encode_replicas(group.replicas, replicas, note.byte_ports)
    return entity


def write_session(device: Device, notes: dict[int, SessionNote], update_type: int, entry: Any) -> None:
    """Apply one update of a ``CloneSessionEntry``."""
    session = entry.session_id
    if not 0 < session < SESSIONS:
        raise InvalidArgumentError(f"clone session id {session} is not in 1..{SESSIONS - 1}")
    what = f"clone session {session}"
    check_presence(what, update_type, is_there=session in device.sessions())
    if update_type == _UPDATE.DELETE:
        device.delete_session(session)
        notes.pop(session, None)
        return
    replicas = decode_replicas(what, entry.replicas)
    if entry.packet_length_bytes:
        rule = f"packet_length_bytes is {entry.packet_length_bytes}, but clones are not cut"
        raise UnimplementedError(f"{what}: {rule}; leave it out, and truncate in the egress of the program")
    device.set_session(session, tuple(replicas))
    notes[session] = SessionNote(entry.class_of_service, byte_ports(replicas))


def session_entity(notes: Mapping[int, SessionNote], session: int, replicas: tuple[Replica, ...]) -> Any:
    note = notes.get(session, SessionNote())
    entity = p4runtime_pb2.Entity()
    message = entity.packet_replication_engine_entry.clone_session_entry
    message.session_id = session
    message.class_of_service = note.class_of_service
    encode_replicas(message.replicas, replicas, note.byte_ports)
    return entity
