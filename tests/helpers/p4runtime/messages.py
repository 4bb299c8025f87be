# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Messages of P4Runtime: counters, groups, packets."""

from __future__ import annotations

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


def group(group_id: int, *replicas: tuple[Any, int], metadata: bytes = b"") -> Any:
    """A port given as bytes is written as ``port``, a number as the older ``egress_port``."""
    entity = p4rt.Entity()
    entry = entity.packet_replication_engine_entry.multicast_group_entry
    entry.multicast_group_id = group_id
    entry.metadata = metadata
    for port, instance in replicas:
        name = "port" if isinstance(port, bytes) else "egress_port"
        entry.replicas.add(instance=instance, **{name: port})
    return entity


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
