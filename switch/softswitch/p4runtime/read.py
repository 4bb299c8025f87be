# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reads: the entities that a request asks for, and the answer to it from one state of the switch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice, starmap
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.device import Device
from softswitch.errors import DeviceError, NotFoundError
from softswitch.p4runtime import externs, replication, tables
from softswitch.p4runtime.entries import decode_key, encode_action, encode_key
from softswitch.p4runtime.errors import (
    AbortedError,
    BatchError,
    InvalidArgumentError,
    P4RuntimeError,
    ResourceExhaustedError,
    UnimplementedError,
    from_device,
)
from softswitch.p4runtime.p4info import P4Info, TableInfo
from softswitch.p4runtime.pipeline import EntryNote, ForwardingPipeline
from softswitch.p4runtime.profiles import EntryKey
from softswitch.p4runtime.roles import FULL, Access, entity_id
from softswitch.p4runtime.tables import TableRow
from softswitch.runtime.entries import ActionCall, CounterValue, Entry, KeyMatch, Replica


class Snapshot:
    """The state that a read sees. Methods raise NotFoundError for a table that the device does not have."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._rows: dict[str, list[Entry]] = {}
        self._by_key: dict[str, dict[tuple[KeyMatch, ...], list[Entry]]] = {}

    @cached_property
    def groups(self) -> Mapping[int, tuple[Replica, ...]]:
        return self.device.groups()

    @cached_property
    def sessions(self) -> Mapping[int, tuple[Replica, ...]]:
        return {session: replicas for session, (replicas, _) in self.device.sessions().items()}

    def rows(self, table: str) -> list[Entry]:
        if table not in self._rows:
            self._rows[table] = self.device.entries(table)
        return self._rows[table]

    def rows_of(self, table: str, key: tuple[KeyMatch, ...]) -> list[Entry]:
        """Return the rows with this key, of any priority."""
        if table not in self._by_key:
            index: dict[tuple[KeyMatch, ...], list[Entry]] = {}
            for entry in self.rows(table):
                index.setdefault(entry.key, []).append(entry)
            self._by_key[table] = index
        return self._by_key[table].get(key, [])

    def row(self, wanted: TableRow) -> Entry:
        """Return the row that was asked for. Raises NotThereError."""
        return wanted.among(self.rows_of(wanted.table.name, wanted.key))


def check_empty_read(info: P4Info, kind: str, entry: Any) -> None:
    """Check a read of a kind of entities that this server never has.

    Raises InvalidArgumentError for an object that the P4Info lacks, UnimplementedError for one that it has.
    """
    number = entry.extern_type_id if kind == "extern_entry" else entry.register_id
    if not number:
        return
    if number not in info.others[kind]:
        raise InvalidArgumentError(f"{number:#010x} is not the id of what a {kind} is about in the P4Info")
    raise UnimplementedError(f"reading a {kind} is not offered")


#: Rows, cells and replicas that one Read may look at.
MAX_STEPS = 1 << 18
#: A piece ends after so many of them, or so many bytes. A client takes 4 MiB a message if it says nothing else.
PIECE_STEPS = 128
PIECE_BYTES = 256 << 10


@dataclass(frozen=True)
class ReadPart:
    """The part of a read that concerns one table or counter, or the groups.

    ``steps``: how many rows, cells or replicas it looks at. ``entities``: one for each, or None if a filter leaves the
    row out.
    """

    steps: int
    entities: Callable[[], Iterable[Any | None]]


class EntityReader:
    """Answers a ReadRequest, limited to the objects of the role that asks (``allowed``). A refused request adds no
    entity and does not stop the others."""

    def __init__(
        self, device: Device, pipeline: ForwardingPipeline, requests: Iterable[Any], allowed: Access = FULL
    ) -> None:
        self._device = device
        self._pipeline = pipeline
        self._outcomes: list[P4RuntimeError | None] = []
        self._parts: list[ReadPart] = []
        self._steps = 0
        self._snapshot = Snapshot(device)
        self._requests = iter(requests)
        self._allowed = allowed
        self._checked = False
        self.ended = False
        """Whether there is no further piece."""
        self._entities = chain.from_iterable(part.entities() for part in self._parts)

    def _plan(self, request: Any) -> P4RuntimeError | None:
        self._count(1)
        try:
            parts = _parts(self._snapshot, self._pipeline, request)
        except P4RuntimeError as error:
            return error
        except DeviceError as error:
            return from_device(error)
        self._count(sum(part.steps for part in parts))
        self._parts += parts
        return None

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            rule = f"one read may look at {MAX_STEPS} rows and cells, and this one asks for more"
            raise ResourceExhaustedError(f"{rule}: split it, by table, counter or index")

    def piece(self) -> Any | None:
        """Return the next ReadResponse, which may be empty; None after the end. All requests are checked before the
        first entity. A small read is one piece. Each further piece waits for its turn among all other reads.

        Raises ResourceExhaustedError if the requests together look at more than MAX_STEPS, AbortedError if the program
        has been replaced since the read began, and BatchError at the end if requests were refused.
        """
        response, size, steps = p4runtime_pb2.ReadResponse(), 0, 0
        if self.ended:
            return None
        if not self._checked:
            planned = [self._plan(request) for request in islice(self._requests, PIECE_STEPS)]
            self._outcomes += planned
            steps = len(planned)
            if steps == PIECE_STEPS:
                return response
            self._checked = True
        whole = False
        try:
            for entity in self._entities:
                steps += 1
                if entity is not None and (self._allowed is FULL or self._allowed.has(entity_id(entity))):
                    response.entities.append(entity)
                    size += entity.ByteSize()
                if steps >= PIECE_STEPS or size >= PIECE_BYTES:
                    break
            else:
                whole = True
        except (P4RuntimeError, DeviceError):
            self._require_program()
            raise
        self._require_program()
        if whole and any(self._outcomes):
            # What is read goes out before that.
            if response.entities:
                return response
            raise BatchError("requests", self._outcomes)
        self.ended = whole
        return response

    def _require_program(self) -> None:
        if self._device.loads != self._pipeline.loads:
            raise AbortedError("the program was replaced during the read: read again")


def _parts(snapshot: Snapshot, pipeline: ForwardingPipeline, request: Any) -> list[ReadPart]:
    """Check one request and say what it reads."""
    kind = request.WhichOneof("entity")
    match kind:
        case "table_entry":
            return _table_entries(snapshot, pipeline, request.table_entry)
        case "counter_entry":
            return [
                ReadPart(len(indices), partial(externs.counter_cells, snapshot.device, counter, indices))
                for counter, indices in externs.wanted_counters(snapshot.device, pipeline.info, request.counter_entry)
            ]
        case "direct_counter_entry" | "direct_meter_entry":
            return _direct(snapshot, pipeline, kind, getattr(request, kind))
        case "packet_replication_engine_entry":
            return [_replication(snapshot, pipeline, request.packet_replication_engine_entry)]
        case None:
            raise InvalidArgumentError("the request has no entity; a read names the kind it wants")
        case _:
            return _extern_parts(snapshot.device, pipeline, kind, getattr(request, kind))


def _extern_parts(device: Device, pipeline: ForwardingPipeline, kind: str, asked: Any) -> list[ReadPart]:
    if kind == "meter_entry":
        return [
            ReadPart(len(indices), partial(externs.meter_entities, device, meter, indices))
            for meter, indices in externs.wanted_meters(pipeline.info, asked)
        ]
    found: Iterable[Any]
    match kind:
        case "digest_entry" if pipeline.digests is not None:
            found = pipeline.digests.read(asked)
        case "action_profile_member":
            found = pipeline.notes.profiles.read_members(pipeline.info, asked)
        case "action_profile_group":
            found = pipeline.notes.profiles.read_groups(pipeline.info, asked)
        case "value_set_entry":
            found = externs.value_set_entities(pipeline.info, pipeline.notes.value_sets, asked)
        case _:
            check_empty_read(pipeline.info, kind, asked)
            return []
    entities = list(found)
    steps = sum(1 + len(getattr(getattr(each, kind), "members", ())) for each in entities)
    return [ReadPart(steps, lambda: entities)]


def _replication(snapshot: Snapshot, pipeline: ForwardingPipeline, asked: Any) -> ReadPart:
    entity: Callable[[int, tuple[Replica, ...]], Any]
    if asked.WhichOneof("type") == "clone_session_entry":
        found = replication.wanted(snapshot.sessions, asked.clone_session_entry.session_id, "clone session")
        entity = partial(replication.session_entity, pipeline.notes.sessions)
    else:
        group = replication.group_of(asked).multicast_group_id
        found = replication.wanted(snapshot.groups, group, "multicast group")
        entity = partial(replication.group_entity, pipeline.notes.groups)
    return ReadPart(sum(1 + len(each) for each in found.values()), lambda: starmap(entity, found.items()))


def _table_entries(snapshot: Snapshot, pipeline: ForwardingPipeline, request: Any) -> list[ReadPart]:
    timed = request.HasField("time_since_last_hit")
    if timed and (request.is_default_action or not any(t.has_idle_timeout for t in _tables(pipeline, request))):
        raise InvalidArgumentError("time_since_last_hit is set, but what is asked for has no idle timeout")
    make = _default_entry if request.is_default_action else _entries
    parts = []
    for table in _tables(pipeline, request):
        try:
            parts.append(make(snapshot, pipeline, table, request))
        except NotFoundError:
            if request.table_id:
                raise
            continue  # the compiler may drop a table that P4Info lists: nothing to read there
    return parts


def _tables(pipeline: ForwardingPipeline, request: Any) -> list[TableInfo]:
    if request.table_id:
        return [pipeline.info.table(request.table_id)]
    if request.match:
        raise InvalidArgumentError("match fields without a table id")
    return list(pipeline.info.tables.values())


def _passes(message: Any, request: Any) -> bool:
    """Apply the filters, whose default values mean "any"."""
    action_id = request.action.action.action_id
    if action_id and action_id != message.action.action.action_id:
        return False
    for name in ("priority", "controller_metadata", "metadata"):
        wanted = getattr(request, name)
        if wanted and wanted != getattr(message, name):
            return False
    return True


def _entries(snapshot: Snapshot, pipeline: ForwardingPipeline, table: TableInfo, request: Any) -> ReadPart:
    rows = snapshot.rows(table.name)
    if request.match:
        rows = snapshot.rows_of(table.name, decode_key(table, request.match))
    device = snapshot.device
    return ReadPart(len(rows), lambda: (entry_entity(device, pipeline, table, row, request) for row in rows))


def entry_entity(
    device: Device, pipeline: ForwardingPipeline, table: TableInfo, entry: Entry, request: Any
) -> Any | None:
    """Return the ``Entity`` of a row; None if a filter of ``request``, a ``TableEntry``, leaves it out."""
    where = (table.name, entry.key, entry.priority)
    message = _key_message(table, entry.key, entry.priority)
    reference = pipeline.notes.profiles.references.get(where)
    if reference is not None:
        message.action.CopyFrom(reference)
    elif isinstance(entry.action, ActionCall):
        message.action.CopyFrom(encode_action(pipeline.info, entry.action))
    message.is_const = entry.is_const
    _add_note(message, pipeline.notes.entries.get(where))
    if request.HasField("counter_data") and table.has_direct_counter:
        message.counter_data.CopyFrom(externs.encode_data(entry.counter or CounterValue()))
    if request.HasField("meter_config") and table.has_direct_meter:
        _add_rates(message.meter_config, device, where)
    if table.has_idle_timeout and pipeline.idle is not None:
        message.idle_timeout_ns = pipeline.idle.timeout_ns(where)
        if request.HasField("time_since_last_hit"):
            packets = 0 if entry.counter is None else entry.counter.packets
            message.time_since_last_hit.elapsed_ns = pipeline.idle.elapsed_ns(where, packets)
    return p4runtime_pb2.Entity(table_entry=message) if _passes(message, request) else None


def idle_entry(pipeline: ForwardingPipeline, where: EntryKey) -> Any:
    """Return the ``TableEntry`` of a notification."""
    name, key, priority = where
    table = next(each for each in pipeline.info.tables.values() if each.name == name)
    message = _key_message(table, key, priority)
    if pipeline.idle is not None:
        message.idle_timeout_ns = pipeline.idle.timeout_ns(where)
    _add_note(message, pipeline.notes.entries.get(where))
    return message


def _default_entry(snapshot: Snapshot, pipeline: ForwardingPipeline, table: TableInfo, request: Any) -> ReadPart:
    if request.match or request.priority:
        raise InvalidArgumentError(f"table {table.name!r}: a default entry has neither match fields nor a priority")
    message = p4runtime_pb2.TableEntry(table_id=table.id, is_default_action=True)
    action = snapshot.device.default_action(table.name)
    if action is not None and not table.implementation_id:
        message.action.CopyFrom(encode_action(pipeline.info, action))
    _add_note(message, pipeline.notes.defaults.get(table.name))
    entity = p4runtime_pb2.Entity(table_entry=message) if _passes(message, request) else None
    return ReadPart(1, lambda: [entity])


def _key_message(table: TableInfo, key: tuple[KeyMatch, ...], priority: int) -> Any:
    priority = priority if table.needs_priority else 0
    return p4runtime_pb2.TableEntry(table_id=table.id, match=encode_key(table, key), priority=priority)


def _add_note(message: Any, note: EntryNote | None) -> None:
    if note is not None:
        message.metadata = note.metadata
        message.controller_metadata = note.controller_metadata


def _direct(snapshot: Snapshot, pipeline: ForwardingPipeline, name: str, asked: Any) -> list[ReadPart]:
    """Direct counters or meters of the table, or of the row, that a request names, or of all tables."""
    kind, entry = name.split("_")[1], asked.table_entry
    if kind == "meter" and asked.HasField("counter_data"):
        raise UnimplementedError("counter_data of direct meters is not offered")
    if entry.table_id:
        wanted = [tables.direct_table(pipeline, entry, kind)]
    elif entry.match:
        raise InvalidArgumentError("match fields without a table id")
    else:
        wanted = [table for table in pipeline.info.tables.values() if tables.has_direct(table, kind)]
    parts = []
    for table in wanted:
        rows = [snapshot.row(tables.decode_row(table, entry))] if entry.match else snapshot.rows(table.name)
        parts.append(ReadPart(len(rows), partial(_direct_entities, snapshot.device, name, table, rows)))
    return parts


def _direct_entities(device: Device, name: str, table: TableInfo, rows: Iterable[Entry]) -> Iterator[Any]:
    for row in rows:
        entity = p4runtime_pb2.Entity()
        message = getattr(entity, name)
        message.table_entry.CopyFrom(_key_message(table, row.key, row.priority))
        if name == "direct_counter_entry":
            message.data.CopyFrom(externs.encode_data(row.counter or CounterValue()))
        else:
            _add_rates(message.config, device, (table.name, row.key, row.priority))
        yield entity


def _add_rates(config: Any, device: Device, where: EntryKey) -> None:
    """Nothing where the meter is not configured."""
    rates = device.direct_meter_rates(*where)
    if rates is not None:
        config.CopyFrom(externs.encode_meter(rates))
