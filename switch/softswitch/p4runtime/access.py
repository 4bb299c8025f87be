# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a role may write, read and receive: the ``role.config`` of an election.

The specification leaves the scheme open ("Role Config"). This is Stratum's ``stratum.P4RoleConfig``, which other
clients and switches have too: lists of P4 ids, a filter of packet-ins, and whether the role may set the pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from softswitch.p4runtime.errors import InvalidArgumentError, PermissionDeniedError

TYPE_NAME = "stratum.P4RoleConfig"
_FIELD = descriptor_pb2.FieldDescriptorProto


@dataclass(frozen=True)
class Access:
    """``ids`` None: the whole pipeline. ``packet_in``: (id of a metadata field, its value) of the packet-ins that come;
    None lets all come."""

    ids: frozenset[int] | None = None
    exclusive: frozenset[int] = frozenset()
    receives_packet_ins: bool = True
    packet_in: tuple[int, int] | None = None
    can_set_pipeline: bool = True

    def has(self, number: int | None) -> bool:
        """Is the object with this P4 id in the role? None: what has no P4 id, which is in no limited role."""
        return self.ids is None or number in self.ids

    def require(self, number: int | None, what: str) -> None:
        """Raises PermissionDeniedError."""
        if not self.has(number):
            raise PermissionDeniedError(f"{what} is not in the role: its config names other P4 ids")

    def receives(self, packet: Any) -> bool:
        """Does this ``PacketIn`` go to the role's primary?"""
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
    """The P4 id of what an ``Entity`` is about; of a direct resource its table's. None for replication entries."""
    kind = entity.WhichOneof("entity")
    if kind in ("direct_counter_entry", "direct_meter_entry"):
        return int(getattr(entity, kind).table_entry.table_id)
    return int(getattr(getattr(entity, kind), _ID_FIELDS[kind])) if kind in _ID_FIELDS else None


def parse(role: Any) -> Access:
    """The access that a ``Role`` message asks for. Raises InvalidArgumentError for a config of another scheme."""
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
    _add(packets, "metadata_id", 1, _FIELD.TYPE_UINT32)
    _add(packets, "value", 2, _FIELD.TYPE_BYTES)
    for number, name in enumerate(("exclusive_p4_ids", "shared_p4_ids"), 1):
        _add(config, name, number, _FIELD.TYPE_UINT32, label=_FIELD.LABEL_REPEATED)
    _add(config, "packet_in_filter", 3, _FIELD.TYPE_MESSAGE).type_name = ".stratum.P4RoleConfig.PacketFilter"
    _add(config, "receives_packet_ins", 4, _FIELD.TYPE_BOOL)
    _add(config, "can_push_pipeline", 5, _FIELD.TYPE_BOOL)
    pool: Any = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName(TYPE_NAME)
    if hasattr(message_factory, "GetMessageClass"):  # protobuf 4.22 and later
        return message_factory.GetMessageClass(found)
    return message_factory.MessageFactory(pool).GetPrototype(found)


def _add(message: Any, name: str, number: int, kind: int, label: int = _FIELD.LABEL_OPTIONAL) -> Any:
    return message.field.add(name=name, number=number, type=kind, label=label)
