# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Samples over P4Runtime: a P4Info and its JSON are committed, and a controller reads the whole state."""

from __future__ import annotations

from typing import Any

from google.protobuf import text_format
from p4.v1 import p4runtime_pb2

from softswitch.fuzz.samples.compiled import Sample
from softswitch.p4runtime.errors import BatchError, P4RuntimeError
from softswitch.p4runtime.service import Service
from softswitch.p4runtime.stream import Stream
from softswitch.switch import SoftSwitch

_DEVICE_ID = 1
_CPU_PORT = 510
_KINDS = (
    "action_profile_member",
    "action_profile_group",
    "counter_entry",
    "meter_entry",
    "register_entry",
    "value_set_entry",
    "digest_entry",
)


class Served:
    """The service of a P4Runtime server, with one client, which is the primary, and without a connection."""

    def __init__(self) -> None:
        self._service = Service(SoftSwitch(engine="python", cpu_port=_CPU_PORT), _DEVICE_ID, _CPU_PORT, None)
        message = p4runtime_pb2.StreamMessageRequest()
        message.arbitration.device_id = _DEVICE_ID
        message.arbitration.election_id.low = 1
        self._service.stream_message(Stream(1), message)

    def refusal(self, sample: Sample) -> str:
        """Why a sample's pipeline, or a read of all that it has, is refused. Empty if neither is."""
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=_DEVICE_ID, action=3)
        request.election_id.low = 1
        text_format.Parse(sample.p4info.read_text(), request.config.p4info)
        request.config.p4_device_config = sample.json.read_bytes()
        try:
            self._service.set_pipeline(request)
            reading = self._service.read(p4runtime_pb2.ReadRequest(device_id=_DEVICE_ID, entities=_everything()))
            while reading.piece() is not None:
                pass
        except BatchError as error:
            return f"BatchError: {error}"
        except P4RuntimeError as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def end(self) -> None:
        self._service.end()


def _everything() -> list[Any]:
    """One request for each kind of entity, of whatever is there. Direct counters and meters are those of all tables."""
    asked = [p4runtime_pb2.Entity() for _ in range(len(_KINDS) + 5)]
    for entity, kind in zip(asked, _KINDS, strict=False):
        getattr(entity, kind).SetInParent()
    table, direct_counters, direct_meters, groups, sessions = asked[len(_KINDS) :]
    table.table_entry.SetInParent()
    direct_counters.direct_counter_entry.table_entry.SetInParent()
    direct_meters.direct_meter_entry.table_entry.SetInParent()
    groups.packet_replication_engine_entry.multicast_group_entry.SetInParent()
    sessions.packet_replication_engine_entry.clone_session_entry.SetInParent()
    return asked
