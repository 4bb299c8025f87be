# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Clone sessions (specification: "CloneSessionEntry")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.device import Device
from softswitch.p4runtime.errors import AlreadyExistsError, InvalidArgumentError, NotThereError, UnimplementedError
from softswitch.p4runtime.groups import byte_ports, decode_replicas, encode_replicas
from softswitch.p4runtime.pipeline import SessionNote
from softswitch.program.limits import SESSIONS
from softswitch.runtime.entries import Replica

#: Replicas and a multicast group by session; P4Runtime's sessions have no group.
Sessions = Mapping[int, tuple[tuple[Replica, ...], int]]

_UPDATE = p4runtime_pb2.Update


def write(device: Device, notes: dict[int, SessionNote], update_type: int, entry: Any) -> None:
    """Apply one update of a ``CloneSessionEntry``."""
    session = entry.session_id
    if not 0 < session < SESSIONS:
        raise InvalidArgumentError(f"clone session id {session} is not in 1..{SESSIONS - 1}")
    exists = session in device.sessions()
    if update_type == _UPDATE.INSERT and exists:
        raise AlreadyExistsError(f"clone session {session} exists already")
    if update_type != _UPDATE.INSERT and not exists:
        raise NotThereError(f"clone session {session} does not exist")
    if update_type == _UPDATE.DELETE:
        device.delete_session(session)
        notes.pop(session, None)
        return
    what = f"clone session {session}"
    replicas = decode_replicas(what, entry.replicas)
    if entry.packet_length_bytes:
        rule = f"packet_length_bytes is {entry.packet_length_bytes}, but clones are not cut"
        raise UnimplementedError(f"{what}: {rule}; leave it out, and truncate in the egress of the program")
    device.set_session(session, tuple(replicas))
    notes[session] = SessionNote(entry.class_of_service, byte_ports(replicas))


def wanted(found: Sessions, entry: Any) -> Sessions:
    """The sessions out of ``found`` that a read asks for: one, or all (id 0). Raises NotThereError."""
    session = entry.session_id
    if not session:
        return dict(sorted(found.items()))
    if session not in found:
        raise NotThereError(f"clone session {session} does not exist")
    return {session: found[session]}


def entities(found: Sessions, notes: Mapping[int, SessionNote]) -> Iterator[Any]:
    """An ``Entity`` message for each session."""
    for session, (replicas, _) in found.items():
        note = notes.get(session, SessionNote())
        entity = p4runtime_pb2.Entity()
        message = entity.packet_replication_engine_entry.clone_session_entry
        message.session_id = session
        message.class_of_service = note.class_of_service
        encode_replicas(message.replicas, replicas, note.byte_ports)
        yield entity
