# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The forwarding pipeline: a P4Info and a program that fit each other, and what is kept for controllers.

Specification: "P4 Forwarding-Pipeline Configuration".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from p4.v1 import p4runtime_pb2

from softswitch.errors import DeviceError
from softswitch.p4runtime import p4info
from softswitch.p4runtime.digests import Digests
from softswitch.p4runtime.errors import InvalidArgumentError, ResourceExhaustedError
from softswitch.p4runtime.fit import fitted
from softswitch.p4runtime.idle import IdleTimeouts
from softswitch.p4runtime.profiles import EntryKey, Profiles
from softswitch.program import ir
from softswitch.program.load.program import load_program

#: A row's or group's opaque bytes are the controller's, and stay in memory as long as it does.
METADATA_BYTES_MAX: Final = 1024


def check_metadata(what: str, metadata: bytes) -> None:
    """Raises ResourceExhaustedError for more than is kept."""
    if len(metadata) > METADATA_BYTES_MAX:
        rule = f"at most {METADATA_BYTES_MAX} are kept: make it shorter"
        raise ResourceExhaustedError(f"{what}: metadata of {len(metadata)} bytes: {rule}")


@dataclass(frozen=True)
class EntryNote:
    metadata: bytes = b""
    controller_metadata: int = 0


@dataclass(frozen=True)
class GroupNote:
    """``byte_ports`` are the (port, instance) pairs whose port was written as a bytestring, to be read back so."""

    metadata: bytes = b""
    byte_ports: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class SessionNote:
    """``byte_ports`` as a group's."""

    class_of_service: int = 0
    byte_ports: frozenset[tuple[int, int]] = frozenset()


@dataclass
class Notes:
    """Opaque data of the controller; goes with the pipeline it was written for."""

    entries: dict[EntryKey, EntryNote] = field(default_factory=dict)
    defaults: dict[str, EntryNote] = field(default_factory=dict)
    groups: dict[int, GroupNote] = field(default_factory=dict)
    sessions: dict[int, SessionNote] = field(default_factory=dict)
    meters: MeterConfigs = field(default_factory=dict)
    direct_meters: dict[EntryKey, Any] = field(default_factory=dict)
    value_sets: ValueSetMembers = field(default_factory=dict)
    profiles: Profiles = field(default_factory=Profiles)


@dataclass(frozen=True)
class ForwardingPipeline:
    """``loads`` is the device's, once it runs this pipeline, and ``digests`` and ``idle`` are there then."""

    info: p4info.P4Info
    config: Any
    loads: int = 0
    notes: Notes = field(default_factory=Notes)
    digests: Digests | None = None
    idle: IdleTimeouts | None = None


def parse_pipeline(config: Any) -> tuple[ForwardingPipeline, ir.Program]:
    """The pipeline of a ``ForwardingPipelineConfig`` and its program, not yet given to the device.

    Raises InvalidArgumentError where a part is missing or malformed, where the program is outside of what the switch
    runs, and where P4Info and JSON do not fit.
    """
    if not config.HasField("p4info"):
        raise InvalidArgumentError("the pipeline config has no P4Info")
    if not config.p4_device_config:
        raise InvalidArgumentError("the pipeline config has no p4_device_config (bmv2 JSON)")
    try:
        bmv2_json = config.p4_device_config.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"p4_device_config is not bmv2 JSON text: {error}") from error
    kept = p4runtime_pb2.ForwardingPipelineConfig()
    kept.CopyFrom(config)
    info = p4info.parse(config.p4info)
    try:
        program = load_program(bmv2_json)
    except DeviceError as error:
        raise InvalidArgumentError(str(error)) from error
    return ForwardingPipeline(info, kept), fitted(program, info)


def select_config(config: Any, response_type: int) -> Any:
    """The fields of ``config`` that a GetForwardingPipelineConfigRequest of this type asks for."""
    types = p4runtime_pb2.GetForwardingPipelineConfigRequest
    if response_type not in types.ResponseType.values():
        raise InvalidArgumentError(f"response type {response_type} is unknown")
    selected = p4runtime_pb2.ForwardingPipelineConfig()
    if config.HasField("cookie"):
        selected.cookie.CopyFrom(config.cookie)
    if response_type in (types.ALL, types.P4INFO_AND_COOKIE):
        selected.p4info.CopyFrom(config.p4info)
    if response_type in (types.ALL, types.DEVICE_CONFIG_AND_COOKIE):
        selected.p4_device_config = config.p4_device_config
    return selected
