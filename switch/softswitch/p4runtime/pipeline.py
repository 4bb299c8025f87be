# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The forwarding pipeline: a P4Info and a matching program, and the state kept for controllers.

Specification: "P4 Forwarding-Pipeline Configuration".
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from p4.v1 import p4runtime_pb2

from softswitch.errors import DeviceError
from softswitch.p4runtime import p4info
from softswitch.p4runtime.device_config import bmv2_json_of
from softswitch.p4runtime.digests import Digests, encoder_of, numbers_of
from softswitch.p4runtime.errors import InvalidArgumentError, ResourceExhaustedError, UnimplementedError
from softswitch.p4runtime.externs import ValueSetMembers
from softswitch.p4runtime.idle import IdleTimeouts
from softswitch.p4runtime.p4info import ActionScope, MatchType, P4Info, TableInfo, ValueInfo
from softswitch.p4runtime.profiles import EntryKey, Profiles
from softswitch.program import ir
from softswitch.program.load.program import load_program

# p4c's name for the table of a switch statement, which may have the case `default` only.
_OF_SWITCH: Final = re.compile(r"switch_\d+_table\w*")
_CURE = "send P4Info and JSON of one compilation"
_KINDS = {
    MatchType.EXACT: ir.MatchKind.EXACT,
    MatchType.LPM: ir.MatchKind.LPM,
    MatchType.TERNARY: ir.MatchKind.TERNARY,
    MatchType.OPTIONAL: ir.MatchKind.TERNARY,
    MatchType.RANGE: ir.MatchKind.RANGE,
}


def fitted(program: ir.Program, info: P4Info) -> ir.Program:
    """Return the program with information that only P4Info has: which tables have entries that may change, how many
    there may be, and which rows count packets because their table has idle timeouts.

    Raises InvalidArgumentError if the two do not match, with the name of the table, action or counter.
    """
    described = {table.name: table for table in info.tables.values()}
    for table in program.tables.values():
        if table.name in described:
            _check_table(table, described[table.name], program, info)
        elif table.keys and not table.entries and not _OF_SWITCH.fullmatch(table.name):
            raise _unfit(f"the JSON's table {table.name!r} is not in the P4Info")
    for counter in info.counters.values():
        declared = program.counters.get(counter.name)
        if declared is not None and declared.size != counter.size:
            raise _unfit(
                f"counter {counter.name!r} has {counter.size} cells in the P4Info, {declared.size} in the JSON"
            )
    _check_digests(program, info)
    initial = {
        table.name: table.size for table in described.values() if table.has_initial_entries and not table.is_const
    }
    idle = {table.name for table in described.values() if table.has_idle_timeout}
    return program if not initial and not idle else _adapted(program, initial, idle)


def _check_digests(program: ir.Program, info: P4Info) -> None:
    declared = {digest.name: len(digest.values) for digest in program.digests.values()}
    for digest in info.digests.values():
        with suppress(UnimplementedError):  # of a type that is refused when a controller asks for it
            size = numbers_of(encoder_of(digest.type_spec, info.types, digest.name))
            if declared.get(digest.name, size) != size:
                found = f"{size} values in the P4Info, {declared[digest.name]} in the JSON"
                raise _unfit(f"digest {digest.name!r} has {found}")
    for meter in info.meters.values():
        known = program.meters.get(meter.name)
        if known is not None and known.size != meter.size:
            raise _unfit(f"meter {meter.name!r} has {meter.size} cells in the P4Info, {known.size} in the JSON")


def _unfit(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"the P4Info does not fit the JSON: {what}; {_CURE}")


def _check_table(table: ir.Table, described: TableInfo, program: ir.Program, info: P4Info) -> None:
    where = f"table {table.name!r}"
    if len(table.keys) != len(described.fields):
        raise _unfit(f"{where} has {len(described.fields)} match fields in the P4Info, {len(table.keys)} in the JSON")
    for key, known in zip(table.keys, described.fields, strict=True):
        what = f"{where}, match field {known.name!r}"
        if _KINDS[known.kind] is not key.kind:
            raise _unfit(f"{what} is {known.kind.name.lower()} in the P4Info, {key.kind.value} in the JSON")
        _check_width(what, known, key.width)
    if described.has_direct_counter != table.has_counter:
        raise _unfit(
            f"{where} has a direct counter in {'the P4Info' if described.has_direct_counter else 'the JSON'} only"
        )
    _check_actions(where, table, described, program, info)


def _check_actions(where: str, table: ir.Table, described: TableInfo, program: ir.Program, info: P4Info) -> None:
    known = {action.name: action for action in program.actions if action.index in table.actions}
    for number, scope in described.scopes.items():
        action = info.actions[number]
        declared = known.get(action.name)
        if declared is None:
            if scope is ActionScope.DEFAULT_ONLY:
                continue  # of a table whose default action is another, and constant, it may be gone
            raise _unfit(f"{where} has no action {action.name!r} in the JSON")
        what = f"action {action.name!r}"
        if len(declared.parameters) != len(action.params):
            counts = f"{len(action.params)} parameters in the P4Info, {len(declared.parameters)} in the JSON"
            raise _unfit(f"{what} has {counts}")
        for parameter, value in zip(declared.parameters, action.params, strict=True):
            _check_width(f"{what}, parameter {value.name!r}", value, parameter.width)


def _check_width(what: str, value: ValueInfo, width: int) -> None:
    if value.width != width and not value.is_translated:
        raise _unfit(f"{what} has {value.width} bits in the P4Info, {width} in the JSON")


def _adapted(program: ir.Program, sizes: dict[str, int], counted: set[str]) -> ir.Program:
    def table(node: ir.Table) -> ir.Table:
        if node.name in sizes:
            node = replace(node, entries_const=False, size=max(node.size, sizes[node.name]))
        return replace(node, has_counter=True) if node.name in counted else node

    def adapted(pipeline: ir.Pipeline) -> ir.Pipeline:
        nodes = {name: table(node) if isinstance(node, ir.Table) else node for name, node in pipeline.nodes.items()}
        return replace(pipeline, nodes=nodes)

    return replace(program, ingress=adapted(program.ingress), egress=adapted(program.egress))


#: A row's or group's opaque bytes are the controller's, and stay in memory as long as it does.
METADATA_BYTES_MAX: Final = 1024


def check_metadata(what: str, metadata: bytes) -> None:
    """Raise ResourceExhaustedError for metadata that is too long to keep."""
    if len(metadata) > METADATA_BYTES_MAX:
        rule = f"at most {METADATA_BYTES_MAX} are kept: make it shorter"
        raise ResourceExhaustedError(f"{what}: metadata of {len(metadata)} bytes: {rule}")


@dataclass(frozen=True)
class EntryNote:
    metadata: bytes = b""
    controller_metadata: int = 0


@dataclass(frozen=True)
class GroupNote:
    """A note about a group. ``byte_ports``: the (port, instance) pairs whose port was written as a bytestring, to be
    read back in that form."""

    metadata: bytes = b""
    byte_ports: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class SessionNote:
    """What the controller wrote about a session. ``byte_ports`` as in a group's."""

    class_of_service: int = 0
    byte_ports: frozenset[tuple[int, int]] = frozenset()


@dataclass
class Notes:
    """Opaque data of the controller. It is dropped with the pipeline for which it was written."""

    entries: dict[EntryKey, EntryNote] = field(default_factory=dict)
    defaults: dict[str, EntryNote] = field(default_factory=dict)
    groups: dict[int, GroupNote] = field(default_factory=dict)
    sessions: dict[int, SessionNote] = field(default_factory=dict)
    value_sets: ValueSetMembers = field(default_factory=dict)
    profiles: Profiles = field(default_factory=Profiles)


@dataclass(frozen=True)
class ForwardingPipeline:
    """A pipeline. ``loads``: the device's load count, once it runs this pipeline; ``digests`` and ``idle`` exist from
    then on."""

    info: p4info.P4Info
    config: Any
    loads: int = 0
    notes: Notes = field(default_factory=Notes)
    digests: Digests | None = None
    idle: IdleTimeouts | None = None


def parse_pipeline(config: Any) -> tuple[ForwardingPipeline, ir.Program]:
    """Return the pipeline of a ``ForwardingPipelineConfig`` and its program, without loading it into the device.

    Raises InvalidArgumentError if a part is missing or malformed, if the switch cannot run the program, or if P4Info
    and JSON do not match.
    """
    if not config.HasField("p4info"):
        raise InvalidArgumentError("the pipeline config has no P4Info")
    bmv2_json = bmv2_json_of(config.p4_device_config)
    kept = p4runtime_pb2.ForwardingPipelineConfig()
    kept.CopyFrom(config)
    info = p4info.parse(config.p4info)
    try:
        program = load_program(bmv2_json)
    except DeviceError as error:
        raise InvalidArgumentError(str(error)) from error
    return ForwardingPipeline(info, kept), fitted(program, info)


def select_config(config: Any, response_type: int) -> Any:
    """Return the fields of ``config`` that a GetForwardingPipelineConfigRequest of this type asks for."""
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
