# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of P4Runtime: counters, groups, packets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from helpers.p4runtime.client import CPU_PORT, Program
from p4.v1 import p4runtime_pb2 as p4rt


def cell(program: Program, index: int | None, data: tuple[int, int] | None = None) -> Any:
    entity = p4rt.Entity()
    entity.counter_entry.counter_id = program.id("counters", "seen")
    if index is not None:
        entity.counter_entry.index.index = index
    if data is not None:
        entity.counter_entry.data.packet_count, entity.counter_entry.data.byte_count = data
    return entity


def counts(entities: list[Any]) -> dict[int, tuple[int, int]]:
    entries = [entity.counter_entry for entity in entities]
    return {e.index.index: (e.data.packet_count, e.data.byte_count) for e in entries}


def direct_counter(entry: Any, data: tuple[int, int] | None = None) -> Any:
    entity = p4rt.Entity()
    entity.direct_counter_entry.table_entry.CopyFrom(entry)
    if data is not None:
        entity.direct_counter_entry.data.packet_count, entity.direct_counter_entry.data.byte_count = data
    return entity


def group(group_id: int, *replicas: tuple[Any, int], metadata: bytes = b"") -> Any:
    """A port given as bytes is written as ``port``, a number as the older ``egress_port``."""
    entity = p4rt.Entity()
    entry = entity.packet_replication_engine_entry.multicast_group_entry
    entry.multicast_group_id = group_id
    entry.metadata = metadata
    _add_replicas(entry, replicas)
    return entity


def session(number: int, *replicas: tuple[Any, int], **fields: int) -> Any:
    """A clone session, with its replicas as a group's."""
    entity = p4rt.Entity()
    entry = p4rt.CloneSessionEntry(session_id=number, **fields)
    _add_replicas(entry, replicas)
    entity.packet_replication_engine_entry.clone_session_entry.CopyFrom(entry)
    return entity


def _add_replicas(entry: Any, replicas: Iterable[tuple[Any, int]]) -> None:
    for port, instance in replicas:
        name = "port" if isinstance(port, bytes) else "egress_port"
        entry.replicas.add(instance=instance, **{name: port})


def update(update_type: int, entity: Any) -> Any:
    return p4rt.Update(type=update_type, entity=entity)


FRAME = bytes(range(60))


def packet(kind: Any, payload: bytes, *metadata: tuple[int, bytes]) -> Any:
    message = kind(payload=payload)
    for metadata_id, value in metadata:
        message.metadata.add(metadata_id=metadata_id, value=value)
    return message


def packet_out(*metadata: tuple[int, bytes]) -> Any:
    return p4rt.StreamMessageRequest(packet=packet(p4rt.PacketOut, FRAME, *metadata))


TO_CPU = packet_out((1, bytes([CPU_PORT])), (2, b"\x2a"))
