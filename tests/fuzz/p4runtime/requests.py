# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Random updates and reads that obey the P4Info, of which most fit the state, and mutations of any protobuf message.

What a mutation breaks is for the oracle to find out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from p4.v1 import p4runtime_pb2
from softswitch.p4runtime.wire import is_list

from fuzz.p4runtime.model import Call, Field, Key, Model, Resource, Table, action_of, matches_of, set_counts

_UPDATE = p4runtime_pb2.Update
_CONTRARY = 0.1  # of the updates: types that do not fit the state
_NOTED = 0.2  # of entries: have metadata
_COUNTS = (0, 1, 2**31, 2**62)


class Draw:
    """``owned``: what the requests are about."""

    def __init__(self, model: Model, owned: Sequence[Resource], generator: random.Random) -> None:
        self._model = model
        self._owned = owned
        self._random = generator

    def update(self) -> Any:
        kind, number = self._random.choice(self._owned)
        if kind == "table":
            return self._table_update(self._model.schema.tables[number])
        if kind == "counter":
            return self._counter_update(number)
        return self._group_update(number) if kind == "group" else self._session_update(number)

    def read(self) -> Any:
        kind, number = self._random.choice(self._owned)
        if kind == "counter":
            return self._counter_update(number).entity
        if kind == "group":
            entity = p4runtime_pb2.Entity()
            entity.packet_replication_engine_entry.multicast_group_entry.multicast_group_id = number
            return entity
        if kind == "session":
            entity = p4runtime_pb2.Entity()
            entity.packet_replication_engine_entry.clone_session_entry.session_id = number
            return entity
        return self._table_read(self._model.schema.tables[number])

    def _type(self, *, there: bool) -> int:
        kind = self._random.choice((_UPDATE.MODIFY, _UPDATE.DELETE)) if there else _UPDATE.INSERT
        if self._random.random() < _CONTRARY:
            kind = self._random.choice((_UPDATE.INSERT, _UPDATE.MODIFY, _UPDATE.DELETE))
        return int(kind)

    # -- tables ----------------------------------------------------------

    def _table_update(self, table: Table) -> Any:
        if not table.fields or self._random.random() < 0.1:
            return _modify(p4runtime_pb2.Entity(table_entry=self._default(table)))
        if table.counted and self._random.random() < 0.1:
            return _modify(self._direct_counter(table))
        entry = self._entry(table)
        priority = entry.priority
        there = any(
            matches_of(table, key) == list(entry.match) and priority == held
            for key, held in self._model.entries[table.id]
        )
        kind = self._type(there=there)
        if kind == _UPDATE.MODIFY and self._random.random() < 0.1:
            entry.ClearField("action")
        return p4runtime_pb2.Update(type=kind, entity=p4runtime_pb2.Entity(table_entry=entry))

    def _table_read(self, table: Table) -> Any:
        entity = p4runtime_pb2.Entity()
        if table.counted and self._random.random() < 0.3:
            entry = entity.direct_counter_entry.table_entry
        else:
            entry = entity.table_entry
            if table.counted:
                entry.counter_data.SetInParent()
        entry.CopyFrom(self._entry(table) if self._random.random() < 0.5 else self._default(table))
        for name in ("match", "priority", "action", "metadata", "controller_metadata", "is_default_action"):
            if self._random.random() < 0.5:
                entry.ClearField(name)
        return entity

    def _entry(self, table: Table) -> Any:
        """One that is there, or any."""
        known = list(self._model.entries[table.id])
        if known and self._random.random() < 0.5:
            key, priority = self._random.choice(known)
        else:
            key = self._key(table)
            priority = self._random.choice((1, 2, 3, 2**31 - 1)) if table.has_priorities else 0
        entry = p4runtime_pb2.TableEntry(table_id=table.id, match=matches_of(table, key), priority=priority)
        self._give_action(table, entry, sorted(table.entry_actions))
        self._give_note(entry)
        if table.counted and self._random.random() < 0.2:
            set_counts(entry.counter_data, (self._random.choice(_COUNTS), self._random.choice(_COUNTS)))
        return entry

    def _default(self, table: Table) -> Any:
        entry = p4runtime_pb2.TableEntry(table_id=table.id, is_default_action=True)
        if self._random.random() < 0.8:
            self._give_action(table, entry, sorted(table.default_actions))
            self._give_note(entry)
        return entry

    def _direct_counter(self, table: Table) -> Any:
        entity = p4runtime_pb2.Entity()
        entry = entity.direct_counter_entry.table_entry
        entry.CopyFrom(self._entry(table))
        for name in ("action", "metadata", "controller_metadata", "counter_data"):
            entry.ClearField(name)
        if self._random.random() < 0.9:
            set_counts(entity.direct_counter_entry.data, (self._random.choice(_COUNTS), self._random.choice(_COUNTS)))
        return entity

    def _give_action(self, table: Table, entry: Any, numbers: Sequence[int]) -> None:
        if numbers:
            number = self._random.choice(numbers)
            call: Call = (number, tuple(self._value(each) for each in table.actions[number]))
            entry.action.CopyFrom(action_of(table, call))

    def _give_note(self, entry: Any) -> None:
        if self._random.random() < _NOTED:
            entry.metadata = self._random.choice((b"", b"m", b"\x00\xff"))
            entry.controller_metadata = self._random.choice((0, 1, 2**64 - 1))

    def _value(self, field: Field) -> int:
        """Often an extreme, or one of a few, so that values meet again."""
        kind = self._random.random()
        if kind < 0.3:
            return self._random.choice((0, 1, field.most, field.most >> 1))
        return self._random.getrandbits(field.width) if kind < 0.5 else self._random.randrange(8) & field.most

    def _key(self, table: Table) -> Key:
        return tuple(self._match(field) for field in table.fields)

    def _match(self, field: Field) -> tuple[int, ...] | None:
        if field.kind != "exact" and self._random.random() < 0.2:
            return None
        value = self._value(field)
        match field.kind:
            case "lpm":
                length = self._random.choice((1, field.width, self._random.randint(1, field.width)))
                return value & ~(field.most >> length), length
            case "ternary":
                mask = self._value(field) or field.most
                return value & mask, mask
            case "range":
                low, high = sorted((value, self._value(field)))
                return None if (low, high) == (0, field.most) else (low, high)
        return (value,)

    # -- the rest --------------------------------------------------------

    def _counter_update(self, counter: int) -> Any:
        entity = p4runtime_pb2.Entity()
        entity.counter_entry.counter_id = counter
        if self._random.random() < 0.9:
            entity.counter_entry.index.index = self._random.randrange(self._model.schema.counters[counter])
        if self._random.random() < 0.9:
            set_counts(entity.counter_entry.data, (self._random.choice(_COUNTS), self._random.choice(_COUNTS)))
        return _modify(entity)

    def _group_update(self, number: int) -> Any:
        entity = p4runtime_pb2.Entity()
        group = entity.packet_replication_engine_entry.multicast_group_entry
        group.multicast_group_id = number
        group.metadata = self._random.choice((b"", b"g"))
        self._give_replicas(group)
        return p4runtime_pb2.Update(type=self._type(there=number in self._model.groups), entity=entity)

    def _session_update(self, number: int) -> Any:
        entity = p4runtime_pb2.Entity()
        session = entity.packet_replication_engine_entry.clone_session_entry
        session.session_id = number
        session.class_of_service = self._random.choice((0, 1, 2**32 - 1))
        self._give_replicas(session)
        return p4runtime_pb2.Update(type=self._type(there=number in self._model.sessions), entity=entity)

    def _give_replicas(self, message: Any) -> None:
        for port in self._random.sample(range(511), self._random.choice((0, 1, 2, 8))):
            instance = self._random.choice((0, 1, 65535))
            if self._random.random() < 0.5:
                message.replicas.add(egress_port=port, instance=instance)
            else:
                message.replicas.add(port=port.to_bytes(2, "big"), instance=instance)


def _modify(entity: Any) -> Any:
    return p4runtime_pb2.Update(type=_UPDATE.MODIFY, entity=entity)


_EXTREMES = {
    FieldDescriptor.CPPTYPE_INT32: (0, 1, 2, -1, 2**31 - 1, -(2**31)),
    FieldDescriptor.CPPTYPE_INT64: (0, 1, -1, 2**31, 2**63 - 1, -(2**63)),
    FieldDescriptor.CPPTYPE_UINT32: (0, 1, 2, 511, 512, 65535, 65536, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 1, 2**63, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (0, 1, 2, 3, 7),
    FieldDescriptor.CPPTYPE_BOOL: (True, False),
    FieldDescriptor.CPPTYPE_FLOAT: (0.0,),
    FieldDescriptor.CPPTYPE_DOUBLE: (0.0,),
}
_TEXTS = ("", "x", "default", "\x00", "x" * 300)
_LONG = 1000

Place = tuple[Any, Any]
#: Of the field with a name, in the message that has it.
Change = Callable[[Any, str], object]


class Mutations:
    """``ids``: of the objects in the P4Info."""

    def __init__(self, ids: Sequence[int], generator: random.Random) -> None:
        self._ids = ids
        self._random = generator

    def apply(self, message: Any) -> None:
        """One to three mutations, in place."""
        for _ in range(self._random.choice((1, 1, 1, 2, 3))):
            places: list[Place] = []
            _collect(message, places)
            owner, field = self._random.choice(places)
            self._mutate(owner, field)

    def each(self, message: Any) -> Iterator[Any]:
        """Copies of the message, one for every single change of each of its fields. The same fields for every draw."""
        places: list[Place] = []
        _collect(message, places)
        for number, (owner, field) in enumerate(places):
            for change in self._changes(owner, field):
                copy = type(message).FromString(message.SerializeToString())
                places_there: list[Place] = []
                _collect(copy, places_there)
                change(places_there[number][0], field.name)
                yield copy

    def _changes(self, owner: Any, field: Any) -> list[Change]:
        if is_list(field):
            if len(getattr(owner, field.name)):
                return [lambda o, n: o.ClearField(n), _first_twice, _first_removed]
            return [_empty_added] if field.message_type is not None else []
        if field.message_type is not None:
            there = owner.HasField(field.name)
            return [lambda o, n: o.ClearField(n)] if there else [lambda o, n: getattr(o, n).SetInParent()]
        if field.type == FieldDescriptor.TYPE_BYTES:
            changed: Sequence[Any] = [make(getattr(owner, field.name), self._random) for make in _BYTES]
        else:
            changed = _TEXTS if field.type == FieldDescriptor.TYPE_STRING else _EXTREMES[field.cpp_type]
        return [lambda o, n, value=each: setattr(o, n, value) for each in changed]  # type: ignore[misc]

    def flip(self, data: bytes) -> bytes:
        """A message's bytes with some changed, removed or added."""
        changed = bytearray(data)
        for _ in range(self._random.randint(1, 4)):
            at = self._random.randrange(len(changed) + 1)
            kind = self._random.randrange(4)
            if kind == 0:
                changed[at:at] = self._random.randbytes(self._random.randint(1, 4))
            elif kind == 1:
                del changed[at : at + self._random.randint(1, 8)]
            elif kind == 2:
                del changed[at:]
            elif at < len(changed):
                changed[at] ^= 1 << self._random.randrange(8)
        return bytes(changed)

    def _mutate(self, owner: Any, field: Any) -> None:
        if is_list(field):
            self._repeated(getattr(owner, field.name), field)
        elif field.message_type is not None:
            if owner.HasField(field.name) and self._random.random() < 0.5:
                owner.ClearField(field.name)
            else:
                getattr(owner, field.name).SetInParent()
        else:
            setattr(owner, field.name, self._scalar(field, getattr(owner, field.name)))

    def _repeated(self, items: Any, field: Any) -> None:
        if len(items) == 0:
            if field.message_type is not None:
                items.add()
            return
        at = self._random.randrange(len(items))
        kind = self._random.randrange(3)
        if kind == 0:
            del items[at]
        elif kind == 1:
            items.append(items[at])
        else:
            items.reverse()

    def _scalar(self, field: Any, value: Any) -> Any:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self._random.choice(_BYTES)(value, self._random)
        if field.type == FieldDescriptor.TYPE_STRING:
            return self._random.choice(_TEXTS)
        if (
            field.name.endswith("_id")
            and field.cpp_type == FieldDescriptor.CPPTYPE_UINT32
            and self._random.random() < 0.5
        ):
            return self._random.choice(self._ids)
        return self._random.choice(_EXTREMES[field.cpp_type])


def _first_twice(owner: Any, name: str) -> None:
    getattr(owner, name).append(getattr(owner, name)[0])


def _first_removed(owner: Any, name: str) -> None:
    del getattr(owner, name)[0]


def _empty_added(owner: Any, name: str) -> None:
    getattr(owner, name).add()


def _padded(value: bytes, generator: random.Random) -> bytes:
    return bytes(generator.choice((1, 2, _LONG))) + value


def _wider(value: bytes, generator: random.Random) -> bytes:
    return value + generator.randbytes(generator.choice((1, 8, _LONG)))


_BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    lambda _value, _generator: b"",
    _padded,
    _wider,
    lambda value, _generator: b"\xff" * len(value),
    lambda value, _generator: bytes(len(value)),
    lambda value, _generator: value[1:],
    lambda value, generator: generator.randbytes(len(value)),
)


def _collect(message: Any, places: list[Place]) -> None:
    """All fields of a message and of those in it."""
    for field in message.DESCRIPTOR.fields:
        places.append((message, field))
        if field.message_type is None:
            continue
        if is_list(field):
            for each in getattr(message, field.name):
                _collect(each, places)
        elif message.HasField(field.name):
            _collect(getattr(message, field.name), places)
