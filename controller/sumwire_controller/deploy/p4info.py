# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The files of the compiled program: reads them, and checks that both are of one build."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2
from sumwire_protocol import program

from sumwire_controller.derive.entries import (
    OTHER_ACTIONS,
    QUEUE_COUNTER,
    REJECT_COUNTER,
    TABLES,
    VERDICT_COUNTER,
    WORKER,
    WORKER_COUNTER,
    Entry,
    MulticastGroup,
    TableEntry,
    TableShape,
)
from sumwire_controller.errors import ArtifactError

CURE: Final = "compile the program: make p4, or name the folder of another: --p4 DIR"


def read_artifacts(folder: Path) -> tuple[Any, bytes]:
    """Return the P4Info, and the JSON for the switch.

    :raises ArtifactError: a file is missing, is not what its name says, or the two are of different builds.
    """
    path = folder / program.P4INFO_NAME
    try:
        text = path.read_bytes()
        p4info = _p4info(text)
        path = folder / program.JSON_NAME
        device_config = path.read_bytes()
        differing = _difference(text, device_config)
    except OSError as error:
        raise ArtifactError(f"{error.filename}: {error.strerror}; {CURE}") from error
    except text_format.ParseError as error:
        raise ArtifactError(f"{path}: not P4Info: {error}; {CURE}") from error
    except (ValueError, RecursionError) as error:  # also text that is not UTF-8, or is nested too deeply
        raise ArtifactError(f"{path}: not readable: {error}; {CURE}") from error
    if differing:
        names = f"{program.P4INFO_NAME} and {program.JSON_NAME}"
        raise ArtifactError(f"{folder}: {names} are not of one build: {differing}; {CURE}")
    return p4info, device_config


@functools.lru_cache(maxsize=1)
def _p4info(text: bytes) -> Any:
    """The last one is kept: for every switch of a network the same is read."""
    p4info = p4info_pb2.P4Info()
    text_format.Parse(text.decode(), p4info)
    return p4info


@functools.lru_cache(maxsize=1)
def _difference(text: bytes, device_config: bytes) -> str:
    """What P4Info has otherwise than the JSON, in words; empty if nothing. Kept as :func:`_p4info` is."""
    p4info, compiled = _p4info(text), json.loads(device_config)
    try:
        tables = {table["name"]: table for pipeline in compiled["pipelines"] for table in pipeline["tables"]}
        keys = {name: [key["name"] for key in table["key"]] for name, table in tables.items()}
        actions = {
            action["name"]: [(data["name"], data["bitwidth"]) for data in action["runtime_data"]]
            for action in compiled["actions"]
        }
    except (KeyError, TypeError):
        return "the JSON is not what p4c makes for bmv2"
    for table in p4info.tables:
        if keys.get(table.preamble.name) != [field.name for field in table.match_fields]:
            return f"table {table.preamble.name}"
    for action in p4info.actions:
        parameters = [(parameter.name, parameter.bitwidth) for parameter in action.params]
        if actions.get(action.preamble.name, []) != parameters:
            return f"action {action.preamble.name}"
    return ""


_LPM: Final = p4info_pb2.MatchField.LPM
_TERNARY: Final = p4info_pb2.MatchField.TERNARY


def canonical(value: int) -> bytes:
    """Return a number in the fewest big-endian bytes; zero is one zero byte (P4Runtime specification, section 8.4)."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


@dataclass(frozen=True)
class _Table:
    """A table of the compiled program with its ids. `match_bits` and `parameter_bits` are widths in bits."""

    shape: TableShape
    id: int
    action_id: int
    match_ids: tuple[int, ...]
    match_bits: tuple[int, ...]
    match_types: tuple[int, ...]
    parameter_ids: tuple[int, ...]
    parameter_bits: tuple[int, ...]

    @property
    def has_priority(self) -> bool:
        return _TERNARY in self.match_types


def _by_alias(objects: Any, alias: str, what: str) -> Any:
    for candidate in objects:
        if candidate.preamble.alias == alias:
            return candidate
    raise ArtifactError(f"{what} {alias!r}: not in the compiled program")


class Program:
    """The compiled program: the files that are loaded into a switch, and the ids for translating entries.

    :raises ArtifactError: P4Info lacks a table, key, action or parameter that this controller writes.
    """

    def __init__(self, p4info: Any, device_config: bytes) -> None:
        self.p4info = p4info
        self.device_config = device_config
        self.cookie = int.from_bytes(hashlib.sha256(device_config).digest()[:8], "big")
        self._tables = {name: _bind(p4info, shape) for name, shape in TABLES.items()}
        self._others = {name: _bind(p4info, shape) for name, shape in OTHER_ACTIONS.items()}
        self._names = {table.id: name for name, table in self._tables.items()}
        self.verdicts_id: int = _by_alias(p4info.counters, VERDICT_COUNTER, "counter").preamble.id
        self.rejects_id: int = _by_alias(p4info.counters, REJECT_COUNTER, "counter").preamble.id
        self.queues_id: int = _by_alias(p4info.counters, QUEUE_COUNTER, "counter").preamble.id
        _by_alias(p4info.direct_counters, WORKER_COUNTER, "direct counter")

    @classmethod
    def load(cls, build_dir: Path | str | None = None) -> Program:
        """Reads JSON and P4Info from a folder; by default the one that comes with Sumwire.

        :raises ArtifactError: a file is missing or wrong, or the program is not one that this controller can use.
        """
        folder = program.FOLDER if build_dir is None else Path(build_dir)
        p4info, device_config = read_artifacts(folder)
        try:
            return cls(p4info, device_config)
        except ArtifactError as error:
            raise ArtifactError(f"{folder / program.P4INFO_NAME}: {error}; {CURE}") from error

    def table_id(self, name: str) -> int:
        return self._tables[name].id

    def to_entity(self, entry: Entry) -> Any:
        """Translate an entry to a P4Runtime entity."""
        entity = p4runtime_pb2.Entity()
        if isinstance(entry, MulticastGroup):
            group = entity.packet_replication_engine_entry.multicast_group_entry
            group.multicast_group_id = entry.group
            for port, instance in sorted(entry.replicas):
                group.replicas.add(egress_port=port, instance=instance)
            return entity
        table = self._tables[entry.table]
        entity.table_entry.table_id = table.id
        _fill_match(entity.table_entry, table, entry.key)
        action = entity.table_entry.action.action
        if len(entry.args) > len(table.parameter_ids):
            table = self._others.get(entry.table, table)
        action.action_id = table.action_id
        for param_id, bits, value in zip(table.parameter_ids, table.parameter_bits, entry.args, strict=True):
            action.params.add(param_id=param_id, value=_checked(entry, value, bits))
        return entity

    def from_entity(self, entity: Any) -> Entry | None:
        """Translate an entity that a switch sent. None if it is of a table that the controller does not write.

        :raises ArtifactError: the row has an action that the controller never installs.
        """
        if entity.HasField("packet_replication_engine_entry"):
            group = entity.packet_replication_engine_entry.multicast_group_entry
            replicas = frozenset((_replica_port(replica), int(replica.instance)) for replica in group.replicas)
            return MulticastGroup(int(group.multicast_group_id), replicas)
        row = entity.table_entry
        if row.table_id not in self._names or row.is_default_action:
            return None
        return TableEntry(self._names[row.table_id], self.key_of(row), self._args_of(row))

    def key_of(self, row: Any) -> tuple[int, ...]:
        """Return the key of a row of an owned table."""
        table = self._tables[self._names[row.table_id]]
        fields = {match.field_id: match for match in row.match}
        parts = [
            part
            for match_id, match_type in zip(table.match_ids, table.match_types, strict=True)
            # P4Runtime omits a field that matches everything.
            for part in _match_parts(fields.get(match_id, p4runtime_pb2.FieldMatch()), match_type)
        ]
        return (*parts, int(row.priority)) if table.has_priority else tuple(parts)

    def _args_of(self, row: Any) -> tuple[int, ...]:
        table = self._tables[self._names[row.table_id]]
        action = row.action.action
        other = self._others.get(table.shape.name)
        if other is not None and action.action_id == other.action_id:
            table = other
        if action.action_id != table.action_id:
            held = f"holds a row with action {action.action_id:#x}, not {table.shape.action!r}"
            cure = "restart the switch, then: sumwire-controller apply CONFIG"
            raise ArtifactError(f"table {table.shape.name!r}: {held}; {cure}")
        values = {param.param_id: int.from_bytes(param.value, "big") for param in action.params}
        return tuple(values[param_id] for param_id in table.parameter_ids)

    def owned_tables(self) -> Iterator[int]:
        """Return the ids of all tables that the controller writes."""
        return (table.id for table in self._tables.values())


def name_of(p4info: Any) -> str:
    """Return a program's name and version from its P4Info; "without a name" if there is none."""
    return f"{p4info.pkg_info.name} {p4info.pkg_info.version}".strip() or "without a name"


def worker_counter_ids(p4info: Any) -> tuple[int, int] | None:
    """Return the ids of the worker table and of its key field `job`, in any build of Sumwire; None for another
    program."""
    tables = {table.preamble.id: table for table in p4info.tables}
    for counter in p4info.direct_counters:
        if counter.preamble.alias == WORKER_COUNTER and counter.direct_table_id in tables:
            for field in tables[counter.direct_table_id].match_fields:
                if field.name == WORKER.keys[0]:
                    return int(counter.direct_table_id), int(field.id)
    return None


def _bind(p4info: Any, shape: TableShape) -> _Table:
    table = _by_alias(p4info.tables, shape.name, "table")
    action = _by_alias(p4info.actions, shape.action, "action")
    if action.preamble.id not in {reference.id for reference in table.action_refs}:
        raise ArtifactError(f"table {shape.name!r}: has no action {shape.action!r} in the compiled program")
    match_types = tuple(field.match_type for field in table.match_fields)
    keys = tuple(name for field in table.match_fields for name in _key_names(field))
    if _TERNARY in match_types:
        keys += ("priority",)
    parameters = tuple(param.name for param in action.params)
    for what, ours, compiled in (("keys", shape.keys, keys), ("parameters", shape.parameters, parameters)):
        if ours != compiled:
            raise ArtifactError(f"table {shape.name!r}: {what} {compiled} in the compiled program, want {ours}")
    return _Table(
        shape=shape,
        id=table.preamble.id,
        action_id=action.preamble.id,
        match_ids=tuple(field.id for field in table.match_fields),
        match_bits=tuple(field.bitwidth for field in table.match_fields),
        match_types=match_types,
        parameter_ids=tuple(param.id for param in action.params),
        parameter_bits=tuple(param.bitwidth for param in action.params),
    )


def _key_names(field: Any) -> tuple[str, ...]:
    """The names of a key's numbers in `derive/tables.py`."""
    if field.match_type == _LPM:
        return (field.name, "prefix")
    return (field.name, "mask") if field.match_type == _TERNARY else (field.name,)


def _match_parts(match: Any, match_type: int) -> tuple[int, ...]:
    if match_type == _LPM:
        return (int.from_bytes(match.lpm.value, "big"), int(match.lpm.prefix_len))
    if match_type == _TERNARY:
        return (int.from_bytes(match.ternary.value, "big"), int.from_bytes(match.ternary.mask, "big"))
    return (int.from_bytes(match.exact.value, "big"),)


def _fill_match(row: Any, table: _Table, key: tuple[int, ...]) -> None:
    parts = iter(key)
    name = table.shape.name
    for match_id, bits, match_type in zip(table.match_ids, table.match_bits, table.match_types, strict=True):
        value = _checked(name, next(parts), bits)
        if match_type == _LPM:
            prefix_len = next(parts)
            if prefix_len:
                row.match.add(field_id=match_id).lpm.CopyFrom(
                    p4runtime_pb2.FieldMatch.LPM(value=value, prefix_len=prefix_len)
                )
        elif match_type == _TERNARY:
            mask = _checked(name, next(parts), bits)
            if any(mask):
                row.match.add(field_id=match_id).ternary.CopyFrom(
                    p4runtime_pb2.FieldMatch.Ternary(value=value, mask=mask)
                )
        else:
            row.match.add(field_id=match_id).exact.value = value
    if table.has_priority:
        row.priority = next(parts)


def _checked(what: object, value: int, bits: int) -> bytes:
    if not 0 <= value < 1 << bits:
        rule = f"{value} does not fit the {bits} bits of the compiled program"
        raise ArtifactError(f"{what}: {rule}; correct it in the configuration")
    return canonical(value)


def _replica_port(replica: Any) -> int:
    """The port of a replica. P4Runtime 1.4 has it as a number (the older field) or as bytes."""
    return (
        int.from_bytes(replica.port, "big") if replica.WhichOneof("port_kind") == "port" else int(replica.egress_port)
    )
