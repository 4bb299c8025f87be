# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The model of a switch's P4Runtime state: what a P4Info allows, what messages mean, and what the switch must hold.

Unlike a server, which stops at the first rule that a message breaks, decoding collects all of them: a server may name
any. :mod:`fuzz.p4runtime.oracle` judges writes and reads with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.rpc import code_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

_KINDS = {
    p4info_pb2.MatchField.EXACT: "exact",
    p4info_pb2.MatchField.LPM: "lpm",
    p4info_pb2.MatchField.TERNARY: "ternary",
    p4info_pb2.MatchField.RANGE: "range",
    p4info_pb2.MatchField.OPTIONAL: "optional",
}


@dataclass(frozen=True)
class Field:
    """``kind``: of the match, as the member of FieldMatch is called; empty for a parameter."""

    id: int
    width: int
    kind: str = ""

    @property
    def most(self) -> int:
        return (1 << self.width) - 1


@dataclass(frozen=True)
class Table:
    """``actions``: parameters by action id. ``entry_actions``, ``default_actions``: where each may be used."""

    id: int
    name: str
    fields: tuple[Field, ...]
    actions: Mapping[int, tuple[Field, ...]]
    entry_actions: frozenset[int]
    default_actions: frozenset[int]
    size: int
    is_const: bool
    has_initial_entries: bool
    has_const_default: bool
    counted: bool

    @property
    def has_priorities(self) -> bool:
        return any(field.kind in ("ternary", "range", "optional") for field in self.fields)


@dataclass(frozen=True)
class Schema:
    """``counters``: sizes by id."""

    tables: Mapping[int, Table]
    counters: Mapping[int, int]


def schema_of(info: Any) -> Schema:
    parameters = {
        action.preamble.id: tuple(Field(param.id, param.bitwidth) for param in action.params) for action in info.actions
    }
    counted = {counter.direct_table_id for counter in info.direct_counters}
    return Schema(
        {table.preamble.id: _table(table, parameters, table.preamble.id in counted) for table in info.tables},
        {counter.preamble.id: counter.size for counter in info.counters},
    )


def _table(table: Any, parameters: Mapping[int, tuple[Field, ...]], counted: bool) -> Table:
    scopes = {ref.id: ref.scope for ref in table.action_refs}
    return Table(
        id=table.preamble.id,
        name=table.preamble.name,
        fields=tuple(Field(field.id, field.bitwidth, _KINDS[field.match_type]) for field in table.match_fields),
        actions={number: parameters[number] for number in scopes},
        entry_actions=frozenset(n for n, scope in scopes.items() if scope != p4info_pb2.ActionRef.DEFAULT_ONLY),
        default_actions=frozenset(n for n, scope in scopes.items() if scope != p4info_pb2.ActionRef.TABLE_ONLY),
        size=table.size,
        is_const=table.is_const_table,
        has_initial_entries=table.has_initial_entries,
        has_const_default=table.const_default_action_id != 0,
        counted=counted,
    )


INVALID = code_pb2.INVALID_ARGUMENT
DENIED = code_pb2.PERMISSION_DENIED
ABSENT = code_pb2.NOT_FOUND
THERE = code_pb2.ALREADY_EXISTS
UNIMPLEMENTED = code_pb2.UNIMPLEMENTED

#: Numbers of each field's match in the table's order; None where the field is left out.
Key = tuple[tuple[int, ...] | None, ...]
Identity = tuple[Key, int]
#: Action id and arguments in the order of the parameters.
Call = tuple[int, tuple[int, ...]]

_PARTS = {
    "exact": ("value",),
    "optional": ("value",),
    "lpm": ("value",),
    "ternary": ("value", "mask"),
    "range": ("low", "high"),
}


@dataclass
class Faults:
    """Broken rules of one update: their codes, and a word for each."""

    codes: set[int] = field(default_factory=set)
    words: list[str] = field(default_factory=list)

    def add(self, code: int, word: str) -> None:
        self.codes.add(code)
        self.words.append(word)

    def __bool__(self) -> bool:
        return bool(self.codes)


def key_of(table: Table, matches: Iterable[Any], faults: Faults) -> Key | None:
    """None where a rule is broken."""
    before = len(faults.words)
    fields = {each.id: each for each in table.fields}
    found: dict[int, tuple[int, ...]] = {}
    for match in matches:
        known = fields.get(match.field_id)
        if known is None:
            faults.add(INVALID, "match field unknown")
        elif match.field_id in found:
            faults.add(INVALID, "match field twice")
        else:
            found[known.id] = _match(known, match, faults)
    if any(each.kind == "exact" and each.id not in found for each in table.fields):
        faults.add(INVALID, "exact match missing")
    return tuple(found.get(each.id) for each in table.fields) if len(faults.words) == before else None


def _match(known: Field, match: Any, faults: Faults) -> tuple[int, ...]:
    kind = match.WhichOneof("field_match_type")
    if kind != known.kind:
        faults.add(INVALID, "match kind")
        return ()
    body = getattr(match, kind)
    before = len(faults.words)
    numbers = tuple(number_of(getattr(body, part), known.width, faults) for part in _PARTS[kind])
    if kind == "lpm":
        numbers = (*numbers, body.prefix_len)
    if len(faults.words) == before and not _sound(known, numbers):
        faults.add(INVALID, f"{kind} match unsound")
    return numbers


def _sound(known: Field, numbers: tuple[int, ...]) -> bool:
    """The rules between a match's numbers; a match of everything must be left out."""
    match known.kind, numbers:
        case "lpm", (value, length):
            return 0 < length <= known.width and value & (known.most >> length) == 0
        case "ternary", (value, mask):
            return mask != 0 and value & ~mask == 0
        case "range", (low, high):
            return low <= high and (low, high) != (0, known.most)
    return True


def number_of(data: bytes, width: int, faults: Faults) -> int:
    value = int.from_bytes(data, "big")
    if not data:
        faults.add(INVALID, "value empty")
    elif value >> width:
        faults.add(INVALID, "value too wide")
    return value


def call_of(table: Table, action: Any, *, is_default: bool, faults: Faults) -> Call | None:
    """None where a rule is broken."""
    before = len(faults.words)
    if action.WhichOneof("type") != "action":
        faults.add(INVALID, "action kind")
        return None
    number = action.action.action_id
    if number not in table.actions:
        faults.add(INVALID, "action unknown")
        return None
    if number not in (table.default_actions if is_default else table.entry_actions):
        faults.add(DENIED, "action scope")
    widths = {each.id: each.width for each in table.actions[number]}
    found: dict[int, int] = {}
    for param in action.action.params:
        if param.param_id not in widths:
            faults.add(INVALID, "parameter unknown")
        elif param.param_id in found:
            faults.add(INVALID, "parameter twice")
        else:
            found[param.param_id] = number_of(param.value, widths[param.param_id], faults)
    if found.keys() != widths.keys():
        faults.add(INVALID, "parameter missing")
    return (number, tuple(found[each] for each in widths)) if len(faults.words) == before else None


# ---------------------------------------------------------------- and back, in canonical form


def shortest(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def matches_of(table: Table, key: Key) -> list[Any]:
    messages = []
    for known, numbers in zip(table.fields, key, strict=True):
        if numbers is None:
            continue
        message = p4runtime_pb2.FieldMatch(field_id=known.id)
        body = getattr(message, known.kind)
        for part, number in zip(_PARTS[known.kind], numbers, strict=False):
            setattr(body, part, shortest(number))
        if known.kind == "lpm":
            body.prefix_len = numbers[1]
        messages.append(message)
    return messages


def action_of(table: Table, call: Call) -> Any:
    number, arguments = call
    message = p4runtime_pb2.TableAction()
    message.action.action_id = number
    for known, value in zip(table.actions[number], arguments, strict=True):
        message.action.params.add(param_id=known.id, value=shortest(value))
    return message


Counts = tuple[int, int]  # packets, bytes
#: A table's id, a counter's, a group's or a clone session's, with its kind: what one client of a campaign writes alone.
Resource = tuple[str, int]


@dataclass(frozen=True)
class Note:
    """What a controller has the switch keep for it."""

    metadata: bytes = b""
    controller_metadata: int = 0


@dataclass(frozen=True)
class Held:
    """An entry, but for what identifies it."""

    call: Call
    note: Note = Note()
    counts: Counts = (0, 0)
    is_const: bool = False


@dataclass(frozen=True)
class Default:
    call: Call | None
    note: Note = Note()


#: Port, instance, and whether the port came as a bytestring.
Replica = tuple[int, int, bool]


@dataclass
class Model:
    """``programs_own``: default actions that a reset brings back."""

    schema: Schema
    entries: dict[int, dict[Identity, Held]] = field(default_factory=dict)
    defaults: dict[int, Default] = field(default_factory=dict)
    programs_own: dict[int, Default] = field(default_factory=dict)
    cells: dict[int, list[Counts]] = field(default_factory=dict)
    groups: dict[int, tuple[bytes, frozenset[Replica]]] = field(default_factory=dict)
    #: Class of service and replicas of clone sessions.
    sessions: dict[int, tuple[int, frozenset[Replica]]] = field(default_factory=dict)

    def adopt_entries(self, table: Table, messages: list[Any]) -> None:
        """Believe a read of a table, with counter data: what the program brings is in no P4Info."""
        held = {}
        for message in messages:
            faults = Faults()
            key = key_of(table, message.match, faults)
            call = call_of(table, message.action, is_default=False, faults=faults)
            if key is not None and call is not None:
                counts = (message.counter_data.packet_count, message.counter_data.byte_count)
                note = Note(message.metadata, message.controller_metadata)
                held[key, message.priority] = Held(call, note, counts, message.is_const)
        self.entries[table.id] = held

    def adopt_default(self, table: Table, messages: list[Any]) -> None:
        found = Default(None)
        for message in messages:
            call = call_of(table, message.action, is_default=True, faults=Faults())
            found = Default(call, Note(message.metadata, message.controller_metadata))
        self.defaults[table.id] = found
        self.programs_own.setdefault(table.id, found)

    def adopt_cells(self, counter: int, messages: list[Any]) -> None:
        cells = {each.index.index: (each.data.packet_count, each.data.byte_count) for each in messages}
        self.cells[counter] = [cells.get(index, (0, 0)) for index in range(self.schema.counters[counter])]

    def adopt_group(self, group: int, messages: list[Any]) -> None:
        self.groups.pop(group, None)
        for message in messages:
            self.groups[group] = (message.metadata, _read_replicas(message))

    def adopt_session(self, session: int, messages: list[Any]) -> None:
        self.sessions.pop(session, None)
        for message in messages:
            self.sessions[session] = (message.class_of_service, _read_replicas(message))

    # -- as messages -----------------------------------------------------

    def entry(self, table: Table, identity: Identity, held: Held, *, counted: bool) -> Any:
        key, priority = identity
        message = p4runtime_pb2.TableEntry(
            table_id=table.id,
            match=matches_of(table, key),
            action=action_of(table, held.call),
            priority=priority,
            is_const=held.is_const,
            metadata=held.note.metadata,
            controller_metadata=held.note.controller_metadata,
        )
        if counted and table.counted:
            set_counts(message.counter_data, held.counts)
        return message

    def default(self, table: Table) -> Any:
        kept = self.defaults[table.id]
        message = p4runtime_pb2.TableEntry(
            table_id=table.id,
            is_default_action=True,
            metadata=kept.note.metadata,
            controller_metadata=kept.note.controller_metadata,
        )
        if kept.call is not None:
            message.action.CopyFrom(action_of(table, kept.call))
        return message

    def direct_counter(self, table: Table, identity: Identity, held: Held) -> Any:
        entity = p4runtime_pb2.Entity()
        key, priority = identity
        entity.direct_counter_entry.table_entry.CopyFrom(
            p4runtime_pb2.TableEntry(table_id=table.id, match=matches_of(table, key), priority=priority)
        )
        set_counts(entity.direct_counter_entry.data, held.counts)
        return entity

    def cell(self, counter: int, index: int) -> Any:
        entity = p4runtime_pb2.Entity()
        entity.counter_entry.counter_id = counter
        entity.counter_entry.index.index = index
        set_counts(entity.counter_entry.data, self.cells[counter][index])
        return entity

    def group(self, number: int) -> Any:
        entity = p4runtime_pb2.Entity()
        message = entity.packet_replication_engine_entry.multicast_group_entry
        message.multicast_group_id = number
        message.metadata, replicas = self.groups[number]
        _write_replicas(message, replicas)
        return entity

    def session(self, number: int) -> Any:
        entity = p4runtime_pb2.Entity()
        message = entity.packet_replication_engine_entry.clone_session_entry
        message.session_id = number
        message.class_of_service, replicas = self.sessions[number]
        _write_replicas(message, replicas)
        return entity


def _read_replicas(message: Any) -> frozenset[Replica]:
    return frozenset(
        (int.from_bytes(each.port, "big"), each.instance, True)
        if each.WhichOneof("port_kind") == "port"
        else (each.egress_port, each.instance, False)
        for each in message.replicas
    )


def _write_replicas(message: Any, replicas: frozenset[Replica]) -> None:
    for port, instance, as_bytes in sorted(replicas):
        if as_bytes:
            message.replicas.add(port=shortest(port), instance=instance)
        else:
            message.replicas.add(egress_port=port, instance=instance)


def set_counts(message: Any, counts: Counts) -> None:
    message.SetInParent()
    message.packet_count, message.byte_count = counts


def resource_of(entity: Any) -> Resource | None:
    """What an update's or a read's entity is about; None where it is about nothing that has a state, or about all."""
    match entity.WhichOneof("entity"):
        case "table_entry":
            return ("table", entity.table_entry.table_id)
        case "direct_counter_entry":
            return ("table", entity.direct_counter_entry.table_entry.table_id)
        case "counter_entry":
            return ("counter", entity.counter_entry.counter_id)
        case "packet_replication_engine_entry":
            replication = entity.packet_replication_engine_entry
            if replication.WhichOneof("type") == "multicast_group_entry":
                return ("group", replication.multicast_group_entry.multicast_group_id)
            if replication.WhichOneof("type") == "clone_session_entry":
                return ("session", replication.clone_session_entry.session_id)
    return None


def normal(entity: Any) -> bytes:
    """An entity as bytes, the same for replicas in any order."""
    if entity.WhichOneof("entity") == "packet_replication_engine_entry":
        replication = entity.packet_replication_engine_entry
        group = getattr(replication, replication.WhichOneof("type") or "multicast_group_entry")
        group.replicas.sort(key=lambda each: (int.from_bytes(each.port, "big") or each.egress_port, each.instance))
    return bytes(entity.SerializeToString(deterministic=True))


def everything(model: Model) -> Iterator[Any]:
    """Reads that together show all of the state, each of one resource."""
    for table in model.schema.tables.values():
        asked = p4runtime_pb2.Entity(table_entry=p4runtime_pb2.TableEntry(table_id=table.id))
        if table.counted:
            asked.table_entry.counter_data.SetInParent()
        yield asked
        yield p4runtime_pb2.Entity(table_entry=p4runtime_pb2.TableEntry(table_id=table.id, is_default_action=True))
    for counter in model.schema.counters:
        yield p4runtime_pb2.Entity(counter_entry=p4runtime_pb2.CounterEntry(counter_id=counter))
    groups = p4runtime_pb2.Entity()
    groups.packet_replication_engine_entry.multicast_group_entry.SetInParent()
    yield groups
    sessions = p4runtime_pb2.Entity()
    sessions.packet_replication_engine_entry.clone_session_entry.SetInParent()
    yield sessions


def name_of(code: int) -> str:
    return str(code_pb2.Code.Name(code)) if code in code_pb2.Code.values() else str(code)
