# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The Write RPC's updates, each applied and reported on its own (specification: "Write RPC")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.device import Device
from softswitch.errors import DeviceError
from softswitch.p4runtime import bulk, counters, groups, meters, sessions, tables, value_sets
from softswitch.p4runtime.access import FULL, Access, entity_id
from softswitch.p4runtime.alike import AlikeUpdates
from softswitch.p4runtime.errors import (
    BatchError,
    InvalidArgumentError,
    P4RuntimeError,
    UnimplementedError,
    from_device,
)
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.wire import PlainUpdate

_UPDATE = p4runtime_pb2.Update
_WRITE_REQUEST = p4runtime_pb2.WriteRequest


def check_atomicity(atomicity: int) -> None:
    """Raises UnimplementedError for the optional modes, InvalidArgumentError for an unknown one."""
    if atomicity not in _WRITE_REQUEST.Atomicity.values():
        raise InvalidArgumentError(f"atomicity {atomicity} is unknown")
    if atomicity != _WRITE_REQUEST.CONTINUE_ON_ERROR:
        name = _WRITE_REQUEST.Atomicity.Name(atomicity)
        raise UnimplementedError(f"atomicity {name} is not offered; CONTINUE_ON_ERROR is")


def apply(device: Device, pipeline: Pipeline, updates: Iterable[Any], allowed: Access = FULL) -> int:
    """Attempt every update in order; ``allowed``: to the role that asks. Returns how many they were.

    Raises BatchError if any failed; the others have been done. A table is changed once for all of them.
    """
    with device.batch():
        outcomes = bulk.insert(device, pipeline, updates, allowed) if isinstance(updates, AlikeUpdates) else None
        if outcomes is None:
            outcomes = [_outcome(device, pipeline, allowed, update) for update in updates]
    if any(outcomes):
        raise BatchError("updates", outcomes)
    return len(outcomes)


def _outcome(device: Device, pipeline: Pipeline, allowed: Access, update: Any) -> P4RuntimeError | None:
    try:
        if allowed is not FULL:
            allowed.require(entity_id(update.entity), f"what the {update.entity.WhichOneof('entity')} is about")
        if isinstance(update, PlainUpdate):
            tables.write_plain(device, pipeline, update)
        else:
            _apply_one(device, pipeline, update)
    except P4RuntimeError as error:
        return error
    except DeviceError as error:
        return from_device(error)
    return None


def _apply_one(device: Device, pipeline: Pipeline, update: Any) -> None:
    kind = update.entity.WhichOneof("entity")
    if update.type not in (_UPDATE.INSERT, _UPDATE.MODIFY, _UPDATE.DELETE):
        raise InvalidArgumentError(f"update type {update.type} is not INSERT, MODIFY or DELETE")
    match kind:
        case "table_entry":
            tables.write(device, pipeline, update.type, update.entity.table_entry)
        case "counter_entry":
            _require_modify(update, "counter entries")
            counters.write(device, pipeline.info, update.entity.counter_entry)
        case "direct_counter_entry":
            _require_modify(update, "direct counter entries")
            tables.write_direct_counter(device, pipeline, update.entity.direct_counter_entry)
        case "direct_meter_entry":
            _require_modify(update, "direct meter entries")
            tables.write_direct_meter(device, pipeline, update.entity.direct_meter_entry)
        case "packet_replication_engine_entry":
            entry = update.entity.packet_replication_engine_entry
            if entry.WhichOneof("type") == "clone_session_entry":
                sessions.write(device, pipeline.notes.sessions, update.type, entry.clone_session_entry)
            else:
                groups.write(device, pipeline.notes.groups, update.type, entry)
        case None:
            raise InvalidArgumentError("the update has no entity")
        case _:
            _apply_extern(device, pipeline, kind, update)


def _apply_extern(device: Device, pipeline: Pipeline, kind: str, update: Any) -> None:
    match kind:
        case "meter_entry":
            _require_modify(update, "meter entries")
            meters.write(device, pipeline.info, pipeline.notes.meters, update.entity.meter_entry)
        case "action_profile_member":
            member = update.entity.action_profile_member
            pipeline.notes.profiles.write_member(device, pipeline.info, update.type, member)
        case "action_profile_group":
            group = update.entity.action_profile_group
            pipeline.notes.profiles.write_group(device, pipeline.info, update.type, group)
        case "value_set_entry":
            _require_modify(update, "value sets")
            value_sets.write(device, pipeline.info, pipeline.notes.value_sets, update.entity.value_set_entry)
        case "digest_entry" if pipeline.digests is not None:
            pipeline.digests.write(update.type, update.entity.digest_entry)
            device.on_digest(pipeline.digests.learn if pipeline.digests else None)
        case _:
            raise UnimplementedError(f"writing a {kind} is not offered")


def _require_modify(update: Any, what: str) -> None:
    if update.type != _UPDATE.MODIFY:
        raise InvalidArgumentError(f"{_UPDATE.Type.Name(update.type)}: {what} take MODIFY only")
